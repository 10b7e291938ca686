//! How far the log has got: written, synced, and what readers see. Monotone, and watchable.
//!
//! Promises: marks stop only at run ends; [`Marks::readable`] is defined here, once. A failed mark
//! never moves again: everyone who waits is told why.

use crate::error::WaitError;
use crate::types::LogOffset;
use parking_lot::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::sync::oneshot;

/// A value on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone(AtomicU64);

type Waiting = (LogOffset, oneshot::Sender<Result<(), WaitError>>);

/// The marks of one log.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    written: Alone,
    synced: Alone,
    head: Alone,
    closed: OnceLock<String>,
    failed: AtomicBool,
    waiting: Mutex<Vec<Waiting>>,
}

impl Marks {
    /// Marks of a recovered log.
    pub(crate) fn new(head: LogOffset, end: LogOffset, synced: LogOffset) -> Self {
        let marks = Self::default();
        marks.written.0.store(end.0, Ordering::Relaxed);
        marks.synced.0.store(synced.0, Ordering::Relaxed);
        marks.head.0.store(head.0, Ordering::Relaxed);
        marks
    }

    /// End of what is written. Bytes and rows below it never change.
    pub(crate) fn written(&self) -> LogOffset {
        LogOffset(self.written.0.load(Ordering::Acquire))
    }

    /// End of what is on disk.
    pub(crate) fn synced(&self) -> LogOffset {
        LogOffset(self.synced.0.load(Ordering::Acquire))
    }

    /// First byte kept.
    pub(crate) fn head(&self) -> LogOffset {
        LogOffset(self.head.0.load(Ordering::Acquire))
    }

    /// End of what readers see. With replication this will be the replicated mark.
    pub(crate) fn readable(&self) -> LogOffset {
        self.written()
    }

    /// What a reader sees up to.
    pub(crate) fn seen(&self, synced: bool) -> LogOffset {
        if synced {
            self.synced().min(self.readable())
        } else {
            self.readable()
        }
    }

    /// Moves `written`; by the lane alone, under its lock.
    pub(crate) fn write(&self, end: LogOffset) {
        self.written.0.store(end.0, Ordering::Release);
    }

    /// Moves `head`; by housekeeping alone.
    pub(crate) fn raise_head(&self, head: LogOffset) {
        self.head.0.fetch_max(head.0, Ordering::AcqRel);
    }

    /// Moves `synced` and wakes who waited for it; by the flusher alone.
    pub(crate) fn sync(&self, end: LogOffset) {
        self.synced.0.fetch_max(end.0, Ordering::AcqRel);
        let ready: Vec<Waiting> = {
            let mut waiting = self.waiting.lock();
            waiting.extract_if(.., |(asked, _)| *asked <= end).collect()
        };
        for (_, sender) in ready {
            let _ = sender.send(Ok(())); // who stopped waiting needs no answer
        }
    }

    /// Why the log takes no more writes, if it does not.
    pub(crate) fn closed(&self) -> Option<&str> {
        self.closed.get().map(String::as_str)
    }

    /// True once a write or sync has failed.
    pub(crate) fn failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Closes the log for writes for good. The first reason stays. With `fail` the waiters are told
    /// at once; otherwise a last sync will serve them.
    pub(crate) fn close(&self, reason: &str, fail: bool) {
        let first = self.closed.set(reason.to_owned()).is_ok();
        if fail {
            self.failed.store(true, Ordering::Release);
            if first {
                tracing::error!(reason, "the log is closed for writes");
            }
            for (_, sender) in self.waiting.lock().drain(..) {
                let _ = sender.send(Err(self.wait_error()));
            }
        }
    }

    fn wait_error(&self) -> WaitError {
        WaitError {
            reason: self.closed().unwrap_or("the store was dropped").to_owned(),
        }
    }

    /// Waits until `synced` has reached `end`. `ring` is called once the waiter is registered.
    pub(crate) async fn wait_synced(
        &self,
        end: LogOffset,
        ring: impl Fn(),
    ) -> Result<(), WaitError> {
        if self.synced() >= end {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut waiting = self.waiting.lock();
            // Checked under the lock that the flusher takes after moving the mark.
            if self.synced() >= end {
                return Ok(());
            }
            if self.failed.load(Ordering::Acquire) {
                return Err(self.wait_error());
            }
            waiting.push((end, sender));
        }
        ring();
        receiver.await.unwrap_or_else(|_| Err(self.wait_error()))
    }
}
