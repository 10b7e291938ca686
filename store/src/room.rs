//! Room for appends: what is wanted, what is missing, and who waits for it.
//!
//! The lane says what it could not place; housekeeping, flusher and sealer make room and say so.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::Notify;

/// State of the room ahead of the lane.
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Bytes of the largest run that found no room.
    wanted: AtomicU64,
    /// Log offset beyond which housekeeping is to be woken.
    trigger: AtomicU64,
    /// The disk is above the refusal mark.
    refusing: AtomicBool,
    /// The next file could not be made.
    no_file: AtomicBool,
    reason: Mutex<String>,
    /// Index rows in memory.
    rows: AtomicU64,
    pub(crate) made: Notify,
}

impl Room {
    /// A run of `bytes` found no room.
    pub(crate) fn want(&self, bytes: u64) {
        self.wanted.fetch_max(bytes, Ordering::AcqRel);
    }

    /// What the largest run that found no room needs.
    pub(crate) fn wanted(&self) -> u64 {
        self.wanted.load(Ordering::Acquire)
    }

    /// There is room for all that was wanted.
    pub(crate) fn satisfied(&self) {
        self.wanted.store(0, Ordering::Release);
    }

    /// Tells everyone who waits to try again.
    pub(crate) fn tell(&self) {
        self.made.notify_waiters();
    }

    /// Housekeeping wants to be woken once the log passes `at`.
    pub(crate) fn set_trigger(&self, at: u64) {
        self.trigger.store(at, Ordering::Release);
    }

    /// True if the log at `tail` has passed the trigger.
    pub(crate) fn triggered(&self, tail: u64) -> bool {
        tail > self.trigger.load(Ordering::Relaxed)
    }

    /// Refuses writes with a reason, or takes them again.
    pub(crate) fn refuse(&self, reason: Option<String>) {
        Self::set(&self.refusing, &self.reason, reason);
    }

    /// The next file cannot be made, with the reason, or it can again.
    pub(crate) fn lack_file(&self, reason: Option<String>) {
        Self::set(&self.no_file, &self.reason, reason);
    }

    fn set(flag: &AtomicBool, place: &Mutex<String>, reason: Option<String>) {
        let on = reason.is_some();
        if let Some(reason) = reason {
            *place.lock() = reason;
        }
        if flag.swap(on, Ordering::AcqRel) != on {
            if on {
                tracing::warn!(reason = %place.lock(), "writes are refused");
            } else {
                tracing::info!("writes are taken again");
            }
        }
    }

    /// True while the disk is above the refusal mark.
    pub(crate) fn refusing(&self) -> bool {
        self.refusing.load(Ordering::Relaxed)
    }

    /// True while the next file cannot be made.
    pub(crate) fn lacks_file(&self) -> bool {
        self.no_file.load(Ordering::Relaxed)
    }

    /// Why writes are refused.
    pub(crate) fn reason(&self) -> String {
        self.reason.lock().clone()
    }

    /// Index rows in memory.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Rows came in.
    pub(crate) fn add_rows(&self, rows: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows went.
    pub(crate) fn remove_rows(&self, rows: u64) {
        self.rows.fetch_sub(rows, Ordering::Relaxed);
    }
}
