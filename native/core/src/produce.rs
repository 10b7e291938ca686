//! The way in: which queue, may it, which flush, append.

use crate::catalog::Topic;
use bytes::Bytes;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use twinmq_records::batch::BatchError;
use twinmq_records::message::MessageError;
use twinmq_store::{Address, LogOffset, QueueOffset, Timestamp};

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
pub struct Producing {}

impl Producing {
    /// Checks and appends Kafka batches, each on its own. Returns once they are written; the caller
    /// waits for [`BatchOut::wait`] where its acks ask for it.
    pub async fn batches(&self, batches: &[BatchIn]) -> Vec<Result<BatchOut, ProduceError>> {
        let _ = batches;
        unimplemented!()
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
        let _ = (topic, queue, messages);
        unimplemented!()
    }

    /// Waits for durability of something appended.
    ///
    /// # Errors
    /// The lane closed before.
    pub async fn synced(&self, end: LogOffset) -> Result<(), ProduceError> {
        let _ = end;
        unimplemented!()
    }

    /// The address put into storeHost, from which clients make message ids.
    #[must_use]
    pub fn store_host(&self) -> SocketAddr {
        unimplemented!()
    }

    /// Sets it, once, before the first message (node, after the ports are bound).
    pub fn set_store_host(&self, host: SocketAddr) {
        let _ = host;
        unimplemented!()
    }

    /// A new producer id (node, reign, counter); never given twice.
    #[must_use]
    pub fn producer_id(&self) -> i64 {
        unimplemented!()
    }
}
