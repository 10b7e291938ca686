//! The catalog's state machine: what a change does, live and at replay alike, and its snapshot.

use super::Topic;
use super::definition::{Change, Definition};
use super::recent::Recent;
use super::view::View;
use crate::config::CoreConfig;
use crate::groups::Group;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use twinmq_store::{QueueNumber, QueueOffset, Timestamp};

/// All topics and groups, and what has been given out.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) topics: BTreeMap<Arc<str>, Arc<Topic>>,
    pub(crate) groups: BTreeMap<String, Arc<Group>>,
    /// The next queue number; numbers are never given twice.
    pub(crate) next_queue: u32,
    /// Queues of deleted topics that the store has still to drop.
    pub(crate) dropping: BTreeSet<u32>,
    /// Where replay goes on.
    pub(crate) next: QueueOffset,
    /// Changes so far, and the time of the last.
    pub(crate) version: (u64, Timestamp),
    /// What the last versions changed.
    pub(crate) recent: Recent<Arc<Topic>>,
    /// Kafka names with `.` and `_` made alike: such names must not meet (KAFKA-2337).
    pub(crate) alike: HashMap<String, u32>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            topics: BTreeMap::new(),
            groups: BTreeMap::new(),
            next_queue: QueueNumber::FIRST_FREE.0,
            dropping: BTreeSet::new(),
            next: QueueOffset(0),
            version: (0, Timestamp(0)),
            recent: Recent::starting(0),
            alike: HashMap::new(),
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Image {
    format: u32,
    next: u64,
    next_queue: u32,
    dropping: Vec<u32>,
    version: u64,
    changed: i64,
    topics: Vec<Definition>,
    groups: Vec<Group>,
}

const FORMAT: u32 = 1;

/// `.` and `_` alike.
pub(crate) fn alike(name: &str) -> String {
    name.replace('.', "_")
}

impl State {
    /// One change, at the time its record carries.
    pub(crate) fn apply(
        &mut self,
        change: &Change,
        at: Timestamp,
        config: &CoreConfig,
        view: &View,
    ) -> Result<(), String> {
        let version = self.version.0 + 1;
        match change {
            Change::Topic(definition) => {
                let topic = self.put(definition.topic(config)?, view);
                self.recent.note(version, Some(topic));
            }
            Change::TopicGone(id) => {
                if let Some(topic) = view.by_id(*id) {
                    self.recent.note(version, None);
                    self.topics.remove(topic.key());
                    self.dropping
                        .extend(topic.queues.iter().map(|queue| queue.0));
                    self.unlike(&topic);
                    view.remove(&topic);
                }
            }
            Change::Group(group) => {
                let group = Arc::new(group.clone());
                self.groups
                    .insert(group.group_name.clone(), Arc::clone(&group));
                view.put_group(group);
            }
            Change::GroupGone(name) => {
                self.groups.remove(name);
                view.remove_group(name);
            }
            Change::Dropped(numbers) => {
                for number in numbers {
                    self.dropping.remove(number);
                }
                return Ok(());
            }
        }
        self.version = (version, at.max(self.version.1));
        view.set_version(self.version);
        Ok(())
    }

    fn put(&mut self, mut topic: Topic, view: &View) -> Arc<Topic> {
        let top = topic.queues.iter().map(|queue| queue.0).max().unwrap_or(0);
        self.next_queue = self.next_queue.max(top.saturating_add(1));
        if let Some(old) = self.topics.remove(topic.key()) {
            self.unlike(&old);
            if old.id == topic.id {
                topic.stored = Arc::clone(&old.stored);
            }
        }
        let topic = Arc::new(topic);
        self.topics
            .insert(Arc::clone(topic.key()), Arc::clone(&topic));
        if let Some(name) = &topic.kafka {
            *self.alike.entry(alike(name)).or_insert(0) += 1;
        }
        view.put(&topic);
        topic
    }

    fn unlike(&mut self, topic: &Topic) {
        let Some(name) = &topic.kafka else { return };
        let name = alike(name);
        if let Some(count) = self.alike.get_mut(&name) {
            *count -= 1;
            if *count == 0 {
                self.alike.remove(&name);
            }
        }
    }

    pub(crate) fn snapshot(&self) -> Vec<u8> {
        let image = Image {
            format: FORMAT,
            next: self.next.0,
            next_queue: self.next_queue,
            dropping: self.dropping.iter().copied().collect(),
            version: self.version.0,
            changed: self.version.1.0,
            topics: self
                .topics
                .values()
                .map(|topic| Definition::of(topic))
                .collect(),
            groups: self
                .groups
                .values()
                .map(|group| Group::clone(group))
                .collect(),
        };
        serde_json::to_vec(&image).unwrap_or_default()
    }

    pub(crate) fn restore(bytes: &[u8], config: &CoreConfig, view: &View) -> Result<Self, String> {
        let image: Image = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if image.format != FORMAT {
            return Err(format!("snapshot format {} is unknown", image.format));
        }
        let mut state = Self {
            next: QueueOffset(image.next),
            dropping: image.dropping.into_iter().collect(),
            ..Self::default()
        };
        for definition in image.topics {
            state.put(definition.topic(config)?, view);
        }
        for group in image.groups {
            state.apply(&Change::Group(group), Timestamp(0), config, view)?;
        }
        state.next_queue = state.next_queue.max(image.next_queue);
        state.version = (image.version, Timestamp(image.changed));
        state.recent = Recent::starting(image.version);
        view.set_version(state.version);
        Ok(state)
    }
}
