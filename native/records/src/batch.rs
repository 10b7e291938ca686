//! Kafka's record batch v2: header, the produce walk, a checked borrowed iterator, a writer.
//!
//! Promises: never panics and never allocates by claimed counts; an uncompressed batch is walked
//! without any allocation, a compressed one in bounded pieces that are thrown away; what the walk
//! accepts can be opened and iterated. Leaves out: the old message sets (magic 0 and 1), which the
//! broker refuses.
//!
//! Source of the layout: KIP-98, `DefaultRecordBatch`, `DefaultRecord`.

mod records;
mod source;
mod walk;
mod writer;

pub use records::{Headers, Opened, Record, Records, open};
pub use walk::{Facts, HEADERS_MAX, Tag, Walk, check};
pub use writer::{
    Writer, control_batch, empty_batch, set_log_append_time, set_max_timestamp, stamp,
};

use crate::compression::{Codec, CompressionError};
use crate::cursor::Cursor;
use thiserror::Error;

/// What is wrong with a batch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// Bytes that do not make a batch: lengths, checksum, varints, decompression. Kafka's CORRUPT_MESSAGE.
    #[error("corrupt batch: {0}")]
    Corrupt(String),
    /// Well formed but not allowed. Kafka's INVALID_RECORD.
    #[error("invalid record: {0}")]
    Invalid(String),
    /// A message set of the old format. Kafka's UNSUPPORTED_FOR_MESSAGE_FORMAT or INVALID_RECORD.
    #[error("magic {0} is not supported")]
    Magic(u8),
    /// Unknown codec.
    #[error("compression codec {0} is unknown")]
    Codec(u8),
    /// A LogAppendTime bit from a client.
    #[error("the LogAppendTime bit belongs to the broker")]
    TimestampType,
    /// Decompresses to more than allowed.
    #[error("decompresses to more than {0} bytes")]
    TooBig(u64),
}

impl From<CompressionError> for BatchError {
    fn from(error: CompressionError) -> Self {
        match error {
            CompressionError::Corrupt(why) => Self::Corrupt(why),
            CompressionError::TooBig(max) => Self::TooBig(max),
        }
    }
}

pub(crate) fn corrupt(what: &str) -> BatchError {
    BatchError::Corrupt(what.to_owned())
}

/// Bytes of the header.
pub const HEADER_SIZE: usize = 61;
/// The batch's own CRC covers everything from here on.
pub const CRC_FROM: usize = 21;
/// Where the base offset (i64) stands.
pub const BASE_OFFSET_AT: u8 = 0;
/// Where the partition leader epoch (i32) stands.
pub const LEADER_EPOCH_AT: u8 = 12;
/// Bytes before and including the length field, which it does not count.
const LENGTH_FROM: usize = 12;

/// Attribute bit: all records have the time of appending.
pub const LOG_APPEND_TIME: i16 = 0x08;
/// Attribute bit: part of a transaction.
pub const TRANSACTIONAL: i16 = 0x10;
/// Attribute bit: a control batch.
pub const CONTROL: i16 = 0x20;
/// Attribute bit: the base timestamp is the delete horizon.
pub const DELETE_HORIZON: i16 = 0x40;

/// A batch's header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Bytes after the length field; the batch has 12 more.
    pub length: i32,
    /// Leader epoch.
    pub leader_epoch: i32,
    /// CRC-32C of everything after it.
    pub crc: u32,
    /// Codec and flags.
    pub attributes: i16,
    /// Last offset minus base offset.
    pub last_offset_delta: i32,
    /// What timestamp deltas count from, in ms.
    pub base_timestamp: i64,
    /// Highest timestamp, or the time of appending.
    pub max_timestamp: i64,
    /// Producer id, or −1.
    pub producer_id: i64,
    /// Producer epoch, or −1.
    pub producer_epoch: i16,
    /// Sequence of the first record, or −1.
    pub base_sequence: i32,
    /// How many records follow.
    pub count: i32,
}

impl Header {
    /// Decodes the header at the front of `bytes`; the records behind it need not be there.
    ///
    /// # Errors
    /// `Corrupt` when too short or of an impossible length; `Magic`.
    pub fn decode(bytes: &[u8]) -> Result<Self, BatchError> {
        if let Some(&magic) = bytes.get(16)
            && magic != 2
        {
            return Err(BatchError::Magic(magic));
        }
        let header = Self::fields(bytes).ok_or_else(|| corrupt("shorter than a header"))?;
        if header.size() < HEADER_SIZE {
            return Err(corrupt("length below a header"));
        }
        Ok(header)
    }

    fn fields(bytes: &[u8]) -> Option<Self> {
        let mut c = Cursor::new(bytes);
        let base_offset = c.i64()?;
        let length = c.i32()?;
        let leader_epoch = c.i32()?;
        c.u8()?; // magic
        Some(Self {
            base_offset,
            length,
            leader_epoch,
            crc: c.u32()?,
            attributes: c.i16()?,
            last_offset_delta: c.i32()?,
            base_timestamp: c.i64()?,
            max_timestamp: c.i64()?,
            producer_id: c.i64()?,
            producer_epoch: c.i16()?,
            base_sequence: c.i32()?,
            count: c.i32()?,
        })
    }

    /// Bytes of the whole batch. 0 for a negative length.
    #[must_use]
    pub fn size(&self) -> usize {
        usize::try_from(self.length).map_or(0, |length| length + LENGTH_FROM)
    }

    /// The codec of the records.
    ///
    /// # Errors
    /// `Codec`.
    pub fn codec(&self) -> Result<Codec, BatchError> {
        Codec::from_attributes(self.attributes).map_err(BatchError::Codec)
    }

    /// Whether an attribute bit is set.
    #[must_use]
    pub fn has(&self, bit: i16) -> bool {
        self.attributes & bit != 0
    }
}

/// Whether a batch's records are compressed, by its attributes; false for what has no header.
#[must_use]
pub fn is_compressed(batch: &[u8]) -> bool {
    batch.get(22).is_some_and(|attributes| attributes & 7 != 0)
}

/// Whether the batch's CRC is right. False too for anything shorter than a header.
#[must_use]
pub fn crc_is_right(batch: &[u8]) -> bool {
    match (batch.get(17..CRC_FROM), batch.get(CRC_FROM..)) {
        (Some(crc), Some(rest)) if batch.len() >= HEADER_SIZE => {
            crc == crc32c::crc32c(rest).to_be_bytes()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
