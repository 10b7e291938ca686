//! Topics: both names, settings, queue numbers and ordinals. A state machine on its internal queue.

mod creation;
pub(crate) mod definition;
mod lifecycle;
mod recent;
pub(crate) mod state;
pub mod system;
mod topic;
pub(crate) mod view;

use crate::config::{CoreConfig, OpenError};
use crate::offsets::Table;
use crate::payload;
use crate::state::{self as machine, Image, Plan, SharedClock};
use definition::{Change, Definition};
use parking_lot::Mutex;
use state::State;
use std::sync::Arc;
pub use topic::{CatalogError, Class, NewTopic, Origin, Perm, Resolved, Topic, TopicChange};
use twinmq_store::{Ack, Draft, LogOffset, QueueNumber, QueueOffset, Store, Timestamp};
use uuid::Uuid;
use view::View;

/// Topics, and the version that they belong to: changes so far, and the time of the last.
pub type Versioned = (Vec<Arc<Topic>>, (u64, Timestamp));

/// All topics. Look-ups take no lock.
#[derive(Debug)]
pub struct Catalog {
    store: Store,
    config: Arc<CoreConfig>,
    clock: SharedClock,
    state: Mutex<State>,
    view: View,
    offsets: Arc<Table>,
}

const NAME: &str = "catalog";
const QUEUE: QueueNumber = QueueNumber::FIRST_OF_CORE;

impl Catalog {
    /// Rebuilds the catalog and creates what is missing of the broker's own topics.
    pub(crate) async fn open(
        store: Store,
        config: Arc<CoreConfig>,
        clock: SharedClock,
        offsets: Arc<Table>,
        levels: u32,
    ) -> Result<Self, OpenError> {
        let fail = |reason: String| OpenError { part: NAME, reason };
        let view = View::default();
        let mut state = match store.snapshot(NAME) {
            Some(snapshot) => State::restore(&snapshot.bytes, &config, &view).map_err(fail)?,
            None => State::default(),
        };
        let from = state.next;
        state.next = machine::replay(&store, NAME, QUEUE, from, |stored| {
            payload::unpack(stored, |time, key, value| {
                state.apply(&Change::decode(key, value)?, time, &config, &view)
            })
        })
        .await?;
        let catalog = Self {
            store,
            config,
            clock,
            state: Mutex::new(state),
            view,
            offsets,
        };
        catalog
            .found(levels)
            .await
            .map_err(|error| fail(error.to_string()))?;
        catalog.drop_deleted().await;
        Ok(catalog)
    }

    /// Appends changes and applies them, in one hold of the state's lock.
    async fn record(
        &self,
        mut decide: impl FnMut(&State) -> Result<Vec<Change>, CatalogError>,
    ) -> Result<Option<LogOffset>, CatalogError> {
        machine::transact(
            &self.store,
            &self.state,
            |state| {
                let changes = decide(state)?;
                if changes.is_empty() {
                    return Ok(None);
                }
                let now = self.clock.now();
                Ok(Some(Plan {
                    run: vec![self.draft(&changes, now)],
                    change: (changes, now),
                }))
            },
            |state, (changes, now), receipts| {
                self.apply(state, &changes, now);
                machine::run_end(receipts)
            },
        )
        .await
    }

    fn draft(&self, changes: &[Change], now: Timestamp) -> Draft {
        let pairs: Vec<_> = changes.iter().map(Change::encode).collect();
        payload::pack(QUEUE, now, &pairs)
    }

    fn apply(&self, state: &mut State, changes: &[Change], now: Timestamp) {
        for change in changes {
            if let Err(reason) = state.apply(change, now, &self.config, &self.view) {
                // It was made here a moment ago, from a definition that was checked.
                tracing::error!(%reason, "a catalog change could not be applied");
            }
        }
        state.next = state.next.plus(changes.len() as u64);
    }

    /// By Kafka's name.
    #[must_use]
    pub fn by_kafka(&self, name: &str) -> Option<Arc<Topic>> {
        self.view.by_kafka(name)
    }
    /// By RocketMQ's name.
    #[must_use]
    pub fn by_native(&self, name: &str) -> Option<Arc<Topic>> {
        self.view.by_native(name)
    }
    /// By Kafka's topic id.
    #[must_use]
    pub fn by_id(&self, id: Uuid) -> Option<Arc<Topic>> {
        self.view.by_id(id)
    }
    /// By the name under which state is kept ([`Topic::key`]).
    #[must_use]
    pub fn by_key(&self, key: &str) -> Option<Arc<Topic>> {
        self.view.by_key(key)
    }
    /// The topic and the ordinal of a queue number.
    #[must_use]
    pub fn by_queue(&self, queue: QueueNumber) -> Option<(Arc<Topic>, u32)> {
        self.view.by_number(queue)
    }
    /// All topics, in name order of [`Topic::key`].
    #[must_use]
    pub fn all(&self) -> Vec<Arc<Topic>> {
        self.state.lock().topics.values().cloned().collect()
    }
    /// [`Catalog::all`] and [`Catalog::version`] of one moment: exactly these topics make this version.
    #[must_use]
    pub fn all_with_version(&self) -> Versioned {
        let state = self.state.lock();
        (state.topics.values().cloned().collect(), state.version)
    }
    /// The topics put since the catalog had that version (its first part), oldest change first, maybe one
    /// several times; and the version that they make. `None` when that is too long ago or a topic has
    /// gone since: [`Catalog::all_with_version`] then tells.
    #[must_use]
    pub fn changed_since(&self, version: u64) -> Option<Versioned> {
        let state = self.state.lock();
        Some((state.recent.since(version)?, state.version))
    }
    /// Rises with each change: (changes so far, time of the last). RocketMQ's DataVersion.
    #[must_use]
    pub fn version(&self) -> (u64, Timestamp) {
        self.view.version()
    }
    /// Told of each change of the catalog (the version).
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.view.changes()
    }
    /// Checks as [`Catalog::create`] does, without creating (Kafka's validate_only).
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub fn check(&self, new: &NewTopic) -> Result<(), CatalogError> {
        self.check_in(&self.state.lock(), new)
    }
    /// Creates a topic; durable and visible when it returns.
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub async fn create(&self, new: NewTopic) -> Result<Arc<Topic>, CatalogError> {
        let (topic, end) = self.create_written(new).await?;
        self.durable(end).await?;
        Ok(topic)
    }
    /// Creates a topic; visible when it returns, and durable no later than anything appended after it:
    /// enough for a topic that comes into being by its first message.
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub async fn create_unsynced(&self, new: NewTopic) -> Result<Arc<Topic>, CatalogError> {
        Ok(self.create_written(new).await?.0)
    }
    async fn create_written(
        &self,
        new: NewTopic,
    ) -> Result<(Arc<Topic>, Option<LogOffset>), CatalogError> {
        let end = self
            .record(|state| {
                self.check_in(state, &new)?;
                let mut next = state.next_queue;
                let definition = self.definition(&mut next, &new, Class::User)?;
                Ok(vec![Change::Topic(definition)])
            })
            .await?;
        let topic = match new.origin {
            Origin::Kafka => self.view.by_kafka(&new.name),
            Origin::Native => self.view.by_native(&new.name),
        };
        let topic = topic.ok_or(CatalogError::Unknown(new.name))?;
        warn_if_endless(&topic);
        Ok((topic, end))
    }
    /// Changes a topic, by [`Topic::key`].
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub async fn change(&self, key: &str, change: TopicChange) -> Result<Arc<Topic>, CatalogError> {
        if let Some(settings) = &change.settings {
            crate::settings::check_settings(settings)?;
        }
        if let Some(attributes) = &change.attributes {
            crate::settings::check_attributes(attributes)?;
        }
        for count in [change.read_queues, change.write_queues]
            .into_iter()
            .flatten()
        {
            self.check_count(count)?;
        }
        let end = self
            .record(|state| {
                let topic = state
                    .topics
                    .get(key)
                    .ok_or_else(|| CatalogError::Unknown(key.to_owned()))?;
                let mut changed = Definition::of(topic);
                let before = changed.clone();
                if let Some(perm) = change.perm {
                    changed.perm = perm.0;
                }
                if let Some(order) = change.order {
                    changed.order = order;
                }
                if let Some(settings) = &change.settings {
                    changed.settings.clone_from(settings);
                }
                if let Some(attributes) = &change.attributes {
                    changed.attributes.clone_from(attributes);
                }
                changed.read_queues = change.read_queues.unwrap_or(changed.read_queues);
                changed.write_queues = change.write_queues.unwrap_or(changed.write_queues);
                let wanted = changed.read_queues.max(changed.write_queues);
                let count = u32::try_from(topic.queues.len()).unwrap_or(u32::MAX);
                if wanted > count {
                    let more = wanted - count;
                    if state.next_queue.checked_add(more).is_none() {
                        return Err(CatalogError::InvalidQueues(
                            "all queue numbers have been given out".to_owned(),
                        ));
                    }
                    changed.queues.push((state.next_queue, more));
                }
                if changed == before {
                    return Ok(Vec::new());
                }
                Ok(vec![Change::Topic(changed)])
            })
            .await?;
        self.durable(end).await?;
        let topic = self
            .view
            .by_key(key)
            .ok_or_else(|| CatalogError::Unknown(key.to_owned()))?;
        if change.settings.is_some() || change.attributes.is_some() {
            warn_if_endless(&topic);
        }
        Ok(topic)
    }
    async fn durable(&self, end: Option<LogOffset>) -> Result<(), CatalogError> {
        // Nothing to append: whoever made it so may still wait for the disk.
        let end = end.unwrap_or_else(|| self.store.progress().written);
        Ok(self.store.wait(end, Ack::Synced).await?)
    }

    pub(crate) fn group(&self, name: &str) -> Option<Arc<crate::groups::Group>> {
        self.view.group(name)
    }

    pub(crate) fn all_groups(&self) -> Vec<Arc<crate::groups::Group>> {
        self.state.lock().groups.values().cloned().collect()
    }

    /// Puts a group's definition where there is none.
    pub(crate) async fn add_group(&self, group: &crate::groups::Group) -> Result<(), CatalogError> {
        let end = self
            .record(|state| {
                Ok(if state.groups.contains_key(&group.group_name) {
                    Vec::new()
                } else {
                    vec![Change::Group(group.clone())]
                })
            })
            .await?;
        self.durable(end).await
    }

    /// Puts or deletes a group's definition.
    pub(crate) async fn set_group(
        &self,
        name: &str,
        group: Option<&crate::groups::Group>,
    ) -> Result<(), CatalogError> {
        let end = self
            .record(|state| {
                let there = state.groups.get(name).map(|group| &**group);
                Ok(match group {
                    _ if there == group => Vec::new(),
                    Some(group) => vec![Change::Group(group.clone())],
                    None => vec![Change::GroupGone(name.to_owned())],
                })
            })
            .await?;
        self.durable(end).await
    }

    /// Topics, groups and queues, counted.
    pub(crate) fn counts(&self) -> (usize, usize, usize) {
        let state = self.state.lock();
        let queues = state.topics.values().map(|topic| topic.queues.len()).sum();
        (state.topics.len(), state.groups.len(), queues)
    }

    /// The state, and up to where of its queue it goes.
    pub(crate) fn image(&self) -> (Image, Vec<(QueueNumber, QueueOffset)>) {
        let state = self.state.lock();
        let at = self.store.progress().written;
        let image = Image {
            name: NAME,
            at,
            upto: at,
            bytes: state.snapshot(),
        };
        (image, vec![(QUEUE, state.next)])
    }

    /// Raises the first offset of a queue (DeleteRecords); durable when it returns.
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub async fn delete_records(
        &self,
        topic: &Topic,
        ordinal: u32,
        before: QueueOffset,
    ) -> Result<(), CatalogError> {
        let queue = topic.queue(ordinal).ok_or_else(|| {
            CatalogError::InvalidQueues(format!("topic {} has no queue {ordinal}", topic.key()))
        })?;
        Ok(self.store.raise_first(queue, before).await?)
    }
}

/// Until there is a kept store, such topics hold back the files that their records lie in.
fn warn_if_endless(topic: &Topic) {
    let resolved = &topic.resolved;
    let endless = resolved.retention_ms.is_none() && resolved.retention_bytes.is_none();
    if (resolved.compact && !resolved.delete) || endless {
        tracing::warn!(
            topic = %topic.key(),
            "the topic is kept without limit: no log file with its records is ever dropped"
        );
    }
}
