//! Writing an index run: a complete stretch of rows to one immutable file.
//!
//! Promises: written aside, synced and renamed, so that a run is there whole or not at all; what
//! comes in the wrong order or does not fit is refused, not written. Leaves out when to seal.

use super::Row;
use super::layout::{
    ABORTED, AbortedLine, BODY_BYTES, Bytes, DiskRow, HEAD, HEAD_BYTES, KEYS, MAGIC, PAGE_BYTES,
    QUEUES, QueueLine, REIGNS, ROWS, Record, SECTION_BYTES, STARTS, Tag, VERSION, seal_page,
};
use crate::disk::{Disk, DiskFile};
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use std::io;
use std::path::Path;

/// Pages written at once.
const PAGES_AT_ONCE: usize = 256;

/// A live queue's next offsets at both ends of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueEnds {
    /// The queue.
    pub(crate) queue: QueueNumber,
    /// Next offset where the stretch starts.
    pub(crate) start: QueueOffset,
    /// Next offset where the stretch ends.
    pub(crate) end: QueueOffset,
}

/// Everything that goes into a run.
pub(crate) struct Stretch<'a> {
    /// First byte of the log that the run covers.
    pub(crate) start: LogOffset,
    /// End of the log that the run covers.
    pub(crate) end: LogOffset,
    /// A store time that no row is below, and none more than 49 days above.
    pub(crate) time: Timestamp,
    /// How many rows come.
    pub(crate) row_count: u64,
    /// The rows, by queue number, then base.
    pub(crate) rows: &'a mut dyn Iterator<Item = Row>,
    /// Every live queue, rising; those with rows must be among them.
    pub(crate) queues: &'a [QueueEnds],
    /// The first entry start of each 64 KiB of log, rising.
    pub(crate) starts: &'a [LogOffset],
    /// Transactions aborted in the stretch, by queue number, then marker.
    pub(crate) aborted: &'a [(QueueNumber, Aborted)],
    /// All reigns known, rising.
    pub(crate) reigns: &'a [(Reign, LogOffset)],
}

struct Section {
    tag: Tag,
    record_bytes: usize,
    first_page: u64,
    pages: u64,
    records: u64,
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Pages of full pages, buffered.
struct Pages<'a> {
    file: &'a dyn DiskFile,
    buffer: Vec<u8>,
    /// Page of the file where the buffer starts.
    at: u64,
}

impl Pages<'_> {
    fn next_page(&self) -> u64 {
        self.at + (self.buffer.len() / PAGE_BYTES) as u64
    }

    fn page(&mut self, tag: Tag, number: u32, records: u32, body: &[u8]) -> io::Result<()> {
        let from = self.buffer.len();
        self.buffer.extend_from_slice(body);
        self.buffer.resize(from + PAGE_BYTES, 0);
        seal_page(&mut self.buffer[from..], tag, number, records);
        if self.buffer.len() == PAGES_AT_ONCE * PAGE_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file
            .write_at(self.at * PAGE_BYTES as u64, &self.buffer)?;
        self.at = self.next_page();
        self.buffer.clear();
        Ok(())
    }

    /// Writes a whole section.
    fn section<R: Record>(
        &mut self,
        tag: Tag,
        records: &mut dyn Iterator<Item = io::Result<R>>,
    ) -> io::Result<Section> {
        let first_page = self.next_page();
        let mut body = [0; BODY_BYTES];
        let (mut number, mut held, mut total) = (0_u32, 0_usize, 0_u64);
        for record in records {
            let place = &mut body[held * R::BYTES..(held + 1) * R::BYTES];
            record?.encode(&mut Bytes::new(place));
            held += 1;
            total += 1;
            if held == R::PER_PAGE {
                self.page(tag, number, count(held)?, &body)?;
                body.fill(0);
                held = 0;
                number += 1;
            }
        }
        if held > 0 {
            self.page(tag, number, count(held)?, &body)?;
        }
        Ok(Section {
            tag,
            record_bytes: R::BYTES,
            first_page,
            pages: self.next_page() - first_page,
            records: total,
        })
    }
}

fn count(n: usize) -> io::Result<u32> {
    u32::try_from(n).map_err(|_| refused("too many records"))
}

/// What the rows say about the queues that have some.
#[derive(Default)]
struct Seen(Vec<QueueLine>);

impl Seen {
    fn add(&mut self, row: &Row, place: u64) -> io::Result<()> {
        match self.0.last_mut() {
            Some(line) if line.queue == row.queue => {
                if row.base < line.end {
                    return Err(refused("rows of a queue are not in order"));
                }
                line.rows += 1;
                line.end = row.next();
                line.record_time = line.record_time.max(row.record_time);
                line.bytes += u64::from(row.size);
            }
            Some(line) if line.queue > row.queue => {
                return Err(refused("rows are not in order of queues"));
            }
            _ => self.0.push(QueueLine {
                queue: row.queue,
                first_row: u32::try_from(place).map_err(|_| refused("too many rows"))?,
                rows: 1,
                start: row.base,
                end: row.next(),
                record_time: row.record_time.max(Timestamp::UNKNOWN),
                bytes: u64::from(row.size),
            }),
        }
        Ok(())
    }

    /// The queue table: every live queue, with what the rows said.
    fn table(&self, queues: &[QueueEnds]) -> io::Result<Vec<QueueLine>> {
        let mut seen = self.0.iter().peekable();
        let mut table: Vec<QueueLine> = Vec::with_capacity(queues.len());
        for ends in queues {
            if table.last().is_some_and(|line| line.queue >= ends.queue) {
                return Err(refused("queues are not in order"));
            }
            let mut line = QueueLine {
                queue: ends.queue,
                first_row: 0,
                rows: 0,
                start: ends.start,
                end: ends.end,
                record_time: Timestamp::UNKNOWN,
                bytes: 0,
            };
            if let Some(rows) = seen.next_if(|rows| rows.queue == ends.queue) {
                if rows.start < ends.start || rows.end > ends.end {
                    return Err(refused("a queue's rows lie outside its ends"));
                }
                line.first_row = rows.first_row;
                line.rows = rows.rows;
                line.record_time = rows.record_time;
                line.bytes = rows.bytes;
            }
            table.push(line);
        }
        match seen.next() {
            Some(_) => Err(refused("a queue with rows is not among the live ones")),
            None => Ok(table),
        }
    }
}

fn pages_of<R: Record>(records: u64) -> u64 {
    records.div_ceil(R::PER_PAGE as u64)
}

/// Writes the run to `path`, aside first.
///
/// # Errors
/// The disk's; `InvalidData` when the stretch is not in order or a row does not fit. Nothing has
/// the name `path` then.
pub(crate) fn write(disk: &dyn Disk, path: &Path, stretch: Stretch<'_>) -> io::Result<()> {
    let aside = path.with_extension("tmp");
    let dir = path
        .parent()
        .ok_or_else(|| refused("a run needs a directory"))?;
    let queues = stretch.queues.len() as u64;
    let pages = 1
        + pages_of::<DiskRow>(stretch.row_count)
        + pages_of::<QueueLine>(queues)
        + pages_of::<QueueNumber>(pages_of::<QueueLine>(queues))
        + pages_of::<LogOffset>(stretch.starts.len() as u64)
        + pages_of::<AbortedLine>(stretch.aborted.len() as u64)
        + pages_of::<(Reign, LogOffset)>(stretch.reigns.len() as u64);
    let file = disk.create(&aside, pages * PAGE_BYTES as u64)?;
    let written = write_sections(&*file, stretch, pages).and_then(|()| file.sync());
    if let Err(error) = written {
        let _ = disk.remove(&aside); // the first error is the one to tell
        return Err(error);
    }
    disk.rename(&aside, path)?;
    disk.sync_dir(dir)
}

fn write_sections(file: &dyn DiskFile, stretch: Stretch<'_>, pages: u64) -> io::Result<()> {
    let mut out = Pages {
        file,
        buffer: Vec::with_capacity(PAGES_AT_ONCE * PAGE_BYTES),
        at: 1,
    };
    let mut seen = Seen::default();
    let mut place = 0;
    let mut rows = stretch.rows.map(|row| {
        seen.add(&row, place)?;
        place += 1;
        if row.at < stretch.start || row.at >= stretch.end {
            return Err(refused("a row lies outside the stretch"));
        }
        DiskRow::of(&row, stretch.time).ok_or_else(|| refused("a row does not fit"))
    });
    let mut sections = vec![out.section(ROWS, &mut rows)?];
    drop(rows);
    let table = seen.table(stretch.queues)?;
    sections.push(out.section(QUEUES, &mut table.iter().map(|line| Ok(*line)))?);
    let keys = table.iter().step_by(QueueLine::PER_PAGE);
    sections.push(out.section(KEYS, &mut keys.map(|line| Ok(line.queue)))?);
    sections.push(out.section(STARTS, &mut stretch.starts.iter().map(|at| Ok(*at)))?);
    let aborted = stretch.aborted.iter();
    let mut aborted = aborted.map(|(queue, aborted)| Ok(AbortedLine(*queue, *aborted)));
    sections.push(out.section(ABORTED, &mut aborted)?);
    sections.push(out.section(REIGNS, &mut stretch.reigns.iter().map(|reign| Ok(*reign)))?);
    if place != stretch.row_count || out.next_page() != pages {
        return Err(refused("the count of rows is not what was said"));
    }
    out.flush()?;
    file.write_at(0, &head(&stretch, &sections, pages)?)
}

fn head(stretch: &Stretch<'_>, sections: &[Section], pages: u64) -> io::Result<[u8; PAGE_BYTES]> {
    let mut page = [0; PAGE_BYTES];
    let mut out = Bytes::new(&mut page[..HEAD_BYTES + sections.len() * SECTION_BYTES]);
    out.put(*MAGIC);
    out.put_u32(VERSION);
    out.put_u32(count(sections.len())?);
    out.put_u64(stretch.start.0);
    out.put_u64(stretch.end.0);
    out.put(stretch.time.0.to_le_bytes());
    out.put_u64(pages * PAGE_BYTES as u64);
    for section in sections {
        out.put(section.tag);
        out.put_u32(count(section.record_bytes)?);
        out.put_u64(section.first_page);
        out.put_u64(section.pages);
        out.put_u64(section.records);
    }
    seal_page(&mut page, HEAD, 0, count(sections.len())?);
    Ok(page)
}
