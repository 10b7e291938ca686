//! An entry's header as readers see it. The byte layout is in FORMAT.md.

use crate::run::{Flags, Kind, Producer};
use crate::types::{Address, LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use bytes::Bytes;

/// Everything an entry's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes of the whole entry in the log: header, payload and padding.
    pub length: u32,
    /// Bytes of the payload.
    pub payload_length: u32,
    /// Payload layout.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// The reign it was stored in.
    pub reign: Reign,
    /// Its place in the log.
    pub log_offset: LogOffset,
    /// Its queue.
    pub queue: QueueNumber,
    /// Queue offset of its first record.
    pub base: QueueOffset,
    /// Queue offsets it covers.
    pub span: u32,
    /// When it was stored; never lower than the entry before.
    pub store_time: Timestamp,
    /// Highest record time in the payload.
    pub record_time: Timestamp,
    /// Hash of the tag that all its records share, unless [`Flags::MIXED_TAGS`].
    pub tag_hash: i32,
    /// Its idempotent producer.
    pub producer: Option<Producer>,
}

impl Header {
    /// The queue offset after its last record.
    #[must_use]
    pub fn next(&self) -> QueueOffset {
        self.base.plus(u64::from(self.span))
    }
}

/// An entry read back: its header and its payload, exactly as stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The header.
    pub header: Header,
    /// The payload; a slice of the log's map or of a buffer read from disk.
    pub payload: Bytes,
}

impl Stored {
    /// The address of the record at `place` (0-based) of this entry.
    #[must_use]
    pub fn address(&self, place: u32) -> Address {
        Address::new(self.header.log_offset, place)
    }
}
