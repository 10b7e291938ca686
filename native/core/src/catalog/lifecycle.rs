//! The catalog's first and last things: the broker's own topics, and deletion.

use super::definition::{Change, Definition};
use super::{Catalog, CatalogError, Class, Origin, system};
use crate::state as machine;
use twinmq_store::{Ack, LogOffset, QueueNumber};

impl Catalog {
    /// Creates the broker's own topics where they are missing, in one run.
    pub(super) async fn found(&self, levels: u32) -> Result<(), CatalogError> {
        let own = system::topics(&self.config, levels);
        let end = self
            .record(|state| {
                let mut changes = Vec::new();
                let mut next = state.next_queue;
                for (new, class) in &own {
                    let there = match new.origin {
                        Origin::Kafka => self.view.by_kafka(&new.name),
                        Origin::Native => self.view.by_native(&new.name),
                    };
                    if there.is_none() {
                        changes.push(Change::Topic(self.definition(&mut next, new, *class)?));
                    } else if let Some(topic) = there
                        && topic.queues.len() < new.queues as usize
                        && new.name == system::SCHEDULE_TOPIC
                    {
                        // More delay levels than before.
                        let mut grown = Definition::of(&topic);
                        let count = new.queues - u32::try_from(topic.queues.len()).unwrap_or(0);
                        grown.queues.push((next, count));
                        next += count;
                        grown.read_queues = new.queues;
                        grown.write_queues = new.queues;
                        changes.push(Change::Topic(grown));
                    }
                }
                Ok(changes)
            })
            .await?;
        if let Some(end) = end {
            self.store.wait(end, Ack::Written).await?;
        }
        Ok(())
    }

    /// Deletes a topic, its records and all committed offsets of it, by [`Topic::key`](super::Topic::key).
    ///
    /// # Errors
    /// See [`CatalogError`].
    pub async fn delete(&self, key: &str) -> Result<(), CatalogError> {
        let end = loop {
            if let Some(end) = self.try_delete(key)? {
                break end;
            }
            self.store.room().await?;
        };
        self.store.wait(end, Ack::Synced).await?;
        self.drop_deleted().await;
        Ok(())
    }

    /// Deletion and the tombstones of all committed offsets go in as one run, so that a topic of the
    /// same name never inherits progress.
    fn try_delete(&self, key: &str) -> Result<Option<LogOffset>, CatalogError> {
        let mut state = self.state.lock();
        let topic = state
            .topics
            .get(key)
            .ok_or_else(|| CatalogError::Unknown(key.to_owned()))?;
        if topic.class != Class::User {
            return Err(CatalogError::Reserved(key.to_owned()));
        }
        let now = self.clock.now();
        let changes = [Change::TopicGone(topic.id)];
        let mut run = vec![self.draft(&changes, now)];
        let mut forgetting = self.offsets.forget(topic.key(), now);
        run.append(&mut forgetting.drafts);
        let Some(receipts) = self.store.try_append(&run)? else {
            return Ok(None);
        };
        self.apply(&mut state, &changes, now);
        forgetting.apply(&receipts[1..]);
        Ok(Some(machine::run_end(&receipts)))
    }

    /// Has the store drop queues of deleted topics; what fails is tried again later.
    pub(crate) async fn drop_deleted(&self) {
        let numbers: Vec<u32> = self.state.lock().dropping.iter().copied().collect();
        if numbers.is_empty() {
            return;
        }
        let queues: Vec<_> = numbers.iter().copied().map(QueueNumber).collect();
        if let Err(error) = self.store.drop_queues(&queues).await {
            tracing::warn!(%error, "queues of deleted topics are not dropped yet");
            return;
        }
        let dropped = self
            .record(|_| Ok(vec![Change::Dropped(numbers.clone())]))
            .await;
        if let Err(error) = dropped {
            tracing::warn!(%error, "dropped queues could not be noted");
        }
    }
}
