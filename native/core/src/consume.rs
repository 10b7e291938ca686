//! The way out: which window, who may read what, in whose layout.

use crate::catalog::Topic;
use bytes::Bytes;
use thiserror::Error;
use twinmq_store::{
    Aborted, Address, Boundary, Ends, QueueOffset, ReadError, Reign, Timestamp, Watch,
};

/// Why nothing was read.
#[derive(Debug, Error)]
pub enum ConsumeError {
    /// No such queue in the topic.
    #[error("topic has no queue {0}")]
    NoSuchQueue(u32),
    /// The log's answer.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A stored record cannot be shown in the other layout.
    #[error("offset {at}: {reason}")]
    Untranslatable {
        /// Which.
        at: QueueOffset,
        /// Why.
        reason: String,
    },
}

/// Record batches of one queue.
#[derive(Clone, Debug)]
pub struct Batches {
    /// Whole batches, in order; send them one after the other.
    pub chunks: Vec<Bytes>,
    /// Sum of their lengths.
    pub bytes: usize,
    /// Where to go on.
    pub next: QueueOffset,
    /// Ends of the queue.
    pub ends: Ends,
    /// Aborted transactions overlapping what is returned; filled for read_committed only.
    pub aborted: Vec<Aborted>,
}

/// Which messages a native reader wants.
#[derive(Clone, Debug)]
pub enum Filter {
    /// All.
    All,
    /// Those whose tag hash is among these (Java hash). Mixed batches are looked into.
    Tags(Vec<i32>),
}

/// Messages of one queue in RocketMQ's stored layout.
#[derive(Clone, Debug)]
pub struct Messages {
    /// Whole messages, in order; a chunk may hold several.
    pub chunks: Vec<Bytes>,
    /// How many messages.
    pub count: u32,
    /// Where to go on: after the last record examined, matching or not.
    pub next: QueueOffset,
    /// First and end as this reader sees them (`end` = last stable offset).
    pub first: QueueOffset,
    /// See `first`.
    pub end: QueueOffset,
}

/// The way out.
#[derive(Debug)]
pub struct Consuming {}

impl Consuming {
    /// Reads as Kafka does: whole batches from the one that holds `from`; the first always comes when
    /// `first_regardless`. Messages are framed into batches.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn batches(
        &self,
        topic: &Topic,
        queue: u32,
        from: QueueOffset,
        bytes_max: u32,
        first_regardless: bool,
        committed: bool,
    ) -> Result<Batches, ConsumeError> {
        let _ = (topic, queue, from, bytes_max, first_regardless, committed);
        unimplemented!()
    }

    /// Reads as RocketMQ does: messages from `from` on, up to a count and a size; batches are opened.
    /// Never sees aborted or pending records.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn messages(
        &self,
        topic: &Topic,
        queue: u32,
        from: QueueOffset,
        count_max: u32,
        bytes_max: u32,
        filter: &Filter,
    ) -> Result<Messages, ConsumeError> {
        let _ = (topic, queue, from, count_max, bytes_max, filter);
        unimplemented!()
    }

    /// One message by address, in RocketMQ's layout.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn message_at(&self, address: Address) -> Result<Bytes, ConsumeError> {
        let _ = address;
        unimplemented!()
    }

    /// The ends of a queue. `committed`: `end` is the last stable offset.
    #[must_use]
    pub fn ends(&self, topic: &Topic, queue: u32, committed: bool) -> Ends {
        let _ = (topic, queue, committed);
        unimplemented!()
    }

    /// Register, then look, then await [`Watch::changed`].
    #[must_use]
    pub fn watch(&self, queues: &[(&Topic, u32)], committed: bool) -> Watch {
        let _ = (queues, committed);
        unimplemented!()
    }

    /// Native search by store time.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn offset_by_store_time(
        &self,
        topic: &Topic,
        queue: u32,
        time: Timestamp,
        boundary: Boundary,
    ) -> Result<QueueOffset, ConsumeError> {
        let _ = (topic, queue, time, boundary);
        unimplemented!()
    }

    /// Kafka search: the first record whose own time reaches `time`: (offset, its time, epoch).
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn offset_by_record_time(
        &self,
        topic: &Topic,
        queue: u32,
        time: Timestamp,
        committed: bool,
    ) -> Result<Option<(QueueOffset, Timestamp, Reign)>, ConsumeError> {
        let _ = (topic, queue, time, committed);
        unimplemented!()
    }

    /// Kafka's max timestamp: the first record with the highest time.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn latest_record(
        &self,
        topic: &Topic,
        queue: u32,
    ) -> Result<Option<(QueueOffset, Timestamp, Reign)>, ConsumeError> {
        let _ = (topic, queue);
        unimplemented!()
    }

    /// Store time of the record at `offset`; `None` when there is none.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn store_time(
        &self,
        topic: &Topic,
        queue: u32,
        offset: QueueOffset,
    ) -> Result<Option<Timestamp>, ConsumeError> {
        let _ = (topic, queue, offset);
        unimplemented!()
    }

    /// Whether the record at `offset` is near enough to the tail to be in memory.
    #[must_use]
    pub fn is_hot(&self, topic: &Topic, queue: u32, offset: QueueOffset) -> bool {
        let _ = (topic, queue, offset);
        unimplemented!()
    }

    /// Kafka's OffsetForLeaderEpoch. See `Store::end_of_reign`.
    #[must_use]
    pub fn end_of_reign(
        &self,
        topic: &Topic,
        queue: u32,
        reign: Reign,
    ) -> Option<(Reign, QueueOffset)> {
        let _ = (topic, queue, reign);
        unimplemented!()
    }

    /// The current reign: Kafka's leader epoch.
    #[must_use]
    pub fn reign(&self) -> Reign {
        unimplemented!()
    }
}
