//! Real files: preallocation, positional reads, file and directory sync. Linux, local file systems.

use super::map::{Map, start_write_back};
use super::{Disk, DiskFile, DiskLock, Usage};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// The machine's file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

#[derive(Debug)]
struct RealLock(#[expect(dead_code, reason = "held open: closing releases the lock")] File);

impl DiskLock for RealLock {}

impl Disk for RealDisk {
    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        std::fs::create_dir_all(dir)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in std::fs::read_dir(dir)? {
            let item = item?;
            if item.file_type()?.is_file()
                && let Ok(name) = item.file_name().into_string()
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(File::open(path)?)))
    }

    fn create(&self, path: &Path, preallocate_bytes: u64) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)?;
        if preallocate_bytes > 0
            && let Err(error) = preallocate(&file, preallocate_bytes)
        {
            let _ = std::fs::remove_file(path); // the first error is the one to tell
            return Err(error);
        }
        Ok(Arc::new(RealFile(file)))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(RealLock(file)))
    }

    fn usage(&self, dir: &Path) -> io::Result<Usage> {
        let fs = rustix::fs::statvfs(dir)?;
        let available = fs.f_bavail.saturating_mul(fs.f_frsize);
        let used = fs.f_blocks.saturating_sub(fs.f_bfree);
        Ok(Usage {
            total: used.saturating_mul(fs.f_frsize).saturating_add(available),
            available,
        })
    }
}

/// Reserves the blocks of the whole file; writes zeros where the file system cannot reserve.
fn preallocate(file: &File, bytes: u64) -> io::Result<()> {
    loop {
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
            other => return Ok(other?),
        }
    }
    let zeros = vec![0; 1 << 20];
    let mut at = 0;
    while at < bytes {
        let n = usize::try_from(bytes - at).map_or(zeros.len(), |rest| rest.min(zeros.len()));
        file.write_all_at(&zeros[..n], at)?;
        at += n as u64;
    }
    Ok(())
}

impl DiskFile for RealFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.0.read_at(&mut buffer[done..], at + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(done)
    }

    fn read_at_nowait(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut done = 0;
        while done < buffer.len() {
            let mut rest = [IoSliceMut::new(&mut buffer[done..])];
            let place = at + done as u64;
            match rustix::io::preadv2(&self.0, &mut rest, place, ReadWriteFlags::NOWAIT) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(None),
                Err(e) => return Err(e.into()),
            }
        }
        Ok(Some(done))
    }

    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn map(&self, len: usize) -> io::Result<Arc<Map>> {
        Ok(Arc::new(Map::of_file(&self.0, len)?))
    }

    fn write_back(&self, at: u64, len: u64) -> io::Result<()> {
        start_write_back(&self.0, at, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_preallocated_mapped_written_and_read_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let disk = RealDisk;
        let file = disk.create(&path, 1 << 20).unwrap();
        assert_eq!(file.size().unwrap(), 1 << 20);
        let map = file.map(1 << 20).unwrap();
        map.populate(100, 300_000).unwrap();
        map.write(5000, b"hello").unwrap();
        map.sync(5000, 5).unwrap();
        file.write_back(0, 8192).unwrap();
        let bytes = map.bytes(5000, 5).unwrap();
        assert_eq!(map.view(5000, 5), Some(&b"hello"[..]));
        let mut back = [0; 5];
        drop(map);
        assert_eq!(&bytes[..], b"hello"); // keeps the map alive
        let again = disk.open_read(&path).unwrap();
        assert_eq!(again.read_at(5000, &mut back).unwrap(), 5);
        assert_eq!(&back, b"hello");
        assert_eq!(again.read_at((1 << 20) - 2, &mut back).unwrap(), 2);
        assert!(again.write_at(0, b"x").is_err());
        assert!(matches!(
            again.read_at_nowait(5000, &mut back),
            Ok(None | Some(5))
        ));
    }

    #[test]
    fn what_lies_outside_a_map_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = RealDisk.create(&dir.path().join("file"), 8192).unwrap();
        assert!(file.map(8193).is_err());
        let map = file.map(8192).unwrap();
        assert!(map.write(8190, b"abc").is_err());
        assert!(map.write(usize::MAX, b"abc").is_err());
        assert!(map.bytes(8192, 1).is_none());
        assert!(map.view(8192, 0).is_some());
        assert!(map.populate(1, 8192).is_err());
        assert!(map.sync(1, usize::MAX).is_err());
    }

    #[test]
    fn an_hour_has_a_day() {
        for hour in 0..24 {
            let now = crate::disk::local_hour(1_700_006_400 + hour * 3600);
            let next = crate::disk::local_hour(1_700_006_400 + (hour + 1) * 3600);
            assert!(now < 24 && next < 24 && next != now);
        }
    }

    #[test]
    fn a_lock_is_held_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let first = RealDisk.lock(&path).unwrap();
        let second = RealDisk.lock(&path).unwrap_err();
        assert_eq!(second.kind(), io::ErrorKind::WouldBlock);
        drop(first);
        RealDisk.lock(&path).unwrap();
    }

    #[test]
    fn a_full_disk_is_an_answer_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("huge");
        let usage = RealDisk.usage(dir.path()).unwrap();
        assert!(usage.available <= usage.total);
        let answer = RealDisk.create(&path, usage.total.saturating_mul(4));
        assert!(answer.is_err());
        assert!(RealDisk.list(dir.path()).unwrap().is_empty());
    }
}
