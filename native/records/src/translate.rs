//! Kafka batches to RocketMQ messages, RocketMQ messages to Kafka batches.
//!
//! What crosses, in both directions, without loss (property test in `tests/round_trip.rs`):
//!
//! | Kafka record | RocketMQ message |
//! |---|---|
//! | key | `KEYS`, where it is printable and has no blank; else [`KEY_PROPERTY`] |
//! | header | user property of the same name, in the same order |
//! | header `TAGS`, `KEYS`, `DELAY`, `__SHARDINGKEY`, `TIMER_…` | that property |
//! | header that is null, empty, binary, repeated later, or has a system name | [`HEADERS_PROPERTY`] |
//! | null value | empty body and [`VALUE_PROPERTY`]`=null` |
//! | timestamp | bornTimestamp |
//! | – | bornHost 0.0.0.0:0: made from a Kafka record |
//! | `KEYS`' value as key, all properties as headers | properties |
//! | value, decompressed | body |
//! | header [`MESSAGE_HEADER`] | bornHost and what else of a message is not plain |
//!
//! The header [`MESSAGE_HEADER`] (`born=10.0.0.1:4567`, then, where they are not 0, `flag=`, `sys=`,
//! `reconsume=`, `prepared=`, and the words `text=raw` and `body=packed`) is the last one and the only
//! one that is added to a message, but for [`TEXT_HEADER`] where the property text is not in the form
//! that RocketMQ's clients write. Both reserved forms are believed only where writing them again gives
//! the same bytes; anything else that looks like them is carried as an ordinary header or property.
//!
//! Leaves out: of headers, what passes 32,767 bytes of properties (named in [`LEFT_OUT_PROPERTY`]; a
//! tag always stays); of messages, the compression of the body, which stays unpacked on the way back.

mod from_kafka;
mod from_native;
mod percent;

use crate::batch::{BatchError, CONTROL, HEADERS_MAX, Opened, Writer};
use crate::message::{
    ADDRESS_AT, MessageError, MessageView, NewMessage, QUEUE_OFFSET_AT, SYS_BORN_HOST_V6,
    SYS_STORE_HOST_V6, encode_into, java_hash,
};
use crate::properties::{self, Properties, TAGS};
use bytes::Bytes;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use thiserror::Error;

/// Property: how the key of a Kafka record stands, where `KEYS` alone does not say it. `null`: there
/// is none, although there is a header `KEYS`; `=` and the key, percent-encoded; `left-out`.
pub const KEY_PROPERTY: &str = "TWINMQ_KEY";
/// Property: headers of a Kafka record that properties cannot express: `place:name=value` or, for a
/// null value, `place:name`, separated by commas, percent-encoded; the place counts all headers from 0.
pub const HEADERS_PROPERTY: &str = "TWINMQ_HEADERS";
/// Property: `null` with an empty body stands for a null value (a tombstone).
pub const VALUE_PROPERTY: &str = "TWINMQ_VALUE";
/// Property: how many headers did not fit, a colon, and the first of their names, percent-encoded.
pub const LEFT_OUT_PROPERTY: &str = "TWINMQ_LEFT_OUT";
/// Prefix of these properties. A Kafka header of such a name never becomes a property.
pub const RESERVED_PROPERTIES: &str = "TWINMQ_";
/// Header: what a RocketMQ message is besides its properties; see the top of this file.
pub const MESSAGE_HEADER: &str = "twinmq.message";
/// Header: the property text of a RocketMQ message, byte for byte.
pub const TEXT_HEADER: &str = "twinmq.properties";
/// Prefix of these headers. A Kafka header of such a name never becomes a property.
pub const RESERVED_HEADERS: &str = "twinmq.";

/// Born host of messages that were made from Kafka records.
const NOBODY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// Not part of what a message says: the writer sets them from the hosts.
const HOST_BITS: i32 = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6;

/// Why something could not be translated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TranslateError {
    /// The batch is broken, or would be too large.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The message is broken, or would be too large.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Messages of one batch must follow each other.
    #[error("offset {found} follows {last}")]
    Gap {
        /// Queue offset of a message.
        last: i64,
        /// Queue offset of the next one.
        found: i64,
    },
}

/// Where the messages made from a batch stand.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'a> {
    /// RocketMQ's name of the topic.
    pub topic: &'a str,
    /// The queue's ordinal in its topic.
    pub queue_id: i32,
    /// Queue offset of the batch's first record.
    pub base: i64,
    /// Address of the batch's first record (log offset of its entry).
    pub address: i64,
    /// When the batch was stored, in ms.
    pub store_time: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
}

/// Messages made from a batch, back to back.
#[derive(Clone, Debug, Default)]
pub struct Translated {
    /// All of them.
    pub bytes: Bytes,
    /// Each of them, in order.
    pub slots: Vec<Slot>,
    /// Offset delta of the first record not translated because `bytes_max` was reached; `None` when
    /// the batch is done.
    pub next: Option<u32>,
}

/// One message among [`Translated::bytes`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Queue offset minus the batch's base offset.
    pub offset_delta: u32,
    /// First byte.
    pub start: usize,
    /// After the last byte.
    pub end: usize,
    /// Java hash of the tag, as the produce walk sees it ([`crate::batch::Tag`]); 0 without one.
    pub tag_hash: i32,
}

impl Translated {
    /// The bytes of one message.
    #[must_use]
    pub fn message(&self, slot: &Slot) -> Bytes {
        self.bytes.slice(slot.start..slot.end)
    }
}

/// Makes messages from a batch's records, from offset delta `from` on, until `bytes_max` bytes are
/// reached (at least one record). A control batch gives none. `body_max` is the limit for unpacking
/// message bodies, needed where a record is a copied RocketMQ message.
///
/// # Errors
/// See [`TranslateError`].
pub fn messages(
    opened: &Opened<'_>,
    to: &Destination<'_>,
    from: u32,
    bytes_max: usize,
    body_max: u64,
) -> Result<Translated, TranslateError> {
    let mut out = Vec::new();
    let mut slots = Vec::new();
    let mut next = None;
    if opened.header().has(CONTROL) {
        return Ok(Translated::default());
    }
    for record in opened.records() {
        let record = record?;
        let offset_delta = record.offset_delta;
        if offset_delta < from {
            continue;
        }
        if out.len() >= bytes_max && !slots.is_empty() {
            next = Some(offset_delta);
            break;
        }
        let record = Record::from(record);
        let message = record.to_message(body_max);
        let start = out.len();
        let head = encode_into(&message.placed(to), usize::MAX, &mut out)?;
        fill(&mut out[start..], head, to, offset_delta);
        let tag = Properties::new(&message.text).get_bytes(TAGS.as_bytes());
        slots.push(Slot {
            offset_delta,
            start,
            end: out.len(),
            tag_hash: tag.and_then(properties::tag).map_or(0, java_hash),
        });
    }
    Ok(Translated {
        bytes: Bytes::from(out),
        slots,
        next,
    })
}

/// Writes what only the log knows into a message.
fn fill(message: &mut [u8], head: u8, to: &Destination<'_>, offset_delta: u32) {
    let delta = i64::from(offset_delta);
    let mut put = |at: u8, n: i64| {
        message[usize::from(at)..][..8].copy_from_slice(&n.to_be_bytes());
    };
    put(QUEUE_OFFSET_AT, to.base.wrapping_add(delta));
    put(ADDRESS_AT, to.address.wrapping_add(delta));
    put(head - 8, to.store_time);
}

/// Makes one uncompressed batch from messages that follow each other in their queue. Compressed
/// bodies are unpacked up to `body_max` bytes; those that cannot be, or that are larger, pass as they
/// are, and their [`MESSAGE_HEADER`] says `body=packed`. No message, no bytes.
///
/// # Errors
/// `Gap`; `Batch` when the batch would pass 2 GiB.
pub fn frame<'a>(
    messages: impl IntoIterator<Item = MessageView<'a>>,
    leader_epoch: i32,
    body_max: u64,
) -> Result<Bytes, TranslateError> {
    let (batch, _) = frame_up_to(messages, leader_epoch, body_max, usize::MAX)?;
    Ok(batch)
}

/// [`frame`] of as many messages as make no more than `bytes_max` bytes, at least one; and how many
/// these are. Unpacked bodies may be far larger than what was stored.
///
/// # Errors
/// See [`frame`].
pub fn frame_up_to<'a>(
    messages: impl IntoIterator<Item = MessageView<'a>>,
    leader_epoch: i32,
    body_max: u64,
    bytes_max: usize,
) -> Result<(Bytes, usize), TranslateError> {
    let mut messages = messages.into_iter().peekable();
    let Some(first) = messages.peek() else {
        return Ok((Bytes::new(), 0));
    };
    let base = first.queue_offset;
    let room = first
        .total_size()
        .saturating_mul(messages.size_hint().0.clamp(1, 64));
    let mut writer = Writer::with_capacity(base, leader_epoch, room);
    let mut taken = 0;
    for view in messages {
        let expected = base.checked_add(i64::from(writer.count()));
        if expected != Some(view.queue_offset) {
            return Err(TranslateError::Gap {
                last: base.wrapping_add(i64::from(writer.count()) - 1),
                found: view.queue_offset,
            });
        }
        let message = Message::from(&view);
        let record = message.to_record(body_max);
        let value = record.value.as_deref().map_or(0, <[u8]>::len);
        if taken > 0 && writer.size().saturating_add(value) > bytes_max {
            break;
        }
        taken += 1;
        let headers = record.headers.iter();
        let headers: SmallVec<[_; 16]> = headers
            .map(|(name, value)| (&**name, value.as_deref()))
            .collect();
        writer.push(
            record.timestamp,
            record.key.as_deref(),
            record.value.as_deref(),
            &headers,
        )?;
    }
    Ok((writer.finish(), taken))
}

type Field<'a> = Cow<'a, [u8]>;
type Headers<'a> = SmallVec<[(Field<'a>, Option<Field<'a>>); 8]>;

/// What a Kafka record says.
#[derive(Clone, Debug)]
struct Record<'a> {
    timestamp: i64,
    key: Option<Field<'a>>,
    value: Option<Field<'a>>,
    /// The first [`HEADERS_MAX`].
    headers: Headers<'a>,
    /// How many more there are.
    more_headers: usize,
}

impl<'a> From<crate::batch::Record<'a>> for Record<'a> {
    fn from(record: crate::batch::Record<'a>) -> Self {
        let more_headers = record.headers.len().saturating_sub(HEADERS_MAX);
        let headers = record
            .headers
            .take(HEADERS_MAX)
            .map(|(name, value)| (Cow::Borrowed(name), value.map(Cow::Borrowed)));
        Self {
            timestamp: record.timestamp,
            key: record.key.map(Cow::Borrowed),
            value: record.value.map(Cow::Borrowed),
            headers: headers.collect(),
            more_headers,
        }
    }
}

impl Record<'_> {
    fn into_owned<'x>(self) -> Record<'x> {
        let own = |field: Field<'_>| Cow::Owned(field.into_owned());
        let headers = self.headers.into_iter();
        Record {
            timestamp: self.timestamp,
            key: self.key.map(own),
            value: self.value.map(own),
            headers: headers.map(|(n, v)| (own(n), v.map(own))).collect(),
            more_headers: self.more_headers,
        }
    }

    fn same(&self, other: &Record<'_>) -> bool {
        self.timestamp == other.timestamp
            && self.key.as_deref() == other.key.as_deref()
            && self.value.as_deref() == other.value.as_deref()
            && self.more_headers == other.more_headers
            && self.headers.len() == other.headers.len()
            && self
                .headers
                .iter()
                .zip(&other.headers)
                .all(|(a, b)| *a.0 == *b.0 && a.1.as_deref() == b.1.as_deref())
    }
}

/// What a RocketMQ message says, wherever it stands.
#[derive(Clone, Debug, PartialEq)]
struct Message<'a> {
    flag: i32,
    /// Without [`HOST_BITS`].
    sys_flag: i32,
    born_time: i64,
    born_host: SocketAddr,
    reconsume_times: i32,
    prepared_transaction_offset: i64,
    body: Field<'a>,
    text: Field<'a>,
}

impl<'a> From<&MessageView<'a>> for Message<'a> {
    fn from(view: &MessageView<'a>) -> Self {
        Self {
            flag: view.flag,
            sys_flag: view.sys_flag & !HOST_BITS,
            born_time: view.born_time,
            born_host: view.born_host,
            reconsume_times: view.reconsume_times,
            prepared_transaction_offset: view.prepared_transaction_offset,
            body: Cow::Borrowed(view.body),
            text: Cow::Borrowed(view.properties),
        }
    }
}

impl Message<'_> {
    fn placed<'b>(&'b self, to: &Destination<'b>) -> NewMessage<'b> {
        NewMessage {
            queue_id: to.queue_id,
            flag: self.flag,
            sys_flag: self.sys_flag,
            born_time: self.born_time,
            born_host: self.born_host,
            store_host: to.store_host,
            reconsume_times: self.reconsume_times,
            prepared_transaction_offset: self.prepared_transaction_offset,
            body: &self.body,
            topic: to.topic,
            properties: &self.text,
        }
    }
}

#[cfg(test)]
mod tests;
