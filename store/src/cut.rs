//! What stands behind the place where recovery ends the log, so that a cut can be told with its size.
//!
//! Promises: reads at most [`LOOK_BYTES`]; counts entries only where header and payload are sound, at their own
//! place and of the reign in which the log ended or a later one, so that what an earlier cut left behind is no
//! entry. Leaves out what follows: whatever is found is dropped all the same, because a run is only as good as
//! all that came before it (FORMAT.md, "Opening").

use crate::entry::{ALIGN, le_u64};
use crate::error::OpenError;
use crate::metrics::StoreMetrics;
use crate::scan::Scan;
use crate::segments::Segments;
use crate::types::{LogOffset, Reign, Timestamp, size};
use std::path::PathBuf;

/// How far behind the end is looked.
const LOOK_BYTES: u64 = 64 << 20;
/// Zeros at the end that make it the plain end of the log.
const END_BYTES: u64 = 1 << 20;
/// Bytes read at once.
const BLOCK: usize = 256 << 10;
/// A header's field that says where the entry stands.
const PLACE_AT: u64 = 16;

/// What was cut off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    /// The log's new end.
    pub(crate) at: LogOffset,
    /// From there to the last byte that is not zero, as far as was looked.
    pub(crate) bytes: u64,
    /// Sound entries among them.
    pub(crate) entries: u64,
}

impl Cut {
    /// Looks behind `at`, the end of a log whose last entry is of this reign.
    pub(crate) fn behind(
        segments: &Segments,
        at: LogOffset,
        reign: Reign,
    ) -> Result<Self, OpenError> {
        let mut look = Look {
            segments,
            reign,
            cut: Self {
                at,
                bytes: 0,
                entries: 0,
            },
            passed: at,
        };
        let zeros = vec![0; BLOCK];
        let mut here = at;
        while here < at.plus(LOOK_BYTES) {
            let Some(segment) = segments.find(here) else {
                break;
            };
            let len = size(segment.end().0 - here.0).min(BLOCK);
            let failed = |source| OpenError::Io {
                what: "cannot read the log behind",
                path: PathBuf::from(format!("log offset {at}")),
                source,
            };
            let block = segment.read(here, len).map_err(failed)?;
            if block[..] != zeros[..len] {
                look.block(here, &block)?;
            }
            here = here.plus(len as u64).max(look.passed);
            if look.cut.bytes == 0 && here.0 - at.0 >= END_BYTES {
                break;
            }
        }
        Ok(look.cut)
    }

    /// One line in the log, and the gauges; silent where nothing was cut.
    pub(crate) fn tell(&self, metrics: &StoreMetrics) {
        let shown = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        metrics.cut_bytes.set(shown(self.bytes));
        metrics.cut_entries.set(shown(self.entries));
        let Self { at, bytes, entries } = *self;
        if entries > 0 {
            tracing::warn!(
                at = at.0,
                bytes,
                entries,
                "the log was not closed cleanly and is cut at a damaged or missing entry; sound entries behind \
                 it, none of them known to have been on disk, are dropped"
            );
        } else if bytes > 0 {
            tracing::warn!(
                at = at.0,
                bytes,
                "the log was not closed cleanly and is cut at its last sound entry; nothing behind it is one"
            );
        }
    }
}

struct Look<'a> {
    segments: &'a Segments,
    reign: Reign,
    cut: Cut,
    /// What stands below is known.
    passed: LogOffset,
}

impl Look<'_> {
    /// Looks through `block`, which stands at `from`.
    fn block(&mut self, from: LogOffset, block: &[u8]) -> Result<(), OpenError> {
        let words = block.chunks_exact(size(ALIGN));
        for (word, place) in words.zip((from.0..).step_by(size(ALIGN))) {
            let value = le_u64(word, 0);
            if value == 0 || place < self.passed.0 {
                continue;
            }
            self.cut.bytes = self.cut.bytes.max(place + ALIGN - self.cut.at.0);
            if value == place.saturating_sub(PLACE_AT) && value >= self.passed.0 {
                self.entries(LogOffset(value))?;
            }
        }
        Ok(())
    }

    /// Counts the entries that follow each other from here on.
    fn entries(&mut self, from: LogOffset) -> Result<(), OpenError> {
        let before = (self.reign, Timestamp(i64::MIN));
        let mut scan = Scan::after(self.segments, from, before);
        let end = self.cut.at.plus(LOOK_BYTES);
        while self.passed < end
            && let Some((header, sums)) = scan.next()?
        {
            self.cut.entries += u64::from(scan.sound(&header, sums)?);
            self.passed = header.end();
            self.cut.bytes = self.passed.0 - self.cut.at.0;
        }
        Ok(())
    }
}
