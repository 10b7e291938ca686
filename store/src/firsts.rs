//! Entries of queue 1: raised first offsets and dropped queues (FORMAT.md, "First offsets").
//!
//! Promises: one function applies them, live and at recovery. Leaves out why they are raised.

use crate::entry::{le_u32, le_u64};
use crate::index::rows::Pen;
use crate::ledger::Ledger;
use crate::queues::Queues;
use crate::run::{Draft, Flags, Kind};
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};
use bytes::Bytes;
use smallvec::SmallVec;

/// Items in one entry at most.
pub(crate) const ITEMS_MAX: usize = 1000;

const RAISE: u8 = 0;
const DROP: u8 = 1;

/// What an entry of queue 1 says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// First offsets are raised.
    Raise(Vec<(QueueNumber, QueueOffset)>),
    /// Queues are dropped.
    Drop(Vec<QueueNumber>),
}

/// The draft of an entry that says `change`.
pub(crate) fn draft(change: &Change) -> Draft {
    let (operation, count) = match change {
        Change::Raise(items) => (RAISE, items.len()),
        Change::Drop(items) => (DROP, items.len()),
    };
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut payload = vec![operation, 0, 0, 0];
    payload.extend_from_slice(&count.to_le_bytes());
    match change {
        Change::Raise(items) => {
            for (queue, first) in items {
                payload.extend_from_slice(&queue.0.to_le_bytes());
                payload.extend_from_slice(&first.0.to_le_bytes());
            }
        }
        Change::Drop(items) => {
            for queue in items {
                payload.extend_from_slice(&queue.0.to_le_bytes());
            }
        }
    }
    Draft {
        kind: Kind::Control,
        flags: Flags::default(),
        queue: QueueNumber::FIRST_OFFSETS,
        span: 1,
        record_time: Timestamp::UNKNOWN,
        tag_hash: 0,
        producer: None,
        head: 0,
        payload_sum: crc32c::crc32c(&payload),
        places: SmallVec::new(),
        payload: Bytes::from(payload),
    }
}

/// Reads a payload; `None` if it is none of these.
pub(crate) fn decode(payload: &[u8]) -> Option<Change> {
    let operation = *payload.first()?;
    let items = payload.get(8..)?;
    let count = le_u32(payload, 4) as usize;
    match operation {
        RAISE if items.len() == count.checked_mul(12)? => {
            let raised = items.chunks_exact(12);
            let raised =
                raised.map(|item| (QueueNumber(le_u32(item, 0)), QueueOffset(le_u64(item, 4))));
            Some(Change::Raise(raised.collect()))
        }
        DROP if items.len() == count.checked_mul(4)? => {
            let dropped = items
                .chunks_exact(4)
                .map(|item| QueueNumber(le_u32(item, 0)));
            Some(Change::Drop(dropped.collect()))
        }
        _ => None,
    }
}

/// Makes a change true.
pub(crate) fn apply(change: &Change, queues: &Queues, ledger: &mut Ledger) {
    match change {
        Change::Raise(items) => {
            for (number, first) in items {
                if let Some(queue) = queues.entry(*number) {
                    queue.raise_first(*first);
                }
            }
        }
        Change::Drop(items) => {
            for number in items {
                if let Some(queue) = queues.entry(*number) {
                    queue.set_dropped();
                    ledger.get_mut(*number).drop_queue();
                }
            }
        }
    }
}

/// Lets the rows of dropped queues go from memory; under the lane's lock. Gives back how many went.
pub(crate) fn release(change: &Change, queues: &Queues, pen: &mut Pen) -> u64 {
    let Change::Drop(items) = change else {
        return 0;
    };
    let mut rows = 0;
    for number in items {
        if let Some(queue) = queues.get(*number) {
            rows += queue.rows.drop_below(LogOffset(u64::MAX)).0;
            pen.forget(*number);
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changes_come_back(items in proptest::collection::vec(any::<(u32, u64)>(), 0..50)) {
            let raise = Change::Raise(
                items.iter().map(|(q, f)| (QueueNumber(*q), QueueOffset(*f))).collect(),
            );
            prop_assert_eq!(decode(&draft(&raise).payload), Some(raise));
            let drop = Change::Drop(items.iter().map(|(q, _)| QueueNumber(*q)).collect());
            prop_assert_eq!(decode(&draft(&drop).payload), Some(drop));
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = decode(&bytes);
        }
    }
}
