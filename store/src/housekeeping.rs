//! One thread that makes room: the next file, populated pages ahead of the tail, write-back behind
//! it; and that watches how full the disk is.
//!
//! Promises: the lane never creates a file and never faults its way through fresh pages. A full disk
//! refuses writes and takes them again by itself; any other error closes the log for writes.

use crate::bell::Bell;
use crate::config::StoreConfig;
use crate::disk::Disk;
use crate::lane::Lane;
use crate::marks::Marks;
use crate::metrics::StoreMetrics;
use crate::room::Room;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::types::LogOffset;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pages are populated in steps of this many bytes.
const STEP: u64 = 4 << 20;
/// Write-back is started in whole blocks of this many bytes.
const BLOCK: u64 = 8 << 20;
/// Without work the thread looks around this often.
const IDLE: Duration = Duration::from_millis(500);
/// Populated ahead: what the log grows by in this time.
const AHEAD: Duration = Duration::from_millis(100);

/// What the thread works with.
#[derive(Debug)]
pub(crate) struct Housekeeping {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) log_dir: PathBuf,
    pub(crate) config: StoreConfig,
    pub(crate) lane: Arc<Lane>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) room: Arc<Room>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) hot_bytes: u64,
    pub(crate) metrics: StoreMetrics,
}

/// What the thread remembers between rounds.
#[derive(Debug)]
struct Pace {
    at: LogOffset,
    time: Instant,
    ahead: u64,
    looked: Option<Instant>,
    /// Files that end at or below these were written back, and unmapped.
    behind: LogOffset,
    mapped: LogOffset,
    counted: crate::lane::Counted,
}

impl Housekeeping {
    /// Runs until the bell is stopped.
    pub(crate) fn run(&self) {
        let mut pace = self.pace();
        let mut told = self.made();
        while !self.bell.stopped() {
            if let Err(error) = self.round(&mut pace) {
                self.marks
                    .close(&format!("preparing the log failed: {error}"), true);
            }
            // Whoever is told and still finds no room rings again: telling nothing new would spin.
            let made = self.made();
            if made != told {
                self.room.tell();
                told = made;
            }
            self.bell.wait(IDLE);
        }
    }

    /// What an append that found no room may wait for from this thread.
    fn made(&self) -> impl PartialEq + use<> {
        let (current, next) = self.lane.files();
        let next = next.map(|next| (next.start(), next.populated()));
        let refused = (self.room.refusing(), self.room.lacks_file());
        let closed = self.marks.closed().is_some();
        (current.populated(), next, refused, closed)
    }

    fn pace(&self) -> Pace {
        Pace {
            at: self.marks.written(),
            time: Instant::now(),
            ahead: self.config.populate_bytes_min,
            looked: None,
            behind: self.lane.files().0.start(),
            mapped: self.lane.files().0.start(),
            counted: crate::lane::Counted::default(),
        }
    }

    /// One round before the thread runs.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        self.round(&mut self.pace())
    }

    fn round(&self, pace: &mut Pace) -> io::Result<()> {
        self.measure(pace);
        if self.marks.closed().is_some() {
            return Ok(());
        }
        let tail = self.marks.written();
        let wanted = self.room.wanted();
        let ahead = pace.ahead.max(wanted + 4096);
        let (current, mut next) = self.lane.files();
        let rest = current.end().0.saturating_sub(tail.0);
        let tell = || self.room.tell();
        current.populate(current.end().min(tail.plus(ahead)), STEP, tell)?;
        if next.is_none() && rest < self.next_file_at() {
            next = self.create(current.end())?;
        }
        let whole = current.populated() >= current.end();
        if let Some(next) = &next {
            let needed = whole || rest < wanted + 4096;
            let into = if needed {
                ahead
            } else {
                self.config.populate_bytes_min
            };
            next.populate(next.end().min(next.start().plus(into)), STEP, tell)?;
        }
        let low = current.populated().0.saturating_sub(ahead / 2);
        let roll = current.end().0.saturating_sub(self.next_file_at());
        self.room.set_trigger(match (&next, whole) {
            _ if self.room.lacks_file() => u64::MAX, // tried again every IDLE
            (Some(_), true) => current.end().0,
            (Some(_), false) => low,
            (None, _) => low.min(roll),
        });
        self.write_back(tail, pace)
    }

    /// Bytes left in the current file at which the next one is made.
    fn next_file_at(&self) -> u64 {
        let file = self.segments.file_bytes();
        (file / 4).max(2 * self.config.run_bytes_max).min(file)
    }

    /// Creates the next file, or says why there is none.
    fn create(&self, start: LogOffset) -> io::Result<Option<Arc<Segment>>> {
        let bytes = self.segments.file_bytes();
        match Segment::create(&*self.disk, &self.log_dir, start, bytes) {
            Ok(segment) => {
                let segment = Arc::new(segment);
                let map = segment.mapped()?;
                let first = self.config.populate_bytes_min.min(bytes);
                segment.populate(start.plus(first), STEP, || {})?;
                self.segments.push(Arc::clone(&segment));
                self.lane.give(Arc::clone(&segment), map);
                self.room.lack_file(None);
                Ok(Some(segment))
            }
            // Nothing was promised yet of a file that is not there: writes go on once it can be made.
            Err(error) => {
                self.room.lack_file(Some(format!(
                    "no room for the next log file of store.file_bytes = {bytes} bytes: {error}"
                )));
                Ok(None)
            }
        }
    }

    /// Starts write-back behind the tail and lets go of the maps of files that are no longer hot.
    fn write_back(&self, tail: LogOffset, pace: &mut Pace) -> io::Result<()> {
        pace.behind = pace.behind.max(self.marks.head());
        while let Some(segment) = self.segments.find(pace.behind) {
            if segment.start() >= tail {
                break;
            }
            segment.write_back(tail, BLOCK)?;
            if segment.end() > tail {
                break;
            }
            pace.behind = segment.end();
        }
        let cold = LogOffset(tail.0.saturating_sub(self.hot_bytes)).min(self.marks.synced());
        pace.mapped = pace.mapped.max(self.marks.head());
        while let Some(segment) = self.segments.find(pace.mapped)
            && segment.end() <= cold
        {
            segment.unmap();
            pace.mapped = segment.end();
        }
        Ok(())
    }

    /// The rate, the gauges, and how full the disk is.
    fn measure(&self, pace: &mut Pace) {
        let (now, tail) = (Instant::now(), self.marks.written());
        let since = now - pace.time;
        if since >= AHEAD / 10 {
            let grown = u128::from(tail.0 - pace.at.0) * AHEAD.as_micros() / since.as_micros();
            let grown = u64::try_from(grown).unwrap_or(u64::MAX);
            let (least, most) = (
                self.config.populate_bytes_min,
                self.config.populate_bytes_max,
            );
            pace.ahead = grown.max(pace.ahead / 2).clamp(least, most);
            (pace.at, pace.time) = (tail, now);
        }
        if pace.looked.is_some_and(|last| now - last < IDLE) {
            return;
        }
        pace.looked = Some(now);
        let counted = self.lane.counted();
        self.metrics.appended(&pace.counted, &counted);
        pace.counted = counted;
        self.metrics.progress(&self.marks, self.room.rows());
        match self.used() {
            Ok(used) => {
                self.metrics.disk_used.set(used);
                let mark = f64::from(self.config.disk_refuse_percent) / 100.0;
                self.room.refuse((used >= mark).then(|| {
                    format!(
                        "{:.1} % used is above store.disk_refuse_percent = {}",
                        used * 100.0,
                        self.config.disk_refuse_percent
                    )
                }));
            }
            Err(error) => tracing::warn!(%error, "the disk does not say how full it is"),
        }
    }

    fn used(&self) -> io::Result<f64> {
        used(&*self.disk, &self.dir, &self.segments, &self.marks)
    }
}

/// Used share of the disk, without what is preallocated but not yet used.
pub(crate) fn used(
    disk: &dyn Disk,
    dir: &std::path::Path,
    segments: &Segments,
    marks: &Marks,
) -> io::Result<f64> {
    let usage = disk.usage(dir)?;
    let end = segments
        .newest()
        .map_or(LogOffset(0), |newest| newest.end());
    let unused = end.0.saturating_sub(marks.written().0);
    let used = usage
        .total
        .saturating_sub(usage.available)
        .saturating_sub(unused);
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    Ok(used as f64 / (usage.total.max(1)) as f64)
}
