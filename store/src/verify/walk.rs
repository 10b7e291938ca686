//! A walk over the entries of a closed store's log, file by file, from headers and payload sums.

use crate::ahead;
use crate::disk::{Disk, DiskFile};
use crate::entry::{HEADER_BYTES, Header, Refused, SUMMED_BYTES_MAX, Sums};
use crate::types::{LogOffset, Reign, Timestamp, size};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes read at once.
const READ_BYTES: u64 = 1 << 20;

/// A log file by name.
#[derive(Clone, Debug)]
pub(super) struct LogFile {
    pub(super) start: LogOffset,
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
}

impl LogFile {
    pub(super) fn end(&self) -> LogOffset {
        LogOffset(self.start.0.saturating_add(self.bytes))
    }
}

/// The log files of `dir`, oldest first.
pub(super) fn files(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for name in disk.list(dir)? {
        let Some(start) = name.parse().ok().filter(|_| name.len() == 20) else {
            continue;
        };
        let path = dir.join(&name);
        let bytes = disk.open_read(&path)?.size()?;
        files.push(LogFile {
            start: LogOffset(start),
            path,
            bytes,
        });
    }
    files.sort_unstable_by_key(|file| file.start);
    Ok(files)
}

/// What stands at a place of the log.
pub(super) enum Step {
    /// A sound entry that follows the one before.
    Entry(Header),
    /// An entry whose payload's sum is wrong.
    Spoilt(Header),
    /// No entry that follows: the log's end, or damage.
    End(&'static str),
}

/// Steps from entry to entry through one file after the other.
pub(super) struct Walk<'a> {
    disk: &'a dyn Disk,
    files: &'a [LogFile],
    file: Option<(&'a LogFile, Arc<dyn DiskFile>)>,
    pub(super) at: LogOffset,
    reign: Reign,
    store_time: Timestamp,
    buffer: Vec<u8>,
    held: LogOffset,
}

impl<'a> Walk<'a> {
    pub(super) fn new(disk: &'a dyn Disk, files: &'a [LogFile], from: LogOffset) -> Self {
        Self {
            disk,
            files,
            file: None,
            at: from,
            reign: Reign(0),
            store_time: Timestamp(i64::MIN),
            buffer: Vec::new(),
            held: LogOffset(0),
        }
    }

    /// The file that the walk is in.
    pub(super) fn file(&self) -> Option<&'a LogFile> {
        self.file.as_ref().map(|(file, _)| *file)
    }

    /// `len` bytes at `at` of the current file, fewer at its end.
    fn look(&mut self, at: LogOffset, len: u64) -> io::Result<&[u8]> {
        let Some((file, handle)) = &self.file else {
            return Ok(&[]);
        };
        let len = len.min(file.end().0.saturating_sub(at.0));
        let held_end = self.held.0 + self.buffer.len() as u64;
        if at < self.held || at.0 + len > held_end {
            let want = len.max(READ_BYTES).min(file.end().0.saturating_sub(at.0));
            self.buffer.resize(size(want), 0);
            self.held = at;
            let read = handle.read_at(at.0 - file.start.0, &mut self.buffer)?;
            self.buffer.truncate(read);
        }
        let from = size(at.0 - self.held.0).min(self.buffer.len());
        let to = (from + size(len)).min(self.buffer.len());
        Ok(&self.buffer[from..to])
    }

    /// The next entry. `payload` is shown the payload of a sound one.
    pub(super) fn step(&mut self, mut payload: impl FnMut(&Header, &[u8])) -> io::Result<Step> {
        let at = self.at;
        if self.file().is_none_or(|file| at >= file.end()) {
            let Some(file) = self.files.iter().find(|f| f.start <= at && at < f.end()) else {
                return Ok(Step::End("no file goes on here"));
            };
            self.file = Some((file, self.disk.open_read(&file.path)?));
            self.buffer.clear();
        }
        let end = self.file().map_or(at, LogFile::end);
        let (header, sums) = match Header::decode(self.look(at, SUMMED_BYTES_MAX as u64)?) {
            Ok(decoded) => decoded,
            Err(Refused::Short { .. }) => return Ok(Step::End("the file ends in a header")),
            Err(Refused::Damaged(what)) => return Ok(Step::End(what)),
        };
        let rest = end.0.saturating_sub(header.end().0);
        let wrong = match () {
            () if header.log_offset != at => "an entry of another place",
            () if header.end() > end => "an entry across the file's end",
            () if rest > 0 && rest < HEADER_BYTES as u64 => "an entry that leaves no room",
            () if header.reign < self.reign => "an entry of an earlier reign",
            () if header.store_time < self.store_time => "an entry stored earlier",
            () => "",
        };
        if !wrong.is_empty() {
            return Ok(Step::End(wrong));
        }
        let sound = self.check(&header, sums, &mut payload)?;
        (self.reign, self.store_time, self.at) = (header.reign, header.store_time, header.end());
        Ok(if sound {
            Step::Entry(header)
        } else {
            Step::Spoilt(header)
        })
    }

    /// The highest synced mark behind the place where the walk has ended.
    pub(super) fn ahead(&self) -> io::Result<LogOffset> {
        let files = self.files.iter().filter(|file| file.end() > self.at);
        let pieces = files.map(|file| {
            Ok(ahead::Piece {
                start: file.start,
                end: file.end(),
                file: self.disk.open_read(&file.path)?,
            })
        });
        ahead::marked(pieces, self.at, self.reign)
    }

    fn check(
        &mut self,
        header: &Header,
        sums: Sums,
        payload: &mut impl FnMut(&Header, &[u8]),
    ) -> io::Result<bool> {
        let at = header.log_offset.plus(header.bytes() as u64);
        let bytes = self.look(at, u64::from(header.payload_length))?;
        let whole = bytes.len() == header.payload_length as usize;
        let rest = bytes.get(usize::from(sums.head)..);
        let sound = whole && rest.is_some_and(|rest| crc32c::crc32c(rest) == sums.payload);
        if sound {
            payload(header, bytes);
        }
        Ok(sound)
    }
}
