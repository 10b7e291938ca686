//! The sync thread: group commit, and the regular sync of what nobody waits for.
//!
//! Promises: `synced` moves only after `msync` of every page below it has succeeded, older files
//! first; one failure closes the log for writes. No artificial delay: while one sync runs, the next
//! one's waiters gather.

use crate::arrivals::Arrivals;
use crate::bell::Bell;
use crate::disk::Disk;
use crate::marks::Marks;
use crate::metrics::StoreMetrics;
use crate::room::Room;
use crate::segments::Segments;
use crate::types::LogOffset;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the sync thread works with.
#[derive(Debug)]
pub(crate) struct Flusher {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log_dir: PathBuf,
    pub(crate) marks: Arc<Marks>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) room: Arc<Room>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) interval: Duration,
    pub(crate) metrics: StoreMetrics,
}

impl Flusher {
    /// Runs until the bell is stopped; syncs once more at the end if the log was closed cleanly.
    pub(crate) fn run(&self) {
        while !self.bell.stopped() {
            self.bell.wait(self.interval);
            if !self.bell.stopped() {
                self.round();
            }
        }
    }

    /// Syncs what is written; false if that failed.
    pub(crate) fn round(&self) -> bool {
        let (from, to) = (self.marks.synced(), self.marks.written());
        if self.marks.failed() {
            return false;
        }
        if to <= from {
            return true;
        }
        let began = Instant::now();
        match self.sync(from, to) {
            Ok(()) => {
                self.metrics.syncs.inc();
                self.metrics
                    .sync_seconds
                    .observe(began.elapsed().as_secs_f64());
                self.marks.sync(to);
                self.arrivals.synced(to);
                self.room.tell();
                true
            }
            Err(error) => {
                self.metrics.sync_errors.inc();
                self.marks.close(&format!("sync failed: {error}"), true);
                self.room.tell();
                false
            }
        }
    }

    fn sync(&self, from: LogOffset, to: LogOffset) -> io::Result<()> {
        let mut at = from;
        while at < to {
            let segment = self.segments.find(at).ok_or(io::ErrorKind::NotFound)?;
            let end = to.min(segment.end());
            segment.sync(at, end)?;
            segment.name(&*self.disk, &self.log_dir)?;
            if end < segment.end() {
                segment.touch(end)?; // the tail's page is clean now: spare the lane the fault
            }
            at = end;
        }
        Ok(())
    }
}
