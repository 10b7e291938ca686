//! Records to send, and the judgement of what came back.

use crate::lines::{At, KafkaRecord, NativeMessage, Sent};
use anyhow::{Context as _, Result, ensure};
use std::collections::{HashMap, HashSet};
use std::fmt::Debug;

/// `count` Kafka records of many kinds: keys, no keys, empty and null values, headers with repeats,
/// null and binary values. `tag` makes them unique.
#[must_use]
pub fn kafka(count: usize, tag: &str) -> Vec<KafkaRecord> {
    (0..count).map(|number| kafka_record(number, tag)).collect()
}

fn kafka_record(number: usize, tag: &str) -> KafkaRecord {
    let mut headers = vec![("number".to_owned(), Some(number.to_string().into_bytes()))];
    if number.is_multiple_of(3) {
        headers.push(("twice".to_owned(), Some(b"one".to_vec())));
        headers.push(("twice".to_owned(), Some(b"two".to_vec())));
    }
    if number.is_multiple_of(5) {
        headers.push(("none".to_owned(), None));
        headers.push(("binary".to_owned(), Some(vec![0, 1, 2, 255, 254])));
    }
    let value = match number % 11 {
        7 => None,
        8 => Some(Vec::new()),
        _ => Some(format!("{tag} {number} {}", "lorem ipsum ".repeat(number % 40)).into_bytes()),
    };
    let key = (number % 4 != 1).then(|| format!("{tag}-{}", number % 17).into_bytes());
    KafkaRecord {
        key,
        value,
        headers,
    }
}

/// `count` RocketMQ messages with tags, keys and properties.
#[must_use]
pub fn native(count: usize, tag: &str) -> Vec<NativeMessage> {
    (0..count)
        .map(|number| NativeMessage {
            tags: (number % 4 != 3).then(|| format!("Tag{}", number % 3)),
            keys: (number % 5 != 4).then(|| format!("{tag}-key-{number}")),
            body: format!("{tag} {number} {}", "dolor sit amet ".repeat(number % 50)).into_bytes(),
            properties: [
                ("number".to_owned(), number.to_string()),
                ("city".to_owned(), "Zürich".to_owned()),
            ]
            .into(),
        })
        .collect()
}

/// Every record that was acknowledged is among `read`, once, at the acknowledged place, unchanged;
/// nothing else is there.
///
/// # Errors
/// The first difference.
pub fn judge_kafka(sent: &[Sent], records: &[KafkaRecord], read: &[At<KafkaRecord>]) -> Result<()> {
    let by_place = places(read)?;
    ensure!(
        sent.len() == records.len(),
        "{} results for {} records",
        sent.len(),
        records.len()
    );
    for (place, (sent, record)) in sent.iter().zip(records).enumerate() {
        let (queue, offset) = sent
            .as_ref()
            .map_err(|error| anyhow::anyhow!("record {place}: {error}"))?;
        let queue = queue.context("the client tells the partition")?;
        let at = by_place
            .get(&(queue, *offset))
            .with_context(|| format!("nothing at {queue}-{offset}"))?;
        ensure!(
            at.record == *record,
            "record {place} at {queue}-{offset}: sent {record:?}, read {:?}",
            at.record
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

/// As [`judge_kafka`], for messages; properties that the broker or client added are allowed.
///
/// # Errors
/// The first difference.
pub fn judge_native(
    sent: &[Sent],
    messages: &[NativeMessage],
    read: &[At<NativeMessage>],
) -> Result<()> {
    places(read)?;
    judge_native_kept(sent, messages, read)?;
    same_bodies(messages, read)
}

/// As [`judge_native`], but a message may have been read more than once, and one whose
/// acknowledgement was lost may have been sent again.
///
/// # Errors
/// The first difference.
pub fn judge_native_kept(
    sent: &[Sent],
    messages: &[NativeMessage],
    read: &[At<NativeMessage>],
) -> Result<()> {
    let mut by_offset: HashMap<u64, Vec<&At<NativeMessage>>> = HashMap::new();
    for at in read {
        by_offset.entry(at.offset).or_default().push(at);
    }
    ensure!(
        sent.len() == messages.len(),
        "{} results for {} messages",
        sent.len(),
        messages.len()
    );
    for (place, (sent, message)) in sent.iter().zip(messages).enumerate() {
        let (queue, offset) = sent
            .as_ref()
            .map_err(|error| anyhow::anyhow!("message {place}: {error}"))?;
        // The C++ client does not tell the queue: it is one of those at this offset.
        let mut there = by_offset.get(offset).into_iter().flatten();
        let at = there
            .find(|at| queue.map_or(at.record.body == message.body, |queue| queue == at.queue))
            .with_context(|| format!("message {place}: nothing at {queue:?}-{offset}"))?;
        same_message(message, &at.record)
            .with_context(|| format!("message {place} at {queue:?}-{offset}"))?;
    }
    let bodies: HashSet<&[u8]> = messages.iter().map(|m| m.body.as_slice()).collect();
    let foreign = read
        .iter()
        .find(|at| !bodies.contains(at.record.body.as_slice()));
    ensure!(foreign.is_none(), "this was not sent: {foreign:?}");
    Ok(())
}

/// What was read, each place once; a record that was read again must be the same.
///
/// # Errors
/// A place where it was not.
pub fn without_repeats<T: Clone + PartialEq + Debug>(read: &[At<T>]) -> Result<Vec<At<T>>> {
    let mut places: HashMap<(u32, u64), &At<T>> = HashMap::with_capacity(read.len());
    for at in read {
        let first = places.entry((at.queue, at.offset)).or_insert(at);
        ensure!(*first == at, "{first:?} was read again as {at:?}");
    }
    Ok(places.into_values().cloned().collect())
}

/// The same bodies, each as often as sent (for clients that do not tell where a message went).
///
/// # Errors
/// The first difference.
pub fn same_bodies(messages: &[NativeMessage], read: &[At<NativeMessage>]) -> Result<()> {
    let mut wanted: Vec<&[u8]> = messages
        .iter()
        .map(|message| message.body.as_slice())
        .collect();
    let mut found: Vec<&[u8]> = read.iter().map(|at| at.record.body.as_slice()).collect();
    wanted.sort_unstable();
    found.sort_unstable();
    ensure!(
        wanted.len() == found.len(),
        "{} sent, {} read",
        wanted.len(),
        found.len()
    );
    ensure!(wanted == found, "other bodies were read than sent");
    Ok(())
}

/// Equal but for properties that were added on the way.
///
/// # Errors
/// What differs.
pub fn same_message(sent: &NativeMessage, read: &NativeMessage) -> Result<()> {
    ensure!(
        sent.tags == read.tags,
        "TAGS: sent {:?}, read {:?}",
        sent.tags,
        read.tags
    );
    ensure!(
        sent.keys == read.keys,
        "KEYS: sent {:?}, read {:?}",
        sent.keys,
        read.keys
    );
    ensure!(sent.body == read.body, "another body");
    for (name, value) in &sent.properties {
        ensure!(
            read.properties.get(name) == Some(value),
            "property {name}: {:?}",
            read.properties.get(name)
        );
    }
    Ok(())
}

/// By (queue, offset).
///
/// # Errors
/// A place that was read twice.
pub fn places<T>(read: &[At<T>]) -> Result<HashMap<(u32, u64), &At<T>>> {
    let mut places = HashMap::with_capacity(read.len());
    for at in read {
        ensure!(
            places.insert((at.queue, at.offset), at).is_none(),
            "{}-{} was read twice",
            at.queue,
            at.offset
        );
    }
    Ok(places)
}
