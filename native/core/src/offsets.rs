//! Committed offsets: one table (group, topic, queue) for both protocols, kept in Kafka's
//! `__consumer_offsets` record format.

pub(crate) mod partition;
mod table;

pub(crate) use table::Table;

use crate::catalog::{Catalog, Topic, system};
use crate::config::OpenError;
use crate::metrics::CoreMetrics;
use crate::payload;
use crate::state::{self as machine, Image, Plan, SharedClock};
use bytes::Bytes;
use partition::{Change, Lingering, Partition};
use std::sync::Arc;
use std::time::Duration;
use table::restore;
use thiserror::Error;
use twinmq_store::{Ack, AppendError, QueueNumber, QueueOffset, Store, Timestamp};

/// A group's progress in one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Offset of the next record to consume.
    pub offset: i64,
    /// Kafka's committed leader epoch; −1 unknown.
    pub leader_epoch: i32,
    /// The committer's own text.
    pub metadata: String,
    /// When it was committed.
    pub commit_time: Timestamp,
    /// Explicit expiry (OffsetCommit v2 to v4); `None` = by the group's rules.
    pub expires: Option<Timestamp>,
}

/// Why a commit failed.
#[derive(Clone, Debug, Error)]
pub enum OffsetsError {
    /// The log did not take it.
    #[error(transparent)]
    Append(#[from] twinmq_store::AppendError),
    /// The log took it but could not make it durable.
    #[error(transparent)]
    Wait(#[from] twinmq_store::WaitError),
}

const NAME: &str = "offsets";
/// Lingering commits written in one run.
const LINGER_RUN: usize = 4096;

/// The partition of `__consumer_offsets` (and the coordinator) of a group, 0 to 49: Kafka's
/// `abs(hash) % offsets.topic.num.partitions`, where the hash is Java's and `abs(MIN)` is 0.
#[must_use]
pub fn partition_of(group: &str) -> u32 {
    let hash = payload::java_hash(group);
    hash.checked_abs().unwrap_or(0).unsigned_abs() % system::INTERNAL_PARTITIONS
}

/// The table. Groups are named in Kafka's spelling.
#[derive(Debug)]
pub struct Offsets {
    store: Store,
    catalog: Arc<Catalog>,
    clock: SharedClock,
    table: Arc<Table>,
    metrics: CoreMetrics,
    linger: Duration,
}

impl Offsets {
    /// Rebuilds the table from its snapshot and the log.
    pub(crate) async fn open(
        store: Store,
        catalog: Arc<Catalog>,
        clock: SharedClock,
        table: Arc<Table>,
        metrics: CoreMetrics,
        linger: Duration,
    ) -> Result<Self, OpenError> {
        let fail = |reason: String| OpenError { part: NAME, reason };
        let topic = catalog
            .by_kafka(system::OFFSETS_TOPIC)
            .ok_or_else(|| fail("there is no topic __consumer_offsets".to_owned()))?;
        if topic.queues.len() != table.partitions.len() {
            return Err(fail(format!(
                "__consumer_offsets has {} partitions instead of {}",
                topic.queues.len(),
                table.partitions.len()
            )));
        }
        if let Some(snapshot) = store.snapshot(NAME) {
            restore(&table, &snapshot.bytes).map_err(fail)?;
        }
        for (queue, partition) in topic.queues.iter().zip(&table.partitions) {
            let mut rebuilt = std::mem::take(&mut *partition.lock());
            let from = rebuilt.next;
            rebuilt.next = machine::replay(&store, NAME, *queue, from, |stored| {
                payload::unpack(stored, |_, key, value| {
                    if let Some(change) = payload::offsets_change(key, value)? {
                        rebuilt.apply(change);
                    }
                    Ok(())
                })
            })
            .await?;
            *partition.lock() = rebuilt;
        }
        // Set once, by the one opening of this table.
        let _ = table.queues.set(topic.queues.to_vec());
        Ok(Self {
            store,
            catalog,
            clock,
            table,
            metrics,
            linger,
        })
    }

    /// One group's progress in one queue.
    #[must_use]
    pub fn get(&self, group: &str, topic: &Topic, queue: u32) -> Option<Committed> {
        let (partition, _) = self.table.partition(group);
        partition.lock().get(group, topic.key(), queue).cloned()
    }
    /// All of a group: (topic key, queue, progress), in order.
    #[must_use]
    pub fn of_group(&self, group: &str) -> Vec<(Arc<str>, u32, Committed)> {
        self.first_of_group(group, usize::MAX)
    }
    /// The first `most` of a group: (topic key, queue, progress), in order.
    pub(crate) fn first_of_group(
        &self,
        group: &str,
        most: usize,
    ) -> Vec<(Arc<str>, u32, Committed)> {
        let (partition, _) = self.table.partition(group);
        partition.lock().of_group(group, most)
    }
    /// Every group that has offsets or a stored group record, in name order.
    #[must_use]
    pub fn groups(&self) -> Vec<Arc<str>> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for partition in &self.table.partitions {
            names.extend(partition.lock().group_names());
        }
        names.sort_unstable();
        names
    }
    /// Commits and waits until it is readable in the log. Entries are (topic, queue, progress); those
    /// of topics deleted meanwhile are left out.
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn commit(
        &self,
        group: &str,
        entries: &[(Arc<Topic>, u32, Committed)],
    ) -> Result<(), OffsetsError> {
        let allowed: Result<(), std::convert::Infallible> =
            self.commit_if(group, entries, || Ok(())).await?;
        match allowed {
            Ok(()) => Ok(()),
        }
    }
    /// Like [`Self::commit`], where `allowed` says so at the moment of the append: whoever reads or
    /// commits this group's progress afterwards comes behind it. `allowed` may be asked several times
    /// and must not use this table.
    ///
    /// # Errors
    /// See [`OffsetsError`]; inside, what `allowed` said.
    pub async fn commit_if<E>(
        &self,
        group: &str,
        entries: &[(Arc<Topic>, u32, Committed)],
        mut allowed: impl FnMut() -> Result<(), E>,
    ) -> Result<Result<(), E>, OffsetsError> {
        for (_, _, committed) in entries {
            check_text(&committed.metadata)?;
        }
        let name: Arc<str> = group.into();
        self.metrics.commits_answered.inc_by(entries.len() as u64);
        let mut refused = None;
        let changed = self.change(group, |partition| {
            if let Err(why) = allowed() {
                refused = Some(why);
                return Vec::new();
            }
            entries
                .iter()
                .filter(|(topic, queue, value)| {
                    self.catalog.by_id(topic.id).is_some()
                        && !partition.stands(group, topic.key(), *queue, value)
                })
                .map(|(topic, queue, value)| Change::Offset {
                    group: Arc::clone(&name),
                    topic: Arc::clone(topic.key()),
                    queue: *queue,
                    value: Some(value.clone()),
                })
                .collect()
        });
        changed.await?;
        Ok(refused.map_or(Ok(()), Err))
    }
    /// Commits that nobody waits for: in the table at once, in the log within `commit_linger_ms`.
    pub fn commit_later(&self, group: &str, topic: &Arc<Topic>, queue: u32, offset: i64) {
        let now = self.clock.now();
        let (partition, _) = self.table.partition(group);
        let done = {
            let mut partition = partition.lock();
            if self.catalog.by_id(topic.id).is_none() {
                return;
            }
            partition.linger(group, topic.key(), queue, offset, now)
        };
        match done {
            Lingering::Unchanged => self.metrics.commits_unchanged.inc(),
            Lingering::Replaced | Lingering::Added => self.metrics.commits_later.inc(),
            Lingering::First => {
                self.metrics.commits_later.inc();
                self.table.lingering.notify_one();
            }
        }
    }
    /// Removes offsets of some queues of a group (OffsetDelete), waits until that is readable.
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn remove(
        &self,
        group: &str,
        entries: &[(Arc<Topic>, u32)],
    ) -> Result<(), OffsetsError> {
        let name: Arc<str> = group.into();
        self.change(group, |partition| {
            entries
                .iter()
                .filter(|(topic, queue)| partition.get(group, topic.key(), *queue).is_some())
                .map(|(topic, queue)| Change::Offset {
                    group: Arc::clone(&name),
                    topic: Arc::clone(topic.key()),
                    queue: *queue,
                    value: None,
                })
                .collect()
        })
        .await
    }
    /// Removes a group's offsets and its stored group record.
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn remove_group(&self, group: &str) -> Result<(), OffsetsError> {
        self.change(group, |partition| partition.without_group(group))
            .await
    }
    /// Stores a Kafka classic group's record (GroupMetadata value bytes, version first; `None` = tombstone).
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn put_group_record(
        &self,
        group: &str,
        value: Option<Bytes>,
    ) -> Result<(), OffsetsError> {
        let name: Arc<str> = group.into();
        self.change(group, |partition| {
            if partition.group_record(group) == value.as_ref() {
                return Vec::new();
            }
            vec![Change::Group {
                group: Arc::clone(&name),
                value: value.clone(),
            }]
        })
        .await
    }
    /// All stored group records: what the coordinator starts with.
    #[must_use]
    pub fn group_records(&self) -> Vec<(Arc<str>, Bytes)> {
        let mut records = Vec::new();
        for partition in &self.table.partitions {
            records.extend(partition.lock().group_records());
        }
        records
    }
    /// The partition of `__consumer_offsets` of a group. See [`partition_of`].
    #[must_use]
    pub fn partition_of(group: &str) -> u32 {
        partition_of(group)
    }

    /// Appends what `decide` finds, applies it and waits until it is as durable as the topic asks.
    async fn change(
        &self,
        group: &str,
        mut decide: impl FnMut(&mut Partition) -> Vec<Change>,
    ) -> Result<(), OffsetsError> {
        check_text(group)?;
        let (partition, place) = self.table.partition(group);
        let queue = self.queue(place)?;
        let appended = machine::transact(
            &self.store,
            partition,
            |partition| {
                let changes = decide(partition);
                if changes.is_empty() {
                    return Ok::<_, AppendError>(None);
                }
                let run = Partition::drafts(queue, self.clock.now(), &changes);
                Ok(Some(Plan {
                    run,
                    change: changes,
                }))
            },
            |partition, changes, receipts| {
                partition.appended(changes, receipts);
                machine::run_end(receipts)
            },
        )
        .await?;
        // Nothing to append: another's append of the same value may still be on its way.
        let end = appended.unwrap_or_else(|| partition.lock().end);
        Ok(self.store.wait(end, self.ack()).await?)
    }

    fn queue(&self, place: usize) -> Result<QueueNumber, AppendError> {
        self.table.queue(place).ok_or_else(|| AppendError::Closed {
            reason: "the offsets table is not open".to_owned(),
        })
    }

    fn ack(&self) -> Ack {
        let sync = self
            .catalog
            .by_kafka(system::OFFSETS_TOPIC)
            .is_some_and(|topic| topic.resolved.flush_sync);
        if sync { Ack::Synced } else { Ack::Written }
    }

    /// Writes all that lingers: one batch per partition and run.
    pub(crate) async fn write_lingering(&self) -> Result<(), AppendError> {
        for (place, partition) in self.table.partitions.iter().enumerate() {
            if !partition.lock().lingers() {
                continue;
            }
            let queue = self.queue(place)?;
            loop {
                let more = machine::transact(
                    &self.store,
                    partition,
                    |partition| {
                        if !partition.lingers() {
                            return Ok::<_, AppendError>(None);
                        }
                        let (changes, taken) = partition.lingering(LINGER_RUN);
                        if changes.is_empty() {
                            // All of them were replaced by answered commits, or removed.
                            partition.lingered(taken);
                            return Ok(None);
                        }
                        let run = Partition::drafts(queue, self.clock.now(), &changes);
                        Ok(Some(Plan {
                            run,
                            change: (changes, taken),
                        }))
                    },
                    |partition, (changes, taken), receipts| {
                        partition.appended(changes, receipts);
                        partition.lingered(taken);
                    },
                )
                .await?;
                if more.is_none() && !partition.lock().lingers() {
                    break;
                }
            }
        }
        Ok(())
    }

    /// The task that writes lingering commits. Sleeps while there are none.
    pub(crate) async fn linger(&self) {
        loop {
            self.table.lingering.notified().await;
            tokio::time::sleep(self.linger).await;
            while let Err(error) = self.write_lingering().await {
                tracing::warn!(%error, "commits that nobody waits for are not in the log yet");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// The state, and up to where of each of its queues it goes. `None` if nothing changed
    /// and that is not wanted all the same.
    pub(crate) fn image(
        &self,
        unchanged_too: bool,
    ) -> Option<(Image, Vec<(QueueNumber, QueueOffset)>)> {
        let at = self.store.progress().written;
        let (bytes, positions, changed) = self.table.image();
        (changed || unchanged_too).then(|| {
            let image = Image {
                name: NAME,
                at,
                upto: self.store.progress().written,
                bytes,
            };
            (image, positions)
        })
    }

    /// An image could not be saved: the next one is due whatever happens.
    pub(crate) fn image_lost(&self) {
        if let Some(partition) = self.table.partitions.first() {
            partition.lock().changed = true;
        }
    }
}

/// Kafka's records count text with an i16.
fn check_text(text: &str) -> Result<(), AppendError> {
    const MAX: usize = i16::MAX as usize;
    if text.len() > MAX {
        return Err(AppendError::TooLarge {
            bytes: text.len() as u64,
            max: MAX as u64,
        });
    }
    Ok(())
}
