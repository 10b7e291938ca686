//! What is known at opening before the log is read: the chain of index runs and the snapshots.
//!
//! Promises: a run counts only if it is sound and follows the one before; the others are removed, the scan makes
//! them anew. Leaves out the log itself.

use crate::disk::Disk;
use crate::error::OpenError;
use crate::index::run::{IndexRun, RunError};
use crate::index::seal::{self, LEDGER};
use crate::ledger_image::{self, QueueImage};
use crate::recovery::{Paths, io};
use crate::snapshot;
use crate::store::Snapshot;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign};
use std::sync::Arc;

type Offsets = Vec<(QueueNumber, QueueOffset)>;

/// What runs and snapshots say.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) runs: Vec<Arc<IndexRun>>,
    /// First offsets where the oldest run starts.
    pub(crate) firsts: Offsets,
    /// Ends where the newest run ends.
    pub(crate) ends: Offsets,
    pub(crate) reigns: Vec<(Reign, LogOffset)>,
    pub(crate) ledger: Option<Snapshot>,
    pub(crate) images: Vec<QueueImage>,
    /// The log was on disk at least up to here.
    pub(crate) synced: LogOffset,
}

impl Known {
    /// Where the newest run ends.
    pub(crate) fn end(&self) -> Option<LogOffset> {
        self.runs.last().map(|run| run.log().end)
    }
}

/// Reads the runs and the ledger's snapshot of a log whose first byte kept is `head`.
pub(crate) fn load(disk: &dyn Disk, paths: &Paths, head: LogOffset) -> Result<Known, OpenError> {
    let mut known = Known {
        runs: runs(disk, paths, head)?,
        ..Known::default()
    };
    while let Some(last) = known.runs.last() {
        match tables(last) {
            Ok((ends, reigns)) => {
                (known.ends, known.reigns) = (ends, reigns);
                break;
            }
            Err(error) => {
                let path = seal::path(paths, last.log().start, last.log().end);
                forget(disk, &path, &error)?;
                known.runs.pop();
            }
        }
    }
    if let Some(first) = known.runs.first() {
        match offsets(first, |line| line.start) {
            Ok(firsts) => known.firsts = firsts,
            Err(error) => {
                for run in &known.runs {
                    let path = seal::path(paths, run.log().start, run.log().end);
                    forget(disk, &path, &error)?;
                }
                known = Known::default();
            }
        }
    }
    let snapshots = &paths.snapshots;
    known.ledger =
        snapshot::newest(disk, snapshots, LEDGER).map_err(io("cannot list", snapshots))?;
    if let Some(found) = &known.ledger {
        match ledger_image::decode(&found.bytes) {
            Some(images) => known.images = images,
            None => {
                tracing::warn!(at = %found.at, "the ledger's snapshot does not add up");
                known.ledger = None;
            }
        }
    }
    let names = disk.list(snapshots).map_err(io("cannot list", snapshots))?;
    let taken = names.iter().filter_map(|name| snapshot::parse_name(name));
    let newest = taken.map(|(_, at)| at).max().unwrap_or_default();
    known.synced = newest.max(known.end().unwrap_or_default());
    Ok(known)
}

/// The chain: runs without a gap from one that covers `head`. What is not part of it is removed.
fn runs(disk: &dyn Disk, paths: &Paths, head: LogOffset) -> Result<Vec<Arc<IndexRun>>, OpenError> {
    let dir = &paths.index;
    let mut found = Vec::new();
    for name in disk.list(dir).map_err(io("cannot list", dir))? {
        match seal::parse_name(&name) {
            Some(range) => found.push(range),
            None => {
                let path = dir.join(&name);
                if name.ends_with(".tmp") {
                    disk.remove(&path).map_err(io("cannot remove", &path))?;
                }
            }
        }
    }
    found.sort_unstable();
    let mut chain: Vec<Arc<IndexRun>> = Vec::new();
    for (start, end) in found {
        let path = seal::path(paths, start, end);
        let follows = match chain.last() {
            Some(last) => last.log().end == start,
            None => start <= head && end > head,
        };
        if !follows {
            tracing::warn!(path = %path.display(), "not part of the index; removed");
            disk.remove(&path).map_err(io("cannot remove", &path))?;
            continue;
        }
        match IndexRun::open(disk, &path) {
            Err(RunError::Io(error)) if lacks(&error) => {
                return Err(io("cannot open", &path)(error));
            }
            Ok(run) if run.log() == (start..end) => chain.push(Arc::new(run)),
            Ok(_) => forget(disk, &path, &"its name is another's")?,
            Err(error) => forget(disk, &path, &error)?,
        }
    }
    Ok(chain)
}

/// True if the process lacks something, which says nothing about the file.
fn lacks(error: &std::io::Error) -> bool {
    let code = error.raw_os_error();
    code.is_some_and(|code| {
        [
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
            libc::EACCES,
            libc::EPERM,
        ]
        .contains(&code)
    })
}

fn forget(
    disk: &dyn Disk,
    path: &std::path::Path,
    why: &dyn std::fmt::Display,
) -> Result<(), OpenError> {
    tracing::warn!(path = %path.display(), %why, "the index run is made anew from the log");
    disk.remove(path).map_err(io("cannot remove", path))
}

fn tables(run: &IndexRun) -> Result<(Offsets, Vec<(Reign, LogOffset)>), RunError> {
    Ok((offsets(run, |line| line.end)?, run.reigns()?))
}

fn offsets(
    run: &IndexRun,
    of: impl Fn(&crate::index::layout::QueueLine) -> QueueOffset,
) -> Result<Offsets, RunError> {
    let mut out = Vec::new();
    run.each_queue(|line| {
        out.push((line.queue, of(&line)));
        Ok(())
    })?;
    Ok(out)
}
