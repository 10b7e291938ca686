//! The walk over every produced batch: does it say the truth, and what does the broker want to know.
//!
//! Errors follow Apache Kafka's `LogValidator`: broken bytes are `Corrupt`, broken rules `Invalid`.

use super::source::{Slice, Source, Stream};
use super::{
    BatchError, CONTROL, DELETE_HORIZON, HEADER_SIZE, Header, LOG_APPEND_TIME, TRANSACTIONAL,
    corrupt,
};
use crate::compression::{Codec, Unpacker};
use crate::message::java_hash;
use crate::properties::{TAG_MAX, tag};

/// Headers of a record beyond this many are not looked at for a tag and do not become properties;
/// more could not fit RocketMQ's property text.
pub const HEADERS_MAX: usize = 16_384;

/// What the walk allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Most bytes that the records may decompress to.
    pub decompressed_max: u64,
    /// The topic has LogAppendTime, so that its bit is no offence.
    pub log_append_time: bool,
}

/// The tag of a batch's records: the value of a record's last header named `TAGS`, where
/// [`crate::properties::tag`] accepts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tag {
    /// No record has one.
    None,
    /// All records have a tag of this hash ([`java_hash`]).
    Same(i32),
    /// Anything else.
    Mixed,
}

/// What the walk found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Records, which is also the offsets taken.
    pub count: u32,
    /// Last offset minus base offset.
    pub last_offset_delta: u32,
    /// What timestamp deltas count from.
    pub base_timestamp: i64,
    /// The highest timestamp of a record, whatever the header says.
    pub max_timestamp: i64,
    /// What the header says about it; see [`super::set_max_timestamp`].
    pub stated_max_timestamp: i64,
    /// The lowest timestamp of a record.
    pub min_timestamp: i64,
    /// Codec.
    pub codec: Codec,
    /// Producer id, or −1.
    pub producer_id: i64,
    /// Producer epoch, or −1.
    pub producer_epoch: i16,
    /// Sequence of the first record, or −1.
    pub base_sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// The LogAppendTime bit is set.
    pub log_append_time: bool,
    /// The records' tag.
    pub tag: Tag,
    /// The first record without key, 0-based.
    pub first_without_key: Option<u32>,
    /// The batch's own CRC-32C, which covers everything from byte 21 on.
    pub payload_sum: u32,
}

/// Walks exactly one batch as a client sends it (base offset 0).
///
/// # Errors
/// See [`BatchError`].
pub fn check(batch: &[u8], walk: &Walk) -> Result<Facts, BatchError> {
    if batch.is_empty() {
        return Err(BatchError::Invalid("no batch".to_owned()));
    }
    let header = Header::decode(batch)?;
    if header.size() > batch.len() {
        return Err(corrupt("length past the end"));
    }
    if header.size() < batch.len() {
        return Err(BatchError::Invalid("more than one batch".to_owned()));
    }
    if !super::crc_is_right(batch) {
        return Err(corrupt("wrong CRC"));
    }
    let codec = header.codec()?;
    let (count, last_offset_delta) = check_header(&header, walk)?;
    let records = &batch[HEADER_SIZE..];
    let seen = match codec {
        Codec::None => records_of(Slice::new(records), &header, count)?,
        _ => {
            let unpacker = Unpacker::new(codec, records, walk.decompressed_max)?;
            records_of(Stream::new(unpacker), &header, count)?
        }
    };
    Ok(Facts {
        count,
        last_offset_delta,
        base_timestamp: header.base_timestamp,
        max_timestamp: seen.max_timestamp,
        stated_max_timestamp: header.max_timestamp,
        min_timestamp: seen.min_timestamp,
        codec,
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        base_sequence: header.base_sequence,
        transactional: header.has(TRANSACTIONAL),
        log_append_time: header.has(LOG_APPEND_TIME),
        tag: seen.tag.unwrap_or(Tag::None),
        first_without_key: seen.first_without_key,
        payload_sum: header.crc,
    })
}

fn check_header(header: &Header, walk: &Walk) -> Result<(u32, u32), BatchError> {
    let invalid = |what: &str| Err(BatchError::Invalid(what.to_owned()));
    if header.base_offset != 0 {
        return invalid("base offset is not 0");
    }
    let (Ok(count), Ok(delta)) = (
        u32::try_from(header.count),
        u32::try_from(header.last_offset_delta),
    ) else {
        return invalid("negative count");
    };
    if count == 0 || count - 1 != delta {
        return invalid("count does not agree with the last offset delta");
    }
    if header.has(CONTROL) {
        return invalid("control batches belong to the broker");
    }
    if header.has(DELETE_HORIZON) {
        return invalid("the delete horizon belongs to the broker");
    }
    if header.has(LOG_APPEND_TIME) && !walk.log_append_time {
        return Err(BatchError::TimestampType);
    }
    if header.producer_id >= 0 && (header.base_sequence < 0 || header.producer_epoch < 0) {
        return invalid("producer id without sequence or epoch");
    }
    if header.has(TRANSACTIONAL) && header.producer_id < 0 {
        return invalid("transaction without producer id");
    }
    Ok((count, delta))
}

struct Seen {
    max_timestamp: i64,
    min_timestamp: i64,
    tag: Option<Tag>,
    first_without_key: Option<u32>,
}

fn records_of<S: Source>(mut source: S, header: &Header, count: u32) -> Result<Seen, BatchError> {
    let mut seen = Seen {
        max_timestamp: i64::MIN,
        min_timestamp: i64::MAX,
        tag: None,
        first_without_key: None,
    };
    for index in 0..count {
        if source.at_end()? {
            return Err(BatchError::Invalid(format!(
                "{count} records claimed, {index} there"
            )));
        }
        record(&mut source, header, index, &mut seen)?;
    }
    if !source.at_end()? {
        return Err(BatchError::Invalid(format!(
            "bytes after the {count} records claimed"
        )));
    }
    Ok(seen)
}

fn record<S: Source>(
    source: &mut S,
    header: &Header,
    index: u32,
    seen: &mut Seen,
) -> Result<(), BatchError> {
    let length = length(source.varint()?)?.ok_or_else(|| corrupt("record without length"))?;
    let end = source.taken() + length;
    source.must_hold(length)?;
    if source.byte()? & 7 != 0 {
        return Err(BatchError::Invalid(format!(
            "record {index} has a compression attribute"
        )));
    }
    let timestamp = header
        .base_timestamp
        .checked_add(source.varlong()?)
        .ok_or_else(|| BatchError::Invalid(format!("record {index}: time out of range")))?;
    seen.max_timestamp = seen.max_timestamp.max(timestamp);
    seen.min_timestamp = seen.min_timestamp.min(timestamp);
    if u32::try_from(source.varint()?) != Ok(index) {
        return Err(BatchError::Invalid(format!(
            "record {index} has another offset delta"
        )));
    }
    if skip_nullable(source, end)?.is_none() && seen.first_without_key.is_none() {
        seen.first_without_key = Some(index);
    }
    skip_nullable(source, end)?;
    let tag = headers(source, end)?;
    seen.tag = Some(match (seen.tag, tag) {
        (None, None) | (Some(Tag::None), None) => Tag::None,
        (None, Some(hash)) => Tag::Same(hash),
        (Some(Tag::Same(old)), Some(hash)) if old == hash => Tag::Same(hash),
        _ => Tag::Mixed,
    });
    if source.taken() != end {
        return Err(corrupt("record fields do not fill its length"));
    }
    Ok(())
}

/// Passes over the headers; the hash of the record's tag, if it has one.
fn headers<S: Source>(source: &mut S, end: u64) -> Result<Option<i32>, BatchError> {
    let count = length(source.varint()?)?.ok_or_else(|| corrupt("header count below 0"))?;
    if count == 0 {
        return Ok(None);
    }
    if count > left(source, end)? / 2 {
        return Err(corrupt("more headers than the record has bytes for"));
    }
    let mut hash = None;
    for at in 0..count {
        let name = length(source.varint()?)?.ok_or_else(|| corrupt("header without name"))?;
        if name > left(source, end)? {
            return Err(corrupt("header name past the record's end"));
        }
        let is_tags = if name == 4 {
            source.small(4)? == b"TAGS" && at < HEADERS_MAX as u64
        } else {
            source.skip(name)?;
            false
        };
        if !is_tags {
            skip_nullable(source, end)?;
            continue;
        }
        hash = match length(source.varint()?)? {
            None => None,
            Some(n) if n > left(source, end)? => {
                return Err(corrupt("header value past the record's end"));
            }
            Some(n) if n <= TAG_MAX as u64 => {
                let n = usize::try_from(n).map_err(|_| corrupt("header value too long"))?;
                tag(source.small(n)?).map(java_hash)
            }
            Some(n) => {
                source.skip(n)?;
                None
            }
        };
    }
    Ok(hash)
}

/// Passes over a key or value; its length, if it is not null.
fn skip_nullable<S: Source>(source: &mut S, end: u64) -> Result<Option<u64>, BatchError> {
    let length = length(source.varint()?)?;
    if let Some(n) = length {
        if n > left(source, end)? {
            return Err(corrupt("field past the record's end"));
        }
        source.skip(n)?;
    }
    Ok(length)
}

fn left<S: Source>(source: &S, end: u64) -> Result<u64, BatchError> {
    end.checked_sub(source.taken())
        .ok_or_else(|| corrupt("field past the record's end"))
}

/// A length, −1 being null.
fn length(n: i32) -> Result<Option<u64>, BatchError> {
    match n {
        -1 => Ok(None),
        n => u64::try_from(n)
            .map(Some)
            .map_err(|_| corrupt("negative length")),
    }
}
