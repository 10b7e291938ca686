//! The units of the log. Positions are never bare integers: a byte position in the log, a place in
//! a queue and a number of a queue are three types that do not mix.

use std::fmt;

/// A position in the commitlog in bytes from its very beginning. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct LogOffset(pub u64);

/// Which queue an entry belongs to. Given once at creation and never given again.
/// Numbers below [`QueueNumber::FIRST_FREE`] are the broker's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct QueueNumber(pub u32);

/// A record's place in its queue, counted in records, dense from 0.
/// RocketMQ's `queueOffset` and Kafka's `offset`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct QueueOffset(pub u64);

/// A record's address: the log offset of its entry plus its place (0-based) in the entry.
/// RocketMQ's `physicOffset`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Address(pub u64);

/// The number of one opening of the log; Kafka's leader epoch of every queue. Starts at 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Reign(pub u32);

/// Milliseconds since the Unix epoch. Negative means unknown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Timestamp(pub i64);

impl LogOffset {
    /// The position `bytes` further on. Panics on overflow of 2^64 bytes, which no log reaches.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }
}

impl QueueNumber {
    /// The log's own records: reigns, padding, synced marks.
    pub const CONTROL: Self = Self(0);
    /// Raised first offsets (retention, DeleteRecords) and dropped queues.
    pub const FIRST_OFFSETS: Self = Self(1);
    /// The first number that the store does not use itself. `core` keeps its catalog there.
    pub const FIRST_OF_CORE: Self = Self(2);
    /// The first number that a topic's queue may have.
    pub const FIRST_FREE: Self = Self(16);
}

impl QueueOffset {
    /// The offset `records` further on.
    #[must_use]
    pub fn plus(self, records: u64) -> Self {
        Self(self.0 + records)
    }
}

impl Address {
    /// The address of the record at `place` (0-based) of the entry at `entry`.
    #[must_use]
    pub fn new(entry: LogOffset, place: u32) -> Self {
        Self(entry.0 + u64::from(place))
    }
}

impl Timestamp {
    /// No time known.
    pub const UNKNOWN: Self = Self(-1);
}

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for QueueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

impl fmt::Display for QueueOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A count of bytes as an index into memory. The store runs on 64-bit machines only.
#[expect(
    clippy::cast_possible_truncation,
    reason = "usize has 64 bits: checked at compile time"
)]
pub(crate) const fn size(bytes: u64) -> usize {
    const { assert!(usize::BITS == 64) }
    bytes as usize
}
