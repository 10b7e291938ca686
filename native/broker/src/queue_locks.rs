//! Locks for ordered consumption: (group, queue) → client, on a lease. A pure table; the time is
//! passed in. Leaves out replication of locks (`lockInStrictMode`).

use std::collections::HashMap;
use std::sync::Arc;

/// A queue as clients name it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LockKey {
    /// Topic, native name.
    pub(crate) topic: String,
    /// Queue id.
    pub(crate) queue: i32,
}

#[derive(Clone, Debug)]
struct Lease {
    client: Arc<str>,
    until_ms: i64,
}

/// All locks.
#[derive(Debug)]
pub(crate) struct QueueLocks {
    lease_ms: i64,
    groups: HashMap<String, HashMap<LockKey, Lease>>,
}

impl QueueLocks {
    /// Leases last `lease_ms` after the last renewal.
    pub(crate) fn new(lease_ms: i64) -> Self {
        Self {
            lease_ms,
            groups: HashMap::new(),
        }
    }

    /// Takes or renews what is free, expired or the client's own; returns what it now holds of the
    /// queues asked for.
    pub(crate) fn lock(
        &mut self,
        group: &str,
        client: &str,
        wanted: &[LockKey],
        now_ms: i64,
    ) -> Vec<LockKey> {
        let table = self.groups.entry(group.to_owned()).or_default();
        let client: Arc<str> = Arc::from(client);
        let until_ms = now_ms + self.lease_ms;
        let mut held = Vec::with_capacity(wanted.len());
        for key in wanted {
            match table.get_mut(key) {
                Some(lease) if lease.client != client && lease.until_ms > now_ms => {}
                Some(lease) => {
                    *lease = Lease {
                        client: client.clone(),
                        until_ms,
                    };
                    held.push(key.clone());
                }
                None => {
                    let lease = Lease {
                        client: client.clone(),
                        until_ms,
                    };
                    table.insert(key.clone(), lease);
                    held.push(key.clone());
                }
            }
        }
        held
    }

    /// Gives back the client's own locks; others' stay.
    pub(crate) fn unlock(&mut self, group: &str, client: &str, queues: &[LockKey]) {
        if let Some(table) = self.groups.get_mut(group) {
            for key in queues {
                if table.get(key).is_some_and(|lease| &*lease.client == client) {
                    table.remove(key);
                }
            }
            if table.is_empty() {
                self.groups.remove(group);
            }
        }
    }

    /// Whether any lock of the group is live: the mark of an ordered consumer.
    pub(crate) fn any_live(&self, group: &str, now_ms: i64) -> bool {
        self.groups
            .get(group)
            .is_some_and(|table| table.values().any(|lease| lease.until_ms > now_ms))
    }

    /// Drops what has expired; called from the sweep so that the table stays bounded.
    pub(crate) fn sweep(&mut self, now_ms: i64) {
        self.groups.retain(|_, table| {
            table.retain(|_, lease| lease.until_ms > now_ms);
            !table.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(queue: i32) -> LockKey {
        LockKey {
            topic: "t".to_owned(),
            queue,
        }
    }

    #[test]
    fn a_lock_is_held_renewed_and_lost_after_the_lease() {
        let mut locks = QueueLocks::new(60_000);
        assert_eq!(locks.lock("g", "a", &[key(0), key(1)], 0).len(), 2);
        assert_eq!(locks.lock("g", "b", &[key(1), key(2)], 10_000), [key(2)]);
        assert_eq!(locks.lock("g", "a", &[key(1)], 50_000), [key(1)]);
        assert!(locks.lock("g", "b", &[key(1)], 109_999).is_empty());
        assert_eq!(locks.lock("g", "b", &[key(1)], 110_000), [key(1)]);
        assert_eq!(locks.lock("other", "c", &[key(1)], 110_000), [key(1)]);
    }

    #[test]
    fn only_the_owner_unlocks() {
        let mut locks = QueueLocks::new(60_000);
        locks.lock("g", "a", &[key(0)], 0);
        locks.unlock("g", "b", &[key(0)]);
        assert!(locks.lock("g", "b", &[key(0)], 1).is_empty());
        assert!(locks.any_live("g", 1));
        locks.unlock("g", "a", &[key(0)]);
        assert!(!locks.any_live("g", 1));
        assert_eq!(locks.lock("g", "b", &[key(0)], 1), [key(0)]);
        locks.sweep(60_001);
        assert!(locks.groups.is_empty());
    }
}
