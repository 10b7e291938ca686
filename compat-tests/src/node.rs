//! A broker process: built once, started on free ports with a directory of its own, stopped with
//! SIGTERM or kill -9, started again on the same directory and ports.

use anyhow::{Context as _, Result, bail, ensure};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long a start or a clean stop may take before it counts as a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// The ports of one node.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    /// Name server.
    pub nameserver: u16,
    /// Native broker; its VIP port is two lower.
    pub native: u16,
    /// Kafka.
    pub kafka: u16,
    /// HTTP.
    pub http: u16,
}

/// A broker process and its directory. Killed and removed when dropped.
#[derive(Debug)]
pub struct Node {
    child: Option<Child>,
    home: PathBuf,
    keep: bool,
    /// Its ports.
    pub ports: Ports,
}

impl Node {
    /// Starts a node with the tests' settings (small log files, no rebalance delay).
    ///
    /// # Errors
    /// It cannot be built or does not become ready.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a node; `settings` are further `--set key=value` overrides.
    ///
    /// # Errors
    /// It cannot be built or does not become ready.
    pub fn start_with(settings: &[&str]) -> Result<Self> {
        let ports = free_ports()?;
        let homes = crate::work().join("nodes");
        std::fs::create_dir_all(&homes)?;
        let home = homes.join(format!("{}-{}", std::process::id(), ports.native));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir_all(&home)?;
        let mut node = Self {
            child: None,
            home,
            keep: std::env::var_os("TWINMQ_KEEP").is_some(),
            ports,
        };
        let mut lines = format!(
            "--set\nnameserver.listen=127.0.0.1:{}\n--set\nnative.listen=127.0.0.1:{}\n--set\nkafka.listeners=[{{name=\"PLAINTEXT\",bind=\"127.0.0.1:{}\"}}]\n--set\nhttp.listen=127.0.0.1:{}\n--set\nstore.file_bytes=67108864\n--set\nstore.run_bytes_max=33554432\n--set\nstore.disk_clean_percent=97\n--set\nstore.disk_force_percent=98\n--set\nstore.disk_refuse_percent=100\n--set\nkafka.group.initial_rebalance_delay_ms=200\n",
            ports.nameserver, ports.native, ports.kafka, ports.http
        );
        for setting in settings {
            lines.push_str(&format!("--set\n{setting}\n"));
        }
        std::fs::write(node.home.join("arguments"), lines)?;
        node.start_again()?;
        Ok(node)
    }

    /// Starts the stopped or killed node again, on the same directory and ports, and waits until it is
    /// ready. Returns how long that took.
    ///
    /// # Errors
    /// It does not become ready; the end of its log is in the message.
    pub fn start_again(&mut self) -> Result<Duration> {
        ensure!(self.child.is_none(), "the node is still running");
        let binary = binary()?;
        let began = Instant::now();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.log())?;
        let arguments = std::fs::read_to_string(self.home.join("arguments"))?;
// As a service begins: with few file descriptors, more of them allowed.
        let child = Command::new("sh")
            .args(["-c", "ulimit -Sn 1024 && exec \"$0\" \"$@\""])
            .arg(binary)
            .arg("server")
            .args(["--data-dir".as_ref(), self.data().as_os_str()])
            .args(arguments.lines())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting twinmq")?;
        self.child = Some(child);
        while !self
            .get("/readyz")
            .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
        {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                bail!(
                    "twinmq ended with {status} at its start:\n{}",
                    self.log_tail()
                );
            }
            if began.elapsed() > PATIENCE {
                bail!(
                    "twinmq is not ready after {PATIENCE:?}:\n{}",
                    self.log_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(began.elapsed())
    }

    /// Ends it as `kill -9` does.
    ///
    /// # Errors
    /// It was not running.
    pub fn kill(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the node is not running")?;
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Ends it with SIGTERM and waits for its clean stop.
    ///
    /// # Errors
    /// It was not running, or did not stop, or did not exit with 0.
    pub fn terminate(&mut self) -> Result<()> {
        let mut child = self.child.take().context("the node is not running")?;
        let told = Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()?;
        ensure!(told.success(), "kill -TERM failed");
        let began = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                ensure!(
                    status.success(),
                    "twinmq stopped with {status}:\n{}",
                    self.log_tail()
                );
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                child.kill()?;
                bail!(
                    "twinmq did not stop within {PATIENCE:?}:\n{}",
                    self.log_tail()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Kafka's bootstrap.servers.
    #[must_use]
    pub fn kafka(&self) -> String {
        format!("127.0.0.1:{}", self.ports.kafka)
    }

    /// RocketMQ's namesrvAddr.
    #[must_use]
    pub fn nameserver(&self) -> String {
        format!("127.0.0.1:{}", self.ports.nameserver)
    }

    /// The native broker's address.
    #[must_use]
    pub fn native(&self) -> String {
        format!("127.0.0.1:{}", self.ports.native)
    }

    /// A path in the node's own directory.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.home.join(name)
    }

    /// Its data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn log(&self) -> PathBuf {
        self.home.join("twinmq.log")
    }

    /// The end of what the process printed.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(self.log()).unwrap_or_default();
        let from = text.len().saturating_sub(4000);
        String::from_utf8_lossy(text.get(from..).unwrap_or_default()).into_owned()
    }

    /// One GET over the HTTP port; the whole answer.
    ///
    /// # Errors
    /// The port does not answer.
    pub fn get(&self, path: &str) -> Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.ports.http))?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The value of a metric; `name` includes its labels.
    ///
    /// # Errors
    /// The port does not answer, or has no such metric.
    pub fn metric(&self, name: &str) -> Result<u64> {
        let answer = self.get("/metrics")?;
        let value = answer
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value
            .with_context(|| format!("no metric {name}"))?
            .parse()?)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() || self.keep {
            eprintln!("the node's directory is kept: {}", self.home.display());
        } else {
            let _ = std::fs::remove_dir_all(&self.home);
        }
    }
}

/// The broker's executable, built once per run in the profile of this crate.
///
/// # Errors
/// The build fails.
pub fn binary() -> Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = BUILT.get_or_init(|| build().map_err(|error| format!("{error:#}")));
    match built {
        Ok(path) => Ok(path),
        Err(error) => bail!("{error}"),
    }
}

fn build() -> Result<PathBuf> {
    if let Some(given) = std::env::var_os("TWINMQ_BINARY") {
        return Ok(PathBuf::from(given));
    }
    let target = crate::target();
    let exe = std::env::current_exe()?;
    let release = exe.components().any(|part| part.as_os_str() == "release");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .current_dir(crate::root())
        .args(["build", "--quiet", "-p", "twinmq"]);
    if release {
        cargo.arg("--release");
    }
    let status = cargo
        .arg("--target-dir")
        .arg(&target)
        .status()
        .context("running cargo build")?;
    ensure!(status.success(), "cargo build -p twinmq failed");
    Ok(target
        .join(if release { "release" } else { "debug" })
        .join("twinmq"))
}

fn free_ports() -> Result<Ports> {
    for _ in 0..200 {
        let base: u16 = 20_000 + 10 * (rand::random::<u16>() % 1200);
        let ports = Ports {
            nameserver: base,
            native: base + 3,
            kafka: base + 5,
            http: base + 6,
        };
        let all = [base, base + 1, base + 3, base + 4, base + 5, base + 6];
        if all
            .iter()
            .all(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        {
            return Ok(ports);
        }
    }
    bail!("no free ports between 20000 and 32000")
}
