//! The order of opening: files, scan, cut, restore of the unsynced tail. FORMAT.md, "Opening".
//!
//! Promises: what was acknowledged is there; a run is there whole or not at all; nothing that was not
//! known to be on disk is trusted without its sums, nor counted as on disk before it was written anew and
//! synced. Leaves out starting threads and the new reign.

use crate::chain::{self, Known};
use crate::disk::Disk;
use crate::entry::{HEADER_BYTES, Header, Refused, SUMMED_BYTES_MAX, Sums, le_u32, le_u64};
use crate::error::OpenError;
use crate::firsts;
use crate::index::rows::Pen;
use crate::index::runs::Runs;
use crate::index::seal::{LEDGER, Seal};
use crate::lane::{self, CONTROL_MARK, CONTROL_REIGN};
use crate::ledger::Ledger;
use crate::ledger_image::QueueImage;
use crate::queues::QUEUES_MAX;
use crate::run::Flags;
use crate::segment::{self, Segment};
use crate::segments::Segments;
use crate::snapshot;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp, size};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once while scanning.
const READ_BYTES: u64 = 256 << 10;

/// Where things are in the store's directory.
#[derive(Clone, Debug)]
pub(crate) struct Paths {
    pub(crate) dir: PathBuf,
    pub(crate) log: PathBuf,
    pub(crate) index: PathBuf,
    pub(crate) snapshots: PathBuf,
}

impl Paths {
    pub(crate) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            log: dir.join("log"),
            index: dir.join("index"),
            snapshots: dir.join("snapshots"),
        }
    }

    pub(crate) fn clean(&self) -> PathBuf {
        self.dir.join("clean")
    }
}

/// A log put in order, ready for its lane.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) seal: Seal,
    pub(crate) ledger: Ledger,
    pub(crate) pen: Pen,
    pub(crate) end: LogOffset,
    pub(crate) store_time: Timestamp,
    pub(crate) reigns: Vec<(Reign, LogOffset)>,
    pub(crate) rows: u64,
}

pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { what, path, source }
}

/// Reads or writes the `format` file; gives back the size of the log's files.
pub(crate) fn format(disk: &dyn Disk, paths: &Paths, file_bytes: u64) -> Result<u64, OpenError> {
    let path = paths.dir.join("format");
    let file = match disk.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = format!("twinmq-store 1 {file_bytes}\n");
            crate::disk::replace_file(disk, &path, text.as_bytes())
                .map_err(io("cannot write", &path))?;
            return Ok(file_bytes);
        }
        Err(error) => return Err(io("cannot open", &path)(error)),
    };
    let mut text = [0; 64];
    let len = file
        .read_at(0, &mut text)
        .map_err(io("cannot read", &path))?;
    let text = String::from_utf8_lossy(&text[..len]);
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["twinmq-store", "1", bytes] => match bytes.parse::<u64>() {
            Ok(bytes) if bytes == file_bytes => Ok(bytes),
            Ok(bytes) => Err(OpenError::Config {
                key: "store.file_bytes",
                reason: format!("the store was created with {bytes}; it cannot be changed"),
            }),
            Err(_) => Err(corrupt(&path, 0, "unreadable file size")),
        },
        _ => Err(corrupt(&path, 0, "not a store of format 1")),
    }
}

pub(crate) fn corrupt(path: &Path, at: u64, reason: &str) -> OpenError {
    OpenError::Corrupt {
        path: path.to_owned(),
        at,
        reason: reason.to_owned(),
    }
}

/// Where a clean stop left the log's end; the mark is gone when this returns.
pub(crate) fn take_clean(disk: &dyn Disk, paths: &Paths) -> Result<Option<LogOffset>, OpenError> {
    let path = paths.clean();
    let file = match disk.open_read(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io("cannot open", &path)(error)),
    };
    let mut bytes = [0; 12];
    let len = file
        .read_at(0, &mut bytes)
        .map_err(io("cannot read", &path))?;
    let sound = len == 12 && crc32c::crc32c(&bytes[..8]) == le_u32(&bytes, 8);
    Ok(sound.then(|| LogOffset(le_u64(&bytes, 0))))
}

/// Removes the mark of a clean stop, durably, before anything is appended.
pub(crate) fn remove_clean(disk: &dyn Disk, paths: &Paths) -> Result<(), OpenError> {
    let path = paths.clean();
    match disk.remove(&path) {
        Ok(()) => disk
            .sync_dir(&paths.dir)
            .map_err(io("cannot sync", &paths.dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(io("cannot remove", &path)(error)),
    }
}

/// Writes the mark of a clean stop.
pub(crate) fn write_clean(disk: &dyn Disk, paths: &Paths, end: LogOffset) -> io::Result<()> {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&end.0.to_le_bytes());
    let sum = crc32c::crc32c(&bytes[..8]);
    bytes[8..].copy_from_slice(&sum.to_le_bytes());
    crate::disk::replace_file(disk, &paths.clean(), &bytes)
}

/// Starts of the log files that are there, whole and contiguous; a short newest one is removed.
fn files(disk: &dyn Disk, paths: &Paths, file_bytes: u64) -> Result<Vec<LogOffset>, OpenError> {
    let dir = &paths.log;
    let mut starts = Vec::new();
    for name in disk.list(dir).map_err(io("cannot list", dir))? {
        match name.parse::<u64>() {
            Ok(start) if name.len() == 20 && start % file_bytes == 0 => {
                starts.push(LogOffset(start));
            }
            _ => tracing::warn!(file = name, "not a log file; left alone"),
        }
    }
    starts.sort_unstable();
    if let Some(last) = starts.last().copied() {
        let path = segment::path(dir, last);
        let file = disk.open(&path).map_err(io("cannot open", &path))?;
        if file.size().map_err(io("cannot read", &path))? < file_bytes {
            disk.remove(&path).map_err(io("cannot remove", &path))?;
            starts.pop();
        }
    }
    for pair in starts.windows(2) {
        if pair[1].0 - pair[0].0 != file_bytes {
            let path = segment::path(dir, pair[1]);
            return Err(corrupt(
                &path,
                pair[0].0,
                "a log file before this one is missing",
            ));
        }
    }
    Ok(starts)
}

/// Puts the log in order. Nothing is appended yet. Rows beyond `rows_max` are sealed on the way.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    paths: &Paths,
    file_bytes: u64,
    rows_max: u64,
) -> Result<Recovered, OpenError> {
    let clean = take_clean(&*disk, paths)?;
    let segments = Arc::new(open_files(&*disk, paths, file_bytes)?);
    let head = segments.head().unwrap_or_default();
    let known = chain::load(&*disk, paths, head)?;
    let sealed = known.end().unwrap_or(head);
    if segments.newest().is_none_or(|newest| newest.end() < sealed) {
        let reason = format!("the log is shorter than its index, which covers it up to {sealed}");
        return Err(corrupt(&paths.log, sealed.0, &reason));
    }
    let ledger_at = known.ledger.as_ref().map_or(head, |snapshot| snapshot.at);
    let from = ledger_at.clamp(head, sealed.max(head));
    let synced = known.synced.max(clean.unwrap_or_default()).max(from);
    let seal = Seal {
        disk: Arc::clone(&disk),
        paths: paths.clone(),
        queues: Arc::default(),
        segments: Arc::clone(&segments),
        runs: Arc::new(Runs::new(known.runs.clone())),
    };
    let mut built = Built::new(seal, from, rows_max, known);
    let end = if let Some(end) = clean.filter(|end| *end >= synced) {
        built.apply(&mut Scan::new(&segments, from), end, end)?;
        if built.end != end {
            return Err(damaged(paths, file_bytes, built.end, end));
        }
        end
    } else {
        let (end, marked) = Scan::new(&segments, from).survey(from)?;
        let synced = synced.max(marked);
        if end < synced {
            return Err(damaged(paths, file_bytes, end, synced));
        }
        built.apply(&mut Scan::new(&segments, from), synced, end)?;
        if built.end < synced {
            return Err(damaged(paths, file_bytes, built.end, synced));
        }
        rewrite(&segments, synced, built.end).map_err(io("cannot restore", &paths.log))?;
        built.end
    };
    close_at(&*disk, paths, &segments, end)?;
    Ok(built.finish())
}

fn damaged(paths: &Paths, file_bytes: u64, at: LogOffset, synced: LogOffset) -> OpenError {
    let path = segment::path(&paths.log, LogOffset(at.0 / file_bytes * file_bytes));
    let reason = format!("no sound entry here, but the log was on disk up to {synced}");
    corrupt(&path, at.0, &reason)
}

fn open_files(disk: &dyn Disk, paths: &Paths, file_bytes: u64) -> Result<Segments, OpenError> {
    let mut list = VecDeque::new();
    for start in files(disk, paths, file_bytes)? {
        let path = segment::path(&paths.log, start);
        let segment = Segment::open(disk, &paths.log, start, file_bytes, false)
            .map_err(io("cannot open", &path))?;
        list.push_back(Arc::new(segment));
    }
    if list.is_empty() {
        let runs = disk
            .list(&paths.index)
            .map_err(io("cannot list", &paths.index))?;
        if runs.iter().any(|name| name.ends_with(".run")) {
            return Err(corrupt(&paths.log, 0, "there is an index, but no log file"));
        }
        let segment = Segment::create(disk, &paths.log, LogOffset(0), file_bytes)
            .map_err(io("cannot create", &paths.log))?;
        list.push_back(Arc::new(segment));
    }
    Ok(Segments::new(file_bytes, list))
}

/// Removes the files after the end and makes sure that the end lies in one.
fn close_at(
    disk: &dyn Disk,
    paths: &Paths,
    segments: &Segments,
    end: LogOffset,
) -> Result<(), OpenError> {
    for segment in segments.drop_after(end) {
        let path = segment::path(&paths.log, segment.start());
        disk.remove(&path).map_err(io("cannot remove", &path))?;
    }
    disk.sync_dir(&paths.log)
        .map_err(io("cannot sync", &paths.log))?;
    if segments.find(end).is_none() {
        let bytes = segments.file_bytes();
        let segment = Segment::create(disk, &paths.log, end, bytes)
            .map_err(io("cannot create", &paths.log))?;
        segments.push(Arc::new(segment));
    }
    if let Some(tail) = segments.find(end) {
        tail.set_populated(end);
    }
    Ok(())
}

/// Writes the bytes from `from` to `to` anew and makes them durable: pages that a failed sync left in
/// the cache look clean and prove nothing.
fn rewrite(segments: &Segments, from: LogOffset, to: LogOffset) -> io::Result<()> {
    let mut at = from;
    while at < to {
        let segment = segments.find(at).ok_or(io::ErrorKind::NotFound)?;
        let end = to.min(segment.end());
        while at < end {
            let len = (end.0 - at.0).min(1 << 20);
            let bytes = segment.read(at, size(len))?;
            segment.file().write_at(segment.place(at), &bytes)?;
            at = at.plus(len);
        }
        segment.file().sync()?;
    }
    Ok(())
}

/// Steps from entry to entry and refuses what does not follow.
struct Scan<'a> {
    segments: &'a Segments,
    segment: Option<Arc<Segment>>,
    at: LogOffset,
    reign: Reign,
    store_time: Timestamp,
    buffer: Vec<u8>,
    /// Log offset of the buffer's first byte.
    held: LogOffset,
}

impl<'a> Scan<'a> {
    fn new(segments: &'a Segments, from: LogOffset) -> Self {
        Self {
            segments,
            segment: None,
            at: from,
            reign: Reign(0),
            store_time: Timestamp(i64::MIN),
            buffer: Vec::new(),
            held: LogOffset(0),
        }
    }

    /// Up to `want` bytes of the current file from `at` on; fewer at its end.
    fn fetch(&mut self, at: LogOffset, want: u64) -> io::Result<&[u8]> {
        let Some(segment) = &self.segment else {
            return Ok(&[]);
        };
        let want = want.min(segment.end().0.saturating_sub(at.0));
        let held = self.held.0..self.held.0 + self.buffer.len() as u64;
        if !(held.contains(&at.0) && at.0 + want <= held.end) {
            let len = want.max(READ_BYTES).min(segment.end().0 - at.0);
            self.buffer.resize(size(len), 0);
            self.held = at;
            let read = segment
                .file()
                .read_at(segment.place(at), &mut self.buffer)?;
            self.buffer.truncate(read);
        }
        let from = size(at.0 - self.held.0);
        let to = (from + size(want)).min(self.buffer.len());
        Ok(&self.buffer[from.min(to)..to])
    }

    /// The next entry, or `None` where the chain ends.
    fn next(&mut self) -> Result<Option<(Header, Sums)>, OpenError> {
        let at = self.at;
        if self
            .segment
            .as_ref()
            .is_none_or(|segment| at >= segment.end())
        {
            self.segment = self.segments.find(at);
            self.buffer.clear();
        }
        let Some(end) = self.segment.as_ref().map(|segment| segment.end()) else {
            return Ok(None);
        };
        let decoded = match Header::decode(self.look(at, SUMMED_BYTES_MAX as u64)?) {
            Ok(decoded) => decoded,
            Err(Refused::Short { .. } | Refused::Damaged(_)) => return Ok(None),
        };
        let header = &decoded.0;
        let follows = header.log_offset == at
            && header.end() <= end
            && header.reign >= self.reign
            && header.store_time >= self.store_time
            && (header.end() == end || end.0 - header.end().0 >= HEADER_BYTES as u64);
        if !follows {
            return Ok(None);
        }
        (self.reign, self.store_time) = (header.reign, header.store_time);
        self.at = header.end();
        Ok(Some(decoded))
    }

    fn look(&mut self, at: LogOffset, want: u64) -> Result<&[u8], OpenError> {
        match self.fetch(at, want) {
            Ok(bytes) => Ok(bytes),
            Err(source) => Err(OpenError::Io {
                what: "cannot read the log at",
                path: PathBuf::from(format!("log offset {at}")),
                source,
            }),
        }
    }

    /// The payload of an entry just stepped over; `None` if it is cut short.
    fn payload(&mut self, header: &Header) -> Result<Option<&[u8]>, OpenError> {
        let at = header.log_offset.plus(header.bytes() as u64);
        let len = header.payload_length as usize;
        let bytes = self.look(at, u64::from(header.payload_length))?;
        Ok((bytes.len() == len).then_some(bytes))
    }

    /// True if the payload's sum is right.
    fn sound(&mut self, header: &Header, sums: Sums) -> Result<bool, OpenError> {
        let payload = self.payload(header)?;
        let rest = payload.and_then(|payload| payload.get(usize::from(sums.head)..));
        Ok(rest.is_some_and(|rest| crc32c::crc32c(rest) == sums.payload))
    }

    /// Looks at headers alone: the end of the last whole run, and the highest synced mark.
    fn survey(&mut self, from: LogOffset) -> Result<(LogOffset, LogOffset), OpenError> {
        let (mut end, mut synced) = (from, from);
        let mut run_file = None;
        while let Some((header, _)) = self.next()? {
            let file = self.segment.as_ref().map(|segment| segment.start());
            if *run_file.get_or_insert(file) != file {
                break; // a run does not cross files
            }
            if header.flags.has(Flags::LAST_OF_RUN) {
                end = header.end();
                run_file = None;
            }
            if header.queue == QueueNumber::CONTROL
                && let Some(payload) = self.payload(&header)?
                && payload.len() == 16
                && payload[0] == CONTROL_MARK
            {
                synced = synced.max(LogOffset(le_u64(payload, 8)));
            }
        }
        Ok((end, synced))
    }
}

/// What is built from entries.
#[derive(Debug)]
struct Built {
    seal: Seal,
    ledger: Ledger,
    pen: Pen,
    end: LogOffset,
    store_time: Timestamp,
    reigns: Vec<(Reign, LogOffset)>,
    rows: u64,
    rows_max: u64,
    /// Below this, rows are in sealed runs.
    sealed: LogOffset,
    /// What a queue's producers are known up to, from the ledger's snapshot.
    known: HashMap<QueueNumber, QueueOffset>,
}

impl Built {
    fn new(seal: Seal, from: LogOffset, rows_max: u64, known: Known) -> Self {
        let mut built = Self {
            ledger: Ledger::default(),
            pen: Pen::default(),
            end: from,
            store_time: Timestamp(0),
            reigns: known.reigns,
            rows: 0,
            rows_max,
            sealed: seal.start(),
            known: HashMap::new(),
            seal,
        };
        for (number, first) in known.firsts {
            if let Some(queue) = built.seal.queues.entry(number) {
                queue.raise_first(first);
            }
        }
        for (number, end) in known.ends {
            if let Some(queue) = built.seal.queues.entry(number) {
                queue.seal(end);
                built.ledger.get_mut(number).next = end;
            }
        }
        for image in known.images {
            image.restore(&mut built.ledger, &built.seal.queues);
            built.known.insert(image.queue, image.next);
        }
        built
    }

    fn finish(self) -> Recovered {
        for (_, queue) in self.seal.queues.iter() {
            queue.forget_aborted(self.sealed);
        }
        Recovered {
            seal: self.seal,
            ledger: self.ledger,
            pen: self.pen,
            end: self.end,
            store_time: self.store_time,
            reigns: self.reigns,
            rows: self.rows,
        }
    }

    /// Builds from the entries up to `limit`, checking payload sums from `verify` on; stops before the
    /// first run that is not sound.
    fn apply(
        &mut self,
        scan: &mut Scan<'_>,
        verify: LogOffset,
        limit: LogOffset,
    ) -> Result<(), OpenError> {
        let mut run: Vec<Header> = Vec::new();
        while self.end < limit {
            let Some((header, sums)) = scan.next()? else {
                return Ok(());
            };
            if header.log_offset >= verify && !scan.sound(&header, sums)? {
                return Ok(());
            }
            let last = header.flags.has(Flags::LAST_OF_RUN);
            run.push(header);
            if !last {
                continue;
            }
            if !self.follows(&run) {
                return Ok(());
            }
            for header in run.drain(..) {
                self.one(scan, &header)?;
            }
            self.end = header.end();
            self.store_time = header.store_time;
            if self.rows >= self.rows_max && self.end <= verify {
                self.seal();
            }
        }
        Ok(())
    }

    /// True if every entry has the next base of its queue.
    fn follows(&self, run: &[Header]) -> bool {
        let mut nexts = HashMap::new();
        run.iter().all(|header| {
            if header.queue == QueueNumber::CONTROL || header.log_offset < self.sealed {
                return true;
            }
            if header.queue.0 >= QUEUES_MAX {
                return false;
            }
            let state = self.ledger.get(header.queue);
            if state.is_some_and(|state| state.dropped) {
                return true; // sealed without it, so that its next offset is not known
            }
            let known = state.map_or(QueueOffset(0), |state| state.next);
            let next = nexts.entry(header.queue).or_insert(known);
            // A queue that neither snapshot nor index knows begins where it is found: it was
            // dropped after this and before the index was sealed, or the index is lost.
            let fits = *next == header.base || *next == QueueOffset(0);
            *next = header.next();
            fits
        })
    }

    fn one(&mut self, scan: &mut Scan<'_>, header: &Header) -> Result<(), OpenError> {
        let segment = scan.segment.clone();
        if header.queue == QueueNumber::CONTROL {
            if let Some(segment) = &segment {
                segment.note_start(header.log_offset);
            }
            return self.control(scan, header);
        }
        let queues = Arc::clone(&self.seal.queues);
        let Some(queue) = queues.entry(header.queue) else {
            return Ok(());
        };
        let known = self.known.get(&header.queue);
        if known.is_some_and(|known| header.base < *known) {
            let state = self.ledger.get_mut(header.queue);
            state.next = state.next.max(header.next());
        } else {
            let state = self.ledger.get(header.queue);
            if state.is_some_and(|state| state.dropped) {
                return Ok(());
            }
            let fresh = state.is_none_or(|state| state.next == QueueOffset(0));
            if fresh && header.base > QueueOffset(0) {
                queue.adopt(header.base);
            }
            if let Some(turn) = self.ledger.replay(header) {
                queue.turn(turn, header.log_offset, header.base, LogOffset(0));
            }
        }
        if let Some(segment) = &segment
            && header.log_offset >= self.sealed
        {
            lane::note(&queues, &mut self.pen, segment, header);
            self.rows += 1;
        }
        if header.queue == QueueNumber::FIRST_OFFSETS
            && let Some(payload) = scan.payload(header)?
        {
            match firsts::decode(payload) {
                Some(change) => firsts::apply(&change, &queues, &mut self.ledger),
                None => tracing::warn!(at = %header.log_offset, "unreadable first offsets"),
            }
        }
        Ok(())
    }

    fn control(&mut self, scan: &mut Scan<'_>, header: &Header) -> Result<(), OpenError> {
        let Some(payload) = scan.payload(header)? else {
            return Ok(());
        };
        if payload.first() == Some(&CONTROL_REIGN) {
            let listed = payload.get(8..).unwrap_or_default();
            for item in listed.chunks_exact(16) {
                let reign = (Reign(le_u32(item, 0)), LogOffset(le_u64(item, 8)));
                if self.reigns.last().is_none_or(|last| last.0 < reign.0) {
                    self.reigns.push(reign);
                }
            }
        }
        Ok(())
    }

    /// Seals what has been built so far: an index lost altogether does not fill the memory.
    fn seal(&mut self) {
        let mut bytes = Vec::new();
        for (number, queue) in self.seal.queues.iter() {
            let image = QueueImage::of(number, &self.ledger, queue, self.sealed);
            if let Some(image) = image {
                image.encode(&mut bytes);
            }
        }
        let disk = &*self.seal.disk;
        let snapshots = &self.seal.paths.snapshots;
        let sealed = snapshot::write(disk, snapshots, LEDGER, self.end, &bytes)
            .and_then(|()| self.seal.write(self.end, &self.reigns));
        match sealed {
            Ok(end) => {
                let all = 0..self.ledger.bound();
                self.rows -= self.seal.release(all, end, &mut self.pen).min(self.rows);
                self.sealed = end;
            }
            Err(error) => {
                tracing::warn!(%error, "an index run could not be written while recovering");
                self.rows_max = u64::MAX;
            }
        }
    }
}
