//! The crate's one door to the payload layouts for its own records: batches on internal queues, the
//! check of produced batches, records that cross, and names.

use crate::catalog::Resolved;
use crate::offsets::Committed;
use crate::offsets::partition::Change;
use crate::produce::ProduceError;
use bytes::{Bytes, BytesMut};
use smallvec::smallvec;
use std::net::SocketAddr;
use twinmq_records::batch::{self, BatchError, Facts, Tag, Walk, Writer};
use twinmq_records::internal::{
    InternalError, OffsetKey, OffsetValue, OffsetsKey, encode_group_key,
};
pub(crate) use twinmq_records::message::java_hash;
use twinmq_records::message::{MessageView, SYS_COMPRESSED};
use twinmq_records::translate::{self, Destination, Translated};
use twinmq_store::{Draft, Fill, Flags, Kind, Place, Producer, QueueNumber, Stored, Timestamp};

/// One record of an internal queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pair {
    pub(crate) key: Vec<u8>,
    /// `None` is a tombstone.
    pub(crate) value: Option<Vec<u8>>,
}

/// Most bytes of one decompressed batch of an internal queue; the broker writes none compressed.
const INTERNAL_MAX: u64 = 64 << 20;

/// One batch of records for an internal queue.
pub(crate) fn pack(queue: QueueNumber, now: Timestamp, pairs: &[Pair]) -> Draft {
    let mut writer = Writer::new(0, -1);
    let mut span = 0;
    for pair in pairs {
        // A batch passes 2 GiB only when a single change does; frames are limited far below.
        match writer.push(now.0, Some(&pair.key), pair.value.as_deref(), &[]) {
            Ok(()) => span += 1,
            Err(error) => tracing::error!(%error, "an internal record is too large and is lost"),
        }
    }
    let payload = writer.finish();
    Draft {
        payload_sum: crc32c::crc32c(payload.get(batch::CRC_FROM..).unwrap_or_default()),
        ..batch_draft(queue, span, now, payload)
    }
}

/// A batch's draft without its sum.
fn batch_draft(queue: QueueNumber, span: u32, record_time: Timestamp, payload: Bytes) -> Draft {
    Draft {
        kind: Kind::Batch,
        flags: Flags::default(),
        queue,
        span,
        record_time,
        tag_hash: 0,
        producer: None,
        head: HEAD,
        payload_sum: 0,
        places: smallvec![
            Place {
                at: batch::BASE_OFFSET_AT,
                fill: Fill::QueueOffset,
            },
            Place {
                at: batch::LEADER_EPOCH_AT,
                fill: Fill::Reign,
            },
        ],
        payload,
    }
}

/// The batch's own CRC begins here: the header's sum covers what stands before.
const HEAD: u8 = 21;

/// The records of an internal queue's entry: time, key, value.
pub(crate) fn unpack(
    stored: &Stored,
    mut each: impl FnMut(Timestamp, &[u8], Option<&[u8]>) -> Result<(), String>,
) -> Result<(), String> {
    if stored.header.kind != Kind::Batch {
        return Err("not a batch".to_owned());
    }
    let opened = batch::open(&stored.payload, INTERNAL_MAX).map_err(|error| error.to_string())?;
    if opened.header().has(batch::CONTROL) {
        return Ok(());
    }
    for record in opened.records() {
        let record = record.map_err(|error| error.to_string())?;
        let key = record.key.ok_or("a record without key")?;
        each(Timestamp(record.timestamp), key, record.value)?;
    }
    Ok(())
}

/// Offset delta and time of each record of a batch.
pub(crate) fn record_times(
    payload: &[u8],
    decompressed_max: u64,
    mut each: impl FnMut(u32, i64),
) -> Result<(), String> {
    let opened = batch::open(payload, decompressed_max).map_err(|error| error.to_string())?;
    for record in opened.records() {
        let record = record.map_err(|error| error.to_string())?;
        each(record.offset_delta, record.timestamp);
    }
    Ok(())
}

/// Walks a produced batch once, holds it against the topic's rules and makes it ready for the lane.
pub(crate) fn produced(
    bytes: &Bytes,
    queue: QueueNumber,
    rules: &Resolved,
    now: Timestamp,
    decompressed_max: u64,
) -> Result<Draft, ProduceError> {
    let facts = batch::check(
        bytes,
        &Walk {
            decompressed_max,
            log_append_time: rules.log_append_time,
        },
    )?;
    if let (true, Some(record)) = (rules.compact, facts.first_without_key) {
        return Err(ProduceError::NoKey { record });
    }
    let mut payload = bytes.clone();
    let mut sum = facts.payload_sum;
    let mut record_time = facts.max_timestamp;
    if rules.log_append_time {
        let mut stamped = BytesMut::from(&bytes[..]);
        sum = batch::set_log_append_time(&mut stamped, now.0)?;
        payload = stamped.freeze();
        record_time = now.0;
    } else {
        check_times(bytes, &facts, rules, now, decompressed_max)?;
        if facts.stated_max_timestamp != facts.max_timestamp {
            let mut corrected = BytesMut::from(&bytes[..]);
            sum = batch::set_max_timestamp(&mut corrected, facts.max_timestamp)?;
            payload = corrected.freeze();
        }
    }
    let mut flags = Flags::default();
    if facts.transactional {
        flags = flags.with(Flags::TRANSACTIONAL);
    }
    let tag_hash = match facts.tag {
        Tag::None => 0,
        Tag::Same(hash) => hash,
        Tag::Mixed => {
            flags = flags.with(Flags::MIXED_TAGS);
            0
        }
    };
    let producer = u64::try_from(facts.producer_id).ok().map(|id| Producer {
        id,
        epoch: facts.producer_epoch,
        first_sequence: facts.base_sequence,
    });
    let span = facts.last_offset_delta.checked_add(1);
    let span = span.ok_or_else(|| BatchError::Invalid("too many records".to_owned()))?;
    Ok(Draft {
        flags,
        tag_hash,
        producer,
        payload_sum: sum,
        ..batch_draft(queue, span, Timestamp(record_time.max(-1)), payload)
    })
}

/// The topic's time window; records without a time (−1) are exempt (KIP-937).
fn check_times(
    bytes: &[u8],
    facts: &Facts,
    rules: &Resolved,
    now: Timestamp,
    decompressed_max: u64,
) -> Result<(), ProduceError> {
    let low = now.0.saturating_sub(rules.timestamp_before_max_ms);
    let high = now.0.saturating_add(rules.timestamp_after_max_ms);
    if facts.min_timestamp >= low && facts.max_timestamp <= high {
        return Ok(());
    }
    let opened = batch::open(bytes, decompressed_max)?;
    for (record, place) in opened.records().zip(0..) {
        let time = record?.timestamp;
        if time != -1 && !(low..=high).contains(&time) {
            return Err(ProduceError::InvalidTimestamp {
                record: place,
                time,
            });
        }
    }
    Ok(())
}

/// What a record of `__consumer_offsets` says; `None` for kinds that are not kept here.
pub(crate) fn offsets_change(key: &[u8], value: Option<&[u8]>) -> Result<Option<Change>, String> {
    let bad = |error: InternalError| error.to_string();
    Ok(match OffsetsKey::decode(key).map_err(bad)? {
        OffsetsKey::Offset(key) => Some(Change::Offset {
            group: key.group.into(),
            topic: key.topic.into(),
            queue: u32::try_from(key.partition).map_err(|_| "a negative partition".to_owned())?,
            value: value
                .map(|value| OffsetValue::decode(value).map(committed))
                .transpose()
                .map_err(bad)?,
        }),
        OffsetsKey::Group(group) => Some(Change::Group {
            group: group.into(),
            value: value.map(Bytes::copy_from_slice),
        }),
        OffsetsKey::Other(_) => None,
    })
}

fn committed(value: OffsetValue) -> Committed {
    Committed {
        offset: value.offset,
        leader_epoch: value.leader_epoch,
        metadata: value.metadata,
        commit_time: Timestamp(value.commit_time),
        expires: value.expire_time.map(Timestamp),
    }
}

/// The record of a change in `__consumer_offsets`.
pub(crate) fn offsets_pair(change: &Change) -> Result<Pair, InternalError> {
    Ok(match change {
        Change::Offset {
            group,
            topic,
            queue,
            value,
        } => Pair {
            key: OffsetKey {
                group: group.to_string(),
                topic: topic.to_string(),
                partition: i32::try_from(*queue).unwrap_or(i32::MAX),
            }
            .encode()?,
            value: value.as_ref().map(offset_value).transpose()?,
        },
        Change::Group { group, value } => Pair {
            key: encode_group_key(group)?,
            value: value.as_ref().map(|value| value.to_vec()),
        },
    })
}

fn offset_value(committed: &Committed) -> Result<Vec<u8>, InternalError> {
    OffsetValue {
        offset: committed.offset,
        leader_epoch: committed.leader_epoch,
        metadata: committed.metadata.clone(),
        commit_time: committed.commit_time.0,
        expire_time: committed.expires.map(|time| time.0),
        topic_id: None,
    }
    .encode()
}

/// Most bytes of messages made from a batch at once; larger batches are opened in pieces.
const PIECE_BYTES: usize = 8 << 20;

/// A batch entry's records in RocketMQ's layout, from an offset delta on.
pub(crate) fn opened(
    stored: &Stored,
    topic: &str,
    ordinal: u32,
    store_host: SocketAddr,
    from: u32,
    decompressed_max: u64,
) -> Result<Translated, String> {
    let header = &stored.header;
    let wide = |number: u64| i64::try_from(number).map_err(|error| error.to_string());
    let to = Destination {
        topic,
        queue_id: i32::try_from(ordinal).map_err(|error| error.to_string())?,
        base: wide(header.base.0)?,
        address: wide(header.log_offset.0)?,
        store_time: header.store_time.0,
        store_host,
    };
    let opened =
        batch::open(&stored.payload, decompressed_max).map_err(|error| error.to_string())?;
    translate::messages(&opened, &to, from, PIECE_BYTES, decompressed_max)
        .map_err(|error| error.to_string())
}

/// Entries of this many bytes are costly to translate, whatever they hold.
const COSTLY_BYTES: usize = 64 << 10;

/// Whether translating these entries may take long: they are large, or compressed (a small one may expand
/// to `decompressed_bytes_max`).
pub(crate) fn is_costly(entries: &[Stored]) -> bool {
    let bytes: usize = entries.iter().map(|stored| stored.payload.len()).sum();
    bytes >= COSTLY_BYTES || entries.iter().any(is_compressed)
}

fn is_compressed(stored: &Stored) -> bool {
    match stored.header.kind {
        Kind::Batch => batch::is_compressed(&stored.payload),
        Kind::Message => MessageView::parse(&stored.payload)
            .is_ok_and(|view| view.sys_flag & SYS_COMPRESSED != 0),
        Kind::Control => false,
    }
}

/// One batch of no more than `bytes_max` bytes, if more than one, made from message entries that follow
/// each other; and from how many.
pub(crate) fn framed(
    entries: &[Stored],
    decompressed_max: u64,
    bytes_max: usize,
) -> Result<(Bytes, usize), String> {
    let mut views = Vec::with_capacity(entries.len());
    for stored in entries {
        views.push(MessageView::parse(&stored.payload).map_err(|error| error.to_string())?);
    }
    let reign = entries.first().map_or(0, |first| first.header.reign.0);
    let epoch = i32::try_from(reign).map_err(|error| error.to_string())?;
    translate::frame_up_to(views, epoch, decompressed_max, bytes_max)
        .map_err(|error| error.to_string())
}
