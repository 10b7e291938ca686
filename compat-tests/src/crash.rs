//! The crash check: real clients of both protocols under load, kill -9 at a random moment, start,
//! compare. Every acknowledged record must be at its offset, once; nothing that was read may be gone
//! or changed; a group's progress must be at least its last acknowledged commit and never beyond the
//! log's end.

use crate::Node;
use crate::clients::{Client, Running};
use anyhow::{Context as _, Result, bail, ensure};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};
use std::collections::{BTreeMap, HashMap};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::time::Duration;

const KAFKA: Client = Client::JavaKafka("4.3.1");
const ROCKET: Client = Client::JavaRocket("5.3.3");
const READER: Client = Client::PythonKafka;

/// The clients it needs.
pub const CLIENTS: &[Client] = &[KAFKA, ROCKET, READER];

const TOPICS: [&str; 2] = ["crash-kafka", "crash-native"];
const QUEUES: u32 = 4;
const KAFKA_GROUP: &str = "crash-kafka-readers";
const NATIVE_GROUP: &str = "crash-native-readers";

type Place = (String, u32, u64);

/// How to run it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Kills.
    pub rounds: u32,
    /// Seed of the moments.
    pub seed: u64,
    /// Longest time between a start and a kill.
    pub round_max: Duration,
}

/// What was checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Kills survived.
    pub rounds: u32,
    /// Acknowledged records found at their offsets.
    pub acknowledged: usize,
    /// Records read before a kill and found unchanged after it.
    pub read: usize,
    /// Slowest start after a kill.
    pub slowest_start: Duration,
}

/// A file that a client appends lines to, read piece by piece.
#[derive(Debug)]
struct Tail {
    path: PathBuf,
    at: u64,
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Self { path, at: 0 }
    }

    /// The whole lines appended since the last call.
    fn lines(&mut self) -> Result<Vec<String>> {
        let Ok(mut file) = std::fs::File::open(&self.path) else {
            return Ok(Vec::new());
        };
        file.seek(SeekFrom::Start(self.at))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)?;
        let whole = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        self.at += whole as u64;
        let text = String::from_utf8_lossy(text.get(..whole).unwrap_or_default());
        Ok(text.lines().map(str::to_owned).collect())
    }
}

#[derive(Debug)]
struct Bench {
    node: Node,
    acks: Vec<Tail>,
    reads: Vec<Tail>,
    commits: Tail,
    /// All that the log has shown so far.
    seen: HashMap<Place, String>,
    next: BTreeMap<(&'static str, u32), u64>,
    committed: HashMap<(String, u32), u64>,
    checked: Checked,
}

/// Runs the plan; `say` is told of each round.
///
/// # Errors
/// The first thing that is not as promised, with the seed and the round.
pub fn run(plan: Plan, say: &mut dyn FnMut(String)) -> Result<Checked> {
    let mut random = StdRng::seed_from_u64(plan.seed);
    let node = Node::start()?;
    for topic in TOPICS {
        KAFKA.run(&["create", &node.kafka(), topic, &QUEUES.to_string()])?;
    }
    let mut bench = Bench::new(node);
    let mut clients = bench.load()?;
    for round in 1..=plan.rounds {
        let most = u64::try_from(plan.round_max.as_millis())
            .unwrap_or(u64::MAX)
            .max(200);
        std::thread::sleep(Duration::from_millis(random.random_range(100..most)));
        bench.node.kill()?;
        let start = bench.node.start_again()?;
        bench.checked.slowest_start = bench.checked.slowest_start.max(start);
        bench.checked.rounds = round;
        for client in &mut clients {
            ensure!(!client.ended()?, "a client gave up:\n{}", client.printed());
        }
        bench
            .check()
            .with_context(|| format!("seed {}, round {round}", plan.seed))?;
        say(format!(
            "round {round}: started in {start:?}, {} records checked",
            bench.seen.len()
        ));
    }
    for client in clients {
        client.kill();
    }
    bench
        .whole()
        .with_context(|| format!("seed {}, whole log", plan.seed))?;
    bench.node.terminate()?;
    Ok(bench.checked)
}

impl Bench {
    fn new(node: Node) -> Self {
        let tail = |name: &str| Tail::new(node.file(name));
        Self {
            acks: vec![tail("k-acks"), tail("n-acks")],
            reads: vec![tail("k-reads"), tail("n-reads")],
            commits: tail("k-commits"),
            seen: HashMap::new(),
            next: BTreeMap::new(),
            committed: HashMap::new(),
            checked: Checked::default(),
            node,
        }
    }

    fn load(&self) -> Result<Vec<Running>> {
        let file = |name: &str| self.node.file(name).display().to_string();
        let both = TOPICS.join(",");
        let (k, n) = (self.node.kafka(), self.node.nameserver());
        let kafka = [
            "load",
            &k,
            TOPICS[0],
            KAFKA_GROUP,
            &both,
            &file("k-acks"),
            &file("k-reads"),
            &file("k-commits"),
        ];
        let native = [
            "load",
            &n,
            TOPICS[1],
            NATIVE_GROUP,
            &both,
            &file("n-acks"),
            &file("n-reads"),
        ];
        let mut clients = vec![KAFKA.start(&kafka)?, ROCKET.start(&native)?];
        for client in &mut clients {
            client.until("started", Duration::from_secs(60))?;
        }
        Ok(clients)
    }

    /// What was acknowledged, read and committed up to now, against the log as it stands.
    fn check(&mut self) -> Result<()> {
        // Everything the clients wrote down before this point happened before the log is read.
        let acks: Vec<String> = self
            .acks
            .iter_mut()
            .map(Tail::lines)
            .collect::<Result<Vec<_>>>()?
            .concat();
        let reads: Vec<String> = self
            .reads
            .iter_mut()
            .map(Tail::lines)
            .collect::<Result<Vec<_>>>()?
            .concat();
        for line in self.commits.lines()? {
            let (topic, queue, offset, _) = fields(&format!("{line}\t"))?;
            self.committed.insert((topic, queue), offset);
        }
        for topic in TOPICS {
            self.read_on(topic)?;
        }
        self.compare(&acks, "acknowledged")?;
        self.compare(&reads, "read")?;
        self.checked.acknowledged += acks.len();
        self.checked.read += reads.len();
        for topic in TOPICS {
            self.progress(topic)?;
        }
        Ok(())
    }

    fn compare(&self, lines: &[String], how: &str) -> Result<()> {
        for line in lines {
            let (topic, queue, offset, value) = fields(line)?;
            match self.seen.get(&(topic, queue, offset)) {
                Some(found) if *found == value => {}
                Some(found) => bail!("{how}: {line:?}, but the log has {found:?} there"),
                None => bail!("{how}: {line:?}, but the log has nothing there"),
            }
        }
        Ok(())
    }

    /// Reads a topic from where the last read ended to its present end.
    fn read_on(&mut self, topic: &'static str) -> Result<Vec<((String, u32), u64)>> {
        let out = self.node.file("log-read").display().to_string();
        let starts: Vec<String> = (0..QUEUES)
            .map(|queue| {
                self.next
                    .get(&(topic, queue))
                    .copied()
                    .unwrap_or(0)
                    .to_string()
            })
            .collect();
        let kafka = self.node.kafka();
        let mut arguments = vec!["read", &kafka, topic, &out];
        arguments.extend(starts.iter().map(String::as_str));
        let printed = READER.run(&arguments)?;
        for line in std::fs::read_to_string(&out)?.lines() {
            let (_, queue, offset, value) = fields(&format!("{topic}\t{line}"))?;
            let expected = self.next.entry((topic, queue)).or_insert(0);
            ensure!(
                *expected == offset,
                "{topic}-{queue}: offset {offset} follows {expected}"
            );
            *expected = offset + 1;
            self.seen.insert((topic.to_owned(), queue, offset), value);
        }
        let ends = printed
            .lines()
            .filter_map(|line| line.strip_prefix("end\t"));
        ends.map(|line| {
            let (_, queue, _, end) = fields(&format!("{topic}\t{line}"))?;
            Ok(((topic.to_owned(), queue), end.parse()?))
        })
        .collect()
    }

    /// A group's progress by queue; −1 where it has none.
    fn committed_by(&self, group: &str, topic: &str) -> Result<Vec<(u32, i64)>> {
        let printed = READER.run(&[
            "committed",
            &self.node.kafka(),
            group,
            topic,
            &QUEUES.to_string(),
        ])?;
        let lines = printed.lines().filter_map(|line| line.split_once('\t'));
        lines
            .map(|(queue, offset)| Ok((queue.parse()?, offset.parse()?)))
            .collect()
    }

    /// Native commits are one-way: only Kafka's are acknowledged.
    fn progress(&self, topic: &str) -> Result<()> {
        for (queue, offset) in self.committed_by(KAFKA_GROUP, topic)? {
            let offset = u64::try_from(offset).unwrap_or(0);
            let place = (topic.to_owned(), queue);
            let least = self.committed.get(&place).copied().unwrap_or(0);
            ensure!(
                offset >= least,
                "{KAFKA_GROUP} {topic}-{queue}: progress {offset} after an acknowledged commit of {least}"
            );
        }
        Ok(())
    }

    /// After the load has stopped: the whole log from its first offset, duplicates, and progress
    /// against the ends.
    fn whole(&mut self) -> Result<()> {
        self.check()?;
        let before = std::mem::take(&mut self.seen);
        self.next.clear();
        let mut ends = HashMap::new();
        for topic in TOPICS {
            ends.extend(self.read_on(topic)?);
        }
        for (place, value) in &before {
            ensure!(
                self.seen.get(place) == Some(value),
                "{place:?} had {value:?}, now {:?}",
                self.seen.get(place)
            );
        }
        let mut once = HashMap::new();
        for (place, value) in &self.seen {
            if let Some(other) = once.insert(value, place) {
                bail!("{value:?} is there twice: {other:?} and {place:?}");
            }
        }
        for topic in TOPICS {
            for group in [KAFKA_GROUP, NATIVE_GROUP] {
                self.within(group, topic, &ends)?;
            }
        }
        Ok(())
    }

    fn within(&self, group: &str, topic: &str, ends: &HashMap<(String, u32), u64>) -> Result<()> {
        for (queue, offset) in self.committed_by(group, topic)? {
            let end = ends.get(&(topic.to_owned(), queue)).copied().unwrap_or(0);
            ensure!(
                offset <= i64::try_from(end)?,
                "{group} {topic}-{queue}: progress {offset} beyond the end {end}"
            );
        }
        Ok(())
    }
}

/// topic, queue, offset, value
fn fields(line: &str) -> Result<(String, u32, u64, String)> {
    let mut fields = line.split('\t');
    let mut next = || fields.next().with_context(|| format!("line {line:?}"));
    Ok((
        next()?.to_owned(),
        next()?.parse()?,
        next()?.parse()?,
        next()?.to_owned(),
    ))
}
