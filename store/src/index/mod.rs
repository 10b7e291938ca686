//! One row per entry. Rows of the newest stretch live in memory and are pushed in the lane's own
//! critical section; older stretches are sealed into immutable index runs.

pub(crate) mod rows;

pub(crate) mod build;
pub(crate) mod layout;
pub(crate) mod run;
pub(crate) mod runs;
pub(crate) mod seal;

use crate::run::{Flags, Kind};
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};

/// What the index knows of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its queue.
    pub queue: QueueNumber,
    /// Queue offset of its first record.
    pub base: QueueOffset,
    /// Its place in the log.
    pub at: LogOffset,
    /// Highest record time.
    pub record_time: Timestamp,
    /// When it was stored.
    pub store_time: Timestamp,
    /// Bytes of the whole entry in the log.
    pub size: u32,
    /// Payload layout.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// Queue offsets it covers.
    pub span: u32,
    /// Tag hash.
    pub tag_hash: i32,
}

impl Row {
    /// The queue offset after its last record.
    #[must_use]
    pub fn next(&self) -> QueueOffset {
        self.base.plus(u64::from(self.span))
    }
}

impl Row {
    /// The row of an entry.
    pub(crate) fn of(header: &crate::entry::Header) -> Self {
        let flags = header.flags.0 & !Flags::LAST_OF_RUN.0;
        Self {
            queue: header.queue,
            base: header.base,
            at: header.log_offset,
            record_time: header.record_time,
            store_time: header.store_time,
            size: header.length,
            kind: header.kind,
            flags: Flags(flags),
            span: header.span,
            tag_hash: header.tag_hash,
        }
    }
}
