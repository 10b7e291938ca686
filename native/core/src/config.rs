//! The broker's settings.

use crate::delay::Steps;

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
    /// Bytes of translated records alive at one time: cached ones and those in answers that clients have
    /// not taken yet. Beyond it, readers of the other protocol get less at a time, or wait. At least
    /// twice `translation_cache_bytes` and 1 MiB.
    pub translated_bytes_max: usize,
    /// Milliseconds between retention rounds. Kafka's `log.retention.check.interval.ms`.
    pub retention_interval_ms: u64,
    /// Minutes that offsets of empty groups without a RocketMQ definition are kept.
    pub offsets_retention_minutes: u64,
    /// Milliseconds after which commits that nobody waits for are written.
    pub commit_linger_ms: u64,
    /// The delay steps, level 1 first: numbers with s, m, h or d. RocketMQ's `messageDelayLevel`.
    pub message_delay_level: String,
    /// Least milliseconds between two snapshots of the state machines.
    pub snapshot_interval_ms: u64,
    /// Bytes of log after which a snapshot is renewed even where nothing changed, so that the files
    /// before it can go. At least 1 MiB.
    pub snapshot_log_bytes: u64,
    /// Most series of one per-queue metric family; beyond it only the groups' sums are shown.
    pub lag_series_max: usize,
    /// The store's default durability (`store.flush`); node copies it here.
    #[serde(skip)]
    pub flush_sync: bool,
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
            translated_bytes_max: 256 << 20,
            retention_interval_ms: 10_000,
            offsets_retention_minutes: 10_080,
            commit_linger_ms: 200,
            message_delay_level: "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
                .to_owned(),
            snapshot_interval_ms: 300_000,
            snapshot_log_bytes: 512 << 20,
            lag_series_max: 2_000,
            flush_sync: false,
        }
    }
}

impl CoreConfig {
    /// Refuses contradictions: the key to change and why.
    ///
    /// # Errors
    /// The first key out of its limits.
    pub fn validate(&self) -> Result<(), (&'static str, String)> {
        if !(0..=i32::from(u16::MAX)).contains(&self.node_id) {
            return Err(("broker.node_id", "must be from 0 to 65535".to_owned()));
        }
        if self.queues_per_topic_max == 0 || self.queues_per_topic_max > 1_000_000 {
            return Err((
                "broker.queues_per_topic_max",
                "must be from 1 to 1000000".to_owned(),
            ));
        }
        for (key, count) in [
            ("broker.num_partitions", self.num_partitions),
            (
                "broker.default_topic_queue_nums",
                self.default_topic_queue_nums,
            ),
        ] {
            if count == 0 || count > self.queues_per_topic_max {
                return Err((key, "must be from 1 to queues_per_topic_max".to_owned()));
            }
        }
        if self.translated_bytes_max < (2 * self.translation_cache_bytes).max(1 << 20) {
            return Err((
                "broker.translated_bytes_max",
                "must be at least twice translation_cache_bytes and 1 MiB".to_owned(),
            ));
        }
        if self.log_retention_ms < -1 {
            return Err(("broker.log_retention_ms", "must be -1 or more".to_owned()));
        }
        if !(1..=60_000).contains(&self.commit_linger_ms) {
            return Err((
                "broker.commit_linger_ms",
                "must be from 1 to 60000".to_owned(),
            ));
        }
        if self.retention_interval_ms < 100 {
            return Err((
                "broker.retention_interval_ms",
                "must be at least 100".to_owned(),
            ));
        }
        if self.snapshot_interval_ms < 1000 {
            return Err((
                "broker.snapshot_interval_ms",
                "must be at least 1000".to_owned(),
            ));
        }
        if self.snapshot_log_bytes < 1 << 20 {
            return Err((
                "broker.snapshot_log_bytes",
                "must be at least 1048576".to_owned(),
            ));
        }
        Steps::parse(&self.message_delay_level)
            .map(drop)
            .map_err(|reason| ("broker.message_delay_level", reason))
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
