//! What a topic is, what can be asked of it, and why that may fail.

use crate::tally::Tally;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;
use twinmq_store::{QueueNumber, Timestamp, Upto};
use uuid::Uuid;

/// RocketMQ permission bits: 4 read, 2 write, 1 inherit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Perm(pub u8);

impl Perm {
    /// Producers may write.
    #[must_use]
    pub fn write(self) -> bool {
        self.0 & 2 != 0
    }
    /// Consumers may read.
    #[must_use]
    pub fn read(self) -> bool {
        self.0 & 4 != 0
    }
    /// Serves as a template for automatic creation.
    #[must_use]
    pub fn inherit(self) -> bool {
        self.0 & 1 != 0
    }
}

/// Which side created a topic; decides defaults such as retention.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// Through Kafka.
    Kafka,
    /// Through the remoting protocol, or by the broker itself.
    Native,
}

/// Who may see and use a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// An ordinary topic.
    User,
    /// RocketMQ's system topics (TBW102, ...): native only.
    System,
    /// Kafka's internal topics (`__consumer_offsets`, `__transaction_state`): Kafka readable only.
    Internal,
}

/// What the settings amount to; units in the names.
#[derive(Clone, Debug, PartialEq)]
pub struct Resolved {
    /// `flush.messages=1`, or the broker's default: acknowledged = on disk.
    pub flush_sync: bool,
    /// `retention.ms`; `None` = without limit.
    pub retention_ms: Option<u64>,
    /// `retention.bytes` per queue; `None` = without limit.
    pub retention_bytes: Option<u64>,
    /// `max.message.bytes`.
    pub max_message_bytes: u32,
    /// `message.timestamp.type=LogAppendTime`.
    pub log_append_time: bool,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `cleanup.policy` contains `compact`.
    pub compact: bool,
    /// `cleanup.policy` contains `delete`.
    pub delete: bool,
    /// `min.insync.replicas`.
    pub min_insync_replicas: u32,
}

/// A topic, as it stands. Immutable; a change makes a new one. What each send looks at comes first and
/// stays together: with thousands of topics, each cache line touched is a miss.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Topic {
    /// RocketMQ's name; `None` where it has none on that side.
    pub native: Option<Arc<str>>,
    /// What was stored in it since the broker started, by either protocol.
    pub stored: Arc<Tally>,
    /// Queue numbers by ordinal. Their count is Kafka's partition count and never falls.
    pub queues: SmallVec<[QueueNumber; 8]>,
    /// RocketMQ's readQueueNums.
    pub read_queues: u32,
    /// RocketMQ's writeQueueNums; queues at or above refuse produce.
    pub write_queues: u32,
    /// Permissions.
    pub perm: Perm,
    /// Who may use it.
    pub class: Class,
    /// RocketMQ's topicFilterType is MULTI_TAG.
    pub multi_tag: bool,
    /// RocketMQ's `order`.
    pub order: bool,
    /// RocketMQ's topicSysFlag.
    pub sys_flag: i32,
    /// What the settings amount to with the broker's defaults.
    pub resolved: Resolved,
    /// Kafka's name; `None` where it has none on that side.
    pub kafka: Option<Arc<str>>,
    /// Kafka's topic id; a re-created topic has a new one.
    pub id: Uuid,
    /// Which side created it.
    pub origin: Origin,
    /// RocketMQ's attributes.
    pub attributes: BTreeMap<String, String>,
    /// Kafka's topic configs that were set (overrides only).
    pub settings: BTreeMap<String, String>,
    /// When it was created.
    pub created: Timestamp,
}

impl Topic {
    /// The name under which state (offsets) is kept: Kafka's, else RocketMQ's.
    #[must_use]
    pub fn key(&self) -> &Arc<str> {
        self.kafka
            .as_ref()
            .or(self.native.as_ref())
            .expect("a topic has a name on one side at least")
    }
    /// The queue number of an ordinal.
    #[must_use]
    pub fn queue(&self, ordinal: u32) -> Option<QueueNumber> {
        self.queues.get(ordinal as usize).copied()
    }
    /// How far a reader of this topic sees. `committed`: not past open transactions.
    #[must_use]
    pub fn upto(&self, committed: bool) -> Upto {
        Upto {
            synced: self.resolved.flush_sync,
            committed,
        }
    }
}

/// What to create.
#[derive(Clone, Debug)]
pub struct NewTopic {
    /// The name on the creating side.
    pub name: String,
    /// The creating side.
    pub origin: Origin,
    /// Queues (partitions); read and write counts alike.
    pub queues: u32,
    /// Permissions.
    pub perm: Perm,
    /// RocketMQ's `order`.
    pub order: bool,
    /// RocketMQ's topicSysFlag.
    pub sys_flag: i32,
    /// RocketMQ's MULTI_TAG.
    pub multi_tag: bool,
    /// RocketMQ's attributes.
    pub attributes: BTreeMap<String, String>,
    /// Kafka's configs.
    pub settings: BTreeMap<String, String>,
}

/// What to change; `None` leaves as it is.
#[derive(Clone, Debug, Default)]
pub struct TopicChange {
    /// New permissions.
    pub perm: Option<Perm>,
    /// New readQueueNums.
    pub read_queues: Option<u32>,
    /// New writeQueueNums; more than there are queues adds queues.
    pub write_queues: Option<u32>,
    /// RocketMQ's `order`.
    pub order: Option<bool>,
    /// All attributes anew.
    pub attributes: Option<BTreeMap<String, String>>,
    /// All Kafka configs anew.
    pub settings: Option<BTreeMap<String, String>>,
}

/// Why a topic could not be created, changed or deleted.
#[derive(Debug, Error)]
pub enum CatalogError {
    /// The name is taken on the creating side.
    #[error("topic {0} exists already")]
    Exists(String),
    /// No such topic.
    #[error("topic {0} does not exist")]
    Unknown(String),
    /// Illegal name.
    #[error("topic name {name:?}: {reason}")]
    InvalidName {
        /// The name.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A reserved name.
    #[error("topic {0} belongs to the broker")]
    Reserved(String),
    /// Count out of range.
    #[error("{0}")]
    InvalidQueues(String),
    /// Unknown or illegal setting.
    #[error("{key}: {reason}")]
    InvalidSetting {
        /// The setting.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// Too many topics.
    #[error("topics_max = {0} reached")]
    TooMany(usize),
    /// The log did not take it.
    #[error(transparent)]
    Append(#[from] twinmq_store::AppendError),
    /// The log took it but could not make it durable.
    #[error(transparent)]
    Wait(#[from] twinmq_store::WaitError),
}
