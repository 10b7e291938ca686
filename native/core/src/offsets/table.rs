//! The table of committed offsets itself: one state machine and one lock per offsets partition.

use super::partition::{Change, Partition};
use super::partition_of;
use crate::catalog::system;
use crate::codec::{Put, Take};
use parking_lot::{Mutex, MutexGuard};
use std::sync::OnceLock;
use tokio::sync::Notify;
use twinmq_store::{Draft, QueueNumber, QueueOffset, Receipt, Timestamp};

const FORMAT: u32 = 1;

/// The table itself, one lock per offsets partition. The catalog holds it too, to forget a deleted
/// topic in the same run that deletes it.
#[derive(Debug)]
pub(crate) struct Table {
    pub(super) partitions: Vec<Mutex<Partition>>,
    pub(super) queues: OnceLock<Vec<QueueNumber>>,
    pub(super) lingering: Notify,
}

impl Default for Table {
    fn default() -> Self {
        let count = system::INTERNAL_PARTITIONS;
        Self {
            partitions: (0..count).map(|_| Mutex::default()).collect(),
            queues: OnceLock::new(),
            lingering: Notify::new(),
        }
    }
}

/// A topic about to be forgotten: all partitions held.
pub(crate) struct Forgetting<'a> {
    /// What to append.
    pub(crate) drafts: Vec<Draft>,
    parts: Vec<(MutexGuard<'a, Partition>, Vec<Change>, usize)>,
}

impl Forgetting<'_> {
    /// The drafts are in the log: `receipts` are theirs, in order.
    pub(crate) fn apply(mut self, receipts: &[Receipt]) {
        let mut rest = receipts;
        for (mut partition, changes, drafts) in self.parts.drain(..) {
            let (own, others) = rest.split_at(drafts.min(rest.len()));
            rest = others;
            partition.appended(changes, own);
        }
    }
}

impl Table {
    pub(super) fn partition(&self, group: &str) -> (&Mutex<Partition>, usize) {
        let place = partition_of(group) as usize;
        (&self.partitions[place], place)
    }

    pub(super) fn queue(&self, place: usize) -> Option<QueueNumber> {
        self.queues.get()?.get(place).copied()
    }

    /// Locks every partition that knows the topic and plans its tombstones.
    pub(crate) fn forget(&self, topic: &str, now: Timestamp) -> Forgetting<'_> {
        let mut forgetting = Forgetting {
            drafts: Vec::new(),
            parts: Vec::new(),
        };
        for (place, partition) in self.partitions.iter().enumerate() {
            let partition = partition.lock();
            let changes = partition.without_topic(topic);
            let Some(queue) = self.queue(place) else {
                continue;
            };
            // Held even where there is nothing to forget: a commit for the topic waits until the
            // catalog no longer knows it.
            let mut drafts = Partition::drafts(queue, now, &changes);
            let count = drafts.len();
            forgetting.drafts.append(&mut drafts);
            forgetting.parts.push((partition, changes, count));
        }
        forgetting
    }

    /// All partitions' images, up to where of each queue they go, and whether anything changed since
    /// the last.
    pub(super) fn image(&self) -> (Vec<u8>, Vec<(QueueNumber, QueueOffset)>, bool) {
        let mut bytes = Vec::new();
        bytes.put(&FORMAT.to_be_bytes());
        let mut positions = Vec::new();
        let mut changed = false;
        for (place, partition) in self.partitions.iter().enumerate() {
            let mut partition = partition.lock();
            changed |= std::mem::take(&mut partition.changed);
            partition.write(&mut bytes);
            if let Some(queue) = self.queue(place) {
                positions.push((queue, partition.next));
            }
        }
        (bytes, positions, changed)
    }
}

pub(super) fn restore(table: &Table, bytes: &[u8]) -> Result<(), String> {
    let mut take = Take::new(bytes);
    let short = |error: crate::codec::Short| error.to_string();
    let format = take.u32().map_err(short)?;
    if format != FORMAT {
        return Err(format!("snapshot format {format} is unknown"));
    }
    for partition in &table.partitions {
        *partition.lock() = Partition::read(&mut take).map_err(short)?;
    }
    if take.is_empty() {
        Ok(())
    } else {
        Err("the snapshot is longer than what it holds".to_owned())
    }
}
