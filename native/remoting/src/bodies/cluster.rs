//! Clusters and their brokers: GET_BROKER_CLUSTER_INFO (106), GET_BROKER_MEMBER_GROUP (901).

use super::route::BrokerData;
use super::{or_default, text};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// All clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// Brokers by name.
    #[serde(deserialize_with = "or_default")]
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Broker names by cluster.
    #[serde(deserialize_with = "or_default")]
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
}

/// The members of one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMembers {
    /// By id.
    #[serde(deserialize_with = "or_default")]
    pub broker_addrs: BTreeMap<i64, String>,
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub broker_name: String,
    /// Its cluster.
    #[serde(deserialize_with = "text")]
    pub cluster: String,
}

/// The answer to 901.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroup {
    /// The broker asked for.
    #[serde(deserialize_with = "or_default")]
    pub broker_member_group: BrokerMembers,
}
