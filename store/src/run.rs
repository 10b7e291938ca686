//! What a caller hands in: entries for any queues, taken together or not at all, with the places
//! that only the lane can fill.

use crate::types::{Address, LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use bytes::Bytes;
use smallvec::SmallVec;

/// What an entry's payload is. The store never looks inside either.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// The log's own record.
    Control = 0,
    /// One RocketMQ stored message; span 1.
    Message = 1,
    /// One Kafka record batch v2; span = its offsets.
    Batch = 2,
}

/// Entry flags, as they stand in the header.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Flags(pub u8);

impl Flags {
    /// The last entry of its run. Set by the lane.
    pub const LAST_OF_RUN: Self = Self(1);
    /// Part of a Kafka transaction.
    pub const TRANSACTIONAL: Self = Self(2);
    /// Ends its producer's transaction in this queue: committed.
    pub const COMMIT_MARKER: Self = Self(4);
    /// Ends its producer's transaction in this queue: aborted.
    pub const ABORT_MARKER: Self = Self(8);
    /// The records of this entry do not all have the same tag; the tag hash says nothing.
    pub const MIXED_TAGS: Self = Self(16);

    /// True if every flag of `other` is set.
    #[must_use]
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
    /// Both sets together.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// True for a commit or abort marker.
    #[must_use]
    pub fn is_marker(self) -> bool {
        self.0 & (Self::COMMIT_MARKER.0 | Self::ABORT_MARKER.0) != 0
    }
}

/// The idempotent producer of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Producer {
    /// Producer id, at least 0.
    pub id: u64,
    /// Producer epoch.
    pub epoch: i16,
    /// Sequence of the entry's first record; −1 on markers. The last one is `first + span − 1`,
    /// wrapping from 2147483647 to 0.
    pub first_sequence: i32,
}

/// What the lane writes into the payload, big-endian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Base queue offset, 8 bytes.
    QueueOffset,
    /// Address of the entry's first record, 8 bytes.
    Address,
    /// Store time in milliseconds, 8 bytes.
    StoreTime,
    /// Reign, 4 bytes.
    Reign,
}

/// A place in the payload's first `head` bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// First byte of the place, from the payload's start.
    pub at: u8,
    /// What goes there.
    pub fill: Fill,
}

/// One entry before it has an offset.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Payload layout.
    pub kind: Kind,
    /// Flags, without [`Flags::LAST_OF_RUN`].
    pub flags: Flags,
    /// The queue it goes to.
    pub queue: QueueNumber,
    /// How many queue offsets it covers, at least 1. Message: 1.
    pub span: u32,
    /// Highest record time in the payload; [`Timestamp::UNKNOWN`] where there is none.
    pub record_time: Timestamp,
    /// Java hash of the TAGS that all records share; 0 when none has one.
    pub tag_hash: i32,
    /// Set for idempotent producers; the ledger then checks the sequence.
    pub producer: Option<Producer>,
    /// How many first bytes of the payload the header's checksum covers; every place lies inside.
    pub head: u8,
    /// CRC-32C of `payload[head..]`, taken by the caller.
    pub payload_sum: u32,
    /// Where the lane writes.
    pub places: SmallVec<[Place; 4]>,
    /// The bytes. Not changed; the lane patches its own copy in the log.
    pub payload: Bytes,
}

/// What the lane gave an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The entry's place in the log.
    pub log_offset: LogOffset,
    /// Queue offset of its first record.
    pub base: QueueOffset,
    /// When it was stored.
    pub store_time: Timestamp,
    /// The reign it was stored in.
    pub reign: Reign,
    /// End of the run in the log: what to wait for (see `Store::wait`).
    pub end: LogOffset,
    /// True if the ledger knew this batch already: nothing was appended and the other fields are
    /// those of the first append (`log_offset` then is not known and equals `end`).
    pub duplicate: bool,
}

impl Receipt {
    /// The address of the entry's first record.
    #[must_use]
    pub fn address(&self) -> Address {
        Address::new(self.log_offset, 0)
    }
}

/// What the caller waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ack {
    /// In the page cache: survives the death of the process.
    Written,
    /// On disk.
    Synced,
}
