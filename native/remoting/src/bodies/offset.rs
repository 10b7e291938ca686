//! Offsets: tables (43), resets (220, 222), a client's positions (221, 223).

use super::{DataVersion, MessageQueue, QueueKey, or_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// GET_ALL_CONSUMER_OFFSET (43): `topic@group` to queue to offset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllOffsets {
    /// Of the table.
    pub data_version: DataVersion,
    /// It.
    #[serde(deserialize_with = "or_default")]
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

/// Offsets by queue, the form of Java and Go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsets {
    /// They.
    #[serde(deserialize_with = "or_default")]
    pub offset_table: BTreeMap<QueueKey, i64>,
}

/// One queue's offset in the form of C++.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueOffset {
    /// The broker.
    pub broker_name: String,
    /// The offset.
    pub offset: i64,
    /// The queue.
    pub queue_id: i32,
    /// The topic.
    pub topic: String,
}

/// Offsets as a list, the form of C++.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetList {
    /// They.
    pub offset_table: Vec<QueueOffset>,
}

impl ResetOffsets {
    /// The same for a C++ client.
    #[must_use]
    pub fn list(&self) -> ResetOffsetList {
        let offset_table = self.offset_table.iter().map(|(QueueKey(queue), offset)| {
            let MessageQueue {
                broker_name,
                queue_id,
                topic,
            } = queue.clone();
            QueueOffset {
                broker_name,
                offset: *offset,
                queue_id,
                topic,
            }
        });
        ResetOffsetList {
            offset_table: offset_table.collect(),
        }
    }
}

/// Positions of one or many clients (221, 223).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// By client.
    #[serde(deserialize_with = "or_default")]
    pub consumer_table: BTreeMap<String, BTreeMap<QueueKey, i64>>,
    /// Of one client.
    #[serde(deserialize_with = "or_default")]
    pub message_queue_table: BTreeMap<QueueKey, i64>,
}
