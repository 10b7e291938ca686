//! The driver of retention: gathers facts, asks `retention.rs`, does what it says.
//!
//! Promises: first offsets move, durably, before a file goes; files go oldest first and never on a thread
//! that serves requests. Leaves out the rules.

use crate::disk::local_hour;
use crate::error::{AppendError, ReadError};
use crate::firsts::{self, Change};
use crate::index::run::{Access, RunError};
use crate::index::runs::{self, List};
use crate::retention::{self, InFile, Pressure, Reason, Round, Share, Verdict};
use crate::rooms::Rooms;
use crate::segment::{self, Segment};
use crate::store::{Boundary, Keep, Store, Upto};
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};
use crate::{housekeeping, index, snapshot};
use std::sync::Arc;

/// A live queue that holds something.
#[derive(Clone, Copy, Debug)]
struct Held {
    queue: QueueNumber,
    first: QueueOffset,
    keep: Keep,
}

fn closed(what: &str, error: &dyn std::fmt::Display) -> AppendError {
    AppendError::Closed {
        reason: format!("{what}: {error}"),
    }
}

impl Store {
    /// See `Store::retain`.
    pub(crate) async fn retain_round(
        &self,
        keep: &(dyn Fn(QueueNumber) -> Keep + Send + Sync),
        now: Timestamp,
    ) -> Result<(), AppendError> {
        self.move_firsts(keep, now).await?;
        loop {
            let rooms = self.rooms();
            let files = rooms.segments.all();
            let Some(oldest) = files.first().filter(|_| files.len() > 1) else {
                return Ok(());
            };
            let held = rooms.dropped_held();
            if held > rooms.config.dropped_bytes_max {
                tracing::warn!(
                    held,
                    "readers hold more dropped files than store.dropped_bytes_max: no more go"
                );
                return Ok(());
            }
            let round = rooms.round(now);
            match self.judge(&round, oldest, keep).await? {
                Verdict::Drop => {}
                Verdict::Force(moves) => {
                    tracing::warn!(
                        file = %oldest.start(),
                        queues = moves.len(),
                        "the disk is above store.disk_force_percent: the oldest records go early"
                    );
                    self.raise(moves).await?;
                }
                Verdict::Keep(Reason::Pinned { queue }) => {
                    tracing::warn!(
                        file = %oldest.start(), %queue,
                        "the disk is above store.disk_force_percent, but a queue kept without limit \
                         holds the oldest file"
                    );
                    return Ok(());
                }
                Verdict::Keep(_) => return Ok(()),
            }
            self.drop_file(Arc::clone(oldest)).await?;
        }
    }

    /// Moves first offsets by time and bytes.
    async fn move_firsts(
        &self,
        keep: &(dyn Fn(QueueNumber) -> Keep + Send + Sync),
        now: Timestamp,
    ) -> Result<(), AppendError> {
        let mut moves = Vec::new();
        for held in self.rooms().held(keep) {
            let first = self.first_kept(&held, now).await;
            match first {
                Ok(first) if first > held.first => moves.push((held.queue, first)),
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, queue = %held.queue, "retention passes a queue over");
                }
            }
        }
        self.raise(moves).await
    }

    /// See `Store::queue_bytes`.
    pub(crate) async fn bytes_of(&self, queue: QueueNumber) -> Result<u64, ReadError> {
        let rooms = self.rooms();
        let Some(shared) = rooms.queues.get(queue).filter(|shared| !shared.dropped()) else {
            return Ok(0);
        };
        let from = shared.first();
        let ask = move |list: &List, access| shares(list, access, queue, from);
        let sealed = rooms.reader.sealed(ask).await?;
        let all = sealed.into_iter().chain(rooms.recent_share(queue));
        Ok(all
            .filter(|share| share.end > from)
            .map(|share| share.bytes)
            .sum())
    }

    /// Where a queue's first offset moves to.
    async fn first_kept(&self, held: &Held, now: Timestamp) -> Result<QueueOffset, ReadError> {
        let rooms = self.rooms();
        let mut first = held.first;
        if let Some(time) = retention::expiry(held.keep, now) {
            let upto = Upto::default();
            let lower = Boundary::Lower;
            first = rooms
                .reader
                .offset_at(held.queue, time, lower, upto)
                .await?;
        }
        if held.keep.bytes.is_some() {
            let (queue, from) = (held.queue, held.first);
            let ask = move |list: &List, access| shares(list, access, queue, from);
            let mut all = rooms.reader.sealed(ask).await?;
            all.extend(rooms.recent_share(held.queue));
            let by_bytes = Keep {
                ms: None,
                ..held.keep
            };
            first = first.max(retention::first_kept(held.first, &all, by_bytes, now));
        }
        Ok(first)
    }

    /// Raises first offsets, durably.
    async fn raise(&self, moves: Vec<(QueueNumber, QueueOffset)>) -> Result<(), AppendError> {
        for some in moves.chunks(firsts::ITEMS_MAX) {
            self.change(&Change::Raise(some.to_vec())).await?;
        }
        Ok(())
    }

    async fn judge(
        &self,
        round: &Round<'_>,
        file: &Segment,
        keep: &(dyn Fn(QueueNumber) -> Keep + Send + Sync),
    ) -> Result<Verdict, AppendError> {
        let rooms = self.rooms();
        let end = file.end();
        let range = file.start()..end;
        if end > round.covered {
            return Ok(Verdict::Keep(Reason::NotCovered));
        }
        let held = rooms.held(keep);
        let force = round.pressure >= Pressure::Force;
        let ask = move |list: &List, access| in_file(list, access, &held, end, force);
        let inside = rooms.reader.sealed(ask).await;
        let inside = inside.map_err(|error| closed("retention cannot read the index", &error))?;
        Ok(round.judge(&range, inside.into_iter()))
    }

    /// Drops the oldest file and what the index knows of it alone.
    async fn drop_file(&self, file: Arc<Segment>) -> Result<(), AppendError> {
        let rooms = self.rooms();
        let end = file.end();
        rooms.marks.raise_head(end);
        rooms.dropped.lock().push(file.held());
        drop(rooms.segments.drop_below(end));
        let runs = rooms.seal.runs.drop_below(end);
        let disk = Arc::clone(&rooms.disk);
        let paths = rooms.paths.clone();
        let job = move || {
            disk.remove(&segment::path(&paths.log, file.start()))?;
            disk.sync_dir(&paths.log)?;
            for run in runs {
                let log = run.log();
                disk.remove(&index::seal::path(&paths, log.start, log.end))?;
            }
            drop(file); // unmapped here, unless a reader still holds it
            std::io::Result::Ok(())
        };
        match rooms.reader.cold.run(job).await {
            Some(Ok(())) => {
                rooms.metrics.dropped_files.inc();
                Ok(())
            }
            Some(Err(error)) => Err(closed("an old log file cannot be removed", &error)),
            None => Err(closed("an old log file cannot be removed", &"stopping")),
        }
    }
}

impl Rooms {
    fn round(&self, now: Timestamp) -> Round<'_> {
        let used = housekeeping::used(&*self.disk, &self.paths.dir, &self.segments, &self.marks);
        let oldest = snapshot::oldest_at(&*self.disk, &self.paths.snapshots);
        // Without a snapshot of the ledger nothing is covered: the log is all there is.
        let oldest = oldest.ok().flatten().unwrap_or_default();
        let sealed = self.seal.runs.end().unwrap_or_default();
        Round {
            pressure: retention::pressure(used.unwrap_or(0.0), &self.config),
            hour: local_hour(now.0 / 1000),
            delete_when: &self.config.delete_when,
            covered: oldest.min(sealed).min(self.marks.synced()),
        }
    }

    /// Bytes of dropped files whose maps readers still hold.
    fn dropped_held(&self) -> u64 {
        let mut dropped = self.dropped.lock();
        dropped.retain(|map| map.strong_count() > 0);
        let held = dropped.len() as u64 * self.segments.file_bytes();
        self.metrics
            .dropped_held
            .set(i64::try_from(held).unwrap_or(i64::MAX));
        held
    }

    /// Live queues that hold something, with their limits. Queue 1 is the store's own: the ledger's
    /// snapshot covers it.
    fn held(&self, keep: &(dyn Fn(QueueNumber) -> Keep + Send + Sync)) -> Vec<Held> {
        let mut held = Vec::new();
        for (queue, shared) in self.queues.iter() {
            if queue < QueueNumber::FIRST_OF_CORE || shared.dropped() {
                continue;
            }
            let first = shared.first();
            if first < shared.end_at(self.marks.readable()) {
                let keep = keep(queue);
                held.push(Held { queue, first, keep });
            }
        }
        held
    }

    /// What memory holds of a queue beyond the sealed runs.
    fn recent_share(&self, queue: QueueNumber) -> Option<Share> {
        let shared = self.queues.get(queue)?;
        let sealed = self.seal.runs.end().unwrap_or_default();
        let (mut bytes, mut last) = (0, None);
        for block in shared.rows.all() {
            let len = block.len();
            for n in block.search(len, |n| block.at(n) < sealed)..len {
                let row = block.row(queue, n);
                bytes += u64::from(row.size);
                last = Some(row);
            }
        }
        last.map(|row| Share {
            end: row.next(),
            bytes,
            newest: row.store_time,
        })
    }
}

/// What each sealed run from `first` on holds of a queue.
fn shares(
    list: &List,
    access: Access,
    queue: QueueNumber,
    first: QueueOffset,
) -> Result<Vec<Share>, RunError> {
    let mut out = Vec::new();
    for run in list.iter() {
        if let Some(line) = run.queue(access, queue)?
            && line.end > first
        {
            out.push(Share {
                end: line.end,
                bytes: line.bytes,
                newest: run.time(),
            });
        }
    }
    Ok(out)
}

/// Queues that hold something below `end`, a place in the sealed part of the log.
fn in_file(
    list: &List,
    access: Access,
    held: &[Held],
    end: LogOffset,
    all: bool,
) -> Result<Vec<InFile>, RunError> {
    let mut out = Vec::new();
    for held in held {
        let oldest = runs::rows(list, access, held.queue, held.first, 1)?;
        if oldest.first().is_none_or(|row| row.at >= end) {
            continue;
        }
        let last = runs::last_below(list, access, held.queue, end)?;
        out.push(InFile {
            queue: held.queue,
            first: held.first,
            end: last.map_or(held.first, |row| row.next()),
            keep: held.keep,
        });
        if !all {
            break; // one is enough to keep the file
        }
    }
    Ok(out)
}
