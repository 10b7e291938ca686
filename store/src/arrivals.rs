//! Waits until something a reader may see is added to any of its queues.
//!
//! Promises: register, then look, and no wake-up is lost; a queue that nobody waits for costs an
//! append one relaxed load; an idle watch costs nothing. Leaves out deadlines: the caller has them.

use crate::marks::Marks;
use crate::queues::Queues;
use crate::store::Upto;
use crate::types::{LogOffset, QueueNumber};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use tokio::sync::Notify;

const SHARDS: usize = 64;

/// One watch's wake-up.
#[derive(Debug)]
struct Waiter {
    upto: Upto,
    changed: AtomicBool,
    notify: Notify,
}

type Shard = HashMap<QueueNumber, SmallVec<[Arc<Waiter>; 2]>>;

/// What an append did to a queue that someone waits for.
#[derive(Clone, Copy, Debug)]
struct Note {
    end: LogOffset,
    queue: QueueNumber,
    stable: bool,
}

/// Who waits for which queue.
#[derive(Debug)]
pub(crate) struct Arrivals {
    queues: Arc<Queues>,
    shards: Box<[Mutex<Shard>]>,
    /// Noted by appends, until `synced` passes.
    unsynced: Mutex<Vec<Note>>,
}

impl Arrivals {
    /// Nobody waits.
    pub(crate) fn new(queues: Arc<Queues>) -> Self {
        Self {
            queues,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            unsynced: Mutex::default(),
        }
    }

    fn shard(&self, queue: QueueNumber) -> &Mutex<Shard> {
        &self.shards[queue.0 as usize % SHARDS]
    }

    /// Wakes who waits for these entries' queues (and whether each is a marker, which may move the last
    /// stable offset though other transactions stay open); called by the lane after `written` has moved to `end` and
    /// its lock is free. `synced` tells how far the disk is.
    pub(crate) fn written(
        &self,
        entries: impl Iterator<Item = (QueueNumber, bool)>,
        end: LogOffset,
        synced: impl Fn() -> LogOffset,
    ) {
        // Pairs with the fence in `watch`: either we see the waiter, or it sees our rows.
        fence(Ordering::SeqCst);
        for (number, marker) in entries {
            let Some(queue) = self.queues.get(number) else {
                continue;
            };
            if !queue.has_waiters() {
                continue;
            }
            let note = Note {
                end,
                queue: number,
                stable: marker || !queue.in_transaction_at(end),
            };
            if self.wake(note, false) {
                self.unsynced.lock().push(note);
                if synced() >= end {
                    self.synced(synced());
                }
            }
        }
    }

    /// Notes what came before a watch of what is on disk was made and is not on disk yet: whoever appended
    /// it saw nobody wait.
    pub(crate) fn note_unsynced(&self, queues: &[QueueNumber], marks: &Marks) {
        let (synced, written) = (marks.synced(), marks.written());
        if synced >= written {
            return;
        }
        for number in queues {
            let Some(queue) = self.queues.get(*number) else {
                continue;
            };
            if queue.end_at(synced) < queue.end_at(written) {
                self.unsynced.lock().push(Note {
                    end: written,
                    queue: *number,
                    stable: true,
                });
            }
        }
        let synced = marks.synced();
        if synced >= written {
            self.synced(synced);
        }
    }

    /// Wakes who waits for what is on disk; called by the flusher after `synced` has moved.
    pub(crate) fn synced(&self, synced: LogOffset) {
        let ready: Vec<Note> = {
            let mut notes = self.unsynced.lock();
            if notes.is_empty() {
                return;
            }
            let (ready, later) = notes.iter().partition(|note| note.end <= synced);
            *notes = later;
            ready
        };
        for note in ready {
            self.wake(note, true);
        }
    }

    /// Wakes waiters of one kind; true if one of the other kind is there.
    fn wake(&self, note: Note, synced: bool) -> bool {
        let shard = self.shard(note.queue).lock();
        let mut others = false;
        for waiter in shard.get(&note.queue).into_iter().flatten() {
            if waiter.upto.synced != synced {
                others = true;
            } else if note.stable || !waiter.upto.committed {
                waiter.changed.store(true, Ordering::Release);
                waiter.notify.notify_one();
            }
        }
        others
    }

    /// Registers interest, before the caller looks.
    pub(crate) fn watch(self: &Arc<Self>, queues: &[QueueNumber], upto: Upto) -> Watch {
        let waiter = Arc::new(Waiter {
            upto,
            changed: AtomicBool::new(false),
            notify: Notify::new(),
        });
        let mut watched = SmallVec::with_capacity(queues.len());
        for number in queues {
            let Some(queue) = self.queues.entry(*number) else {
                continue; // no queue of such a number can ever be written
            };
            let mut shard = self.shard(*number).lock();
            shard.entry(*number).or_default().push(Arc::clone(&waiter));
            queue.add_waiter();
            watched.push(*number);
        }
        fence(Ordering::SeqCst);
        Watch {
            arrivals: Arc::clone(self),
            waiter,
            queues: watched,
        }
    }
}

/// Interest in queues; dropping it costs nothing.
#[derive(Debug)]
pub struct Watch {
    arrivals: Arc<Arrivals>,
    waiter: Arc<Waiter>,
    queues: SmallVec<[QueueNumber; 2]>,
}

impl Watch {
    /// Resolves at once if something was added since the watch was made or last resolved.
    pub async fn changed(&mut self) {
        while !self.waiter.changed.swap(false, Ordering::AcqRel) {
            self.waiter.notify.notified().await;
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for number in &self.queues {
            let mut shard = self.arrivals.shard(*number).lock();
            if let Some(waiters) = shard.get_mut(number) {
                waiters.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
                if waiters.is_empty() {
                    shard.remove(number);
                }
            }
            if let Some(queue) = self.arrivals.queues.get(*number) {
                queue.remove_waiter();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Turn;
    use crate::types::QueueOffset;

    #[tokio::test]
    async fn a_transaction_opened_meanwhile_hides_nothing_before_it() {
        let number = QueueNumber(20);
        let queues = Arc::new(Queues::default());
        let arrivals = Arc::new(Arrivals::new(Arc::clone(&queues)));
        let committed = Upto {
            synced: false,
            committed: true,
        };
        let mut watch = arrivals.watch(&[number], committed);
        let queue = queues.entry(number).unwrap();
        // One append has left the lane but not told yet; another opens a transaction behind it.
        let opened = Turn::Opened {
            producer: 1,
            first: QueueOffset(1),
        };
        queue.turn(opened, LogOffset(100), QueueOffset(1), LogOffset(0));
        let told = |end| {
            let entries = std::iter::once((number, false));
            arrivals.written(entries, LogOffset(end), || LogOffset(0));
        };
        told(100);
        let limit = std::time::Duration::from_millis(20);
        tokio::time::timeout(limit, watch.changed()).await.unwrap();
        told(200);
        let woken = tokio::time::timeout(limit, watch.changed()).await;
        assert!(woken.is_err(), "the last stable offset stands");
    }
}
