//! From a window to rows to bytes, within limits: hot from the map, cold through the pool.
//!
//! Promises: no reader waits for the disk on its own thread; nobody sees anything at or above his mark; the
//! filter runs on rows before a payload is touched. Leaves out what payloads mean.

use crate::allowance::{Allowance, Share};
use crate::cold::Cold;
use crate::entry::{HEADER_BYTES, Refused, Stored};
use crate::error::ReadError;
use crate::index::Row;
use crate::index::rows::Blocks;
use crate::index::run::{Access, RunError};
use crate::index::runs::{self, List, Runs};
use crate::marks::Marks;
use crate::metrics::StoreMetrics;
use crate::queues::Queues;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::store::{Ends, Page, Upto, Window};
use crate::types::{Address, LogOffset, QueueNumber, QueueOffset, size};
use bytes::{Bytes, BytesMut};
use std::io;
use std::sync::Arc;

/// Entries closer than this in the log are read in one piece.
const GAP_BYTES: u64 = 32 << 10;
/// Longest piece read at once, unless one entry is longer.
const PIECE_BYTES: u64 = 1 << 20;
/// Rows taken from the index at once.
const ROWS_AT_ONCE: usize = 512;

/// Reads entries.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) queues: Arc<Queues>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) cold: Cold,
    pub(crate) allowance: Allowance,
    pub(crate) hot_bytes: u64,
    pub(crate) runs: Arc<Runs>,
    pub(crate) metrics: StoreMetrics,
}

/// What a reader of a queue sees at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) mark: LogOffset,
    pub(crate) ends: Ends,
    /// Where this reader's sight ends in the queue.
    pub(crate) limit: QueueOffset,
}

impl Reader {
    /// What a reader sees of a queue; nothing of one never written or dropped.
    pub(crate) fn sight(&self, queue: QueueNumber, upto: Upto) -> Sight {
        let mark = self.marks.seen(upto.synced);
        let ends = match self.queues.get(queue) {
            Some(queue) if !queue.dropped() => {
                let first = queue.first();
                let end = queue.end_at(mark).max(first);
                let stable = queue.stable_at(mark, end).max(first);
                Ends { first, end, stable }
            }
            _ => Ends::default(),
        };
        let limit = if upto.committed {
            ends.stable
        } else {
            ends.end
        };
        Sight { mark, ends, limit }
    }

    /// See `Store::read`; `wait` is false for `Store::try_read`.
    pub(crate) async fn read(&self, window: &Window<'_>, wait: bool) -> Result<Page, ReadError> {
        let sight = self.sight(window.queue, window.upto);
        let ends = sight.ends;
        if window.from < ends.first || window.from > ends.end {
            return Err(ReadError::OutOfRange {
                asked: window.from,
                first: ends.first,
                end: ends.end,
            });
        }
        let mut taken = Taken::new(window);
        while !taken.full && taken.next < sight.limit {
            let before = taken.next;
            let (from, wanted) = (taken.next, window.entries_max.min(window.scan_max));
            let take = |row: &Row| taken.take(window, row);
            self.rows(window.queue, from, wanted, &sight, take).await?;
            if taken.next == before && !taken.full {
                break; // retention or a drop was faster
            }
        }
        let entries = match self.entries(&taken.rows, wait).await {
            Err(ReadError::NoSuchAddress { .. }) => {
                // Retention was faster than this reader.
                let ends = self.sight(window.queue, window.upto).ends;
                return Err(ReadError::OutOfRange {
                    asked: window.from,
                    first: ends.first,
                    end: ends.end,
                });
            }
            entries => entries?,
        };
        // Less than wanted where there was no room for more.
        let next = taken
            .rows
            .get(entries.len())
            .map_or(taken.next, |row| row.base);
        Ok(Page {
            entries,
            next,
            ends,
        })
    }

    /// Shows rows from the one that holds `from` on, as long as `take` wants more, or fewer: the caller
    /// comes again. `wanted` is how many he likely takes.
    pub(crate) async fn rows(
        &self,
        queue: QueueNumber,
        from: QueueOffset,
        wanted: u32,
        sight: &Sight,
        mut take: impl FnMut(&Row) -> bool,
    ) -> Result<(), ReadError> {
        let Some(shared) = self.queues.get(queue) else {
            return Ok(());
        };
        if let Some(blocks) = shared.rows.from(from, ROWS_AT_ONCE) {
            walk(queue, &blocks, from, sight, &mut take);
            return Ok(());
        }
        if from >= shared.sealed_end() {
            return Ok(());
        }
        let wanted = size(wanted.into()).clamp(1, ROWS_AT_ONCE);
        let sealed = self
            .sealed(move |list, access| runs::rows(list, access, queue, from, wanted))
            .await?;
        for row in sealed {
            if row.at >= sight.mark || row.base >= sight.limit || !take(&row) {
                break;
            }
        }
        Ok(())
    }

    /// Asks the sealed runs, on the cold pool where they are not cached.
    pub(crate) async fn sealed<T: Send + 'static>(
        &self,
        ask: impl Fn(&List, Access) -> Result<T, RunError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let list = self.runs.list();
        let answer = match ask(&list, Access::NoWait) {
            Err(RunError::WouldBlock) => {
                self.metrics.cold_reads.inc();
                let job = move || ask(&list, Access::Wait);
                let stopped = || Err(io::Error::from(io::ErrorKind::BrokenPipe).into());
                self.cold.run(job).await.unwrap_or_else(stopped)
            }
            answer => answer,
        };
        answer.map_err(read_error)
    }

    /// Fetches the entries of rows, in their order: all that there is room for. `wait`: for room for the
    /// first.
    pub(crate) async fn entries(&self, rows: &[Row], wait: bool) -> Result<Vec<Stored>, ReadError> {
        let mut out = Vec::with_capacity(rows.len());
        let hot = LogOffset(self.marks.written().0.saturating_sub(self.hot_bytes));
        let mut rest = rows;
        while let Some(first) = rest.first() {
            let Some(segment) = self.segments.find(first.at) else {
                return Err(gone(first.at));
            };
            let map = if first.at >= hot { segment.map() } else { None };
            let count = if map.is_some() {
                rest.partition_point(|row| row.at < segment.end())
            } else {
                piece(rest, segment.end())
            };
            let (group, later) = rest.split_at(count);
            rest = later;
            let (at, len) = range(group);
            let hot = map.and_then(|map| map.bytes(size(segment.place(at)), len));
            if let Some(bytes) = hot {
                for row in group {
                    let from = size(row.at.0 - at.0);
                    out.push(open(row, &bytes, from, false)?);
                }
                continue;
            }
            match self.cold(segment, at, len, wait && out.is_empty()).await {
                Ok((bytes, share)) => cold_entries(group, at, bytes, share, &mut out)?,
                Err(ReadError::Busy) if !out.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(out)
    }

    /// Bytes that are not certain to be in memory, with the share that covers them.
    async fn cold(
        &self,
        segment: Arc<Segment>,
        at: LogOffset,
        len: usize,
        wait: bool,
    ) -> Result<(Bytes, Share), ReadError> {
        let io = |source| ReadError::Io { at, source };
        let Some(share) = self.allowance.take(len, wait).await else {
            self.metrics.cold_refused.inc();
            return Err(ReadError::Busy);
        };
        if let Some(bytes) = segment.read_nowait(at, len).map_err(io)? {
            return Ok((bytes, share));
        }
        self.metrics.cold_reads.inc();
        self.metrics.cold_bytes.inc_by(len as u64);
        // The share goes along: the bytes come even if nobody waits for them any more.
        let job = move || segment.read(at, len).map(|bytes| (bytes, share));
        let read = self.cold.run(job).await;
        read.unwrap_or_else(|| Err(io::ErrorKind::BrokenPipe.into()))
            .map_err(io)
    }

    /// The entry at `at`, checked; `None` where no entry starts.
    pub(crate) async fn entry_at(&self, at: LogOffset) -> Result<Option<Stored>, ReadError> {
        let Some(segment) = self.segments.find(at) else {
            return Ok(None);
        };
        let end = self.marks.readable().min(segment.end());
        let mut len = HEADER_BYTES as u64 + 512;
        loop {
            let room = end.0.saturating_sub(at.0);
            if room < HEADER_BYTES as u64 {
                return Ok(None);
            }
            let bytes = self.bytes(&segment, at, size(len.min(room))).await?;
            match Stored::open(&bytes, true) {
                Ok(stored) if stored.header.log_offset == at => return Ok(Some(stored)),
                Err(Refused::Short { needed }) if len < room && needed as u64 > len => {
                    len = needed as u64;
                }
                _ => return Ok(None),
            }
        }
    }

    async fn bytes(
        &self,
        segment: &Arc<Segment>,
        at: LogOffset,
        len: usize,
    ) -> Result<Bytes, ReadError> {
        let hot = at.0 >= self.marks.written().0.saturating_sub(self.hot_bytes);
        if hot
            && let Some(map) = segment.map()
            && let Some(bytes) = map.bytes(size(segment.place(at)), len)
        {
            return Ok(bytes);
        }
        let (bytes, share) = self.cold(Arc::clone(segment), at, len, true).await?;
        Ok(share.hold(bytes))
    }

    /// See `Store::at`.
    pub(crate) async fn at(&self, address: Address) -> Result<(Stored, u32), ReadError> {
        let nothing = || ReadError::NoSuchAddress { at: address.0 };
        let asked = LogOffset(address.0);
        if asked >= self.marks.readable() {
            return Err(nothing());
        }
        let segment = self.segments.find(asked).ok_or_else(nothing)?;
        let start = self.start_before(&segment, asked).await?;
        let mut at = start.unwrap_or_else(|| segment.start());
        while at <= asked {
            let entry = self.entry_at(at).await?.ok_or_else(nothing)?;
            let header = &entry.header;
            if header.end() > asked {
                let place = asked.0 - at.0;
                let queue = self.queues.get(header.queue).ok_or_else(nothing)?;
                let kept = header.base.plus(place) >= queue.first() && !queue.dropped();
                if header.queue == QueueNumber::CONTROL || place >= u64::from(header.span) || !kept
                {
                    return Err(nothing());
                }
                let place = u32::try_from(place).map_err(|_| nothing())?;
                return Ok((entry, place));
            }
            at = header.end();
        }
        Err(nothing())
    }

    async fn start_before(
        &self,
        segment: &Arc<Segment>,
        at: LogOffset,
    ) -> Result<Option<LogOffset>, ReadError> {
        match segment.start_before(at) {
            Some(start) => Ok(Some(start)),
            None => {
                let start = self.sealed(move |list, access| runs::start_before(list, access, at));
                Ok(start.await?.filter(|start| *start >= segment.start()))
            }
        }
    }
}

/// What a window has taken so far.
#[derive(Debug)]
struct Taken {
    rows: Vec<Row>,
    bytes: u64,
    scanned: u32,
    next: QueueOffset,
    full: bool,
}

impl Taken {
    fn new(window: &Window<'_>) -> Self {
        Self {
            rows: Vec::new(),
            bytes: 0,
            scanned: 0,
            next: window.from,
            full: false,
        }
    }

    /// Takes or skips a row; false once no more is wanted.
    fn take(&mut self, window: &Window<'_>, row: &Row) -> bool {
        self.scanned += 1;
        if window.pass.is_none_or(|pass| pass(row)) {
            let payload = u64::from(row.size).saturating_sub(HEADER_BYTES as u64);
            if !self.rows.is_empty() && self.bytes + payload > u64::from(window.bytes_max) {
                self.full = true;
                return false;
            }
            self.bytes += payload;
            self.rows.push(*row);
        }
        self.next = row.next();
        self.full = self.bytes >= u64::from(window.bytes_max)
            || self.rows.len() >= window.entries_max as usize
            || self.scanned >= window.scan_max;
        !self.full
    }
}

/// Shows the rows of `blocks` from the one that holds `from` on, within sight.
fn walk(
    queue: QueueNumber,
    blocks: &Blocks,
    from: QueueOffset,
    sight: &Sight,
    take: &mut impl FnMut(&Row) -> bool,
) {
    for (nth, block) in blocks.iter().enumerate() {
        let len = block.len();
        let start = if nth == 0 {
            block.search(len, |n| block.row(queue, n).next() <= from)
        } else {
            0
        };
        for n in start..len {
            let row = block.row(queue, n);
            if row.at >= sight.mark || row.base >= sight.limit || !take(&row) {
                return;
            }
        }
    }
}

/// How many rows from the front are read in one piece.
fn piece(rows: &[Row], end: LogOffset) -> usize {
    let start = rows[0].at.0;
    let mut count = 1;
    for pair in rows.windows(2) {
        let (before, row) = (&pair[0], &pair[1]);
        let gap = row.at.0 - (before.at.0 + u64::from(before.size));
        let total = row.at.0 + u64::from(row.size) - start;
        if gap > GAP_BYTES || total > PIECE_BYTES || row.at >= end {
            break;
        }
        count += 1;
    }
    count
}

fn range(rows: &[Row]) -> (LogOffset, usize) {
    let at = rows[0].at;
    let end = rows
        .last()
        .map_or(at.0, |row| row.at.0 + u64::from(row.size));
    (at, size(end - at.0))
}

/// Takes the entries of neighbouring rows out of the piece that begins at `at`.
fn cold_entries(
    group: &[Row],
    at: LogOffset,
    piece: Bytes,
    share: Share,
    out: &mut Vec<Stored>,
) -> Result<(), ReadError> {
    let entries: usize = group.iter().map(|row| row.size as usize).sum();
    // A piece read for a few scattered entries is not kept alive by them.
    let scattered = entries * 2 < piece.len();
    let bytes = if scattered {
        let mut only = BytesMut::with_capacity(entries);
        for row in group {
            let from = size(row.at.0 - at.0);
            let entry = piece.get(from..from + row.size as usize);
            only.extend_from_slice(entry.ok_or_else(|| short(row))?);
        }
        only.freeze()
    } else {
        piece
    };
    let bytes = share.hold(bytes);
    let mut next = 0;
    for row in group {
        let from = if scattered {
            next
        } else {
            size(row.at.0 - at.0)
        };
        next += row.size as usize;
        out.push(open(row, &bytes, from, true)?);
    }
    Ok(())
}

/// Takes a row's entry out of bytes.
fn open(row: &Row, bytes: &Bytes, from: usize, cold: bool) -> Result<Stored, ReadError> {
    let to = from + row.size as usize;
    if to > bytes.len() {
        return Err(short(row));
    }
    match Stored::open(&bytes.slice(from..to), cold) {
        Ok(stored) if stored.header.base == row.base && stored.header.queue == row.queue => {
            Ok(stored)
        }
        Ok(_) => Err(corrupt(row, "another entry than the index says")),
        Err(Refused::Damaged(reason)) => Err(corrupt(row, reason)),
        Err(Refused::Short { .. }) => Err(corrupt(row, "cut short")),
    }
}

fn short(row: &Row) -> ReadError {
    corrupt(row, "the index points beyond the file")
}

fn corrupt(row: &Row, reason: &str) -> ReadError {
    ReadError::Corrupt {
        at: row.at,
        reason: reason.to_owned(),
    }
}

/// The file was dropped meanwhile.
fn gone(at: LogOffset) -> ReadError {
    ReadError::NoSuchAddress { at: at.0 }
}

/// What a reader is told when the index does not answer.
pub(crate) fn read_error(error: RunError) -> ReadError {
    let at = LogOffset(0); // the index speaks of its own bytes
    match error {
        RunError::Io(source) => ReadError::Io { at, source },
        other => ReadError::Corrupt {
            at,
            reason: other.to_string(),
        },
    }
}
