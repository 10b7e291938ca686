//! The way in: which queue, may it, which flush, append.

mod draft;

pub(crate) use draft::{Target, restored};

use crate::catalog::{Catalog, Class, Topic, system};
use crate::config::CoreConfig;
use crate::payload;
use crate::state::SharedClock;
use bytes::Bytes;
use draft::{Marks, message_draft, scheduled};
use smallvec::SmallVec;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use thiserror::Error;
use twinmq_records::batch::BatchError;
use twinmq_records::message::{self, MessageError, NewMessage};
use twinmq_store::{
    Ack, Address, AppendError, Draft, LogOffset, QueueNumber, QueueOffset, Receipt, Store,
    Timestamp,
};

/// Why a record was not taken.
#[derive(Clone, Debug, Error)]
pub enum ProduceError {
    /// The topic or queue may not be written: perm, or at or above writeQueueNums.
    #[error("{0}")]
    NotWritable(String),
    /// No such queue in the topic.
    #[error("topic has no queue {0}")]
    NoSuchQueue(u32),
    /// The batch is malformed.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The message is malformed or too large.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// A batch is larger than the topic's `max.message.bytes`.
    #[error("batch of {bytes} bytes is larger than max.message.bytes = {max}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The limit.
        max: u32,
    },
    /// A record time outside the topic's window, at this record (0-based).
    #[error("record {record}: timestamp {time} is outside the topic's window")]
    InvalidTimestamp {
        /// Which record.
        record: u32,
        /// Its time.
        time: i64,
    },
    /// A record without key for a compacted topic.
    #[error("record {record}: a compacted topic needs a key")]
    NoKey {
        /// Which record.
        record: u32,
    },
    /// The log refused.
    #[error(transparent)]
    Append(#[from] twinmq_store::AppendError),
    /// The log took it but could not make it durable.
    #[error(transparent)]
    Wait(#[from] twinmq_store::WaitError),
}

/// A Kafka batch for one partition, as the producer sent it.
#[derive(Clone, Debug)]
pub struct BatchIn {
    /// The topic.
    pub topic: Arc<Topic>,
    /// The partition.
    pub queue: u32,
    /// Exactly one record batch v2.
    pub batch: Bytes,
}

/// What became of a Kafka batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchOut {
    /// Offset of its first record.
    pub base: QueueOffset,
    /// The stamp, on LogAppendTime topics.
    pub log_append_time: Option<Timestamp>,
    /// The queue's first offset.
    pub first: QueueOffset,
    /// What an acknowledged writer of this topic has to wait for; `None` = nothing (flush async).
    pub wait: Option<LogOffset>,
}

/// A RocketMQ message for one queue.
#[derive(Clone, Debug)]
pub struct MessageIn {
    /// Application flag.
    pub flag: i32,
    /// sysFlag, without the host bits.
    pub sys_flag: i32,
    /// Producer's time in ms.
    pub born_time: i64,
    /// The producer's address.
    pub born_host: SocketAddr,
    /// How often it was sent back.
    pub reconsume_times: i32,
    /// Property text, without the broker's own additions.
    pub properties: Bytes,
    /// The body as sent, maybe compressed.
    pub body: Bytes,
}

/// What became of a RocketMQ message.
#[derive(Clone, Copy, Debug)]
pub struct MessageOut {
    /// Its queue offset.
    pub offset: QueueOffset,
    /// Its address: physicOffset.
    pub address: Address,
    /// When it was stored.
    pub store_time: Timestamp,
    /// What a sender with WAIT=true has to wait for; `None` = nothing (flush async).
    pub wait: Option<LogOffset>,
}

/// The way in.
#[derive(Debug)]
pub struct Producing {
    store: Store,
    config: Arc<CoreConfig>,
    catalog: Arc<Catalog>,
    clock: SharedClock,
    levels: u32,
    store_host: OnceLock<SocketAddr>,
    ids: AtomicU64,
}

/// Where the parts of a producer id lie: node (16 bits), reign (19), counter (28).
const ID_REIGN: u32 = 28;
const ID_NODE: u32 = 47;

impl Producing {
    pub(crate) fn new(
        store: Store,
        config: Arc<CoreConfig>,
        catalog: Arc<Catalog>,
        clock: SharedClock,
        levels: u32,
    ) -> Self {
        Self {
            store,
            config,
            catalog,
            clock,
            levels,
            store_host: OnceLock::new(),
            ids: AtomicU64::new(0),
        }
    }

    /// Checks and appends Kafka batches, each on its own. Returns once they are written; the caller
    /// waits for [`BatchOut::wait`] where its acks ask for it.
    pub async fn batches(&self, batches: &[BatchIn]) -> Vec<Result<BatchOut, ProduceError>> {
        let now = self.clock.now();
        let mut drafts = Vec::with_capacity(batches.len());
        let mut results = Vec::with_capacity(batches.len());
        for batch in batches {
            match self.batch_draft(batch, now) {
                Ok(draft) => {
                    drafts.push(draft);
                    results.push(None);
                }
                Err(error) => results.push(Some(Err(error))),
            }
        }
        let mut receipts = self.store.append_each(&drafts).await.into_iter();
        let mut records = drafts.iter().map(|draft| u64::from(draft.span));
        results
            .into_iter()
            .zip(batches)
            .map(|(result, batch)| {
                result.unwrap_or_else(|| {
                    let records = records.next().unwrap_or(0);
                    // One answer per draft; a store that gives fewer is closing.
                    let receipt = receipts.next().unwrap_or_else(|| {
                        Err(AppendError::Closed {
                            reason: "no answer from the log".to_owned(),
                        })
                    })?;
                    count(&batch.topic, records, batch.batch.len(), &receipt);
                    Ok(self.batch_out(batch, &receipt, now))
                })
            })
            .collect()
    }

    fn batch_out(&self, batch: &BatchIn, receipt: &Receipt, now: Timestamp) -> BatchOut {
        let topic = &batch.topic;
        let first = topic
            .queue(batch.queue)
            .map(|queue| self.store.ends(queue, topic.upto(false)).first)
            .unwrap_or_default();
        BatchOut {
            base: receipt.base,
            log_append_time: topic.resolved.log_append_time.then_some(now),
            first,
            wait: topic.resolved.flush_sync.then_some(receipt.end),
        }
    }

    /// Checks a batch against its topic, once, and makes it ready for the lane.
    fn batch_draft(&self, batch: &BatchIn, now: Timestamp) -> Result<Draft, ProduceError> {
        let topic = &batch.topic;
        let queue = self.writable(topic, batch.queue)?;
        let max = topic.resolved.max_message_bytes;
        let bytes = batch.batch.len();
        if bytes > max as usize {
            return Err(ProduceError::TooLarge { bytes, max });
        }
        payload::produced(
            &batch.batch,
            queue,
            &topic.resolved,
            now,
            self.config.decompressed_bytes_max,
        )
    }

    /// Appends messages to one queue, consecutively and all or nothing. Adds nothing to the
    /// properties; a `DELAY` property above 0 sends the message over the schedule topic.
    ///
    /// # Errors
    /// See [`ProduceError`].
    pub async fn messages(
        &self,
        topic: &Arc<Topic>,
        queue: u32,
        messages: &[MessageIn],
    ) -> Result<Vec<MessageOut>, ProduceError> {
        self.writable(topic, queue)?;
        if topic.class == Class::System && system::never_sent_to(topic.key()) {
            return Err(ProduceError::NotWritable(format!(
                "topic {} belongs to the broker",
                topic.key()
            )));
        }
        let target = Target::of(topic, queue).ok_or(ProduceError::NoSuchQueue(queue))?;
        let body_max = self.config.max_message_size as usize;
        let mut run: SmallVec<[Draft; 1]> = SmallVec::with_capacity(messages.len());
        let mut sync = topic.resolved.flush_sync;
        for message in messages {
            run.push(self.accepted(&target, message, body_max, &mut sync)?);
        }
        let receipts = self.store.append(&run).await?;
        let bytes: usize = messages.iter().map(|message| message.body.len()).sum();
        if let Some(last) = receipts.last() {
            count(topic, receipts.len() as u64, bytes, last);
        }
        Ok(receipts.iter().map(|receipt| out(receipt, sync)).collect())
    }

    /// A message that a consumer gave back: the retry topic's own permissions do not matter, nor does
    /// `max_message_size`, within which a record of a Kafka producer need not be.
    pub(crate) async fn returned(
        &self,
        topic: &Topic,
        queue: u32,
        message: &MessageIn,
    ) -> Result<MessageOut, ProduceError> {
        let target = Target::of(topic, queue).ok_or(ProduceError::NoSuchQueue(queue))?;
        let mut sync = topic.resolved.flush_sync;
        let draft = self.accepted(&target, message, i32::MAX as usize, &mut sync)?;
        let receipts = self.store.append(&[draft]).await?;
        let receipt = receipts.first().ok_or_else(|| AppendError::Closed {
            reason: "no answer from the log".to_owned(),
        })?;
        count(topic, 1, message.body.len(), receipt);
        Ok(out(receipt, sync))
    }

    /// The draft of an accepted message: for its queue, or, if it is delayed, for its level's.
    fn accepted(
        &self,
        target: &Target,
        message: &MessageIn,
        body_max: usize,
        sync: &mut bool,
    ) -> Result<Draft, ProduceError> {
        let marks = Marks::of(&message.properties);
        if marks.delay <= 0 {
            let properties = &message.properties;
            return self.new_draft(target, message, properties, marks.tag_hash, body_max);
        }
        let schedule = self
            .catalog
            .by_native(system::SCHEDULE_TOPIC)
            .ok_or_else(|| ProduceError::NotWritable("there is no schedule topic".to_owned()))?;
        let level = u32::try_from(marks.delay)
            .unwrap_or(1)
            .clamp(1, self.levels);
        let over = Target::of(&schedule, level - 1).ok_or(ProduceError::NoSuchQueue(level - 1))?;
        *sync |= schedule.resolved.flush_sync;
        let properties = scheduled(&message.properties, target, level)?;
        self.new_draft(&over, message, &properties, marks.tag_hash, body_max)
    }

    fn new_draft(
        &self,
        target: &Target,
        message: &MessageIn,
        properties: &[u8],
        tag_hash: i32,
        body_max: usize,
    ) -> Result<Draft, ProduceError> {
        let mut sys_flag = message.sys_flag;
        if target.multi_tag {
            sys_flag |= message::SYS_MULTI_TAGS;
        }
        let new = NewMessage {
            queue_id: target.ordinal,
            flag: message.flag,
            sys_flag,
            born_time: message.born_time,
            born_host: message.born_host,
            store_host: self.store_host(),
            reconsume_times: message.reconsume_times,
            prepared_transaction_offset: 0,
            body: &message.body,
            topic: &target.name,
            properties,
        };
        Ok(message_draft(target, tag_hash, &new, body_max)?)
    }

    /// The queue's number, if producers may write it.
    fn writable(&self, topic: &Topic, ordinal: u32) -> Result<QueueNumber, ProduceError> {
        let queue = topic
            .queue(ordinal)
            .ok_or(ProduceError::NoSuchQueue(ordinal))?;
        if !topic.perm.write() {
            return Err(ProduceError::NotWritable(format!(
                "topic {} may not be written",
                topic.key()
            )));
        }
        if ordinal >= topic.write_queues {
            return Err(ProduceError::NotWritable(format!(
                "queue {ordinal} of topic {} is at or above writeQueueNums = {}",
                topic.key(),
                topic.write_queues
            )));
        }
        Ok(queue)
    }

    /// Waits for durability of something appended.
    ///
    /// # Errors
    /// The lane closed before.
    pub async fn synced(&self, end: LogOffset) -> Result<(), ProduceError> {
        Ok(self.store.wait(end, Ack::Synced).await?)
    }

    /// The address put into storeHost, from which clients make message ids.
    #[must_use]
    pub fn store_host(&self) -> SocketAddr {
        let default = SocketAddr::from(([127, 0, 0, 1], 10911));
        self.store_host.get().copied().unwrap_or(default)
    }

    /// Sets it, once, before the first message (node, after the ports are bound).
    pub fn set_store_host(&self, host: SocketAddr) {
        if self.store_host.set(host).is_err() {
            tracing::warn!(%host, "the store host is set already");
        }
    }

    /// A new producer id (node, reign, counter); never given twice. −1 when the 268 million of one
    /// opening are used up.
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        let counter = self.ids.fetch_add(1, Ordering::Relaxed);
        let reign = u64::from(self.store.reign().0);
        let node = u64::try_from(self.config.node_id).unwrap_or(0);
        producer_id(node, reign, counter).unwrap_or(-1)
    }
}

fn producer_id(node: u64, reign: u64, counter: u64) -> Option<i64> {
    if counter >> ID_REIGN != 0 || reign >> (ID_NODE - ID_REIGN) != 0 || node >> 16 != 0 {
        return None;
    }
    i64::try_from(node << ID_NODE | reign << ID_REIGN | counter).ok()
}

/// Counts what was stored; what was there already is not counted again.
fn count(topic: &Topic, records: u64, bytes: usize, receipt: &Receipt) {
    if !receipt.duplicate {
        topic
            .stored
            .add(records, bytes as u64, receipt.store_time.0);
    }
}

fn out(receipt: &Receipt, sync: bool) -> MessageOut {
    MessageOut {
        offset: receipt.base,
        address: receipt.address(),
        store_time: receipt.store_time,
        wait: sync.then_some(receipt.end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn producer_ids_never_meet() {
        assert_eq!(producer_id(0, 1, 0), Some(1 << 28));
        assert_eq!(producer_id(1, 1, 5), Some((1 << 47) | (1 << 28) | 5));
        assert!(producer_id(65_535, (1 << 19) - 1, (1 << 28) - 1).is_some());
        assert_eq!(producer_id(0, 1, 1 << 28), None);
        assert_eq!(producer_id(0, 1 << 19, 0), None);
    }
}
