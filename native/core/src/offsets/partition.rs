//! One partition of `__consumer_offsets`: the state machine of the groups that hash to it.

use super::Committed;
use crate::codec::{Put, Short, Take};
use crate::payload::{self, Pair};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use twinmq_store::{Draft, LogOffset, QueueNumber, QueueOffset, Receipt, Timestamp};

/// Most records of one batch of this topic, so that any reader can take it.
const BATCH_RECORDS: usize = 4096;

/// One change: what one record says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// A group's progress in one queue; `None` removes it.
    Offset {
        group: Arc<str>,
        topic: Arc<str>,
        queue: u32,
        value: Option<Committed>,
    },
    /// A classic group's record; `None` removes it.
    Group {
        group: Arc<str>,
        value: Option<Bytes>,
    },
}

/// A slot of the table.
#[derive(Clone, Debug)]
struct Slot {
    committed: Committed,
    /// Not in the log yet.
    lingers: bool,
}

#[derive(Debug, Default)]
struct GroupOffsets {
    topics: HashMap<Arc<str>, BTreeMap<u32, Slot>>,
    record: Option<Bytes>,
}

impl GroupOffsets {
    fn is_empty(&self) -> bool {
        self.topics.is_empty() && self.record.is_none()
    }
}

/// The groups of one partition.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    groups: HashMap<Arc<str>, GroupOffsets>,
    /// Slots that linger: group, topic, queue.
    lingering: Vec<(Arc<str>, Arc<str>, u32)>,
    /// Where replay goes on.
    pub(crate) next: QueueOffset,
    /// End of the last run of this partition.
    pub(crate) end: LogOffset,
    /// Changed since the last snapshot.
    pub(crate) changed: bool,
}

impl Partition {
    /// One change, live and at replay alike.
    pub(crate) fn apply(&mut self, change: Change) {
        self.changed = true;
        match change {
            Change::Offset {
                group,
                topic,
                queue,
                value: Some(committed),
            } => self.set(&group, &topic, queue, committed, false),
            Change::Offset {
                group,
                topic,
                queue,
                value: None,
            } => {
                let Some(offsets) = self.groups.get_mut(&group) else {
                    return;
                };
                if let Some(queues) = offsets.topics.get_mut(&topic) {
                    queues.remove(&queue);
                    if queues.is_empty() {
                        offsets.topics.remove(&topic);
                    }
                }
                self.sweep(&group);
            }
            Change::Group { group, value } => {
                self.groups.entry(Arc::clone(&group)).or_default().record = value;
                self.sweep(&group);
            }
        }
    }

    fn sweep(&mut self, group: &str) {
        if self.groups.get(group).is_some_and(GroupOffsets::is_empty) {
            self.groups.remove(group);
        }
    }

    fn set(
        &mut self,
        group: &str,
        topic: &Arc<str>,
        queue: u32,
        committed: Committed,
        lingers: bool,
    ) {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.into(), GroupOffsets::default());
        }
        let Some(offsets) = self.groups.get_mut(group) else {
            return;
        };
        let slot = Slot { committed, lingers };
        if let Some(queues) = offsets.topics.get_mut(topic) {
            queues.insert(queue, slot);
        } else {
            let topic = Arc::clone(topic);
            offsets
                .topics
                .insert(topic, BTreeMap::from([(queue, slot)]));
        }
    }

    /// What a run that held these changes does.
    pub(crate) fn appended(&mut self, changes: Vec<Change>, receipts: &[Receipt]) {
        if let Some(last) = receipts.last() {
            let before = (receipts.len() - 1) * BATCH_RECORDS;
            let tail = changes.len().saturating_sub(before);
            self.next = last.base.plus(tail as u64);
            self.end = last.end;
        }
        for change in changes {
            self.apply(change);
        }
    }

    /// The drafts that say these changes: a batch for every [`BATCH_RECORDS`].
    pub(crate) fn drafts(queue: QueueNumber, now: Timestamp, changes: &[Change]) -> Vec<Draft> {
        changes
            .chunks(BATCH_RECORDS)
            .map(|chunk| {
                let pairs: Vec<_> = chunk.iter().filter_map(pair).collect();
                payload::pack(queue, now, &pairs)
            })
            .collect()
    }

    pub(crate) fn get(&self, group: &str, topic: &str, queue: u32) -> Option<&Committed> {
        let queues = self.groups.get(group)?.topics.get(topic)?;
        queues.get(&queue).map(|slot| &slot.committed)
    }

    /// Takes note that a value stands already: nothing to append unless it lingers. The commit time
    /// moves in the table, and reaches the log's successor, the snapshot.
    pub(crate) fn stands(&mut self, group: &str, topic: &str, queue: u32, new: &Committed) -> bool {
        let slot = self
            .groups
            .get_mut(group)
            .and_then(|offsets| offsets.topics.get_mut(topic))
            .and_then(|queues| queues.get_mut(&queue));
        let Some(slot) = slot else { return false };
        let old = &mut slot.committed;
        let same = old.offset == new.offset
            && old.leader_epoch == new.leader_epoch
            && old.metadata == new.metadata
            && old.expires == new.expires;
        if same && !slot.lingers {
            old.commit_time = old.commit_time.max(new.commit_time);
            self.changed = true;
            return true;
        }
        false
    }

    /// A commit that nobody waits for. True if it is the first that lingers.
    pub(crate) fn linger(
        &mut self,
        group: &str,
        topic: &Arc<str>,
        queue: u32,
        offset: i64,
        now: Timestamp,
    ) -> Lingering {
        let slot = self
            .groups
            .get_mut(group)
            .and_then(|offsets| offsets.topics.get_mut(topic))
            .and_then(|queues| queues.get_mut(&queue));
        if let Some(slot) = slot {
            slot.committed.commit_time = now;
            if slot.committed.offset == offset {
                return Lingering::Unchanged;
            }
            slot.committed.offset = offset;
            slot.committed.leader_epoch = -1;
            slot.committed.metadata.clear();
            slot.committed.expires = None;
            if slot.lingers {
                return Lingering::Replaced;
            }
            slot.lingers = true;
        } else {
            let committed = Committed {
                offset,
                leader_epoch: -1,
                metadata: String::new(),
                commit_time: now,
                expires: None,
            };
            self.set(group, topic, queue, committed, true);
        }
        self.changed = true;
        let group = self
            .groups
            .get_key_value(group)
            .map(|(name, _)| Arc::clone(name));
        if let Some(group) = group {
            self.lingering.push((group, Arc::clone(topic), queue));
        }
        if self.lingering.len() == 1 {
            Lingering::First
        } else {
            Lingering::Added
        }
    }

    pub(crate) fn lingers(&self) -> bool {
        !self.lingering.is_empty()
    }

    /// The changes that linger, of the oldest entries of the list, and how many entries that are.
    pub(crate) fn lingering(&self, most: usize) -> (Vec<Change>, usize) {
        let taken = self.lingering.len().min(most);
        let changes = self.lingering[..taken]
            .iter()
            .filter_map(|(group, topic, queue)| {
                let slot = self.groups.get(group)?.topics.get(topic)?.get(queue)?;
                slot.lingers.then(|| Change::Offset {
                    group: Arc::clone(group),
                    topic: Arc::clone(topic),
                    queue: *queue,
                    value: Some(slot.committed.clone()),
                })
            })
            .collect();
        (changes, taken)
    }

    /// The oldest entries of the list are in the log.
    pub(crate) fn lingered(&mut self, taken: usize) {
        self.lingering.drain(..taken.min(self.lingering.len()));
    }

    /// Tombstones for all of a group.
    pub(crate) fn without_group(&self, group: &str) -> Vec<Change> {
        let Some((name, offsets)) = self.groups.get_key_value(group) else {
            return Vec::new();
        };
        let mut changes: Vec<_> = offsets
            .topics
            .iter()
            .flat_map(|(topic, queues)| {
                queues.keys().map(|queue| Change::Offset {
                    group: Arc::clone(name),
                    topic: Arc::clone(topic),
                    queue: *queue,
                    value: None,
                })
            })
            .collect();
        if offsets.record.is_some() {
            changes.push(Change::Group {
                group: Arc::clone(name),
                value: None,
            });
        }
        changes
    }

    /// Tombstones for a topic in all groups.
    pub(crate) fn without_topic(&self, topic: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        for (group, offsets) in &self.groups {
            let Some((topic, queues)) = offsets.topics.get_key_value(topic) else {
                continue;
            };
            changes.extend(queues.keys().map(|queue| Change::Offset {
                group: Arc::clone(group),
                topic: Arc::clone(topic),
                queue: *queue,
                value: None,
            }));
        }
        changes
    }

    /// The first `most` of a group, in order of topic and queue.
    pub(crate) fn of_group(&self, group: &str, most: usize) -> Vec<(Arc<str>, u32, Committed)> {
        let Some(offsets) = self.groups.get(group) else {
            return Vec::new();
        };
        let mut topics: Vec<_> = offsets.topics.iter().collect();
        topics.sort_unstable_by_key(|(topic, _)| *topic);
        topics
            .into_iter()
            .flat_map(|(topic, queues)| {
                queues
                    .iter()
                    .map(|(queue, slot)| (Arc::clone(topic), *queue, slot.committed.clone()))
            })
            .take(most)
            .collect()
    }

    pub(crate) fn group_names(&self) -> impl Iterator<Item = Arc<str>> {
        self.groups.keys().cloned()
    }

    pub(crate) fn group_record(&self, group: &str) -> Option<&Bytes> {
        self.groups.get(group)?.record.as_ref()
    }

    pub(crate) fn group_records(&self) -> impl Iterator<Item = (Arc<str>, Bytes)> {
        self.groups.iter().filter_map(|(name, offsets)| {
            let record = offsets.record.clone()?;
            Some((Arc::clone(name), record))
        })
    }

    /// Appends the partition's image.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let length = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes();
        out.put(&self.next.0.to_be_bytes());
        out.put(&length(self.groups.len()));
        for (group, offsets) in &self.groups {
            out.put_blob(group.as_bytes());
            match &offsets.record {
                None => out.put(&[0]),
                Some(record) => {
                    out.put(&[1]);
                    out.put_blob(record);
                }
            }
            out.put(&length(offsets.topics.len()));
            for (topic, queues) in &offsets.topics {
                out.put_blob(topic.as_bytes());
                out.put(&length(queues.len()));
                for (queue, slot) in queues {
                    out.put(&queue.to_be_bytes());
                    write_committed(&slot.committed, out);
                }
            }
        }
    }

    pub(crate) fn read(take: &mut Take<'_>) -> Result<Self, Short> {
        let mut partition = Self {
            next: QueueOffset(take.u64()?),
            ..Self::default()
        };
        for _ in 0..take.u32()? {
            let group: Arc<str> = take.text()?.into();
            let record = match take.u8()? {
                0 => None,
                _ => Some(Bytes::copy_from_slice(take.blob()?)),
            };
            let mut topics = HashMap::new();
            for _ in 0..take.u32()? {
                let topic: Arc<str> = take.text()?.into();
                let mut queues = BTreeMap::new();
                for _ in 0..take.u32()? {
                    let queue = take.u32()?;
                    let committed = read_committed(take)?;
                    queues.insert(
                        queue,
                        Slot {
                            committed,
                            lingers: false,
                        },
                    );
                }
                topics.insert(topic, queues);
            }
            partition
                .groups
                .insert(group, GroupOffsets { topics, record });
        }
        Ok(partition)
    }
}

/// A change's record. Names and texts were checked when they came in.
fn pair(change: &Change) -> Option<Pair> {
    payload::offsets_pair(change)
        .inspect_err(|error| tracing::error!(%error, "a commit cannot be written"))
        .ok()
}

/// What a lingering commit did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lingering {
    /// The value stood already.
    Unchanged,
    /// It replaced one that lingers.
    Replaced,
    /// It lingers, with others.
    Added,
    /// It is the first that lingers.
    First,
}

fn write_committed(committed: &Committed, out: &mut Vec<u8>) {
    out.put(&committed.offset.to_be_bytes());
    out.put(&committed.leader_epoch.to_be_bytes());
    out.put_blob(committed.metadata.as_bytes());
    out.put(&committed.commit_time.0.to_be_bytes());
    // A time before 1970 never expires anything; it stands for "none".
    let expires = committed.expires.map_or(i64::MIN, |time| time.0);
    out.put(&expires.to_be_bytes());
}

fn read_committed(take: &mut Take<'_>) -> Result<Committed, Short> {
    Ok(Committed {
        offset: take.i64()?,
        leader_epoch: take.i32()?,
        metadata: take.text()?.to_owned(),
        commit_time: Timestamp(take.i64()?),
        expires: Some(take.i64()?)
            .filter(|time| *time != i64::MIN)
            .map(Timestamp),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(group: &str, topic: &str, queue: u32, offset: Option<i64>) -> Change {
        Change::Offset {
            group: group.into(),
            topic: topic.into(),
            queue,
            value: offset.map(|offset| Committed {
                offset,
                leader_epoch: 3,
                metadata: "m".to_owned(),
                commit_time: Timestamp(9),
                expires: Some(Timestamp(99)),
            }),
        }
    }

    #[test]
    fn the_image_brings_back_the_partition_and_every_cut_is_noticed() {
        let mut partition = Partition::default();
        partition.apply(change("g", "t", 0, Some(1)));
        partition.apply(change("g", "t", 1, Some(2)));
        partition.apply(change("g", "u", 0, Some(3)));
        partition.apply(Change::Group {
            group: "h".into(),
            value: Some(Bytes::from_static(b"record")),
        });
        partition.next = QueueOffset(7);
        let mut bytes = Vec::new();
        partition.write(&mut bytes);
        let back = Partition::read(&mut Take::new(&bytes)).expect("whole");
        assert_eq!(back.of_group("g", 9), partition.of_group("g", 9));
        assert_eq!(back.group_record("h"), partition.group_record("h"));
        assert_eq!(back.next, QueueOffset(7));
        for cut in 0..bytes.len() {
            assert!(
                Partition::read(&mut Take::new(&bytes[..cut])).is_err(),
                "{cut}"
            );
        }
    }

    #[test]
    fn golden_bytes_of_the_image() {
        let mut partition = Partition::default();
        partition.apply(change("g", "t", 2, Some(1)));
        partition.next = QueueOffset(7);
        let mut bytes = Vec::new();
        partition.write(&mut bytes);
        let mut want = vec![0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1];
        want.extend_from_slice(&[0, 0, 0, 1, b'g', 0, 0, 0, 0, 1]);
        want.extend_from_slice(&[0, 0, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 2]);
        want.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, b'm']);
        want.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 99]);
        assert_eq!(bytes, want);
    }

    #[test]
    fn what_is_empty_is_forgotten() {
        let mut partition = Partition::default();
        partition.apply(change("g", "t", 0, Some(1)));
        partition.apply(change("g", "t", 0, None));
        partition.apply(change("nobody", "t", 0, None));
        assert_eq!(partition.group_names().count(), 0);
    }

    #[test]
    fn an_answered_commit_replaces_one_that_lingers() {
        let mut partition = Partition::default();
        let topic: Arc<str> = "t".into();
        let mut later = |offset| partition.linger("g", &topic, 0, offset, Timestamp(1));
        assert_eq!(later(5), Lingering::First);
        assert_eq!(later(6), Lingering::Replaced);
        assert_eq!(later(6), Lingering::Unchanged);
        assert_eq!(partition.lingering(10).0.len(), 1);
        partition.apply(change("g", "t", 0, Some(7)));
        assert!(partition.lingering(10).0.is_empty());
        assert_eq!(partition.get("g", "t", 0).map(|c| c.offset), Some(7));
    }

    proptest::proptest! {
        #[test]
        fn random_bytes_make_no_partition_larger_than_they_are(
            bytes in proptest::collection::vec(0_u8..4, 0..200),
        ) {
            let _ = Partition::read(&mut Take::new(&bytes));
        }
    }
}
