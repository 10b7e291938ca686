//! The sealed runs together: a contiguous chain over the log, oldest first.
//!
//! Promises: finding a queue's run is a binary search over the runs' tables; nothing per run and queue stays
//! in memory. Readers work on the list as it was when they looked. Leaves out rows in memory.

use super::Row;
use super::run::{Access, IndexRun, RunError};
use crate::store::Aborted;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};
use parking_lot::RwLock;
use std::sync::Arc;

/// The list at one moment.
pub(crate) type List = Arc<Vec<Arc<IndexRun>>>;

/// The runs of a store.
#[derive(Debug, Default)]
pub(crate) struct Runs(RwLock<List>);

impl Runs {
    /// Runs found at opening.
    pub(crate) fn new(runs: Vec<Arc<IndexRun>>) -> Self {
        Self(RwLock::new(Arc::new(runs)))
    }

    /// The list now.
    pub(crate) fn list(&self) -> List {
        Arc::clone(&self.0.read())
    }

    /// Where the newest run ends: below it rows are sealed.
    pub(crate) fn end(&self) -> Option<LogOffset> {
        self.0.read().last().map(|run| run.log().end)
    }

    /// The time of the newest run; 0 without one.
    pub(crate) fn time(&self) -> Timestamp {
        let list = self.0.read();
        list.last().map_or(Timestamp(0), |run| run.time())
    }

    /// Adds the newest run.
    pub(crate) fn push(&self, run: IndexRun) {
        let mut list = self.0.write();
        let mut longer = Vec::clone(&list);
        longer.push(Arc::new(run));
        *list = Arc::new(longer);
    }

    /// Takes the runs that end at or below `head` off the front; the newest always stays.
    pub(crate) fn drop_below(&self, head: LogOffset) -> Vec<Arc<IndexRun>> {
        let mut list = self.0.write();
        let gone = list.partition_point(|run| run.log().end <= head);
        let gone = gone.min(list.len().saturating_sub(1));
        if gone == 0 {
            return Vec::new();
        }
        let (before, after) = list.split_at(gone);
        let (before, after) = (before.to_vec(), after.to_vec());
        *list = Arc::new(after);
        before
    }
}

/// The first run in which the queue's end lies above `offset`: the one that holds it, if any does.
fn holding(
    list: &List,
    access: Access,
    queue: QueueNumber,
    offset: QueueOffset,
) -> Result<usize, RunError> {
    let ends_above = |run: &IndexRun| {
        let line = run.queue(access, queue)?;
        Ok::<_, RunError>(line.is_some_and(|line| line.end > offset))
    };
    let (mut low, mut high) = (0, list.len());
    // Most readers are near the end: gallop back from there.
    let mut step = 1;
    while low < high {
        let probe = high.saturating_sub(step).max(low);
        if ends_above(&list[probe])? {
            high = probe;
            step *= 2;
        } else {
            low = probe + 1;
            break;
        }
    }
    while low < high {
        let middle = usize::midpoint(low, high);
        if ends_above(&list[middle])? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

/// Up to `max` rows of the queue from the one that holds `from` on; fewer only at the end of what is sealed.
pub(crate) fn rows(
    list: &List,
    access: Access,
    queue: QueueNumber,
    from: QueueOffset,
    max: usize,
) -> Result<Vec<Row>, RunError> {
    let mut out = Vec::new();
    for run in &list[holding(list, access, queue, from)?..] {
        if let Some(line) = run.queue(access, queue)? {
            run.rows(access, &line, from, max - out.len(), &mut out)?;
        }
        if out.len() >= max {
            break;
        }
    }
    Ok(out)
}

/// The queue's first row from `first` on that was stored at or after `time`.
pub(crate) fn stored_from(
    list: &List,
    access: Access,
    queue: QueueNumber,
    first: QueueOffset,
    time: Timestamp,
) -> Result<Option<Row>, RunError> {
    let later = list.partition_point(|run| run.time() < time);
    for run in &list[later.saturating_sub(1)..] {
        let Some(line) = run.queue(access, queue)? else {
            continue;
        };
        if line.end <= first {
            continue;
        }
        let Some(row) = run.lower(access, &line, time)? else {
            continue;
        };
        if row.next() > first {
            return Ok(Some(row));
        }
        // Stored late enough, but below the first offset: the first offset's row is the one.
        let mut rows = Vec::new();
        run.rows(access, &line, first, 1, &mut rows)?;
        if let Some(row) = rows.pop() {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The queue's first row in queue order from `first` on whose record time reaches `time`.
pub(crate) fn reaching(
    list: &List,
    access: Access,
    queue: QueueNumber,
    first: QueueOffset,
    time: Timestamp,
) -> Result<Option<Row>, RunError> {
    for run in &list[holding(list, access, queue, first)?..] {
        if let Some(line) = run.queue(access, queue)?
            && let Some(row) = run.reaching(access, &line, first, time)?
        {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The first of the queue's rows from `first` on with the highest record time.
pub(crate) fn latest(
    list: &List,
    access: Access,
    queue: QueueNumber,
    first: QueueOffset,
) -> Result<Option<Row>, RunError> {
    let mut best: Option<Row> = None;
    for run in &list[holding(list, access, queue, first)?..] {
        let Some(line) = run.queue(access, queue)? else {
            continue;
        };
        if line.rows == 0 || best.is_some_and(|best| best.record_time >= line.record_time) {
            continue;
        }
        let found = run.reaching(access, &line, first, line.record_time)?;
        let found = match found {
            Some(row) => Some(row),
            None => highest(run, access, queue, first)?, // the highest lies below the first offset
        };
        if let Some(row) = found
            && best.is_none_or(|best| row.record_time > best.record_time)
        {
            best = Some(row);
        }
    }
    Ok(best)
}

fn highest(
    run: &IndexRun,
    access: Access,
    queue: QueueNumber,
    first: QueueOffset,
) -> Result<Option<Row>, RunError> {
    let mut rows = Vec::new();
    if let Some(line) = run.queue(access, queue)? {
        run.rows(access, &line, first, usize::MAX, &mut rows)?;
    }
    let mut best: Option<Row> = None;
    for row in rows {
        if best.is_none_or(|best| row.record_time > best.record_time) {
            best = Some(row);
        }
    }
    Ok(best)
}

/// The queue's last row below a place in the log.
pub(crate) fn last_below(
    list: &List,
    access: Access,
    queue: QueueNumber,
    at: LogOffset,
) -> Result<Option<Row>, RunError> {
    for run in list.iter().rev() {
        if run.log().start >= at {
            continue;
        }
        if let Some(line) = run.queue(access, queue)?
            && let Some(row) = run.last_below(access, &line, at)?
        {
            return Ok(Some(row));
        }
    }
    Ok(None)
}

/// The last known entry start at or before `at`.
pub(crate) fn start_before(
    list: &List,
    access: Access,
    at: LogOffset,
) -> Result<Option<LogOffset>, RunError> {
    let after = list.partition_point(|run| run.log().start <= at);
    match after.checked_sub(1).and_then(|n| list.get(n)) {
        Some(run) => run.start_before(access, at),
        None => Ok(None),
    }
}

/// The queue's aborted transactions that overlap `from..to`.
pub(crate) fn aborted(
    list: &List,
    access: Access,
    queue: QueueNumber,
    from: QueueOffset,
    to: QueueOffset,
) -> Result<Vec<Aborted>, RunError> {
    let mut out = Vec::new();
    for run in &list[holding(list, access, queue, from)?..] {
        run.aborted(access, queue, from, to, &mut out)?;
    }
    Ok(out)
}
