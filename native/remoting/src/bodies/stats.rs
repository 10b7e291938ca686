//! What tools ask for: queues of a topic (202), progress of a group (208), time spans (303), runtime
//! info (28 is a [`super::KvTable`]), counters (315), consume queues (321).

use super::{MessageQueue, QueueKey, or_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One queue's ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// Store time of the last message, in milliseconds since 1970; 0 when empty.
    pub last_update_timestamp: i64,
    /// The end.
    pub max_offset: i64,
    /// The start.
    pub min_offset: i64,
}

/// GET_TOPIC_STATS_INFO (202).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStats {
    /// By queue.
    #[serde(deserialize_with = "or_default")]
    pub offset_table: BTreeMap<QueueKey, TopicOffset>,
    /// Messages a second.
    pub topic_put_tps: f64,
}

/// A group's progress in one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// The queue's end.
    pub broker_offset: i64,
    /// The group's next offset.
    pub consumer_offset: i64,
    /// Store time of the last consumed message, in milliseconds since 1970; 0 if none.
    pub last_timestamp: i64,
    /// The offset of the group's last pull.
    pub pull_offset: i64,
}

/// GET_CONSUME_STATS (208).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages a second.
    pub consume_tps: f64,
    /// By queue.
    #[serde(deserialize_with = "or_default")]
    pub offset_table: BTreeMap<QueueKey, OffsetWrapper>,
}

/// GET_BROKER_CONSUME_STATS (317).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerConsumeStats {
    /// Of this broker.
    pub broker_addr: String,
    /// By group.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Messages not consumed.
    pub total_diff: i64,
    /// Messages on their way.
    pub total_inflight_diff: i64,
}

/// One queue's times for a group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueTimeSpan {
    /// Store time at the group's progress.
    pub consume_time_stamp: i64,
    /// How far behind, in milliseconds.
    pub delay_time: i64,
    /// Store time of the last message.
    pub max_time_stamp: i64,
    /// The queue.
    pub message_queue: MessageQueue,
    /// Store time of the first message.
    pub min_time_stamp: i64,
}

/// QUERY_CONSUME_TIME_SPAN (303).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeTimeSpans {
    /// By queue.
    pub consume_time_span_set: Vec<QueueTimeSpan>,
}

/// One window of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatsItem {
    /// Average per time.
    pub avgpt: f64,
    /// Sum.
    pub sum: i64,
    /// Per second.
    pub tps: f64,
}

/// VIEW_BROKER_STATS_DATA (315).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStats {
    /// The last day.
    pub stats_day: StatsItem,
    /// The last hour.
    pub stats_hour: StatsItem,
    /// The last minute.
    pub stats_minute: StatsItem,
}

/// One row of a consume queue.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueRow {
    /// Historic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_map: Option<String>,
    /// Whether the filter lets it pass.
    pub eval: bool,
    /// Historic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_data_json: Option<String>,
    /// A remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msg: Option<String>,
    /// Where the message is.
    pub physic_offset: i64,
    /// Its size, in bytes.
    pub physic_size: i32,
    /// Its tag hash.
    pub tags_code: i64,
}

/// QUERY_CONSUME_QUEUE (321).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueRows {
    /// Historic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_data: Option<String>,
    /// The end.
    pub max_queue_index: i64,
    /// The start.
    pub min_queue_index: i64,
    /// The rows.
    pub queue_data: Vec<ConsumeQueueRow>,
    /// Of the group asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<Value>,
}
