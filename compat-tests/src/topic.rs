//! The steps that scenarios are made of: a topic to which client programs send and from which they
//! consume, one program run each, in the same way for both protocols.

use crate::Node;
use crate::clients::{Client, Running, mqadmin};
use crate::lines::{self, At, KafkaRecord, Line, NativeMessage, Sent};
use crate::sample;
use anyhow::{Context as _, Result, bail, ensure};
use std::fmt::Debug;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a client has for what is asked of it: seconds, as the programs take it.
const SECONDS: &str = "60";
/// The same, for what is waited for here.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The records of one protocol, and how its clients are asked to move them.
pub trait Payload: Line + Clone + Debug {
    /// The verb that sends.
    const SEND: &'static str;
    /// What makes the verb send one record after the other, slowly enough to be interrupted, each
    /// until it is acknowledged.
    const STEADILY: &'static [&'static str];

    /// Where this protocol's clients find the node.
    fn address(node: &Node) -> String;

    /// Creates a topic with this protocol's own tool.
    ///
    /// # Errors
    /// The tool's.
    fn create(node: &Node, name: &str, queues: u32) -> Result<()>;

    /// What a group has committed in a topic, summed up over its queues, as this protocol's tool
    /// tells it.
    ///
    /// # Errors
    /// The tool's.
    fn committed(node: &Node, name: &str, group: &str) -> Result<u64>;

    /// Records of many kinds; `tag` makes them unique.
    fn sample(count: usize, tag: &str) -> Vec<Self>;

    /// Every record that was sent is among `read`, once, at the acknowledged place, unchanged;
    /// nothing else is there.
    ///
    /// # Errors
    /// The first difference.
    fn judge(sent: &[Sent], records: &[Self], read: &[At<Self>]) -> Result<()>;

    /// As [`judge`](Self::judge), but records may have been read again, and those that the protocol
    /// lets a client send again may be there again.
    ///
    /// # Errors
    /// The first difference.
    fn judge_kept(sent: &[Sent], records: &[Self], read: &[At<Self>]) -> Result<()>;
}

impl Payload for KafkaRecord {
    const SEND: &'static str = "produce";
    const STEADILY: &'static [&'static str] = &["pace.ms=1", "enable.idempotence=true"];

    fn address(node: &Node) -> String {
        node.kafka()
    }

    fn create(node: &Node, name: &str, queues: u32) -> Result<()> {
        Client::KAFKA_TOOLS.run(&["create", &node.kafka(), name, &queues.to_string()])?;
        Ok(())
    }

    fn committed(node: &Node, name: &str, group: &str) -> Result<u64> {
        let printed = Client::KAFKA_TOOLS.run(&["committed", &node.kafka(), group])?;
        let ours = printed
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix('\t'));
        sum(ours, 1)
    }

    fn sample(count: usize, tag: &str) -> Vec<Self> {
        sample::kafka(count, tag)
    }

    fn judge(sent: &[Sent], records: &[Self], read: &[At<Self>]) -> Result<()> {
        sample::judge_kafka(sent, records, read)
    }

    fn judge_kept(sent: &[Sent], records: &[Self], read: &[At<Self>]) -> Result<()> {
        sample::judge_kafka(sent, records, &sample::without_repeats(read)?)
    }
}

impl Payload for NativeMessage {
    const SEND: &'static str = "send";
    const STEADILY: &'static [&'static str] = &["steady"];

    fn address(node: &Node) -> String {
        node.nameserver()
    }

    fn create(node: &Node, name: &str, queues: u32) -> Result<()> {
        let (nameserver, queues) = (node.nameserver(), queues.to_string());
        let mut command = vec!["updateTopic", "-n", &nameserver, "-c", "DefaultCluster"];
        command.extend(["-t", name, "-r", &queues, "-w", &queues]);
        let out = mqadmin(&command)?;
        ensure!(out.contains("success"), "updateTopic: {out}");
        Ok(())
    }

    fn committed(node: &Node, name: &str, group: &str) -> Result<u64> {
        let printed = Client::ROCKET_TOOLS.run(&["offsets", &node.nameserver(), name, group])?;
        sum(printed.lines(), 1)
    }

    fn sample(count: usize, tag: &str) -> Vec<Self> {
        sample::native(count, tag)
    }

    fn judge(sent: &[Sent], records: &[Self], read: &[At<Self>]) -> Result<()> {
        sample::judge_native(sent, records, read)
    }

    fn judge_kept(sent: &[Sent], records: &[Self], read: &[At<Self>]) -> Result<()> {
        sample::judge_native_kept(sent, records, read)
    }
}

/// The sum of a column of the lines that have one.
fn sum<'a>(lines: impl Iterator<Item = &'a str>, column: usize) -> Result<u64> {
    lines
        .filter_map(|line| line.split('\t').nth(column))
        .map(|field| Ok(u64::try_from(field.parse::<i64>()?.max(0))?))
        .sum()
}

/// Waits until `reached`.
///
/// # Errors
/// Its own, or it is not reached within [`PATIENCE`].
pub fn until(what: &str, mut reached: impl FnMut() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    while !reached().with_context(|| what.to_owned())? {
        ensure!(Instant::now() < end, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A topic of a node, which may be restarted meanwhile.
#[derive(Clone, Debug)]
pub struct Topic<R> {
    name: String,
    address: String,
    home: PathBuf,
    records: PhantomData<R>,
}

impl<R: Payload> Topic<R> {
    /// A topic that exists, or need not.
    #[must_use]
    pub fn of(node: &Node, name: &str) -> Self {
        Self {
            name: name.to_owned(),
            address: R::address(node),
            home: node.file(""),
            records: PhantomData,
        }
    }

    /// Creates it.
    ///
    /// # Errors
    /// As [`Payload::create`].
    pub fn create(node: &Node, name: &str, queues: u32) -> Result<Self> {
        R::create(node, name, queues)?;
        Ok(Self::of(node, name))
    }

    fn file(&self, kind: &str) -> String {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.home.join(format!("{kind}-{number}"));
        path.display().to_string()
    }

    /// Sends `records`, to queues of the client's choice; what came of each, in order. `more` are
    /// further arguments of the client's verb.
    ///
    /// # Errors
    /// The program fails; records that are refused are among the results.
    pub fn send(&self, client: Client, records: &[R], more: &[&str]) -> Result<Vec<Sent>> {
        self.start_sending(client, records, |_| None, more)?.end()
    }

    /// As [`send`](Self::send), around the queues: record 0 to queue 0, 1 to 1 and so on.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_around(
        &self,
        client: Client,
        records: &[R],
        queues: usize,
        more: &[&str],
    ) -> Result<Vec<Sent>> {
        let queue = |place: usize| u32::try_from(place % queues).ok();
        self.start_sending(client, records, queue, more)?.end()
    }

    /// Starts to send.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start_sending(
        &self,
        client: Client,
        records: &[R],
        queue: impl Fn(usize) -> Option<u32>,
        more: &[&str],
    ) -> Result<Sending> {
        let (input, results) = (self.file("in"), self.file("sent"));
        lines::write(input.as_ref(), records, queue)?;
        let mut arguments = vec![R::SEND, &self.address, &self.name, &input, &results];
        arguments.extend(more);
        Ok(Sending {
            running: client.start(&arguments)?,
            results,
        })
    }

    /// Consumes `count` records, or what there is within a minute, as a member of `group` that
    /// commits what it reads.
    ///
    /// # Errors
    /// The program fails.
    pub fn consume(
        &self,
        client: Client,
        group: &str,
        count: usize,
        more: &[&str],
    ) -> Result<Vec<At<R>>> {
        self.member(client, group, count, more)?.end()
    }

    /// Waits until `group` has committed all of it; how far it is in the log is not looked at.
    ///
    /// # Errors
    /// It has not within [`PATIENCE`].
    pub fn until_committed(&self, node: &Node, group: &str) -> Result<()> {
        let lag = format!(
            r#"twinmq_core_group_lag_records{{group="{group}",topic="{}"}}"#,
            self.name
        );
        until("the group's progress is the end", || {
            Ok(node.metric(&lag).is_ok_and(|records| records == 0))
        })
    }

    /// Starts to consume.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn member(
        &self,
        client: Client,
        group: &str,
        count: usize,
        more: &[&str],
    ) -> Result<Member<R>> {
        let (count, out) = (count.to_string(), self.file("got"));
        let mut arguments = vec!["consume", &self.address, &self.name, group];
        arguments.extend([&count, SECONDS, &out]);
        arguments.extend(more);
        Ok(Member {
            running: client.start(&arguments)?,
            out,
            records: PhantomData,
        })
    }
}

/// A client that sends; killed when dropped.
#[derive(Debug)]
pub struct Sending {
    running: Running,
    results: String,
}

impl Sending {
    /// Waits for its end; what came of each record, in order.
    ///
    /// # Errors
    /// The program failed.
    pub fn end(self) -> Result<Vec<Sent>> {
        succeeded(self.running)?;
        lines::read_sent(self.results.as_ref())
    }
}

/// A client that consumes; killed when dropped.
#[derive(Debug)]
pub struct Member<R> {
    running: Running,
    out: String,
    records: PhantomData<R>,
}

impl<R: Payload> Member<R> {
    /// What it has read so far.
    ///
    /// # Errors
    /// It ended with an error, or wrote what is not in the format.
    pub fn so_far(&mut self) -> Result<Vec<At<R>>> {
        let ended = self.running.ended()?;
        if std::path::Path::new(&self.out).exists() {
            return lines::read(self.out.as_ref());
        }
        ensure!(!ended, "a client gave up:\n{}", self.running.printed());
        Ok(Vec::new())
    }

    /// How many queues it has, as it said last.
    #[must_use]
    pub fn assigned(&self) -> usize {
        let printed = self.running.printed();
        let said = printed.lines().rev().find_map(|line| {
            let list = line.strip_prefix("assigned")?.split_once('[')?.1;
            list.split_once(']').map(|(list, _)| list.trim().to_owned())
        });
        said.filter(|list| !list.is_empty())
            .map_or(0, |list| list.split(',').count())
    }

    /// Waits until it has read `count` records, the same one again counted again.
    ///
    /// # Errors
    /// It does not get there.
    pub fn until_read(&mut self, count: usize) -> Result<()> {
        until("a member reads on", || Ok(self.so_far()?.len() >= count))
            .with_context(|| self.running.printed())
    }

    /// Waits until what it has read stands up to [`Payload::judge_kept`].
    ///
    /// # Errors
    /// The last difference.
    pub fn until_all(&mut self, sent: &[Sent], records: &[R]) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let read = self.so_far()?;
            // Not every look is worth a judgement.
            let late = Instant::now() > end;
            if read.len() >= records.len() || late {
                match R::judge_kept(sent, records, &read) {
                    Err(error) if late => bail!("{error:?}\n{}", self.running.printed()),
                    Err(_) => {}
                    Ok(()) => return Ok(()),
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// True once it has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn ended(&mut self) -> Result<bool> {
        self.running.ended()
    }

    /// Waits for its end; everything it read.
    ///
    /// # Errors
    /// The program failed.
    pub fn end(self) -> Result<Vec<At<R>>> {
        succeeded(self.running)?;
        lines::read(self.out.as_ref())
    }
}

fn succeeded(running: Running) -> Result<()> {
    let ran = running.wait()?;
    ensure!(ran.success, "a client failed:\n{}", ran.output);
    Ok(())
}
