//! Looks behind the place where the walk over the log stops, for synced marks that speak against a cut there.
//!
//! Promises: a damaged entry below what was on disk is told from a torn tail, as far as a mark behind it is
//! still readable; nothing is read beyond the bytes in use. Leaves out what follows from it: `recovery.rs`
//! refuses, `verify.rs` reports.
//!
//! Why a mark may be believed wherever it stands, left over from an earlier cut or not:
//!
//! - When a mark of value `V` was written, everything below `V` was on disk, and `V` was not above its place.
//! - Bytes on disk change only by a cut: recovery ends the log at `E`, and the lane writes on from there. `E`
//!   is not below any mark that the scan or this look saw, else the store does not open. So every old mark
//!   behind `E` has `V <= E`.
//! - Before anything is appended at `E`, everything kept below `E` has been synced (written anew where it was
//!   not known to be). So what such an old mark says stays true although what stands behind `E` changes.
//!
//! Hence a log that ends below a mark's value has lost something that was on disk, whichever the mark is. The
//! reign is asked for all the same: a store that was cut below a mark by a version without this look, or past
//! zeros longer than are looked through, may hold marks above its cut; those are of an earlier reign than
//! what the walk sees before it stops, unless it stops below that cut, where it has lost synced bytes anyway.
//!
//! A tail torn by a power loss holds bytes that no sync had covered yet, so that no mark tells of them: the
//! marks in it have values below the tear.
//!
//! Sound entries on the way are stepped over whole: payloads come from clients, and one could hold what looks
//! like a mark. Only the damaged entry's own payload is searched byte by byte.

use crate::disk::DiskFile;
use crate::entry::{HEADER_BYTES, Header, SUMMED_BYTES_MAX, le_u64};
use crate::lane::CONTROL_MARK;
use crate::run::Kind;
use crate::types::{LogOffset, QueueNumber, Reign, size};
use std::io;
use std::sync::Arc;

/// Bytes read at once.
const READ_BYTES: u64 = 256 << 10;
/// Zeros are skipped by this many bytes at once.
const PAGE: u64 = 4096;
/// Zero bytes where the walk stopped that make it the plain end of the log.
const END_BYTES: u64 = 1 << 20;
/// Zero bytes further on behind which nothing is expected any more.
const GAP_BYTES: u64 = 64 << 20;
/// Payload bytes of a synced mark.
const MARK_PAYLOAD: usize = 16;

/// A log file to look through.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) start: LogOffset,
    pub(crate) end: LogOffset,
    pub(crate) file: Arc<dyn DiskFile>,
}

/// The value of a synced mark; `None` for other entries.
pub(crate) fn mark(header: &Header, payload: &[u8]) -> Option<LogOffset> {
    let is_mark = header.queue == QueueNumber::CONTROL
        && header.kind == Kind::Control
        && payload.len() == MARK_PAYLOAD
        && payload[0] == CONTROL_MARK;
    is_mark.then(|| LogOffset(le_u64(payload, 8)))
}

/// The highest synced mark at or behind `from`, a place where an entry could start; the first above
/// `from` ends the search. `reign` is that of the last entry before. `pieces` are the files from the one
/// that holds `from` on.
pub(crate) fn marked(
    pieces: impl IntoIterator<Item = io::Result<Piece>>,
    from: LogOffset,
    reign: Reign,
) -> io::Result<LogOffset> {
    let mut ahead = Ahead {
        from,
        reign,
        found: LogOffset(0),
        zeros: 0,
        zeros_max: END_BYTES,
    };
    for piece in pieces {
        let piece = piece?;
        let mut at = from.max(piece.start);
        let mut buffer = vec![0; size(READ_BYTES) + SUMMED_BYTES_MAX];
        while at < piece.end {
            let want = buffer.len().min(size(piece.end.0 - at.0));
            let read = piece
                .file
                .read_at(at.0 - piece.start.0, &mut buffer[..want])?;
            at = ahead.block(&piece, at, &buffer[..read]);
            if ahead.done() {
                return Ok(ahead.found);
            }
            if read < want {
                break; // a file that is shorter than it should be
            }
        }
    }
    Ok(ahead.found)
}

struct Ahead {
    from: LogOffset,
    reign: Reign,
    found: LogOffset,
    /// Zero bytes just passed.
    zeros: u64,
    zeros_max: u64,
}

impl Ahead {
    fn done(&self) -> bool {
        self.found > self.from || self.zeros >= self.zeros_max
    }

    /// Looks through `bytes`, which stand at `start`; gives back where to go on.
    fn block(&mut self, piece: &Piece, start: LogOffset, bytes: &[u8]) -> LogOffset {
        let limit = start.plus(READ_BYTES.min(bytes.len() as u64));
        let mut at = start;
        while at < limit && !self.done() {
            let here = &bytes[size(at.0 - start.0)..];
            let page = PAGE - at.0 % PAGE;
            if at == start || page == PAGE {
                let len = page.min(limit.0 - at.0);
                if here[..size(len)].iter().all(|byte| *byte == 0) {
                    self.zeros += len;
                    at = at.plus(len);
                    continue;
                }
                (self.zeros, self.zeros_max) = (0, GAP_BYTES);
            }
            at = self
                .entry(piece, at, here)
                .unwrap_or_else(|| at.plus(8))
                .min(piece.end);
        }
        at
    }

    /// The end of the sound entry at `at`, if there is one.
    fn entry(&mut self, piece: &Piece, at: LogOffset, bytes: &[u8]) -> Option<LogOffset> {
        if bytes.len() < HEADER_BYTES || le_u64(bytes, 16) != at.0 {
            return None;
        }
        let (header, sums) = Header::decode(bytes).ok()?;
        if header.reign < self.reign || header.end() > piece.end {
            return None;
        }
        // Only what the header sum covers is looked at.
        let payload = bytes.get(header.bytes()..header.bytes() + usize::from(sums.head))?;
        if let Some(value) = mark(&header, payload).filter(|value| *value <= at) {
            self.found = self.found.max(value);
        }
        Some(header.end())
    }
}
