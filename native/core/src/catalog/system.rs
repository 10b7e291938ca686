//! The topics that the broker itself owns, and the names that belong to it.

use super::{Class, NewTopic, Origin, Perm};
use crate::config::CoreConfig;
use std::collections::BTreeMap;

/// Carries delayed messages: one queue per delay level (RocketMQ's `TopicValidator`).
pub const SCHEDULE_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Half messages.
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// What became of half messages.
pub const HALF_OP_TOPIC: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Half messages that were checked too often.
pub const CHECK_MAX_TOPIC: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
/// The template for automatic creation.
pub const TEMPLATE_TOPIC: &str = "TBW102";
/// Kafka's committed offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Kafka's transaction states.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";
/// Partitions of either (`offsets.topic.num.partitions`, `transaction.state.log.num.partitions`).
pub const INTERNAL_PARTITIONS: u32 = 50;

const SELF_TEST: &str = "SELF_TEST_TOPIC";
const OFFSET_MOVED: &str = "OFFSET_MOVED_EVENT";
const BENCHMARK: &str = "BenchmarkTest";
/// Reserved without being created.
const ONLY_RESERVED: [&str; 3] = [
    "RMQ_SYS_TRACE_TOPIC",
    "CHECKPOINT_TOPIC",
    "rmq_sys_wheel_timer",
];

/// Whether clients may never send to this topic (RocketMQ's `isNotAllowedSendTopic`).
#[must_use]
pub fn never_sent_to(native: &str) -> bool {
    matches!(
        native,
        SCHEDULE_TOPIC | HALF_TOPIC | HALF_OP_TOPIC | CHECK_MAX_TOPIC | SELF_TEST | OFFSET_MOVED
    )
}

/// Whether a name belongs to the broker and cannot be created by a client of `origin`.
pub(crate) fn reserved(name: &str, origin: Origin, config: &CoreConfig) -> bool {
    let system = never_sent_to(name)
        || matches!(name, TEMPLATE_TOPIC | BENCHMARK)
        || ONLY_RESERVED.contains(&name)
        || name.starts_with("rmq_sys_")
        || name == config.cluster_name
        || name == config.broker_name
        || name
            .strip_suffix("_REPLY_TOPIC")
            .is_some_and(|cluster| cluster == config.cluster_name);
    let internal = matches!(name, OFFSETS_TOPIC | TRANSACTIONS_TOPIC);
    match origin {
        // RocketMQ's own brokers let a client make the trace topic.
        Origin::Native => (system && name != "RMQ_SYS_TRACE_TOPIC") || internal,
        Origin::Kafka => system || internal || name == "__cluster_metadata",
    }
}

/// All topics of the broker's own, with their class.
pub(crate) fn topics(config: &CoreConfig, levels: u32) -> Vec<(NewTopic, Class)> {
    let native = |name: &str, queues: u32, perm: u8| {
        let new = NewTopic {
            name: name.to_owned(),
            origin: Origin::Native,
            queues,
            perm: Perm(perm),
            order: false,
            sys_flag: 0,
            multi_tag: false,
            attributes: BTreeMap::new(),
            settings: BTreeMap::new(),
        };
        (new, Class::System)
    };
    let internal = |name: &str| {
        let new = NewTopic {
            name: name.to_owned(),
            origin: Origin::Kafka,
            queues: INTERNAL_PARTITIONS,
            perm: Perm(4),
            order: false,
            sys_flag: 0,
            multi_tag: false,
            attributes: BTreeMap::new(),
            settings: BTreeMap::from([
                ("cleanup.policy".to_owned(), "compact".to_owned()),
                ("segment.bytes".to_owned(), "104857600".to_owned()),
            ]),
        };
        (new, Class::Internal)
    };
    vec![
        internal(OFFSETS_TOPIC),
        internal(TRANSACTIONS_TOPIC),
        native(TEMPLATE_TOPIC, config.default_topic_queue_nums, 7),
        native(SELF_TEST, 1, 6),
        native(OFFSET_MOVED, 1, 6),
        native(SCHEDULE_TOPIC, levels, 6),
        native(HALF_TOPIC, 1, 6),
        native(HALF_OP_TOPIC, 1, 6),
        native(CHECK_MAX_TOPIC, 1, 6),
        native(BENCHMARK, 1024, 6),
        native(&config.cluster_name, 16, 7),
        native(&config.broker_name, 1, 7),
        native(&format!("{}_REPLY_TOPIC", config.cluster_name), 1, 6),
    ]
}
