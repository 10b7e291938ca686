//! Offsets that an operator has reset and the group's readers have not noticed yet: the next pull of
//! the queue is told, and until then commits for it are ignored (RocketMQ's
//! `useServerSideResetOffset`). A pure table; in memory only, as there.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use twinmq_store::QueueNumber;

type Key = (String, QueueNumber);

/// Pending resets by group and queue number: a topic made anew has new numbers and inherits none.
#[derive(Debug, Default)]
pub(crate) struct Resets {
    pending: Mutex<HashMap<Key, i64>>,
    count: AtomicUsize,
}

impl Resets {
    /// Notes a reset; a later one replaces it.
    pub(crate) fn put(&self, group: &str, queue: QueueNumber, offset: i64) {
        let mut pending = self.pending.lock();
        pending.insert((group.to_owned(), queue), offset);
        self.count.store(pending.len(), Ordering::Release);
    }

    /// Whether a reset is pending. One load when none is, which is nearly always.
    pub(crate) fn is_pending(&self, group: &str, queue: QueueNumber) -> bool {
        self.count.load(Ordering::Acquire) != 0
            && self.pending.lock().contains_key(&(group.to_owned(), queue))
    }

    /// The pending reset, which is thereby told.
    pub(crate) fn take(&self, group: &str, queue: QueueNumber) -> Option<i64> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut pending = self.pending.lock();
        let offset = pending.remove(&(group.to_owned(), queue));
        self.count.store(pending.len(), Ordering::Release);
        offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reset_is_told_once() {
        let resets = Resets::default();
        let (queue, other) = (QueueNumber(20), QueueNumber(21));
        assert_eq!(resets.take("g", queue), None);
        resets.put("g", queue, 7);
        assert!(resets.is_pending("g", queue));
        assert!(!resets.is_pending("g", other));
        assert_eq!(resets.take("g", queue), Some(7));
        assert_eq!(resets.take("g", queue), None);
    }
}
