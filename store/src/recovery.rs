//! The order of opening: files, scan, cut, restore of the unsynced tail. FORMAT.md, "Opening".
//!
//! Promises: what was acknowledged is there; a run is there whole or not at all; nothing that was not
//! known to be on disk is trusted without its sums, nor counted as on disk before it was written anew and
//! synced. Leaves out starting threads and the new reign.

use crate::chain;
use crate::cut::Cut;
use crate::disk::Disk;
use crate::entry::{le_u32, le_u64};
use crate::error::OpenError;
use crate::index::rows::Pen;
use crate::index::run::Access;
use crate::index::runs::{self, Runs};
use crate::index::seal::Seal;
use crate::ledger::Ledger;
use crate::metrics::StoreMetrics;
use crate::rebuild::{Bounds, Built};
use crate::scan::{Scan, Surveyed};
use crate::segment::{self, Segment};
use crate::segments::Segments;
use crate::types::{LogOffset, Reign, Timestamp, size};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

/// Puts the log in order. Nothing is appended yet. Rows beyond their bound are sealed on the way.
pub(crate) fn recover(
    disk: Arc<dyn Disk>,
    paths: &Paths,
    file_bytes: u64,
    bounds: Bounds,
    metrics: &StoreMetrics,
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
    let before = before(&seal, from);
    let scan = || Scan::after(&segments, from, before);
    let mut built = Built::new(seal, from, before.1, bounds, known);
    let end = if let Some(end) = clean.filter(|end| *end >= synced) {
        built.apply(&mut scan(), end, end)?;
        if built.end != end {
            return Err(damaged(paths, file_bytes, built.end, end));
        }
        end
    } else {
        let Surveyed { end, stop, marked } = scan().survey(from)?;
        let synced = synced.max(marked);
        if end < synced {
            return Err(damaged(paths, file_bytes, stop, synced));
        }
        built.apply(&mut scan(), synced, end)?;
        if built.end < synced {
            return Err(damaged(paths, file_bytes, built.end, synced));
        }
        rewrite(&segments, synced, built.end).map_err(io("cannot restore", &paths.log))?;
        Cut::behind(&segments, built.end, built.reign())?.tell(metrics);
        built.end
    };
    close_at(&*disk, paths, &segments, end)?;
    Ok(built.finish())
}

/// Reign and store time of the entry that ends at `from`, so that what stands there has to follow it; the
/// lowest where the index does not lead to one.
fn before(seal: &Seal, from: LogOffset) -> (Reign, Timestamp) {
    let none = (Reign(0), Timestamp(i64::MIN));
    let Some(last) = from.0.checked_sub(1) else {
        return none;
    };
    let start = runs::start_before(&seal.runs.list(), Access::Wait, LogOffset(last));
    let Ok(Some(start)) = start else {
        return none;
    };
    let mut scan = Scan::after(&seal.segments, start, none);
    let mut found = none;
    while let Ok(Some((header, _))) = scan.next() {
        found = (header.reign, header.store_time);
        if header.end() >= from {
            break;
        }
    }
    found
}

fn damaged(paths: &Paths, file_bytes: u64, at: LogOffset, synced: LogOffset) -> OpenError {
    let path = segment::path(&paths.log, LogOffset(at.0 / file_bytes * file_bytes));
    let reason = format!("damaged at {at}, but the log was on disk up to {synced}");
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
