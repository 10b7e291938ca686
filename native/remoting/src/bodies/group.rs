//! Consumer groups: their settings (200, 201, 207, 225, 352) and members (38).

use super::{DataVersion, boolean, number, or_default, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// GET_CONSUMER_LIST_BY_GROUP (38).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerList {
    /// Ids of the clients that are online.
    #[serde(deserialize_with = "or_default")]
    pub consumer_id_list: Vec<String>,
}

/// A group's settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Free attributes.
    #[serde(deserialize_with = "or_default")]
    pub attributes: BTreeMap<String, String>,
    /// The broker to read from.
    #[serde(deserialize_with = "number")]
    pub broker_id: i64,
    /// May it broadcast?
    #[serde(deserialize_with = "boolean")]
    pub consume_broadcast_enable: bool,
    /// May it consume?
    #[serde(deserialize_with = "boolean")]
    pub consume_enable: bool,
    /// From the start of a queue, or only what came since the group exists?
    #[serde(deserialize_with = "boolean")]
    pub consume_from_min_enable: bool,
    /// In order?
    #[serde(deserialize_with = "boolean")]
    pub consume_message_orderly: bool,
    /// Minutes.
    #[serde(deserialize_with = "number")]
    pub consume_timeout_minute: i32,
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub group_name: String,
    /// Delays between attempts; read by the 5.x proxy.
    pub group_retry_policy: Value,
    /// Bits.
    #[serde(deserialize_with = "number")]
    pub group_sys_flag: i32,
    /// Are members told when members come and go?
    #[serde(deserialize_with = "boolean")]
    pub notify_consumer_ids_changed_enable: bool,
    /// Attempts before the dead letter queue.
    #[serde(deserialize_with = "number")]
    pub retry_max_times: i32,
    /// Queues of its retry topic.
    #[serde(deserialize_with = "number")]
    pub retry_queue_nums: i32,
    /// Fixed subscriptions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data_set: Option<Value>,
    /// The broker to read from when it is slow.
    #[serde(deserialize_with = "number")]
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: String::new(),
            group_retry_policy: serde_json::json!({"type": "CUSTOMIZED"}),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
        }
    }
}

/// GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllGroups {
    /// Of the table.
    pub data_version: DataVersion,
    /// Per group and topic, what is forbidden.
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    /// By name.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

/// UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST (225).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupConfigList {
    /// They.
    #[serde(deserialize_with = "or_default")]
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// QUERY_TOPIC_CONSUME_BY_WHO (300).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// Groups that read the topic.
    #[serde(deserialize_with = "or_default")]
    pub group_list: Vec<String>,
}
