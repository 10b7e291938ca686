//! The only door to the file system: what the store needs of a disk, as two traits, so that the
//! same code runs on real files and on the fault-injecting disk in memory.
//!
//! Promises: no room for a new file is an answer of [`Disk::create`], never a signal later; a
//! failed write or sync is final for that file and is never retried here. Leaves out everything a
//! log does not do: no growing, no cutting of live files, no permissions, no links.

mod map;
mod real;
pub mod sim;

pub use map::Map;
pub(crate) use map::local_hour;
pub use real::RealDisk;

use std::fmt::Debug;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// How full a file system is, in bytes, as an unprivileged process sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Bytes that this process could use at most: used plus available.
    pub total: u64,
    /// Bytes still available to this process.
    pub available: u64,
}

/// Holds a lock file; dropping it releases the lock.
pub trait DiskLock: Send + Sync + Debug {}

/// A file system. Paths are used as given.
pub trait Disk: Send + Sync + Debug {
    /// Creates a directory and its parents; one that exists is no error.
    ///
    /// # Errors
    /// The system's.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;

    /// Names of the plain files in `dir`, sorted.
    ///
    /// # Errors
    /// The system's; `NotFound` when there is no such directory.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;

    /// Opens a file that exists, for reading and writing.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens a file that exists for reading; writing to it is an error.
    ///
    /// # Errors
    /// The system's.
    fn open_read(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a file of `preallocate_bytes` zero bytes whose blocks are all reserved; one of the
    /// same name is emptied first. The name itself is durable only after [`Disk::sync_dir`].
    ///
    /// # Errors
    /// `StorageFull` when there is no room (nothing is left behind then); the system's.
    fn create(&self, path: &Path, preallocate_bytes: u64) -> io::Result<Arc<dyn DiskFile>>;

    /// Removes a file. Open handles and maps go on working.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Renames a file, replacing one of the new name.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Makes names created, renamed and removed in `dir` durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;

    /// Takes the exclusive lock of `path`, creating the file if need be.
    ///
    /// # Errors
    /// `WouldBlock` when another holder has it; the system's.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn DiskLock>>;

    /// How full the file system of `dir` is.
    ///
    /// # Errors
    /// The system's.
    fn usage(&self, dir: &Path) -> io::Result<Usage>;
}

/// An open file. All offsets are absolute; no cursor.
pub trait DiskFile: Send + Sync + Debug {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The system's.
    fn size(&self) -> io::Result<u64>;

    /// Fills `buffer` from `at`; fewer bytes come back only at the end of the file.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&self, at: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Like [`DiskFile::read_at`], but never waits for the disk: `None` when some byte is not in the
    /// page cache (preadv2 with `RWF_NOWAIT`) or the file system cannot tell.
    ///
    /// # Errors
    /// The system's.
    fn read_at_nowait(&self, at: u64, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// Writes all of `bytes` at `at`.
    ///
    /// # Errors
    /// The system's; how much was written is then unknown.
    fn write_at(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file's bytes durable (fdatasync). Not for a file whose map is populated ahead: it
    /// would write all of it.
    ///
    /// # Errors
    /// The system's; the bytes written before are then to be taken as lost.
    fn sync(&self) -> io::Result<()>;

    /// Maps the first `len` bytes, shared and writable.
    ///
    /// # Errors
    /// The system's; `InvalidInput` when the file is shorter than `len`.
    fn map(&self, len: usize) -> io::Result<Arc<Map>>;

    /// Starts writing dirty pages of the range to disk and returns at once. No promise of
    /// durability, and no error of a write is consumed (`sync_file_range` with WRITE only).
    ///
    /// # Errors
    /// The system's.
    fn write_back(&self, at: u64, len: u64) -> io::Result<()>;
}

/// Fills all of `buffer`, or fails with `UnexpectedEof`.
///
/// # Errors
/// The file's.
pub(crate) fn read_exact_at(file: &dyn DiskFile, at: u64, buffer: &mut [u8]) -> io::Result<()> {
    if file.read_at(at, buffer)? == buffer.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Writes a whole file so that after a crash either the old one or the new one is there: aside,
/// synced, renamed, directory synced.
///
/// # Errors
/// The disk's. The old file, if any, is then still there.
pub(crate) fn replace_file(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let aside = path.with_extension("tmp");
    let dir = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let file = disk.create(&aside, bytes.len() as u64)?;
    let written = file.write_at(0, bytes).and_then(|()| file.sync());
    if let Err(error) = written {
        let _ = disk.remove(&aside); // the first error is the one to tell
        return Err(error);
    }
    disk.rename(&aside, path)?;
    disk.sync_dir(dir)
}
