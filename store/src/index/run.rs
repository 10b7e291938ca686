//! One sealed index run: what the index knows of a complete stretch of the log, in an immutable file.
//!
//! Promises: every page is checked before it is believed; with [`Access::NoWait`] no lookup waits for
//! the disk; a disk error is an answer, since nothing is mapped; only the table of sections stays in
//! memory. Leaves out which run to ask, and the rows of the newest stretch.

use super::Row;
use super::layout::{
    ABORTED, AbortedLine, BODY_BYTES, Bytes, DiskRow, HEAD, HEAD_BYTES, KEYS, MAGIC, PAGE_BYTES,
    QUEUES, QueueLine, REIGNS, ROWS, Record, SECTION_BYTES, SECTIONS_MAX, STARTS, Tag, VERSION,
    page_is_sound,
};
use crate::disk::{Disk, DiskFile};
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp, size};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use thiserror::Error;

/// Whether a lookup may wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Access {
    /// Only what is cached: for threads that must not wait.
    NoWait,
    /// From the disk if need be.
    Wait,
}

/// Why a run gave no answer.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    /// Not cached: ask again with [`Access::Wait`] where waiting is allowed.
    #[error("the index page is not in memory")]
    WouldBlock,
    /// The disk's error.
    #[error("reading an index run")]
    Io(#[from] io::Error),
    /// The file is damaged, or not an index run of this version.
    #[error("index run, byte {at}: {reason}")]
    Corrupt {
        /// Byte of the file.
        at: u64,
        /// What is wrong.
        reason: &'static str,
    },
}

fn corrupt<T>(at: u64, reason: &'static str) -> Result<T, RunError> {
    Err(RunError::Corrupt { at, reason })
}

#[derive(Clone, Copy, Default, Debug)]
struct Section {
    first_page: u64,
    records: u64,
}

/// A sealed run.
#[derive(Clone, Debug)]
pub(crate) struct IndexRun {
    file: Arc<dyn DiskFile>,
    start: LogOffset,
    end: LogOffset,
    time: Timestamp,
    rows: Section,
    queues: Section,
    keys: Section,
    starts: Section,
    aborted: Section,
    reigns: Section,
}

/// Records `first..first + count` of one page.
struct Page<R> {
    bytes: [u8; PAGE_BYTES],
    first: u64,
    count: usize,
    at: u64,
    record: std::marker::PhantomData<R>,
}

impl<R: Record> Page<R> {
    fn get(&mut self, n: usize) -> Result<R, RunError> {
        let from = n * R::BYTES;
        let bytes = &mut self.bytes[from..from + R::BYTES];
        match R::decode(&mut Bytes::new(bytes)) {
            Some(record) => Ok(record),
            None => corrupt(self.at + from as u64, "a value has no meaning"),
        }
    }

    /// The first of `range` (places on the page) for which `before` is false.
    fn search(
        &mut self,
        mut range: Range<usize>,
        before: &mut dyn FnMut(&R) -> bool,
    ) -> Result<usize, RunError> {
        while range.start < range.end {
            let middle = range.start + (range.end - range.start) / 2;
            if before(&self.get(middle)?) {
                range.start = middle + 1;
            } else {
                range.end = middle;
            }
        }
        Ok(range.start)
    }
}

impl IndexRun {
    /// Opens a run and checks its head. The other pages are checked as they are read.
    ///
    /// # Errors
    /// Never `WouldBlock`.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, RunError> {
        let file = disk.open_read(path)?;
        let mut page = [0; PAGE_BYTES];
        if file.read_at(0, &mut page)? < PAGE_BYTES {
            return corrupt(0, "shorter than a page");
        }
        if page[..8] != *MAGIC {
            return corrupt(0, "not an index run");
        }
        let bytes = file.size()?;
        let mut head = Bytes::new(&mut page[8..HEAD_BYTES]);
        match (|| {
            let (version, sections) = (head.u32()?, head.u32()?);
            let (start, end) = (LogOffset(head.u64()?), LogOffset(head.u64()?));
            Some((version, sections, start, end, head.i64()?, head.u64()?))
        })() {
            Some((version, ..)) if version != VERSION => corrupt(8, "another version"),
            Some((_, sections, start, end, time, length)) => {
                if !page_is_sound(&page, HEAD, 0, sections) {
                    return corrupt(0, "the head's sum is wrong");
                }
                if length != bytes || start > end {
                    return corrupt(16, "the head contradicts itself or the file's length");
                }
                let mut run = Self {
                    file,
                    start,
                    end,
                    time: Timestamp(time),
                    rows: Section::default(),
                    queues: Section::default(),
                    keys: Section::default(),
                    starts: Section::default(),
                    aborted: Section::default(),
                    reigns: Section::default(),
                };
                run.read_table(&mut page, sections, bytes)?;
                Ok(run)
            }
            None => corrupt(0, "shorter than a head"),
        }
    }

    fn read_table(
        &mut self,
        head: &mut [u8; PAGE_BYTES],
        sections: u32,
        bytes: u64,
    ) -> Result<(), RunError> {
        if sections as usize > SECTIONS_MAX {
            return corrupt(12, "too many sections");
        }
        let end = HEAD_BYTES + sections as usize * SECTION_BYTES;
        for line in head[HEAD_BYTES..end].chunks_exact_mut(SECTION_BYTES) {
            let mut tag: Tag = [0; 4];
            tag.copy_from_slice(&line[..4]);
            let mut line = Bytes::new(&mut line[4..]);
            let (Some(record_bytes), Some(first_page), Some(pages), Some(records)) =
                (line.u32(), line.u64(), line.u64(), line.u64())
            else {
                return corrupt(HEAD_BYTES as u64, "a section is cut");
            };
            let expected;
            let place = match tag {
                ROWS => (expected = DiskRow::BYTES, &mut self.rows),
                QUEUES => (expected = QueueLine::BYTES, &mut self.queues),
                KEYS => (expected = QueueNumber::BYTES, &mut self.keys),
                STARTS => (expected = LogOffset::BYTES, &mut self.starts),
                ABORTED => (expected = AbortedLine::BYTES, &mut self.aborted),
                REIGNS => (expected = <(Reign, LogOffset)>::BYTES, &mut self.reigns),
                _ => continue, // a later version's
            }
            .1;
            let per_page = (BODY_BYTES / expected) as u64;
            let inside = first_page
                .checked_add(pages)
                .and_then(|end| end.checked_mul(PAGE_BYTES as u64))
                .is_some_and(|end| end <= bytes);
            let sound = record_bytes as usize == expected
                && first_page > 0
                && pages == records.div_ceil(per_page)
                && u32::try_from(records).is_ok();
            if !inside || !sound {
                return corrupt(HEAD_BYTES as u64, "a section contradicts itself");
            }
            *place = Section {
                first_page,
                records,
            };
        }
        let queue_pages = self.queues.records.div_ceil(QueueLine::PER_PAGE as u64);
        if self.keys.records != queue_pages {
            return corrupt(HEAD_BYTES as u64, "the queue table lacks keys");
        }
        Ok(())
    }

    /// The stretch of log it covers.
    pub(crate) fn log(&self) -> Range<LogOffset> {
        self.start..self.end
    }

    /// A store time that no row of the run is below.
    pub(crate) fn time(&self) -> Timestamp {
        self.time
    }

    fn page<R: Record>(
        &self,
        access: Access,
        tag: Tag,
        section: Section,
        number: u64,
    ) -> Result<Page<R>, RunError> {
        let first = number * R::PER_PAGE as u64;
        let count = section
            .records
            .saturating_sub(first)
            .min(R::PER_PAGE as u64);
        let at = (section.first_page + number) * PAGE_BYTES as u64;
        let mut bytes = [0; PAGE_BYTES];
        let read = match access {
            Access::Wait => self.file.read_at(at, &mut bytes)?,
            Access::NoWait => match self.file.read_at_nowait(at, &mut bytes)? {
                Some(read) => read,
                None => return Err(RunError::WouldBlock),
            },
        };
        if read < PAGE_BYTES {
            return corrupt(at, "the file ends here");
        }
        let (Ok(number), Ok(records)) = (u32::try_from(number), u32::try_from(count)) else {
            return corrupt(at, "no such page");
        };
        if !page_is_sound(&bytes, tag, number, records) {
            return corrupt(at, "the page's sum is wrong");
        }
        Ok(Page {
            bytes,
            first,
            count: size(count),
            at,
            record: std::marker::PhantomData,
        })
    }

    /// The first record of `range` for which `before` is false (the range's end if none), and the
    /// page looked at last when it holds that record.
    fn search<R: Record>(
        &self,
        access: Access,
        tag: Tag,
        section: Section,
        range: Range<u64>,
        mut before: impl FnMut(&R) -> bool,
    ) -> Result<(u64, Option<R>), RunError> {
        let end = range.end.min(section.records);
        let per_page = R::PER_PAGE as u64;
        let mut pages = range.start / per_page..end.div_ceil(per_page);
        let mut found = (end, None);
        while range.start < end && pages.start < pages.end {
            let number = pages.start + (pages.end - pages.start) / 2;
            let mut page = self.page::<R>(access, tag, section, number)?;
            let from = size(range.start.saturating_sub(page.first));
            let to = size((end - page.first).min(page.count as u64));
            let n = page.search(from..to, &mut before)?;
            if n == to {
                pages.start = number + 1;
            } else {
                found = (page.first + n as u64, Some(page.get(n)?));
                if n > from {
                    break;
                }
                pages.end = number;
            }
        }
        Ok(found)
    }

    /// What the run knows of `queue`; `None` when it was not alive.
    pub(crate) fn queue(
        &self,
        access: Access,
        queue: QueueNumber,
    ) -> Result<Option<QueueLine>, RunError> {
        let keys = 0..self.keys.records;
        let after = |key: &QueueNumber| *key <= queue;
        let (page, _) = self.search(access, KEYS, self.keys, keys, after)?;
        let Some(page) = page.checked_sub(1) else {
            return Ok(None);
        };
        let mut page = self.page::<QueueLine>(access, QUEUES, self.queues, page)?;
        let n = page.search(0..page.count, &mut |line| line.queue < queue)?;
        if n == page.count {
            return Ok(None);
        }
        Ok(Some(page.get(n)?).filter(|line| line.queue == queue))
    }

    /// Every queue alive at the end of the stretch, rising.
    pub(crate) fn each_queue(
        &self,
        mut see: impl FnMut(QueueLine) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        self.each(QUEUES, self.queues, |line, _| see(line))
    }

    fn each<R: Record>(
        &self,
        tag: Tag,
        section: Section,
        mut see: impl FnMut(R, u64) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        for number in 0..section.records.div_ceil(R::PER_PAGE as u64) {
            let mut page = self.page(Access::Wait, tag, section, number)?;
            for n in 0..page.count {
                see(page.get(n)?, page.at + (n * R::BYTES) as u64)?;
            }
        }
        Ok(())
    }

    fn range(&self, line: &QueueLine) -> Range<u64> {
        let first = u64::from(line.first_row);
        first..first + u64::from(line.rows)
    }

    /// The place in the run of the queue's first row whose end is above `from`: the row that holds
    /// `from`, or the next; the end of the queue's rows if there is none.
    pub(crate) fn place(
        &self,
        access: Access,
        line: &QueueLine,
        from: QueueOffset,
    ) -> Result<u64, RunError> {
        let below = |row: &DiskRow| row.base.0.saturating_add(u64::from(row.span)) <= from.0;
        let range = self.range(line);
        Ok(self.search(access, ROWS, self.rows, range, below)?.0)
    }

    /// Appends up to `rows_max` of the queue's rows to `out`, from the one that holds `from` on.
    pub(crate) fn rows(
        &self,
        access: Access,
        line: &QueueLine,
        from: QueueOffset,
        rows_max: usize,
        out: &mut Vec<Row>,
    ) -> Result<(), RunError> {
        let place = self.place(access, line, from)?;
        let wanted = out.len().saturating_add(rows_max);
        self.scan(access, line, place, |row| {
            if out.len() < wanted {
                out.push(row);
            }
            out.len() < wanted
        })
    }

    /// Shows the queue's rows from `place` on, while `see` says so.
    fn scan(
        &self,
        access: Access,
        line: &QueueLine,
        mut place: u64,
        mut see: impl FnMut(Row) -> bool,
    ) -> Result<(), RunError> {
        let end = self.range(line).end.min(self.rows.records);
        while place < end {
            let number = place / DiskRow::PER_PAGE as u64;
            let mut page = self.page::<DiskRow>(access, ROWS, self.rows, number)?;
            let to = (end - page.first).min(page.count as u64);
            for n in size(place - page.first)..size(to) {
                if !see(self.row(line.queue, page.get(n)?)?) {
                    return Ok(());
                }
            }
            place = page.first + to;
        }
        Ok(())
    }

    fn row(&self, queue: QueueNumber, row: DiskRow) -> Result<Row, RunError> {
        match row.row(queue, self.time) {
            Some(row) => Ok(row),
            None => corrupt(0, "a row has no meaning"),
        }
    }

    /// The queue's first row stored at or after `time`.
    pub(crate) fn lower(
        &self,
        access: Access,
        line: &QueueLine,
        time: Timestamp,
    ) -> Result<Option<Row>, RunError> {
        let before = |row: &DiskRow| row.store_time(self.time) < time;
        let (_, row) = self.search(access, ROWS, self.rows, self.range(line), before)?;
        row.map(|row| self.row(line.queue, row)).transpose()
    }

    /// The queue's first row, in queue order from `from` on, whose record time reaches `time`.
    pub(crate) fn reaching(
        &self,
        access: Access,
        line: &QueueLine,
        from: QueueOffset,
        time: Timestamp,
    ) -> Result<Option<Row>, RunError> {
        if line.record_time < time {
            return Ok(None);
        }
        let mut found = None;
        let place = self.place(access, line, from)?;
        self.scan(access, line, place, |row| {
            if row.record_time >= time {
                found = Some(row);
            }
            found.is_none()
        })?;
        Ok(found)
    }

    /// The queue's last row below a place in the log.
    pub(crate) fn last_below(
        &self,
        access: Access,
        line: &QueueLine,
        at: LogOffset,
    ) -> Result<Option<Row>, RunError> {
        let range = self.range(line);
        let below = |row: &DiskRow| row.at < at;
        let (place, _) = self.search(access, ROWS, self.rows, range.clone(), below)?;
        if place == range.start {
            return Ok(None);
        }
        let mut found = None;
        self.scan(access, line, place - 1, |row| {
            found = Some(row);
            false
        })?;
        Ok(found)
    }

    /// The last known entry start at or before `at`.
    pub(crate) fn start_before(
        &self,
        access: Access,
        at: LogOffset,
    ) -> Result<Option<LogOffset>, RunError> {
        let all = 0..self.starts.records;
        let before = |start: &LogOffset| *start <= at;
        let (place, _) = self.search(access, STARTS, self.starts, all, before)?;
        let Some(place) = place.checked_sub(1) else {
            return Ok(None);
        };
        let per_page = LogOffset::PER_PAGE as u64;
        let mut page = self.page(access, STARTS, self.starts, place / per_page)?;
        page.get(size(place % per_page)).map(Some)
    }

    /// Appends the queue's transactions aborted here that overlap `from..to`.
    pub(crate) fn aborted(
        &self,
        access: Access,
        queue: QueueNumber,
        from: QueueOffset,
        to: QueueOffset,
        out: &mut Vec<Aborted>,
    ) -> Result<(), RunError> {
        let all = 0..self.aborted.records;
        let before = |line: &AbortedLine| (line.0, line.1.last) < (queue, from);
        let (mut place, _) = self.search(access, ABORTED, self.aborted, all, before)?;
        let per_page = AbortedLine::PER_PAGE as u64;
        while place < self.aborted.records {
            let mut page =
                self.page::<AbortedLine>(access, ABORTED, self.aborted, place / per_page)?;
            for n in size(place - page.first)..page.count {
                let line = page.get(n)?;
                if line.0 != queue {
                    return Ok(());
                }
                if line.1.first < to {
                    out.push(line.1);
                }
            }
            place = page.first + page.count as u64;
        }
        Ok(())
    }

    /// The reigns known at the end of the stretch, rising.
    pub(crate) fn reigns(&self) -> Result<Vec<(Reign, LogOffset)>, RunError> {
        let mut reigns = Vec::new();
        self.each(REIGNS, self.reigns, |reign, _| {
            reigns.push(reign);
            Ok(())
        })?;
        Ok(reigns)
    }

    /// Reads and checks everything: each page, each order, and that the queue table tells what the
    /// rows do.
    ///
    /// # Errors
    /// The first thing found.
    pub(crate) fn verify(&self) -> Result<(), RunError> {
        let mut last = None;
        let mut next_row = 0;
        self.each_queue(|line| {
            if last.is_some_and(|last| last >= line.queue) {
                return corrupt(0, "the queue table is not in order");
            }
            last = Some(line.queue);
            self.verify_queue(&line, &mut next_row)
        })?;
        if next_row != self.rows.records {
            return corrupt(0, "rows that belong to no queue");
        }
        let mut last = None;
        self.each(STARTS, self.starts, |start: LogOffset, at| {
            if last.is_some_and(|last| last >= start) || !self.log().contains(&start) {
                return corrupt(at, "an entry start is out of place");
            }
            last = Some(start);
            Ok(())
        })?;
        let mut last = None;
        self.each(ABORTED, self.aborted, |line: AbortedLine, at| {
            let key = (line.0, line.1.last);
            if last.is_some_and(|last| last > key) || line.1.first > line.1.last {
                return corrupt(at, "an aborted transaction is out of place");
            }
            last = Some(key);
            Ok(())
        })?;
        let mut last = None;
        self.each(REIGNS, self.reigns, |reign: (Reign, LogOffset), at| {
            if last.is_some_and(|last: (Reign, LogOffset)| last.0 >= reign.0 || last.1 >= reign.1) {
                return corrupt(at, "a reign is out of place");
            }
            last = Some(reign);
            Ok(())
        })?;
        Ok(())
    }

    fn verify_queue(&self, line: &QueueLine, next_row: &mut u64) -> Result<(), RunError> {
        if self.queue(Access::Wait, line.queue)?.as_ref() != Some(line) {
            return corrupt(0, "a queue is not found through its key");
        }
        if line.rows == 0 {
            return Ok(());
        }
        if u64::from(line.first_row) != *next_row {
            return corrupt(0, "a queue's rows do not follow the one before");
        }
        *next_row += u64::from(line.rows);
        let mut seen = 0;
        let (mut bytes, mut record_time) = (0, Timestamp::UNKNOWN);
        let (mut last_at, mut last_time, mut next) = (None, self.time, line.start);
        let mut sound = true;
        self.scan(Access::Wait, line, u64::from(line.first_row), |row| {
            sound &= row.base >= next && self.log().contains(&row.at);
            sound &= last_at.is_none_or(|at| at < row.at) && row.store_time >= last_time;
            last_at = Some(row.at);
            last_time = row.store_time;
            next = row.next();
            bytes += u64::from(row.size);
            record_time = record_time.max(row.record_time);
            seen += 1;
            sound
        })?;
        let told = (line.rows, line.bytes, line.record_time);
        if !sound || next > line.end || (seen, bytes, record_time) != told {
            return corrupt(0, "a queue's rows contradict its line");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
