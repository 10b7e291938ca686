//! Mapped files, and the few system calls that need raw pointers. The one file with `unsafe`.
//!
//! The contract that makes the maps sound, kept by this crate alone (every method is crate-private):
//! - there is one writer at a time, and it writes only at or above the published mark;
//! - bytes below the published mark never change again; only they are read, viewed or handed out;
//! - the mark moves with Release after the bytes and is read with Acquire before them;
//! - a mapped file is never cut, so no access ends in a signal for want of a page; its blocks are
//!   reserved before it is mapped, so none ends in one for want of room.
//!
//! So no `&mut [u8]` over a map ever exists, and a `&[u8]` only over bytes that are finished.
#![allow(
    unsafe_code,
    reason = "maps are raw memory; the contract above makes their use sound"
)]

use bytes::Bytes;
use memmap2::{Advice, MmapOptions, MmapRaw};
use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

/// Touching one byte per this many is enough on every page size.
const PAGE_BYTES: usize = 4096;

/// What answers for a map in memory when it is synced or populated.
pub(super) trait Backing: Send + Sync + fmt::Debug {
    /// Makes a range durable.
    fn sync(&self, at: usize, len: usize) -> io::Result<()>;
    /// Prepares a range for being written.
    fn populate(&self, at: usize, len: usize) -> io::Result<()>;
}

/// Plain memory that is written and read like a map.
pub(super) struct Heap {
    pointer: *mut u8,
    len: usize,
}

// SAFETY: the memory belongs to this value alone and may be freed by any thread.
unsafe impl Send for Heap {}
// SAFETY: all access goes through raw pointers under the contract on top of this file.
unsafe impl Sync for Heap {}

impl Drop for Heap {
    fn drop(&mut self) {
        let whole = std::ptr::slice_from_raw_parts_mut(self.pointer, self.len);
        // SAFETY: made by `Box::into_raw` in `new` with this very length, and dropped once.
        drop(unsafe { Box::from_raw(whole) });
    }
}

impl Heap {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        let len = bytes.len();
        let pointer = Box::into_raw(bytes.into_boxed_slice()).cast();
        Self { pointer, len }
    }
    pub(super) fn len(&self) -> usize {
        self.len
    }
    /// Copies out; the end is cut to the length.
    pub(super) fn read(&self, at: usize, into: &mut [u8]) -> usize {
        let n = into.len().min(self.len().saturating_sub(at));
        if n > 0 {
            // SAFETY: at + n <= len, `into` is exclusive, and nobody writes these bytes (contract;
            // the simulated disk in addition holds its lock over every file access).
            unsafe { std::ptr::copy_nonoverlapping(self.pointer.add(at), into.as_mut_ptr(), n) };
        }
        n
    }
    /// Copies in; false if it does not fit.
    pub(super) fn write(&self, at: usize, bytes: &[u8]) -> bool {
        if !fits(self.len(), at, bytes.len()) {
            return false;
        }
        // SAFETY: in bounds as just checked; one writer at a time (contract).
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer.add(at), bytes.len());
        }
        true
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Heap({} bytes)", self.len())
    }
}

#[derive(Debug)]
enum Memory {
    File(MmapRaw),
    Heap {
        heap: Arc<Heap>,
        backing: Box<dyn Backing>,
    },
}

/// A mapped file. Shared by the one writer and many readers; unmapped when the last lets go.
#[derive(Debug)]
pub struct Map(Memory);

fn fits(size: usize, at: usize, len: usize) -> bool {
    at.checked_add(len).is_some_and(|end| end <= size)
}

fn out_of_bounds() -> io::Error {
    io::ErrorKind::InvalidInput.into()
}

impl Map {
    /// Maps the first `len` bytes of a real file, shared and writable.
    pub(super) fn of_file(file: &File, len: usize) -> io::Result<Self> {
        if file.metadata()?.len() < len as u64 {
            return Err(out_of_bounds());
        }
        // Raw maps may be made without unsafe; it is their use that needs care.
        Ok(Self(Memory::File(
            MmapOptions::new().len(len).map_raw(file)?,
        )))
    }

    /// A map over plain memory.
    pub(super) fn of_heap(heap: Arc<Heap>, backing: Box<dyn Backing>) -> Self {
        Self(Memory::Heap { heap, backing })
    }

    /// Mapped bytes.
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Memory::File(map) => map.len(),
            Memory::Heap { heap, .. } => heap.len(),
        }
    }

    fn pointer(&self) -> *mut u8 {
        match &self.0 {
            Memory::File(map) => map.as_mut_ptr(),
            Memory::Heap { heap, .. } => heap.pointer,
        }
    }

    /// Copies `bytes` to `at`, above the published mark, by the one writer.
    ///
    /// # Errors
    /// `InvalidInput` when it does not fit; nothing is written then.
    pub(crate) fn write(&self, at: usize, bytes: &[u8]) -> io::Result<()> {
        if !fits(self.len(), at, bytes.len()) {
            return Err(out_of_bounds());
        }
        // SAFETY: in bounds as just checked; one writer, above the published mark, so no reader has
        // a reference into this range (contract on top of this file).
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer().add(at), bytes.len());
        }
        Ok(())
    }

    /// Looks at published bytes in place; `None` when the range is outside the map.
    pub(crate) fn view(&self, at: usize, len: usize) -> Option<&[u8]> {
        // SAFETY: in bounds as checked; published bytes never change while the map lives, and the
        // slice borrows the map.
        fits(self.len(), at, len)
            .then(|| unsafe { std::slice::from_raw_parts(self.pointer().add(at), len) })
    }

    /// Published bytes without a copy; they keep the map alive. `None` when outside the map.
    pub(crate) fn bytes(self: &Arc<Self>, at: usize, len: usize) -> Option<Bytes> {
        fits(self.len(), at, len).then(|| {
            Bytes::from_owner(Piece {
                map: Arc::clone(self),
                at,
                len,
            })
        })
    }

    /// Makes the pages of the range present, writable and dirty, so that writing them takes no
    /// fault (`MADV_POPULATE_WRITE`, Linux 5.14; touched page by page on an older kernel).
    ///
    /// # Errors
    /// The system's: no room, a disk error, no memory.
    pub(crate) fn populate(&self, at: usize, len: usize) -> io::Result<()> {
        if !fits(self.len(), at, len) {
            return Err(out_of_bounds());
        }
        match &self.0 {
            Memory::Heap { backing, .. } => backing.populate(at, len),
            Memory::File(map) => loop {
                match map.advise_range(Advice::PopulateWrite, at, len) {
                    Ok(()) => return Ok(()),
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                    Err(e) if e.raw_os_error() == Some(libc::EINVAL) => {
                        self.touch(at, len);
                        return Ok(());
                    }
                    Err(e) => return Err(e),
                }
            },
        }
    }

    /// Write-faults every page of the range without changing a byte.
    fn touch(&self, at: usize, len: usize) {
        let last = (at + len).checked_sub(1).filter(|_| len > 0);
        for place in (at..at + len).step_by(PAGE_BYTES).chain(last) {
            // SAFETY: in bounds (the caller checked at + len). The read-modify-write is atomic and
            // changes nothing, so a concurrent store of the writer to this byte is not lost.
            let byte = unsafe { AtomicU8::from_ptr(self.pointer().add(place)) };
            byte.fetch_or(0, Ordering::Relaxed);
        }
    }

    /// Makes the range durable: `msync(MS_SYNC)` on its pages and no others.
    ///
    /// # Errors
    /// The system's; the range is then to be taken as lost.
    pub(crate) fn sync(&self, at: usize, len: usize) -> io::Result<()> {
        if !fits(self.len(), at, len) {
            return Err(out_of_bounds());
        }
        match &self.0 {
            Memory::Heap { backing, .. } => backing.sync(at, len),
            Memory::File(map) => map.flush_range(at, len),
        }
    }
}

/// What a [`Bytes`] over a map keeps alive.
struct Piece {
    map: Arc<Map>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        self.map.view(self.at, self.len).unwrap_or_default()
    }
}

/// The hour (0 to 23) of the local day at a time given in seconds since 1970; that of UTC if the
/// machine does not know its time zone.
pub(crate) fn local_hour(seconds: i64) -> u8 {
    // SAFETY: `tm` is plain data for which zeros are valid; `localtime_r` writes only there.
    let hour = unsafe {
        let mut parts: libc::tm = std::mem::zeroed();
        if libc::localtime_r(&raw const seconds, &raw mut parts).is_null() {
            -1
        } else {
            parts.tm_hour
        }
    };
    let utc = seconds.rem_euclid(86_400) / 3600;
    u8::try_from(hour).or(u8::try_from(utc)).unwrap_or(0)
}

/// Starts write-back of a range of a file: `sync_file_range(SYNC_FILE_RANGE_WRITE)`.
///
/// # Errors
/// The system's.
pub(super) fn start_write_back(file: &File, at: u64, len: u64) -> io::Result<()> {
    let at = i64::try_from(at).map_err(|_| out_of_bounds())?;
    let len = i64::try_from(len).map_err(|_| out_of_bounds())?;
    // SAFETY: a plain system call on a descriptor that `file` keeps open; it touches no memory.
    let answer =
        unsafe { libc::sync_file_range(file.as_raw_fd(), at, len, libc::SYNC_FILE_RANGE_WRITE) };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
