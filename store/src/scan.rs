//! Reads the log from entry to entry, as it lies on disk.
//!
//! Promises: an entry is shown only if it follows the one before (FORMAT.md, "Opening", step 3). Leaves out what is
//! built from it.

use crate::ahead;
use crate::entry::{HEADER_BYTES, Header, Refused, SUMMED_BYTES_MAX, Sums};
use crate::error::OpenError;
use crate::run::Flags;
use crate::segment::Segment;
use crate::segments::Segments;
use crate::types::{LogOffset, QueueNumber, Reign, Timestamp, size};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes read at once while scanning.
const READ_BYTES: u64 = 256 << 10;

/// What the headers say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surveyed {
    /// End of the last whole run.
    pub(crate) end: LogOffset,
    /// Where no entry follows.
    pub(crate) stop: LogOffset,
    /// The highest synced mark, also behind `stop`.
    pub(crate) marked: LogOffset,
}

/// Steps from entry to entry and refuses what does not follow.
pub(crate) struct Scan<'a> {
    segments: &'a Segments,
    pub(crate) segment: Option<Arc<Segment>>,
    at: LogOffset,
    reign: Reign,
    store_time: Timestamp,
    buffer: Vec<u8>,
    /// Log offset of the buffer's first byte.
    held: LogOffset,
}

impl<'a> Scan<'a> {
    /// From `from` on, behind an entry of this reign and store time.
    pub(crate) fn after(
        segments: &'a Segments,
        from: LogOffset,
        (reign, store_time): (Reign, Timestamp),
    ) -> Self {
        Self {
            segments,
            segment: None,
            at: from,
            reign,
            store_time,
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
    pub(crate) fn next(&mut self) -> Result<Option<(Header, Sums)>, OpenError> {
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
    pub(crate) fn payload(&mut self, header: &Header) -> Result<Option<&[u8]>, OpenError> {
        let at = header.log_offset.plus(header.bytes() as u64);
        let len = header.payload_length as usize;
        let bytes = self.look(at, u64::from(header.payload_length))?;
        Ok((bytes.len() == len).then_some(bytes))
    }

    /// True if the payload's sum is right.
    pub(crate) fn sound(&mut self, header: &Header, sums: Sums) -> Result<bool, OpenError> {
        let payload = self.payload(header)?;
        let rest = payload.and_then(|payload| payload.get(usize::from(sums.head)..));
        Ok(rest.is_some_and(|rest| crc32c::crc32c(rest) == sums.payload))
    }

    /// Looks at headers alone, and where they stop at what follows ([`ahead`]).
    pub(crate) fn survey(&mut self, from: LogOffset) -> Result<Surveyed, OpenError> {
        let (mut end, mut marked) = (from, from);
        let mut run_file = None;
        let mut stop = None;
        while let Some((header, _)) = self.next()? {
            let file = self.segment.as_ref().map(|segment| segment.start());
            if *run_file.get_or_insert(file) != file {
                stop = Some(header.log_offset); // a run does not cross files
                break;
            }
            if header.flags.has(Flags::LAST_OF_RUN) {
                end = header.end();
                run_file = None;
            }
            if header.queue == QueueNumber::CONTROL
                && let Some(payload) = self.payload(&header)?
                && let Some(value) = ahead::mark(&header, payload)
            {
                marked = marked.max(value);
            }
        }
        let stop = stop.unwrap_or(self.at);
        let ahead = self.ahead(stop)?;
        Ok(Surveyed {
            end,
            stop,
            marked: marked.max(ahead),
        })
    }

    /// The highest synced mark behind the place where the headers stop.
    fn ahead(&self, stop: LogOffset) -> Result<LogOffset, OpenError> {
        let files = self.segments.all().into_iter();
        let pieces = files.filter(|file| file.end() > stop).map(|file| {
            Ok(ahead::Piece {
                start: file.start(),
                end: file.end(),
                file: Arc::clone(file.file()),
            })
        });
        ahead::marked(pieces, stop, self.reign).map_err(|source| OpenError::Io {
            what: "cannot read the log behind",
            path: PathBuf::from(format!("log offset {stop}")),
            source,
        })
    }
}
