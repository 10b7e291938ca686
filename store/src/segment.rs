//! One log file: preallocated, named by the log offset of its first byte.
//!
//! Promises: bytes below the `written` mark never change; a file is mapped while it is young and read
//! with positional reads after that. Leaves out which files there are: `segments.rs`.

use crate::disk::{Disk, DiskFile, Map, read_exact_at};
use crate::types::{LogOffset, size};
use bytes::{Bytes, BytesMut};
use parking_lot::RwLock;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// One entry start is kept per this many bytes of log.
pub(crate) const START_STEP: u64 = 64 << 10;

/// A log file.
#[derive(Debug)]
pub(crate) struct Segment {
    start: LogOffset,
    bytes: u64,
    file: Arc<dyn DiskFile>,
    map: RwLock<Option<Arc<Map>>>,
    /// The map even after it was let go, while a reader holds pieces of it.
    held: OnceLock<Weak<Map>>,
    /// Its name in the directory is durable.
    named: AtomicBool,
    /// Pages of the file up to here take writes without a fault.
    populated: AtomicU64,
    /// Write-back has been started up to here.
    written_back: AtomicU64,
    /// Per [`START_STEP`] the first entry start in it, plus one; 0 = none known.
    starts: OnceLock<Box<[AtomicU32]>>,
}

/// The name of the file that starts at `start`.
pub(crate) fn path(dir: &Path, start: LogOffset) -> PathBuf {
    dir.join(format!("{:020}", start.0))
}

impl Segment {
    /// Creates the next file, all its blocks reserved. Nothing of it is durable before its first sync
    /// and [`Segment::name`]: that is the flusher's wait, not the lane's.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        start: LogOffset,
        bytes: u64,
    ) -> io::Result<Self> {
        let file = disk.create(&path(dir, start), bytes)?;
        let segment = Self::new(file, start, bytes, true)?;
        segment.named.store(false, Ordering::Release);
        Ok(segment)
    }

    /// Opens a file that exists; `mapped` for the one that is appended to.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        start: LogOffset,
        bytes: u64,
        mapped: bool,
    ) -> io::Result<Self> {
        Self::new(disk.open(&path(dir, start))?, start, bytes, mapped)
    }

    fn new(file: Arc<dyn DiskFile>, start: LogOffset, bytes: u64, map: bool) -> io::Result<Self> {
        let map = if map {
            Some(file.map(size(bytes))?)
        } else {
            None
        };
        let mut segment = Self {
            start,
            bytes,
            file,
            held: map
                .as_ref()
                .map(Arc::downgrade)
                .map_or_else(OnceLock::new, OnceLock::from),
            map: RwLock::new(map),
            named: AtomicBool::new(true),
            populated: AtomicU64::new(0),
            written_back: AtomicU64::new(0),
            starts: OnceLock::new(),
        };
        if segment.map.get_mut().is_some() {
            segment.starts_table();
        }
        Ok(segment)
    }

    /// Log offset of the first byte.
    pub(crate) fn start(&self) -> LogOffset {
        self.start
    }

    /// Log offset after the last byte.
    pub(crate) fn end(&self) -> LogOffset {
        self.start.plus(self.bytes)
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// The map, while there is one.
    pub(crate) fn map(&self) -> Option<Arc<Map>> {
        self.map.read().clone()
    }

    /// Maps the file, if it is not.
    pub(crate) fn mapped(&self) -> io::Result<Arc<Map>> {
        if let Some(map) = self.map() {
            return Ok(map);
        }
        let map = self.file.map(size(self.bytes))?;
        self.starts_table();
        let _ = self.held.set(Arc::downgrade(&map)); // the first is the only one readers get
        *self.map.write() = Some(Arc::clone(&map));
        Ok(map)
    }

    /// The map, also after it was let go.
    pub(crate) fn held(&self) -> Weak<Map> {
        self.held.get().cloned().unwrap_or_default()
    }

    /// Lets go of the map; readers that hold pieces of it keep it alive.
    pub(crate) fn unmap(&self) {
        let _ = self.map.write().take();
    }

    /// Where `at` lies in the file.
    pub(crate) fn place(&self, at: LogOffset) -> u64 {
        at.0.saturating_sub(self.start.0).min(self.bytes)
    }

    /// Log offset up to which appends take no fault.
    pub(crate) fn populated(&self) -> LogOffset {
        self.start.plus(self.populated.load(Ordering::Acquire))
    }

    /// Log offset from which on nothing is populated yet, at recovery.
    pub(crate) fn set_populated(&self, to: LogOffset) {
        self.populated.store(self.place(to), Ordering::Release);
        self.written_back.store(self.place(to), Ordering::Relaxed);
    }

    /// Populates pages in steps up to `to`; each is published, and then `tell` is called.
    pub(crate) fn populate(&self, to: LogOffset, step: u64, tell: impl Fn()) -> io::Result<()> {
        let map = self.mapped()?;
        let to = self.place(to);
        loop {
            let from = self.populated.load(Ordering::Acquire);
            if from >= to {
                return Ok(());
            }
            let len = step.min(to - from);
            map.populate(size(from), size(len))?;
            self.populated.store(from + len, Ordering::Release);
            tell();
        }
    }

    /// Starts writing whole blocks of `block` bytes below `to` to disk.
    pub(crate) fn write_back(&self, to: LogOffset, block: u64) -> io::Result<()> {
        let to = if to >= self.end() {
            self.bytes
        } else {
            self.place(to) / block * block
        };
        let from = self.written_back.load(Ordering::Relaxed);
        if to > from {
            self.file.write_back(from, to - from)?;
            self.written_back.store(to, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes a range durable: the pages of the map, or the file where there is no map.
    pub(crate) fn sync(&self, from: LogOffset, to: LogOffset) -> io::Result<()> {
        let (from, to) = (self.place(from), self.place(to));
        match self.map() {
            Some(map) => map.sync(size(from), size(to - from)),
            None => self.file.sync(),
        }
    }

    /// Makes the file's name durable, once.
    pub(crate) fn name(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        if !self.named.load(Ordering::Acquire) {
            disk.sync_dir(dir)?;
            self.named.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// After a sync: makes the page at `at` writable again without a fault.
    pub(crate) fn touch(&self, at: LogOffset) -> io::Result<()> {
        let place = self.place(at);
        if place < self.bytes
            && let Some(map) = self.map()
        {
            map.populate(size(place), 1)?;
        }
        Ok(())
    }

    /// The table of entry starts, made when the file is to be written or scanned.
    fn starts_table(&self) -> &[AtomicU32] {
        self.starts.get_or_init(|| {
            let steps = 0..self.bytes.div_ceil(START_STEP);
            steps.map(|_| AtomicU32::new(0)).collect()
        })
    }

    /// Notes where an entry starts. By the lane alone.
    pub(crate) fn note_start(&self, at: LogOffset) {
        let place = self.place(at);
        let starts = self.starts_table();
        if let Some(slot) = starts.get(size(place / START_STEP))
            && slot.load(Ordering::Relaxed) == 0
        {
            slot.store(u32::try_from(place + 1).unwrap_or(0), Ordering::Release);
        }
    }

    /// The last noted entry start at or before `at`.
    pub(crate) fn start_before(&self, at: LogOffset) -> Option<LogOffset> {
        let place = self.place(at);
        let starts = self.starts.get()?;
        let mut bucket = size(place / START_STEP).min(starts.len().checked_sub(1)?);
        loop {
            let noted = u64::from(starts[bucket].load(Ordering::Acquire));
            if noted > 0 && noted - 1 <= place {
                return Some(self.start.plus(noted - 1));
            }
            bucket = bucket.checked_sub(1)?;
        }
    }

    /// Entry starts noted in the file, in order.
    pub(crate) fn starts(&self) -> impl Iterator<Item = LogOffset> {
        self.starts
            .get()
            .into_iter()
            .flat_map(|starts| starts.iter())
            .filter_map(|slot| {
                let noted = u64::from(slot.load(Ordering::Acquire));
                Some(self.start.plus(noted.checked_sub(1)?))
            })
    }

    /// Reads bytes from disk or page cache, waiting if need be.
    pub(crate) fn read(&self, at: LogOffset, len: usize) -> io::Result<Bytes> {
        let mut buffer = BytesMut::zeroed(len);
        read_exact_at(&*self.file, self.place(at), &mut buffer)?;
        Ok(buffer.freeze())
    }

    /// Reads bytes that are in the page cache; `None` if some are not.
    pub(crate) fn read_nowait(&self, at: LogOffset, len: usize) -> io::Result<Option<Bytes>> {
        let mut buffer = BytesMut::zeroed(len);
        match self.file.read_at_nowait(self.place(at), &mut buffer)? {
            Some(n) if n == len => Ok(Some(buffer.freeze())),
            Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Ok(None),
        }
    }
}
