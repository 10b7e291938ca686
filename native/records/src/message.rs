//! RocketMQ's stored message, which is also what a pull returns: a checked borrowed view, a writer,
//! and the body of SEND_BATCH_MESSAGE.
//!
//! Promises: reading never panics and never allocates; writing allocates once; what is written reads
//! back equal. Leaves out: decompressing bodies ([`crate::compression`]), property text
//! ([`crate::properties`]), inner batches (BatchCQ), the CRC property.
//!
//! Source of the layout: RocketMQ `MessageDecoder`, `MessageVersion`, `MessageExtEncoder`.

mod batch_body;

pub use batch_body::{BatchItem, BatchItems, batch_items};

use crate::cursor::Cursor;
use bytes::Bytes;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use thiserror::Error;

/// Magic of the first layout: topic length in one byte.
pub const MAGIC_V1: u32 = 0xDAA3_20A7;
/// Magic of the second layout: topic length in two bytes. Only Java clients since 5.0 read it.
pub const MAGIC_V2: u32 = 0xDAA3_20AB;

/// sysFlag: the body is compressed.
pub const SYS_COMPRESSED: i32 = 0x1;
/// sysFlag: the tag is a list (topics with MULTI_TAG).
pub const SYS_MULTI_TAGS: i32 = 0x2;
/// sysFlag: mask of the transaction state.
pub const SYS_TRANSACTION: i32 = 0xC;
/// sysFlag: a half message.
pub const SYS_PREPARED: i32 = 0x4;
/// sysFlag: a committed half message.
pub const SYS_COMMIT: i32 = 0x8;
/// sysFlag: a rolled back half message.
pub const SYS_ROLLBACK: i32 = 0xC;
/// sysFlag: the born host has 16 address bytes.
pub const SYS_BORN_HOST_V6: i32 = 0x10;
/// sysFlag: the store host has 16 address bytes.
pub const SYS_STORE_HOST_V6: i32 = 0x20;
/// sysFlag: mask of the compression codec.
pub const SYS_CODEC: i32 = 0x700;

/// Most bytes of properties (an i16 counts them).
pub const PROPERTIES_MAX: usize = 32_767;
/// Longest topic in the first layout (a signed byte counts it).
pub const TOPIC_MAX_V1: usize = 127;
/// Longest topic at all.
pub const TOPIC_MAX: usize = 255;
/// How much longer than the body's limit a whole record may be (RocketMQ adds 64 KiB to
/// `maxMessageSize`).
pub const RECORD_EXTRA_MAX: usize = 64 * 1024;

/// Where the queue offset stands in a record.
pub const QUEUE_OFFSET_AT: u8 = 20;
/// Where the physical offset (the record's address) stands in a record.
pub const ADDRESS_AT: u8 = 28;
const STORE_TIME_AT_V4: u8 = 56;
const STORE_TIME_AT_V6: u8 = 68;
/// Bytes of the shortest record: both hosts IPv4, no body, no topic, no properties.
const SIZE_MIN: usize = 91;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Bytes that do not make a message.
    #[error("corrupt message: {0}")]
    Corrupt(String),
    /// A part is longer than the layout or the configuration allows.
    #[error("{what} of {bytes} bytes is longer than {max}")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}

fn corrupt(what: &str) -> MessageError {
    MessageError::Corrupt(what.to_owned())
}

/// One stored message, read in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageView<'a> {
    /// The whole record; its length is the field `totalSize`.
    pub bytes: &'a [u8],
    /// Whether the topic's length has two bytes (second layout).
    pub v2: bool,
    /// CRC-32 of the body as it stands, without the highest bit.
    pub body_crc: u32,
    /// The queue's ordinal in its topic.
    pub queue_id: i32,
    /// The application's flag.
    pub flag: i32,
    /// Place in the queue.
    pub queue_offset: i64,
    /// The record's address in the log.
    pub physic_offset: i64,
    /// System flag, the host bits included; see the `SYS_` constants.
    pub sys_flag: i32,
    /// The producer's time in ms.
    pub born_time: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// When it was stored, in ms.
    pub store_time: i64,
    /// The broker's address.
    pub store_host: SocketAddr,
    /// How often it was sent back.
    pub reconsume_times: i32,
    /// Offset of the half message it was made from, or 0.
    pub prepared_transaction_offset: i64,
    /// The body as stored, maybe compressed.
    pub body: &'a [u8],
    /// The topic.
    pub topic: &'a str,
    /// Property text; see [`crate::properties`].
    pub properties: &'a [u8],
}

impl<'a> MessageView<'a> {
    /// Reads the record at the front of `bytes`; more may follow it. Lengths are checked against each
    /// other; the body's CRC is not ([`MessageView::body_crc_is_right`]).
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MessageError> {
        let mut cursor = Cursor::new(bytes);
        let total = cursor.u32().ok_or_else(|| corrupt("no length"))? as usize;
        if total < SIZE_MIN {
            return Err(corrupt("length below the shortest record"));
        }
        let bytes = bytes
            .get(..total)
            .ok_or_else(|| corrupt("length past the end"))?;
        Self::fields(bytes).ok_or_else(|| corrupt("fields do not fit the length"))?
    }

    /// `None`: a field passes the end of the record.
    fn fields(bytes: &'a [u8]) -> Option<Result<Self, MessageError>> {
        let mut c = Cursor::new(bytes);
        c.u32()?;
        let v2 = match c.u32()? {
            MAGIC_V1 => false,
            MAGIC_V2 => true,
            magic => return Some(Err(corrupt(&format!("unknown magic {magic:#010x}")))),
        };
        let body_crc = c.u32()?;
        let queue_id = c.i32()?;
        let flag = c.i32()?;
        let queue_offset = c.i64()?;
        let physic_offset = c.i64()?;
        let sys_flag = c.i32()?;
        let born_time = c.i64()?;
        let born_host = host(&mut c, sys_flag & SYS_BORN_HOST_V6 != 0)?;
        let store_time = c.i64()?;
        let store_host = host(&mut c, sys_flag & SYS_STORE_HOST_V6 != 0)?;
        let reconsume_times = c.i32()?;
        let prepared_transaction_offset = c.i64()?;
        let length = usize::try_from(c.i32()?).ok()?;
        let body = c.take(length)?;
        let length = if v2 {
            usize::try_from(c.i16()?).ok()?
        } else {
            usize::from(c.u8()?)
        };
        if length > if v2 { TOPIC_MAX } else { TOPIC_MAX_V1 } {
            return Some(Err(corrupt("topic too long")));
        }
        let Ok(topic) = std::str::from_utf8(c.take(length)?) else {
            return Some(Err(corrupt("topic is not UTF-8")));
        };
        let length = usize::try_from(c.i16()?).ok()?;
        let properties = c.take(length)?;
        let (Some(born_host), Some(store_host)) = (born_host, store_host) else {
            return Some(Err(corrupt("port out of range")));
        };
        if !c.rest().is_empty() {
            return Some(Err(corrupt("bytes after the properties")));
        }
        Some(Ok(Self {
            bytes,
            v2,
            body_crc,
            queue_id,
            flag,
            queue_offset,
            physic_offset,
            sys_flag,
            born_time,
            born_host,
            store_time,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            body,
            topic,
            properties,
        }))
    }

    /// The field `totalSize`: bytes of the whole record.
    #[must_use]
    pub fn total_size(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the stored checksum is that of the body.
    #[must_use]
    pub fn body_crc_is_right(&self) -> bool {
        self.body_crc == body_crc(self.body)
    }

    /// The record's properties.
    #[must_use]
    pub fn properties(&self) -> crate::properties::Properties<'a> {
        crate::properties::Properties::new(self.properties)
    }
}

/// Records one after the other, as a pull returns them. Ends after the first broken one.
#[must_use]
pub fn iter(bytes: &[u8]) -> Messages<'_> {
    Messages { rest: bytes }
}

/// See [`iter`].
#[derive(Clone, Debug)]
pub struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<MessageView<'a>, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let parsed = MessageView::parse(self.rest);
        self.rest = match &parsed {
            Ok(view) => &self.rest[view.bytes.len()..],
            Err(_) => &[],
        };
        Some(parsed)
    }
}

/// Outer `None`: too short. Inner `None`: the port is out of range.
fn host(c: &mut Cursor<'_>, v6: bool) -> Option<Option<SocketAddr>> {
    let ip = if v6 {
        IpAddr::V6(Ipv6Addr::from(c.array::<16>()?))
    } else {
        IpAddr::V4(Ipv4Addr::from(c.array::<4>()?))
    };
    let port = u16::try_from(c.i32()?).ok();
    Some(port.map(|port| SocketAddr::new(ip, port)))
}

/// RocketMQ's body checksum: CRC-32 (as in `java.util.zip`) without the highest bit.
#[must_use]
pub fn body_crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

/// Java's `String.hashCode()`, over UTF-16 units: RocketMQ's tag hash.
#[must_use]
pub fn java_hash(text: &str) -> i32 {
    let step = |hash: i32, unit: i32| hash.wrapping_mul(31).wrapping_add(unit);
    if text.is_ascii() {
        text.bytes().fold(0, |hash, b| step(hash, i32::from(b)))
    } else {
        text.encode_utf16()
            .fold(0, |hash, unit| step(hash, i32::from(unit)))
    }
}

/// What a stored message is made from. Queue offset, address and store time come from the log.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage<'a> {
    /// The queue's ordinal in its topic.
    pub queue_id: i32,
    /// The application's flag.
    pub flag: i32,
    /// System flag; the host bits are set by the writer.
    pub sys_flag: i32,
    /// The producer's time in ms.
    pub born_time: i64,
    /// The producer's address. `::ffff:a.b.c.d` is stored as IPv4.
    pub born_host: SocketAddr,
    /// The broker's address, from which clients make message ids.
    pub store_host: SocketAddr,
    /// How often it was sent back.
    pub reconsume_times: i32,
    /// Offset of the half message it was made from, or 0.
    pub prepared_transaction_offset: i64,
    /// The body as sent, maybe compressed.
    pub body: &'a [u8],
    /// The topic, at most [`TOPIC_MAX`] bytes.
    pub topic: &'a str,
    /// Property text, at most [`PROPERTIES_MAX`] bytes.
    pub properties: &'a [u8],
}

/// A stored message whose queue offset, address and store time are still zero.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The whole record.
    pub bytes: Bytes,
    /// All places to fill lie in the first `head` bytes: 64, or 76 with an IPv6 born host.
    pub head: u8,
    /// Where the queue offset (i64) belongs.
    pub queue_offset_at: u8,
    /// Where the address (i64) belongs.
    pub address_at: u8,
    /// Where the store time (i64, ms) belongs.
    pub store_time_at: u8,
}

/// Writes a stored message. `body_max` is the limit of the body; the whole record may have
/// [`RECORD_EXTRA_MAX`] more. Topics over 127 bytes take the second layout.
///
/// # Errors
/// `TooLong`; `Corrupt` for an empty topic.
pub fn encode(message: &NewMessage<'_>, body_max: usize) -> Result<Encoded, MessageError> {
    let mut out = Vec::new();
    let head = encode_into(message, body_max, &mut out)?;
    Ok(Encoded {
        bytes: Bytes::from(out),
        head,
        queue_offset_at: QUEUE_OFFSET_AT,
        address_at: ADDRESS_AT,
        store_time_at: head - 8,
    })
}

/// Appends a stored message to `out`; returns `head` (see [`Encoded`]).
pub(crate) fn encode_into(
    m: &NewMessage<'_>,
    body_max: usize,
    out: &mut Vec<u8>,
) -> Result<u8, MessageError> {
    let born = canonical(m.born_host);
    let store = canonical(m.store_host);
    let v2 = m.topic.len() > TOPIC_MAX_V1;
    if m.topic.is_empty() {
        return Err(corrupt("empty topic"));
    }
    within("topic", m.topic.len(), TOPIC_MAX)?;
    within("body", m.body.len(), body_max)?;
    within("properties", m.properties.len(), PROPERTIES_MAX)?;
    let extra = |host: SocketAddr| if host.is_ipv6() { 12 } else { 0 };
    let total = SIZE_MIN
        + extra(born)
        + extra(store)
        + usize::from(v2)
        + m.body.len()
        + m.topic.len()
        + m.properties.len();
    within("record", total, body_max.saturating_add(RECORD_EXTRA_MAX))?;
    let too_long = |_| MessageError::TooLong {
        what: "record",
        bytes: total,
        max: i32::MAX as usize,
    };
    let size = i32::try_from(total).map_err(too_long)?;
    let body_length = i32::try_from(m.body.len()).map_err(too_long)?;
    let properties_length = i16::try_from(m.properties.len()).map_err(too_long)?;
    let mut sys_flag = m.sys_flag & !(SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6);
    if born.is_ipv6() {
        sys_flag |= SYS_BORN_HOST_V6;
    }
    if store.is_ipv6() {
        sys_flag |= SYS_STORE_HOST_V6;
    }

    if out.capacity() == 0 {
        out.reserve_exact(total);
    } else {
        out.reserve(total);
    }
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&if v2 { MAGIC_V2 } else { MAGIC_V1 }.to_be_bytes());
    out.extend_from_slice(&body_crc(m.body).to_be_bytes());
    out.extend_from_slice(&m.queue_id.to_be_bytes());
    out.extend_from_slice(&m.flag.to_be_bytes());
    out.extend_from_slice(&[0; 16]); // queue offset, address
    out.extend_from_slice(&sys_flag.to_be_bytes());
    out.extend_from_slice(&m.born_time.to_be_bytes());
    put_host(out, born);
    out.extend_from_slice(&[0; 8]); // store time
    put_host(out, store);
    out.extend_from_slice(&m.reconsume_times.to_be_bytes());
    out.extend_from_slice(&m.prepared_transaction_offset.to_be_bytes());
    out.extend_from_slice(&body_length.to_be_bytes());
    out.extend_from_slice(m.body);
    let topic_length = m.topic.len().to_be_bytes();
    let bytes_of_length = if v2 { 2 } else { 1 };
    out.extend_from_slice(&topic_length[topic_length.len() - bytes_of_length..]);
    out.extend_from_slice(m.topic.as_bytes());
    out.extend_from_slice(&properties_length.to_be_bytes());
    out.extend_from_slice(m.properties);
    Ok(8 + if born.is_ipv6() {
        STORE_TIME_AT_V6
    } else {
        STORE_TIME_AT_V4
    })
}

fn within(what: &'static str, bytes: usize, max: usize) -> Result<(), MessageError> {
    if bytes > max {
        return Err(MessageError::TooLong { what, bytes, max });
    }
    Ok(())
}

/// `::ffff:a.b.c.d` as IPv4; C++ and Python clients cannot skip a v6 born host.
fn canonical(host: SocketAddr) -> SocketAddr {
    SocketAddr::new(host.ip().to_canonical(), host.port())
}

fn put_host(out: &mut Vec<u8>, host: SocketAddr) {
    match host.ip() {
        IpAddr::V4(ip) => out.extend_from_slice(&ip.octets()),
        IpAddr::V6(ip) => out.extend_from_slice(&ip.octets()),
    }
    out.extend_from_slice(&i32::from(host.port()).to_be_bytes());
}

#[cfg(test)]
mod tests;
