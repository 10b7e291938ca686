//! The broker in no protocol's words: topics and names, queues, groups and offsets, retry and dead
//! letters, who may read what. Both fronts call it; it calls the store.

pub mod catalog;
pub mod consume;
pub mod groups;
pub mod offsets;
pub mod produce;
pub mod retry;
pub mod roster;

use std::sync::Arc;
use twinmq_store::Store;

/// The parts of the broker. Callers take the parts they need and hand out only those.
#[derive(Clone, Debug)]
pub struct Core {
    /// Topics, both names, settings, queue numbers.
    pub catalog: Arc<catalog::Catalog>,
    /// Definitions of consumer groups (RocketMQ subscription groups).
    pub groups: Arc<groups::Groups>,
    /// Committed offsets: one table for both protocols.
    pub offsets: Arc<offsets::Offsets>,
    /// Who is in which group now.
    pub roster: Arc<roster::Roster>,
    /// The way in.
    pub producing: Arc<produce::Producing>,
    /// The way out.
    pub consuming: Arc<consume::Consuming>,
    /// Sent-back and delayed messages.
    pub retry: Arc<retry::Retry>,
}

/// Settings of the broker itself.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CoreConfig {
    /// RocketMQ's brokerName.
    pub broker_name: String,
    /// RocketMQ's cluster name.
    pub cluster_name: String,
    /// Kafka's node id.
    pub node_id: i32,
    /// Partitions of a topic created by Kafka without a count. Kafka's `num.partitions`.
    pub num_partitions: u32,
    /// Whether naming an unknown topic creates it, on both sides.
    pub auto_create_topics: bool,
    /// Queues of a topic created by a native send. RocketMQ's `defaultTopicQueueNums`.
    pub default_topic_queue_nums: u32,
    /// Whether a heartbeat or pull of an unknown group creates it.
    pub auto_create_groups: bool,
    /// Hours that topics made natively keep records. RocketMQ's `fileReservedTime`.
    pub file_reserved_time_hours: u64,
    /// Milliseconds that topics made through Kafka keep records. Kafka's `log.retention.ms`.
    pub log_retention_ms: i64,
    /// Largest Kafka batch. Kafka's `message.max.bytes`.
    pub message_max_bytes: u32,
    /// Largest RocketMQ body. RocketMQ's `maxMessageSize`.
    pub max_message_size: u32,
    /// Longest expansion of one compressed batch or body.
    pub decompressed_bytes_max: u64,
    /// Most topics.
    pub topics_max: usize,
    /// Most queues of one topic.
    pub queues_per_topic_max: u32,
    /// Bytes of translated records kept for readers of the other protocol.
    pub translation_cache_bytes: usize,
    /// Milliseconds between retention rounds. Kafka's `log.retention.check.interval.ms`.
    pub retention_interval_ms: u64,
    /// Minutes that offsets of empty groups without a RocketMQ definition are kept.
    pub offsets_retention_minutes: u64,
    /// Milliseconds after which commits that nobody waits for are written.
    pub commit_linger_ms: u64,
    /// The 18 delay steps. RocketMQ's `messageDelayLevel`.
    pub message_delay_level: String,
}

impl Default for CoreConfig {
    fn default() -> Self {
        Self {
            broker_name: "twinmq-1".to_owned(),
            cluster_name: "DefaultCluster".to_owned(),
            node_id: 1,
            num_partitions: 1,
            auto_create_topics: true,
            default_topic_queue_nums: 8,
            auto_create_groups: true,
            file_reserved_time_hours: 72,
            log_retention_ms: 604_800_000,
            message_max_bytes: 1_048_588,
            max_message_size: 4 << 20,
            decompressed_bytes_max: 128 << 20,
            topics_max: 100_000,
            queues_per_topic_max: 10_000,
            translation_cache_bytes: 64 << 20,
            retention_interval_ms: 10_000,
            offsets_retention_minutes: 10_080,
            commit_linger_ms: 200,
            message_delay_level: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
                .to_owned(),
        }
    }
}

impl Core {
    /// Rebuilds the broker's state from the log: newest snapshots, then replay. Creates the internal
    /// and system topics on an empty log, and starts the background tasks (delayed delivery, lingering
    /// commits, retention, snapshots), which end with [`Core::close`].
    ///
    /// # Errors
    /// The log could not be read, or a snapshot and the log contradict each other.
    pub async fn open(store: Store, config: CoreConfig) -> Result<Self, OpenError> {
        let _ = (store, config);
        unimplemented!()
    }

    /// Writes what lingers, snapshots the state machines and ends the background tasks.
    pub async fn close(&self) {
        unimplemented!()
    }
}

/// Why the broker's state could not be rebuilt.
#[derive(Debug, thiserror::Error)]
#[error("{part}: {reason}")]
pub struct OpenError {
    /// The state machine.
    pub part: &'static str,
    /// What went wrong.
    pub reason: String,
}
