//! Wakes one thread. Ringing a bell that already rings costs one atomic swap.

use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A bell that one thread waits at.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: AtomicBool,
    stopped: AtomicBool,
    lock: Mutex<()>,
    change: Condvar,
}

impl Bell {
    /// Wakes the thread, or makes its next wait return at once.
    pub(crate) fn ring(&self) {
        // Always a read-modify-write: a plain load could miss that the thread has just woken.
        if !self.rung.swap(true, Ordering::AcqRel) {
            drop(self.lock.lock());
            self.change.notify_one();
        }
    }

    /// Tells the thread to end.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.rung.store(true, Ordering::Release);
        drop(self.lock.lock());
        self.change.notify_all();
    }

    /// True once the thread is to end.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits for a ring, at most `limit`; true if it rang.
    pub(crate) fn wait(&self, limit: Duration) -> bool {
        let mut guard = self.lock.lock();
        if !self.rung.load(Ordering::Acquire) {
            self.change.wait_for(&mut guard, limit);
        }
        self.rung.swap(false, Ordering::AcqRel)
    }
}
