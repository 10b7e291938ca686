//! Rows to a run: when, how, and what goes from memory afterwards.
//!
//! Promises: a run covers only what is both on disk and readable; the ledger's snapshot is there before the run
//! that needs it; rows leave memory only once the run that has them is listed. Leaves out the run's bytes.

use super::Row;
use super::build::{self, QueueEnds, Stretch};
use super::rows::{Blocks, Pen};
use super::run::{IndexRun, RunError};
use super::runs::Runs;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::disk::Disk;
use crate::lane::Lane;
use crate::ledger::Ledger;
use crate::ledger_image::QueueImage;
use crate::marks::Marks;
use crate::metrics::StoreMetrics;
use crate::queues::Queues;
use crate::recovery::Paths;
use crate::room::Room;
use crate::segments::Segments;
use crate::snapshot;
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The ledger's snapshot.
pub(crate) const LEDGER: &str = "ledger";
/// Queues looked at under one hold of the lane's lock.
const QUEUES_AT_ONCE: u32 = 64;
/// A run's store times span at most this: its rows keep 32 bits of milliseconds.
const SPAN_MS: i64 = 30 * 86_400_000;
/// A stretch is sealed at this age, however few rows it has.
const AGE_MS: i64 = 86_400_000;
/// The thread looks whether a stretch is complete this often; whoever needs room rings.
const IDLE: Duration = Duration::from_millis(500);
/// After a failure the thread rests this long.
const RETRY: Duration = Duration::from_millis(500);

/// What sealing works with, without the lane: recovery seals before there is one.
#[derive(Clone, Debug)]
pub(crate) struct Seal {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) paths: Paths,
    pub(crate) queues: Arc<Queues>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) runs: Arc<Runs>,
}

/// The name of a run's file.
pub(crate) fn path(paths: &Paths, start: LogOffset, end: LogOffset) -> PathBuf {
    paths
        .index
        .join(format!("{:020}-{:020}.run", start.0, end.0))
}

/// Reads a run's name.
pub(crate) fn parse_name(name: &str) -> Option<(LogOffset, LogOffset)> {
    let (start, end) = name.strip_suffix(".run")?.split_once('-')?;
    if start.len() != 20 || end.len() != 20 {
        return None;
    }
    Some((LogOffset(start.parse().ok()?), LogOffset(end.parse().ok()?)))
}

/// A queue's rows that go into a run.
#[derive(Debug)]
struct Part {
    queue: QueueNumber,
    blocks: Blocks,
}

impl Part {
    fn rows(&self, start: LogOffset, end: LogOffset) -> impl Iterator<Item = Row> {
        self.blocks.iter().flat_map(move |block| {
            let len = block.len();
            let from = block.search(len, |n| block.at(n) < start);
            let to = block.search(len, |n| block.at(n) < end);
            (from..to).map(move |n| block.row(self.queue, n))
        })
    }

    fn count(&self, start: LogOffset, end: LogOffset) -> usize {
        let places = self.blocks.iter().map(|block| {
            let len = block.len();
            let from = block.search(len, |n| block.at(n) < start);
            block.search(len, |n| block.at(n) < end) - from
        });
        places.sum()
    }
}

impl Seal {
    /// Where the next stretch starts.
    pub(crate) fn start(&self) -> LogOffset {
        let end = self.runs.end();
        end.unwrap_or_else(|| self.segments.head().unwrap_or_default())
    }

    /// Writes the rows below `end` as a run, lists it, and gives back its true end, which is lower
    /// where store times span more than a run may hold.
    pub(crate) fn write(
        &self,
        end: LogOffset,
        reigns: &[(Reign, LogOffset)],
    ) -> io::Result<LogOffset> {
        let start = self.start();
        let mut parts = self.parts();
        let first = |part: &Part| part.rows(start, end).next();
        let oldest = parts
            .iter()
            .filter_map(first)
            .map(|row| row.store_time)
            .min();
        // Searching by time relies on times that rise from run to run, rows or not.
        let time = oldest.unwrap_or_else(|| self.runs.time());
        let end = split(&parts, start, end, time);
        let ends = self.ends(end);
        // A queue may have been dropped meanwhile.
        parts.retain(|part| {
            let found = ends.binary_search_by_key(&part.queue, |ends| ends.queue);
            found.is_ok()
        });
        let starts = self.starts(start, end);
        let aborted = self.aborted(start, end);
        let row_count = parts.iter().map(|part| part.count(start, end) as u64).sum();
        let mut rows = parts.iter().flat_map(|part| part.rows(start, end));
        let path = path(&self.paths, start, end);
        let stretch = Stretch {
            start,
            end,
            time,
            row_count,
            rows: &mut rows,
            queues: &ends,
            starts: &starts,
            aborted: &aborted,
            reigns,
        };
        build::write(&*self.disk, &path, stretch)?;
        let run = IndexRun::open(&*self.disk, &path).map_err(|error| match error {
            RunError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidData, other),
        })?;
        self.runs.push(run);
        for line in &ends {
            if let Some(queue) = self.queues.get(line.queue) {
                queue.seal(line.end);
            }
        }
        Ok(end)
    }

    /// Every live queue that has rows in memory.
    fn parts(&self) -> Vec<Part> {
        let live = self.queues.iter().filter(|(_, queue)| !queue.dropped());
        let with_rows = live.filter(|(_, queue)| !queue.rows.is_empty());
        let part = |(number, queue): (QueueNumber, &crate::queues::Queue)| Part {
            queue: number,
            blocks: queue.rows.all(),
        };
        with_rows.map(part).collect()
    }

    /// The ends of every live queue at both sides of the stretch.
    fn ends(&self, end: LogOffset) -> Vec<QueueEnds> {
        let mut ends = Vec::new();
        for (number, queue) in self.queues.iter() {
            let start = queue.sealed_end().max(queue.adopted());
            let end = queue.end_at(end).max(start);
            if !queue.dropped() && end > QueueOffset(0) {
                ends.push(QueueEnds {
                    queue: number,
                    start,
                    end,
                });
            }
        }
        ends
    }

    fn starts(&self, start: LogOffset, end: LogOffset) -> Vec<LogOffset> {
        let mut starts = Vec::new();
        for segment in self.segments.all() {
            if segment.end() > start && segment.start() < end {
                starts.extend(segment.starts().filter(|at| *at >= start && *at < end));
            }
        }
        starts
    }

    fn aborted(&self, start: LogOffset, end: LogOffset) -> Vec<(QueueNumber, Aborted)> {
        let mut out = Vec::new();
        for (number, queue) in self.queues.iter() {
            let all = queue.aborted().into_iter();
            let inside = all.filter(|(at, _)| *at >= start && *at < end);
            out.extend(inside.map(|(_, aborted)| (number, aborted)));
        }
        out.sort_by_key(|(number, aborted)| (*number, aborted.last));
        out
    }

    /// Lets a few queues' sealed rows go; under the lane's lock. Gives back how many rows went.
    pub(crate) fn release(
        &self,
        numbers: std::ops::Range<u32>,
        end: LogOffset,
        pen: &mut Pen,
    ) -> u64 {
        let mut rows = 0;
        for number in numbers.map(QueueNumber) {
            let Some(queue) = self.queues.get(number) else {
                continue;
            };
            let (gone, emptied) = queue.rows.drop_below(end);
            if emptied {
                pen.forget(number);
            }
            queue.forget_aborted(end);
            rows += gone;
        }
        rows
    }
}

/// The end of the stretch, or the place of the first row stored too late after `time`.
fn split(parts: &[Part], start: LogOffset, end: LogOffset, time: Timestamp) -> LogOffset {
    let limit = Timestamp(time.0.saturating_add(SPAN_MS));
    let late = parts.iter().filter_map(|part| {
        let last = part.blocks.iter().rev().find(|block| block.len() > 0)?;
        if last.row(part.queue, last.len() - 1).store_time <= limit {
            return None;
        }
        let mut rows = part.rows(start, end);
        rows.find(|row| row.store_time > limit).map(|row| row.at)
    });
    // Rows of one run have one store time, so this is where a run ends.
    late.min().unwrap_or(end)
}

/// The sealing thread.
#[derive(Debug)]
pub(crate) struct Sealer {
    pub(crate) seal: Seal,
    pub(crate) lane: Arc<Lane>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) room: Arc<Room>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) flusher: Arc<Bell>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reigns: Vec<(Reign, LogOffset)>,
    pub(crate) rows_max: u64,
    pub(crate) producer_expiration_ms: u64,
    pub(crate) metrics: StoreMetrics,
}

impl Sealer {
    /// Runs until the bell is stopped.
    pub(crate) fn run(&self) {
        let mut since = self.clock.now();
        while !self.bell.stopped() {
            if self.marks.failed() {
                return; // nothing more gets on disk
            }
            if self.due(since) {
                match self.round() {
                    Ok(()) => since = self.clock.now(),
                    // What a full disk refuses today may go tomorrow; appends wait for room meanwhile.
                    Err(error) => {
                        tracing::error!(%error, "an index run could not be written");
                        self.pause();
                    }
                }
            }
            self.bell.wait(IDLE);
        }
    }

    /// Waits before trying again what failed, however often the bell rings.
    fn pause(&self) {
        let until = Instant::now() + RETRY;
        while !self.bell.stopped() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.bell.wait(left);
        }
    }

    /// True once a file has rolled, rows fill half of their bound, or the stretch is a day old.
    fn due(&self, since: Timestamp) -> bool {
        let start = self.seal.start();
        let written = self.marks.written();
        let file = self.seal.segments.file_bytes();
        let rolled = written.0 / file > start.0 / file;
        let old = self.clock.now().0 - since.0 > AGE_MS && self.room.rows() > 0;
        written > start && (rolled || old || self.room.rows() >= self.rows_max / 2)
    }

    /// Seals what is written now.
    fn round(&self) -> io::Result<()> {
        let end = self.marks.written();
        let image = self.image(self.seal.start());
        // The image may be newer than `end`, up to here: nothing of it may get lost any more.
        let known = self.marks.written();
        while self.marks.synced() < known {
            if self.bell.stopped() || self.marks.failed() {
                return Ok(());
            }
            self.flusher.ring();
            std::thread::sleep(Duration::from_millis(2));
        }
        snapshot::write(
            &*self.seal.disk,
            &self.seal.paths.snapshots,
            LEDGER,
            end,
            &image,
        )?;
        let end = self.seal.write(end, &self.reigns)?;
        let bound = self.lane.with(|ledger, _| ledger.bound());
        let mut from = 0;
        while from < bound {
            let to = (from + QUEUES_AT_ONCE).min(bound);
            let gone = self
                .lane
                .with(|_, pen| self.seal.release(from..to, end, pen));
            self.room.remove_rows(gone);
            from = to;
        }
        self.metrics.seals.inc();
        self.room.tell();
        Ok(())
    }

    /// The ledger's bytes, with aborted transactions from `at` on.
    fn image(&self, at: LogOffset) -> Vec<u8> {
        let before = self.clock.now().0;
        let before = before.saturating_sub_unsigned(self.producer_expiration_ms);
        let bound = self.lane.with(|ledger, _| ledger.bound());
        let mut bytes = Vec::new();
        let mut from = 0;
        while from < bound {
            let to = (from + QUEUES_AT_ONCE).min(bound);
            let images: Vec<QueueImage> = self.lane.with(|ledger, _| {
                let numbers = (from..to).map(QueueNumber);
                let image = |number| self.one(number, ledger, Timestamp(before), at);
                numbers.filter_map(image).collect()
            });
            for image in images {
                image.encode(&mut bytes);
            }
            from = to;
        }
        bytes
    }

    fn one(
        &self,
        number: QueueNumber,
        ledger: &mut Ledger,
        before: Timestamp,
        at: LogOffset,
    ) -> Option<QueueImage> {
        let queue = self.seal.queues.get(number)?;
        ledger.get_mut(number).expire(before);
        QueueImage::of(number, ledger, queue, at)
    }
}
