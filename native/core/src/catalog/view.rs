//! What readers see of the catalog: maps that are searched without a lock.

use super::Topic;
use crate::groups::Group;
use crate::shelf::Shelf;
use arc_swap::ArcSwap;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use twinmq_store::{QueueNumber, Timestamp};
use uuid::Uuid;

/// Written by the state machine under its lock, read by everyone.
#[derive(Debug)]
pub(crate) struct View {
    kafka: Shelf<Arc<str>, Arc<Topic>>,
    native: Shelf<Arc<str>, Arc<Topic>>,
    id: Shelf<Uuid, Arc<Topic>>,
    key: Shelf<Arc<str>, Arc<Topic>>,
    group: Shelf<Arc<str>, Arc<Group>>,
    /// First number of a range: its count, its first ordinal, its topic.
    numbers: RwLock<BTreeMap<u32, (u32, u32, Uuid)>>,
    version: ArcSwap<(u64, Timestamp)>,
    changes: watch::Sender<u64>,
}

impl Default for View {
    fn default() -> Self {
        Self {
            kafka: Shelf::default(),
            native: Shelf::default(),
            id: Shelf::default(),
            key: Shelf::default(),
            group: Shelf::default(),
            numbers: RwLock::default(),
            version: ArcSwap::from_pointee((0, Timestamp(0))),
            changes: watch::Sender::new(0),
        }
    }
}

impl View {
    pub(crate) fn by_kafka(&self, name: &str) -> Option<Arc<Topic>> {
        self.kafka.get(name)
    }
    pub(crate) fn by_native(&self, name: &str) -> Option<Arc<Topic>> {
        self.native.get(name)
    }
    pub(crate) fn by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        self.id.get(&id)
    }
    pub(crate) fn by_key(&self, key: &str) -> Option<Arc<Topic>> {
        self.key.get(key)
    }
    pub(crate) fn group(&self, name: &str) -> Option<Arc<Group>> {
        self.group.get(name)
    }
    /// The topic and ordinal of a queue number.
    pub(crate) fn by_number(&self, number: QueueNumber) -> Option<(Arc<Topic>, u32)> {
        let (id, ordinal) = {
            let numbers = self.numbers.read();
            let (first, (count, ordinal, id)) = numbers.range(..=number.0).next_back()?;
            let place = number.0 - first;
            (place < *count).then(|| (*id, ordinal + place))?
        };
        Some((self.id.get(&id)?, ordinal))
    }
    pub(crate) fn version(&self) -> (u64, Timestamp) {
        **self.version.load()
    }
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(crate) fn put(&self, topic: &Arc<Topic>) {
        {
            let mut numbers = self.numbers.write();
            let mut ordinal = 0;
            for (first, count) in super::definition::ranges(&topic.queues) {
                numbers.insert(first, (count, ordinal, topic.id));
                ordinal += count;
            }
        }
        self.id.put(topic.id, Arc::clone(topic));
        self.key.put(Arc::clone(topic.key()), Arc::clone(topic));
        if let Some(name) = &topic.kafka {
            self.kafka.put(Arc::clone(name), Arc::clone(topic));
        }
        if let Some(name) = &topic.native {
            self.native.put(Arc::clone(name), Arc::clone(topic));
        }
    }

    pub(crate) fn remove(&self, topic: &Topic) {
        if let Some(name) = &topic.native {
            self.native.remove(&**name);
        }
        if let Some(name) = &topic.kafka {
            self.kafka.remove(&**name);
        }
        self.key.remove(&**topic.key());
        self.id.remove(&topic.id);
        let mut numbers = self.numbers.write();
        for (first, _) in super::definition::ranges(&topic.queues) {
            numbers.remove(&first);
        }
    }

    pub(crate) fn put_group(&self, group: Arc<Group>) {
        self.group.put(group.group_name.as_str().into(), group);
    }
    pub(crate) fn remove_group(&self, name: &str) {
        self.group.remove(name);
    }

    pub(crate) fn set_version(&self, version: (u64, Timestamp)) {
        self.version.store(Arc::new(version));
        self.changes.send_replace(version.0);
    }
}
