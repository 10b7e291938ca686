//! Writes batches, and the few fields of a batch that the broker may change.

use super::{
    BASE_OFFSET_AT, BatchError, CONTROL, CRC_FROM, HEADER_SIZE, Header, LEADER_EPOCH_AT,
    LENGTH_FROM, LOG_APPEND_TIME, TRANSACTIONAL, corrupt,
};
use crate::compression::{Codec, compress};
use crate::cursor::{put_varlong, varlong_len};
use bytes::Bytes;

const ATTRIBUTES_AT: usize = 21;
const MAX_TIMESTAMP_AT: usize = 35;

/// Builds one batch from records.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The header's room, then the records.
    out: Vec<u8>,
    header: Header,
}

impl Writer {
    /// An empty batch whose first record will have `base_offset`.
    #[must_use]
    pub fn new(base_offset: i64, leader_epoch: i32) -> Self {
        Self::with_capacity(base_offset, leader_epoch, 1024)
    }

    /// The same, with room for `bytes` of records.
    #[must_use]
    pub fn with_capacity(base_offset: i64, leader_epoch: i32, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(HEADER_SIZE + bytes);
        out.resize(HEADER_SIZE, 0);
        Self {
            out,
            header: Header {
                base_offset,
                length: 0,
                leader_epoch,
                crc: 0,
                attributes: 0,
                last_offset_delta: -1,
                base_timestamp: -1,
                max_timestamp: -1,
                producer_id: -1,
                producer_epoch: -1,
                base_sequence: -1,
                count: 0,
            },
        }
    }

    /// Makes it the batch of an idempotent or transactional producer.
    #[must_use]
    pub fn producer(
        mut self,
        id: i64,
        epoch: i16,
        base_sequence: i32,
        transactional: bool,
    ) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        if transactional {
            self.header.attributes |= TRANSACTIONAL;
        }
        self
    }

    /// Adds a record; its offset is the next one.
    ///
    /// # Errors
    /// `TooBig` when the record or the batch passes 2 GiB; nothing is added then.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) -> Result<(), BatchError> {
        let first = self.header.count == 0;
        let base_timestamp = if first {
            timestamp
        } else {
            self.header.base_timestamp
        };
        // Wraps as Java's does on reading, so that any two times can stand in one batch.
        let time_delta = timestamp.wrapping_sub(base_timestamp);
        let offset_delta = i64::from(self.header.count);
        let length = 1
            + varlong_len(time_delta)
            + varlong_len(offset_delta)
            + field_len(key)
            + field_len(value)
            + varlong_len(wide(headers.len()))
            + headers
                .iter()
                .map(|(name, value)| field_len(Some(name)) + field_len(*value))
                .sum::<usize>();
        if self.out.len().saturating_add(length) > i32::MAX as usize - 64
            || self.header.count == i32::MAX
        {
            return Err(BatchError::TooBig(i32::MAX as u64));
        }
        put_varlong(&mut self.out, wide(length));
        self.out.push(0);
        put_varlong(&mut self.out, time_delta);
        put_varlong(&mut self.out, offset_delta);
        put_field(&mut self.out, key);
        put_field(&mut self.out, value);
        put_varlong(&mut self.out, wide(headers.len()));
        for (name, value) in headers {
            put_field(&mut self.out, Some(name));
            put_field(&mut self.out, *value);
        }
        self.header.max_timestamp = if first {
            timestamp
        } else {
            self.header.max_timestamp.max(timestamp)
        };
        self.header.base_timestamp = base_timestamp;
        self.header.last_offset_delta += 1;
        self.header.count += 1;
        Ok(())
    }

    /// Bytes so far, header included.
    #[must_use]
    pub fn size(&self) -> usize {
        self.out.len()
    }

    /// Records so far.
    #[must_use]
    pub fn count(&self) -> i32 {
        self.header.count
    }

    /// The batch, uncompressed; empty bytes when no record was added.
    #[must_use]
    pub fn finish(mut self) -> Bytes {
        if self.header.count == 0 {
            return Bytes::new();
        }
        put_header(&mut self.out, &self.header);
        Bytes::from(self.out)
    }

    /// The batch, its records compressed; empty bytes when no record was added.
    ///
    /// # Errors
    /// `Corrupt` when the codec's library fails, which is not expected.
    pub fn finish_compressed(mut self, codec: Codec) -> Result<Bytes, BatchError> {
        if self.header.count > 0 && codec != Codec::None {
            let packed = compress(codec, &self.out[HEADER_SIZE..])?;
            if packed.len() > i32::MAX as usize - HEADER_SIZE {
                return Err(BatchError::TooBig(i32::MAX as u64));
            }
            self.out.truncate(HEADER_SIZE);
            self.out.extend_from_slice(&packed);
            self.header.attributes |= i16::from(codec as u8);
        }
        Ok(self.finish())
    }
}

/// Lengths in memory always fit.
fn wide(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn field_len(field: Option<&[u8]>) -> usize {
    field.map_or(1, |bytes| varlong_len(wide(bytes.len())) + bytes.len())
}

fn put_field(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => put_varlong(out, -1),
        Some(bytes) => {
            put_varlong(out, wide(bytes.len()));
            out.extend_from_slice(bytes);
        }
    }
}

/// Fills in the header at the front of a batch whose records stand behind it, length and CRC
/// computed.
fn put_header(out: &mut [u8], header: &Header) {
    let length = i32::try_from(out.len() - LENGTH_FROM).unwrap_or(i32::MAX);
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&header.base_offset.to_be_bytes());
    put(&length.to_be_bytes());
    put(&header.leader_epoch.to_be_bytes());
    put(&[2]);
    put(&[0; 4]); // CRC
    put(&header.attributes.to_be_bytes());
    put(&header.last_offset_delta.to_be_bytes());
    put(&header.base_timestamp.to_be_bytes());
    put(&header.max_timestamp.to_be_bytes());
    put(&header.producer_id.to_be_bytes());
    put(&header.producer_epoch.to_be_bytes());
    put(&header.base_sequence.to_be_bytes());
    put(&header.count.to_be_bytes());
    put_crc(out);
}

fn put_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[CRC_FROM..]);
    batch[17..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
}

/// The broker's mark at the end of a transaction in one queue (`EndTransactionMarker`).
#[must_use]
pub fn control_batch(
    commit: bool,
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
    timestamp: i64,
) -> Bytes {
    let key = [0, 0, 0, u8::from(commit)];
    let mut value = [0; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
    let mut writer =
        Writer::with_capacity(0, -1, 32).producer(producer_id, producer_epoch, -1, true);
    writer.header.attributes |= CONTROL;
    // A record of 20 bytes always fits.
    let pushed = writer.push(timestamp, Some(&key), Some(&value), &[]);
    debug_assert!(pushed.is_ok());
    writer.finish()
}

/// A batch without records that covers offsets up to `base_offset + last_offset_delta`. Readers move
/// past it.
#[must_use]
pub fn empty_batch(base_offset: i64, last_offset_delta: i32, leader_epoch: i32) -> Bytes {
    let mut writer = Writer::with_capacity(base_offset, leader_epoch, 0);
    writer.header.last_offset_delta = last_offset_delta;
    put_header(&mut writer.out, &writer.header);
    Bytes::from(writer.out)
}

/// Sets base offset and leader epoch, which no checksum covers.
///
/// # Errors
/// `Corrupt` when shorter than a header.
pub fn stamp(batch: &mut [u8], base_offset: i64, leader_epoch: i32) -> Result<(), BatchError> {
    whole(batch)?;
    batch[usize::from(BASE_OFFSET_AT)..][..8].copy_from_slice(&base_offset.to_be_bytes());
    batch[usize::from(LEADER_EPOCH_AT)..][..4].copy_from_slice(&leader_epoch.to_be_bytes());
    Ok(())
}

/// Gives all records of one batch the time of appending and computes the CRC anew; the new CRC.
///
/// # Errors
/// `Corrupt` when shorter than a header.
pub fn set_log_append_time(batch: &mut [u8], timestamp: i64) -> Result<u32, BatchError> {
    whole(batch)?;
    let low = &mut batch[ATTRIBUTES_AT + 1];
    *low |= LOG_APPEND_TIME.to_be_bytes()[1];
    set_max_timestamp(batch, timestamp)
}

/// Corrects the highest timestamp and computes the CRC anew; the new CRC.
///
/// # Errors
/// `Corrupt` when shorter than a header.
pub fn set_max_timestamp(batch: &mut [u8], timestamp: i64) -> Result<u32, BatchError> {
    whole(batch)?;
    batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&timestamp.to_be_bytes());
    put_crc(batch);
    Ok(crc32c::crc32c(&batch[CRC_FROM..]))
}

fn whole(batch: &[u8]) -> Result<(), BatchError> {
    if batch.len() < HEADER_SIZE {
        return Err(corrupt("shorter than a header"));
    }
    Ok(())
}
