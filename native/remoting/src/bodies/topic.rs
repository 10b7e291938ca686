//! Topics: settings (17, 18, 21, 351), lists (206, 224, 304, 305, 311-313, 343).

use super::{DataVersion, boolean, number, or_default, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// May be read.
pub const PERM_READ: i32 = 4;
/// May be written.
pub const PERM_WRITE: i32 = 2;
/// Its settings are copied when a topic is created from it.
pub const PERM_INHERIT: i32 = 1;

/// A topic's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// Free attributes.
    #[serde(deserialize_with = "or_default")]
    pub attributes: BTreeMap<String, String>,
    /// Is it ordered?
    #[serde(deserialize_with = "boolean")]
    pub order: bool,
    /// Bits: 4 read, 2 write, 1 inherit.
    #[serde(deserialize_with = "number")]
    pub perm: i32,
    /// Queues that can be read.
    #[serde(deserialize_with = "number")]
    pub read_queue_nums: i32,
    /// SINGLE_TAG or MULTI_TAG.
    #[serde(deserialize_with = "text")]
    pub topic_filter_type: String,
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub topic_name: String,
    /// Bits: 1 unit, 2 unit of subscriptions.
    #[serde(deserialize_with = "number")]
    pub topic_sys_flag: i32,
    /// Queues that can be written.
    #[serde(deserialize_with = "number")]
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            order: false,
            perm: PERM_READ | PERM_WRITE,
            read_queue_nums: 16,
            topic_filter_type: "SINGLE_TAG".to_owned(),
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

/// GET_ALL_TOPIC_CONFIG (21), and part of a broker's registration (103).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicTable {
    /// Of the table.
    #[serde(deserialize_with = "or_default")]
    pub data_version: DataVersion,
    /// Of the mappings of static topics.
    #[serde(deserialize_with = "or_default")]
    pub mapping_data_version: DataVersion,
    /// By name.
    #[serde(deserialize_with = "or_default")]
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Static topics; empty here.
    #[serde(deserialize_with = "or_default")]
    pub topic_queue_mapping_detail_map: BTreeMap<String, Value>,
    /// Static topics; empty here.
    #[serde(deserialize_with = "or_default")]
    pub topic_queue_mapping_info_map: BTreeMap<String, Value>,
}

/// UPDATE_AND_CREATE_TOPIC_LIST (18).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigList {
    /// They.
    #[serde(deserialize_with = "or_default")]
    pub topic_config_list: Vec<TopicConfig>,
}

/// Names of topics.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// A broker to ask further.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    /// They.
    #[serde(deserialize_with = "or_default")]
    pub topic_list: Vec<String>,
}
