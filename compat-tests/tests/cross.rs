//! What one protocol writes, the other reads, at equal offsets; a group has one progress.

use anyhow::{Context as _, Result, ensure};
use std::process::ExitCode;
use twinmq_compat_tests::Node;
use twinmq_compat_tests::clients::Client;
use twinmq_compat_tests::lines::{KafkaRecord, NativeMessage};
use twinmq_compat_tests::sample;
use twinmq_compat_tests::suite::Suite;
use twinmq_compat_tests::topic::Topic;

const KAFKA: Client = Client::KAFKA_TOOLS;
const LIBRDKAFKA: Client = Client::PythonKafka;
const ROCKET: Client = Client::ROCKET_TOOLS;
const OLD_ROCKET: Client = Client::JavaRocket("4.9.8");
const CPP: Client = Client::PythonRocket;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for reader in [ROCKET, OLD_ROCKET, CPP] {
        let name = reader.name();
        for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
            suite.add(
                format!("{name}_reads_what_kafka_java_sent_{codec}"),
                &[KAFKA, reader],
                move || kafka_to_native(KAFKA, reader, codec),
            );
        }
    }
    for reader in [KAFKA, LIBRDKAFKA] {
        for writer in [ROCKET, CPP] {
            suite.add(
                format!("{}_reads_what_{}_sent", reader.name(), writer.name()),
                &[reader, writer, KAFKA],
                move || native_to_kafka(writer, reader),
            );
        }
    }
    suite.add(
        "a_group_started_by_kafka_goes_on_natively_and_back",
        &[KAFKA, ROCKET],
        one_progress,
    );
    suite.add(
        "kafka_headers_named_tags_filter_native_readers",
        &[KAFKA, ROCKET],
        tags_from_headers,
    );
    suite.add(
        "a_kafka_record_sent_back_comes_again",
        &[KAFKA, ROCKET],
        kafka_record_sent_back,
    );
    suite.run()
}

/// One topic, as the clients of each protocol know it.
fn both(
    node: &Node,
    name: &str,
    queues: u32,
) -> Result<(Topic<KafkaRecord>, Topic<NativeMessage>)> {
    Ok((Topic::create(node, name, queues)?, Topic::of(node, name)))
}

fn kafka_to_native(writer: Client, reader: Client, codec: &str) -> Result<()> {
    let node = Node::start()?;
    let (kafka, native) = both(&node, "crossing", 2)?;
    let records = sample::kafka(400, "x");
    let sent = kafka.send(writer, &records, &[&format!("compression.type={codec}")])?;
    let read = native.consume(reader, "readers", records.len(), &[])?;
    let places = sample::places(&read)?;
    for (sent, record) in sent.iter().zip(&records) {
        let (queue, offset) = sent.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
        let at = places
            .get(&(queue.context("a partition")?, *offset))
            .context("a record is missing")?;
        let mut value = record.value.clone().unwrap_or_default();
        if value.is_empty() && reader == OLD_ROCKET {
            value.push(0); // Java clients of 4.x break on an empty body
        }
        ensure!(at.record.body == value, "another body at {offset}");
        ensure!(
            at.record.keys.as_deref().map(str::as_bytes) == record.key.as_deref(),
            "key and KEYS differ at {offset}"
        );
        let number = record
            .headers
            .first()
            .and_then(|(_, value)| value.as_deref());
        ensure!(
            at.record.properties.get("number").map(String::as_bytes) == number,
            "header and property differ"
        );
    }
    ensure!(
        read.len() == records.len(),
        "{} sent, {} read",
        records.len(),
        read.len()
    );
    Ok(())
}

fn native_to_kafka(writer: Client, reader: Client) -> Result<()> {
    let node = Node::start()?;
    let (kafka, native) = both(&node, "crossing", 2)?;
    let mut messages = sample::native(300, "y");
    if let Some(large) = messages.get_mut(7) {
        large.body = b"compressed on the native side ".repeat(20_000);
    }
    native.send(writer, &messages, &[])?;
    let read = kafka.consume(reader, "readers", messages.len(), &[])?;
    ensure!(
        read.len() == messages.len(),
        "{} sent, {} read",
        messages.len(),
        read.len()
    );
    for message in &messages {
        let at = read
            .iter()
            .find(|at| at.record.value.as_deref() == Some(&message.body))
            .context("a body is missing")?;
        let header = |name: &str| {
            at.record
                .headers
                .iter()
                .find(|(found, _)| found == name)
                .and_then(|(_, value)| value.clone())
        };
        ensure!(
            at.record.key == message.keys.clone().map(String::into_bytes),
            "KEYS and key differ"
        );
        ensure!(
            header("TAGS") == message.tags.clone().map(String::into_bytes),
            "TAGS: {:?}",
            at.record.headers
        );
        for (name, value) in &message.properties {
            ensure!(
                header(name).as_deref() == Some(value.as_bytes()),
                "{name}: {:?}",
                at.record.headers
            );
        }
    }
    Ok(())
}

fn one_progress() -> Result<()> {
    let node = Node::start()?;
    let (kafka, native) = both(&node, "relay", 1)?;
    kafka.send(KAFKA, &sample::kafka(100, "one"), &[])?;
    kafka.consume(KAFKA, "runners", 100, &[])?;
    kafka.send(KAFKA, &sample::kafka(50, "two"), &[])?;
    let read = native.consume(ROCKET, "runners", 50, &[])?;
    ensure!(
        read.len() == 50 && read.iter().all(|at| at.offset >= 100),
        "the native member started over: {}",
        read.len()
    );
    kafka.send(KAFKA, &sample::kafka(30, "three"), &[])?;
    let read = kafka.consume(KAFKA, "runners", 30, &[])?;
    ensure!(
        read.len() == 30 && read.iter().all(|at| at.offset >= 150),
        "the Kafka member started over: {}",
        read.len()
    );
    Ok(())
}

/// Records whose values are "value 0", "value 1" and so on.
fn numbered(count: usize) -> Vec<KafkaRecord> {
    let mut records = sample::kafka(count, "z");
    for (number, record) in records.iter_mut().enumerate() {
        record.value = Some(format!("value {number}").into_bytes());
    }
    records
}

fn tags_from_headers() -> Result<()> {
    let node = Node::start()?;
    let (kafka, native) = both(&node, "labels", 1)?;
    let mut records = numbered(100);
    for (number, record) in records.iter_mut().enumerate() {
        let tag = format!("T{}", number % 2).into_bytes();
        record.headers = vec![("TAGS".to_owned(), Some(tag))];
    }
    kafka.send(KAFKA, &records, &[])?;
    let read = native.consume(ROCKET, "readers", 50, &["tags=T1"])?;
    let tagged = read
        .iter()
        .filter(|at| at.record.tags.as_deref() == Some("T1"));
    ensure!(tagged.count() == 50 && read.len() == 50, "{read:?}");
    Ok(())
}

fn kafka_record_sent_back() -> Result<()> {
    let node = Node::start_with(&[
        "broker.message_delay_level=1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    ])?;
    let (kafka, native) = both(&node, "bounced", 1)?;
    let records = numbered(6);
    kafka.send(KAFKA, &records, &[])?;
    let read = native.consume(ROCKET, "bouncers", records.len(), &["failing=3"])?;
    let mut bodies: Vec<Vec<u8>> = read.into_iter().map(|at| at.record.body).collect();
    bodies.sort();
    let wanted: Vec<Vec<u8>> = records
        .into_iter()
        .filter_map(|record| record.value)
        .collect();
    ensure!(bodies == wanted, "{} bodies came back", bodies.len());
    Ok(())
}
