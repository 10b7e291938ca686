//! The one timer of all groups, and when a group is forgotten.
//!
//! A heartbeat moves a deadline and touches no timer: the heap holds for each group one entry that is
//! never too late, and a group looked at too early just asks again.

use super::coordinator::{Coordinator, Shared, Slot};
use super::event::{Event, ReplyId};
use super::state::State;
use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Coordinator {
    /// Makes sure that the timer looks at the group in time.
    pub(super) fn arm(&self, name: &Arc<str>, slot: &mut Slot) {
        let Some(due) = slot.group.due() else {
            return;
        };
        if slot.armed.is_some_and(|armed| armed <= due) {
            return;
        }
        slot.armed = Some(due);
        let mut timers = self.timers.lock();
        let first = timers.peek().is_none_or(|Reverse((first, _))| due < *first);
        timers.push(Reverse((due, Arc::clone(name))));
        if first {
            self.earlier.notify_one();
        }
    }

    /// The one timer: tells groups the time when they asked for it, and lets offsets expire.
    pub(super) async fn keep_time(self: Arc<Self>) {
        let mut closed = self.closed.subscribe();
        let every = self.config.offsets_retention_check_interval_ms.max(1000);
        let mut expiry = tokio::time::interval(Duration::from_millis(every));
        expiry.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        expiry.tick().await;
        loop {
            let next = self.timers.lock().peek().map(|Reverse((at, _))| *at);
            let sleep = async {
                match next {
                    Some(at) => {
                        tokio::time::sleep_until(self.started + Duration::from_millis(at.0)).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = sleep => self.ring(),
                () = self.earlier.notified() => {}
                _ = expiry.tick() => self.expire().await,
                () = async { drop(closed.wait_for(|closed| *closed).await) } => return,
            }
        }
    }

    /// Tells every group whose time has come.
    pub(super) fn ring(self: &Arc<Self>) {
        let now = self.now();
        loop {
            let (at, name) = {
                let mut timers = self.timers.lock();
                match timers.peek() {
                    Some(Reverse((at, _))) if *at <= now.tick => {}
                    _ => return,
                }
                let Some(Reverse(first)) = timers.pop() else {
                    return;
                };
                first
            };
            let Some(shared) = self.slot(&name) else {
                continue;
            };
            {
                let mut slot = shared.lock();
                if slot.armed != Some(at) {
                    continue; // an earlier entry took its place
                }
                slot.armed = None;
                let actions = slot.group.on(Event::Time, now);
                self.carry_out(&name, &shared, &mut slot, actions);
            }
            drop(shared);
            self.forget_if_blank(&name);
        }
    }

    /// A group that only ever handed out member ids leaves nothing behind.
    pub(super) fn forget_if_blank(&self, name: &str) {
        let mut groups = self.groups.lock();
        let Some(shared) = groups.get(name) else {
            return;
        };
        let blank = {
            // Whoever fetched the slot meanwhile holds a count of it; then it stays for now.
            let unshared = Arc::strong_count(shared) == 1;
            let slot = shared.lock();
            unshared && slot.parked.is_empty() && slot.group.is_blank()
        };
        if blank {
            groups.remove(name);
            self.count_groups(groups.len());
        }
    }

    /// Takes a dead group out of the map.
    pub(super) fn forget(&self, name: &str) {
        let mut groups = self.groups.lock();
        let dead = groups
            .get(name)
            .is_some_and(|shared| shared.lock().group.state() == State::Dead);
        if dead {
            groups.remove(name);
            self.count_groups(groups.len());
        }
    }

    /// Marks an empty group dead, so that nobody joins it while it is removed. Whether it was.
    pub(super) fn retire(&self, shared: &Shared) -> bool {
        let mut slot = shared.lock();
        let idle = slot.group.state() == State::Empty && slot.parked.is_empty() && !slot.writing;
        if idle {
            let reply = ReplyId(self.replies.fetch_add(1, Ordering::Relaxed));
            // The answer goes nowhere: nobody is waiting for it.
            let _ = slot.group.on(Event::Delete { reply }, self.now());
        }
        idle
    }
}
