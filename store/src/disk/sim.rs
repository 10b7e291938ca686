//! A seeded disk in memory that fails on purpose: torn writes, lost unsynced tails, names lost
//! without a directory sync, short writes, failed syncs (whose pages are then taken for clean, as
//! Linux does), a full disk.
//!
//! Promises: what was synced survives [`SimDisk::crash`]; of everything else any part may, by
//! sectors of 512 bytes and by prefixes of the order of renames and removals. The same seed and the
//! same calls give the same answers. Leaves out time, and disks that forget what they acknowledged.

use super::map::{Backing, Heap, Map};
use super::{Disk, DiskFile, DiskLock, Usage};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// What can be told to fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Call {
    /// [`Disk::create`].
    Create,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// Reads of files, both kinds.
    Read,
    /// [`DiskFile::write_at`]; a part is written before it fails.
    Write,
    /// [`DiskFile::sync`].
    Sync,
    /// Sync of a map's range.
    MapSync,
    /// Populating a map's range.
    Populate,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimDisk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: u64,
    capacity: u64,
    dead: bool,
    /// Share of cached reads that claim not to be cached, in 256ths.
    uncached: u8,
    dirs: BTreeSet<PathBuf>,
    names: BTreeMap<PathBuf, Arc<Inode>>,
    durable_names: BTreeMap<PathBuf, Arc<Inode>>,
    pending: Vec<NameChange>,
    locks: BTreeSet<PathBuf>,
    faults: BTreeMap<Call, u64>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Put(PathBuf, Arc<Inode>),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

impl NameChange {
    fn apply(self, names: &mut BTreeMap<PathBuf, Arc<Inode>>) {
        match self {
            Self::Put(path, inode) => {
                names.insert(path, inode);
            }
            Self::Remove(path) => {
                names.remove(&path);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        let (Self::Put(path, _) | Self::Remove(path) | Self::Rename(_, path)) = self;
        path.parent() == Some(dir)
    }
}

/// A file's bytes twice: as the page cache has them, and as the disk does.
#[derive(Debug)]
struct Inode {
    cached: Mutex<Arc<Heap>>,
    durable: Mutex<Durable>,
}

#[derive(Debug, Default)]
struct Durable {
    bytes: Vec<u8>,
    /// Sectors whose sync failed, with what they held then: taken for clean until changed again.
    forgotten: BTreeMap<usize, Vec<u8>>,
}

impl Inode {
    fn new(bytes: Vec<u8>) -> Self {
        Self {
            durable: Mutex::new(Durable {
                bytes: bytes.clone(),
                forgotten: BTreeMap::new(),
            }),
            cached: Mutex::new(Arc::new(Heap::new(bytes))),
        }
    }

    fn heap(&self) -> Arc<Heap> {
        Arc::clone(&self.cached.lock())
    }

    /// Page cache to disk, over whole pages around the range.
    fn sync(&self, at: usize, len: usize, fail: bool) {
        let heap = self.heap();
        let mut durable = self.durable.lock();
        durable.bytes.resize(heap.len(), 0);
        let from = at / PAGE_BYTES * PAGE_BYTES;
        let to = (at + len).next_multiple_of(PAGE_BYTES).min(heap.len());
        if !fail && durable.forgotten.is_empty() {
            heap.read(from, &mut durable.bytes[from..to]);
            return;
        }
        for start in (from..to).step_by(SECTOR_BYTES) {
            let mut sector = vec![0; SECTOR_BYTES.min(to - start)];
            heap.read(start, &mut sector);
            if durable.bytes[start..start + sector.len()] == sector[..] {
                continue;
            }
            if fail {
                durable.forgotten.insert(start, sector);
            } else if durable.forgotten.get(&start) != Some(&sector) {
                durable.forgotten.remove(&start);
                durable.bytes[start..start + sector.len()].copy_from_slice(&sector);
            }
        }
    }

    /// What a power cut leaves: each unsynced sector old or new, one in 64 of them half of each.
    fn survivor(&self, random: &mut u64) -> Self {
        let heap = self.heap();
        let mut bytes = std::mem::take(&mut self.durable.lock().bytes);
        bytes.resize(heap.len(), 0);
        let mut cached = vec![0; heap.len()];
        heap.read(0, &mut cached);
        // One file is lost wholly, kept wholly, or anything between.
        let kept_in_256 = match next(random) % 4 {
            0 => 0,
            1 => 256,
            _ => next(random) % 257,
        };
        for (old, new) in bytes
            .chunks_mut(SECTOR_BYTES)
            .zip(cached.chunks(SECTOR_BYTES))
        {
            if old == new || next(random) % 256 >= kept_in_256 {
                continue;
            }
            let whole = old.len();
            let n = match next(random) {
                r if r.is_multiple_of(64) => usize::try_from(r >> 8).unwrap_or(0) % whole,
                _ => whole,
            };
            old[..n].copy_from_slice(&new[..n]);
        }
        Self::new(bytes)
    }
}

/// The next number of a splitmix64 sequence.
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn failed(call: Call) -> io::Error {
    io::Error::other(format!("simulated failure of {call:?}"))
}

impl State {
    fn fails(&mut self, call: Call) -> bool {
        let Some(left) = self.faults.get_mut(&call) else {
            return false;
        };
        if *left > 0 {
            *left -= 1;
            return false;
        }
        self.faults.remove(&call);
        true
    }

    /// Passes, or the error of a dead disk or of a fault that is due.
    fn check(&mut self, call: Option<Call>) -> io::Result<()> {
        if self.dead {
            return Err(io::Error::other("simulated machine is off"));
        }
        match call {
            Some(call) if self.fails(call) => Err(failed(call)),
            _ => Ok(()),
        }
    }

    fn used(&self) -> u64 {
        self.names.values().map(|i| i.heap().len() as u64).sum()
    }

    fn change(&mut self, change: NameChange) {
        change.clone().apply(&mut self.names);
        self.pending.push(change);
    }
}

impl SimDisk {
    /// An empty disk of `capacity` bytes.
    #[must_use]
    pub fn new(seed: u64, capacity: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            random: seed,
            capacity,
            dead: false,
            uncached: 16,
            dirs: BTreeSet::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            pending: Vec::new(),
            locks: BTreeSet::new(),
            faults: BTreeMap::new(),
        })))
    }

    /// Cuts the power. This disk answers every later call with an error; the one returned holds what
    /// survived. Nothing may be writing meanwhile.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut old = self.0.lock();
        old.dead = true;
        let mut random = old.random;
        let mut names = std::mem::take(&mut old.durable_names);
        let pending = std::mem::take(&mut old.pending);
        let kept = usize::try_from(next(&mut random)).unwrap_or(0) % (pending.len() + 1);
        for change in pending.into_iter().take(kept) {
            change.apply(&mut names);
        }
        let names: BTreeMap<_, _> = names
            .into_iter()
            .map(|(path, inode)| (path, Arc::new(inode.survivor(&mut random))))
            .collect();
        Self::with(&old, names, random)
    }

    /// Kills the process only: everything written is still there, every handle is dead.
    #[must_use]
    pub fn kill(&self) -> Self {
        let mut old = self.0.lock();
        old.dead = true;
        let names = std::mem::take(&mut old.names);
        let random = old.random;
        Self::with(&old, names, random)
    }

    fn with(old: &State, names: BTreeMap<PathBuf, Arc<Inode>>, random: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            random,
            capacity: old.capacity,
            dead: false,
            uncached: old.uncached,
            dirs: old.dirs.clone(),
            durable_names: names.clone(),
            names,
            pending: Vec::new(),
            locks: BTreeSet::new(),
            faults: BTreeMap::new(),
        })))
    }

    /// Lets `call` fail once, after `passes` more calls of its kind that pass.
    pub fn fail(&self, call: Call, passes: u64) {
        self.0.lock().faults.insert(call, passes);
    }

    /// Changes the disk's size in bytes; what is there stays.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }

    /// Flips the lowest bit of a byte, in the cache and on the disk. False if there is none.
    #[must_use]
    pub fn flip(&self, path: &Path, at: usize) -> bool {
        let Some(inode) = self.0.lock().names.get(path).cloned() else {
            return false;
        };
        let mut byte = [0];
        let heap = inode.heap();
        if heap.read(at, &mut byte) == 0 {
            return false;
        }
        byte[0] ^= 1;
        let mut durable = inode.durable.lock();
        if let Some(place) = durable.bytes.get_mut(at) {
            *place = byte[0];
        }
        heap.write(at, &byte)
    }

    fn inode(&self, path: &Path) -> io::Result<Arc<Inode>> {
        let mut state = self.0.lock();
        state.check(None)?;
        let inode = state.names.get(path).cloned();
        inode.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn file(&self, inode: Arc<Inode>, writable: bool) -> Arc<dyn DiskFile> {
        Arc::new(SimFile {
            disk: self.clone(),
            inode,
            writable,
        })
    }
}

impl Disk for SimDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.check(None)?;
        state.dirs.extend(dir.ancestors().map(Path::to_owned));
        Ok(())
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut state = self.0.lock();
        state.check(None)?;
        if !state.dirs.contains(dir) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let inside = state.names.keys().filter(|p| p.parent() == Some(dir));
        Ok(inside
            .filter_map(|p| p.file_name()?.to_str().map(str::to_owned))
            .collect())
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.inode(path)?, true))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.inode(path)?, false))
    }

    fn create(&self, path: &Path, preallocate_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let inode = {
            let mut state = self.0.lock();
            state.check(Some(Call::Create))?;
            if !path.parent().is_some_and(|dir| state.dirs.contains(dir)) {
                return Err(io::ErrorKind::NotFound.into());
            }
            if state.used().saturating_add(preallocate_bytes) > state.capacity {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let len = usize::try_from(preallocate_bytes)
                .map_err(|_| io::Error::from(io::ErrorKind::StorageFull))?;
            let inode = Arc::new(Inode::new(vec![0; len]));
            state.change(NameChange::Put(path.to_owned(), Arc::clone(&inode)));
            inode
        };
        Ok(self.file(inode, true))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.inode(path)?;
        self.0.lock().change(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.inode(from)?;
        let mut state = self.0.lock();
        state.check(Some(Call::Rename))?;
        state.change(NameChange::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut state = self.0.lock();
        state.check(Some(Call::SyncDir))?;
        let (here, elsewhere): (Vec<_>, Vec<_>) = std::mem::take(&mut state.pending)
            .into_iter()
            .partition(|change| change.is_in(dir));
        state.pending = elsewhere;
        for change in here {
            change.apply(&mut state.durable_names);
        }
        Ok(())
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let mut state = self.0.lock();
        state.check(None)?;
        if !state.locks.insert(path.to_owned()) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(SimLock {
            disk: self.clone(),
            path: path.to_owned(),
        }))
    }

    fn usage(&self, _dir: &Path) -> io::Result<Usage> {
        let mut state = self.0.lock();
        state.check(None)?;
        Ok(Usage {
            total: state.capacity,
            available: state.capacity.saturating_sub(state.used()),
        })
    }
}

#[derive(Debug)]
struct SimLock {
    disk: SimDisk,
    path: PathBuf,
}

impl DiskLock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.0.lock().locks.remove(&self.path);
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    inode: Arc<Inode>,
    writable: bool,
}

/// A map's way back to its file.
#[derive(Debug)]
struct SimMap {
    disk: SimDisk,
    inode: Arc<Inode>,
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        self.disk.0.lock().check(None)?;
        Ok(self.inode.heap().len() as u64)
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        // Reading goes on after a crash: dead threads may finish what they hold.
        let mut state = self.disk.0.lock();
        if state.fails(Call::Read) {
            return Err(failed(Call::Read));
        }
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        Ok(self.inode.heap().read(at, buffer))
    }

    fn read_at_nowait(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        {
            let mut state = self.disk.0.lock();
            if next(&mut state.random) % 256 < u64::from(state.uncached) {
                return Ok(None);
            }
        }
        self.read_at(at, buffer).map(Some)
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.0.lock();
        state.check(None)?;
        if !self.writable {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let at = usize::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
        let end = at
            .checked_add(bytes.len())
            .ok_or(io::ErrorKind::InvalidInput)?;
        let used = state.used(); // takes each file's lock
        let mut cached = self.inode.cached.lock();
        if end > cached.len() {
            let more = (end - cached.len()) as u64;
            if used.saturating_add(more) > state.capacity {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let mut grown = vec![0; end];
            cached.read(0, &mut grown);
            *cached = Arc::new(Heap::new(grown));
        }
        // Writing makes a sector dirty again, even with what it holds.
        let first = at / SECTOR_BYTES * SECTOR_BYTES;
        let mut durable = self.inode.durable.lock();
        let touched: Vec<_> = durable
            .forgotten
            .range(first..end)
            .map(|(s, _)| *s)
            .collect();
        for sector in touched {
            durable.forgotten.remove(&sector);
        }
        drop(durable);
        if state.fails(Call::Write) {
            let n = usize::try_from(next(&mut state.random)).unwrap_or(0) % (bytes.len() + 1);
            cached.write(at, &bytes[..n]);
            return Err(failed(Call::Write));
        }
        cached.write(at, bytes);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let len = self.inode.heap().len();
        sync(&self.disk, &self.inode, Call::Sync, 0, len)
    }

    fn map(&self, len: usize) -> io::Result<Arc<Map>> {
        self.disk.0.lock().check(None)?;
        let heap = self.inode.heap();
        if len != heap.len() {
            return Err(io::ErrorKind::InvalidInput.into()); // whole files only
        }
        let backing = SimMap {
            disk: self.disk.clone(),
            inode: Arc::clone(&self.inode),
        };
        Ok(Arc::new(Map::of_heap(heap, Box::new(backing))))
    }

    fn write_back(&self, _at: u64, _len: u64) -> io::Result<()> {
        self.disk.0.lock().check(None)
    }
}

fn sync(disk: &SimDisk, inode: &Inode, call: Call, at: usize, len: usize) -> io::Result<()> {
    let mut state = disk.0.lock();
    state.check(None)?;
    let fails = state.fails(call);
    inode.sync(at, len, fails);
    if fails { Err(failed(call)) } else { Ok(()) }
}

impl Backing for SimMap {
    fn sync(&self, at: usize, len: usize) -> io::Result<()> {
        sync(&self.disk, &self.inode, Call::MapSync, at, len)
    }

    fn populate(&self, _at: usize, _len: usize) -> io::Result<()> {
        self.disk.0.lock().check(Some(Call::Populate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(seed: u64) -> SimDisk {
        let disk = SimDisk::new(seed, 1 << 20);
        disk.create_dir_all(Path::new("/d")).unwrap();
        disk
    }

    fn content(disk: &SimDisk, path: &str) -> Option<Vec<u8>> {
        let file = disk.open_read(Path::new(path)).ok()?;
        let mut bytes = vec![0; usize::try_from(file.size().unwrap()).unwrap()];
        file.read_at(0, &mut bytes).unwrap();
        Some(bytes)
    }

    #[test]
    fn what_was_synced_survives_and_the_rest_is_old_or_new() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..100 {
            let disk = disk(seed);
            let file = disk.create(Path::new("/d/a"), 64 << 10).unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            let map = file.map(64 << 10).unwrap();
            map.write(0, &[1; 5000]).unwrap();
            map.sync(0, 5000).unwrap();
            map.write(8192, &[2; 8192]).unwrap();
            let after = disk.crash();
            assert!(map.sync(0, 1).is_err());
            let bytes = content(&after, "/d/a").unwrap();
            assert_eq!(bytes[..5000], [1; 5000]);
            assert!(bytes[8192..16384].iter().all(|b| [0, 2].contains(b)));
            match bytes[8192..16384].iter().filter(|b| **b == 2).count() {
                0 => lost += 1,
                8192 => kept += 1,
                _ => {}
            }
        }
        assert!(lost > 5 && kept > 5 && lost + kept < 95);
    }

    #[test]
    fn a_name_is_durable_only_after_the_directory_is_synced() {
        let (mut lost, mut kept) = (0, 0);
        for seed in 0..100 {
            let disk = disk(seed);
            disk.create(Path::new("/d/synced"), 0).unwrap();
            disk.sync_dir(Path::new("/d")).unwrap();
            disk.rename(Path::new("/d/synced"), Path::new("/d/new"))
                .unwrap();
            match disk.crash().list(Path::new("/d")).unwrap()[..] {
                [ref name] if name == "synced" => lost += 1,
                [ref name] if name == "new" => kept += 1,
                ref other => panic!("{other:?}"),
            }
        }
        assert!(lost > 20 && kept > 20);
    }

    #[test]
    fn a_failed_sync_is_not_made_good_by_the_next() {
        let disk = disk(1);
        let file = disk.create(Path::new("/d/a"), 4096).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        let map = file.map(4096).unwrap();
        map.write(0, &[7; 512]).unwrap();
        disk.fail(Call::MapSync, 0);
        assert!(map.sync(0, 512).is_err());
        map.write(512, &[8; 512]).unwrap();
        map.sync(0, 1024).unwrap();
        let inode = disk.inode(Path::new("/d/a")).unwrap();
        let durable = inode.durable.lock();
        assert_eq!(durable.bytes[..512], [0; 512]);
        assert_eq!(durable.bytes[512..1024], [8; 512]);
    }

    #[test]
    fn a_full_disk_refuses_new_files_and_growth() {
        let disk = disk(1);
        let file = disk.create(Path::new("/d/a"), 1 << 19).unwrap();
        let error = disk.create(Path::new("/d/b"), (1 << 19) + 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(file.write_at(1 << 20, b"x").is_err());
        assert_eq!(disk.usage(Path::new("/d")).unwrap().available, 1 << 19);
        disk.set_capacity(1 << 21);
        disk.create(Path::new("/d/b"), 1 << 20).unwrap();
    }

    #[test]
    fn a_short_write_leaves_a_prefix() {
        let disk = disk(3);
        let file = disk.create(Path::new("/d/a"), 100).unwrap();
        disk.fail(Call::Write, 1);
        file.write_at(0, &[1; 50]).unwrap();
        assert!(file.write_at(0, &[2; 100]).is_err());
        let bytes = content(&disk, "/d/a").unwrap();
        let twos = bytes.iter().take_while(|b| **b == 2).count();
        assert!(bytes[twos..].iter().all(|b| *b != 2));
        assert!(content(&disk.kill(), "/d/a").is_some());
        assert!(file.write_at(0, b"x").is_err());
    }
}
