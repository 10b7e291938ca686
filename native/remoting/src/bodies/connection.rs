//! Who is connected: consumers (203), producers (204, 328), subscriptions (345).

use super::heartbeat::{ConsumeFrom, ConsumeType, MessageModel, SubscriptionData};
use super::or_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One client's connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// `ip:port`.
    pub client_addr: String,
    /// Its id.
    pub client_id: String,
    /// Name of its language.
    pub language: String,
    /// Its version, an ordinal.
    pub version: i32,
}

/// GET_CONSUMER_CONNECTION_LIST (203).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnections {
    /// The members.
    #[serde(deserialize_with = "or_default")]
    pub connection_set: Vec<Connection>,
    /// Where the group starts.
    pub consume_from_where: ConsumeFrom,
    /// Push or pull.
    pub consume_type: ConsumeType,
    /// Shared or to each.
    pub message_model: MessageModel,
    /// By topic.
    #[serde(deserialize_with = "or_default")]
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// GET_PRODUCER_CONNECTION_LIST (204).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnections {
    /// The members.
    #[serde(deserialize_with = "or_default")]
    pub connection_set: Vec<Connection>,
}

/// One producer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// Its id.
    pub client_id: String,
    /// Name of its language.
    pub language: String,
    /// Its last heartbeat, in milliseconds since 1970.
    pub last_update_timestamp: i64,
    /// Its address.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// Its version, an ordinal.
    pub version: i32,
}

/// GET_ALL_PRODUCER_INFO (328).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllProducers {
    /// By group.
    #[serde(deserialize_with = "or_default")]
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

/// QUERY_SUBSCRIPTION_BY_CONSUMER (345).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionOf {
    /// The group.
    pub group: String,
    /// What it wants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<SubscriptionData>,
    /// The topic.
    pub topic: String,
}
