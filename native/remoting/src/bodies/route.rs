//! Routes (105), RocketMQ's `TopicRouteData`. Clients older than V4_9_4 get it in the dialect (Go cuts
//! `brokerAddrs` by hand: bare keys, no white space), newer ones as standard JSON.

use super::{boolean, number, or_default, text};
use crate::json;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The first version (V4_9_4) that is sent standard JSON.
const STANDARD_SINCE: i32 = 401;

/// The addresses of a broker's members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// By broker id; 0 is the master.
    #[serde(deserialize_with = "or_default")]
    pub broker_addrs: BTreeMap<i64, String>,
    /// Its name.
    #[serde(deserialize_with = "text")]
    pub broker_name: String,
    /// Its cluster.
    #[serde(deserialize_with = "text")]
    pub cluster: String,
    /// Whether a replica may stand in for the master.
    #[serde(deserialize_with = "boolean")]
    pub enable_acting_master: bool,
    /// Its zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_name: Option<String>,
}

/// A topic's queues on one broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// The broker.
    #[serde(deserialize_with = "text")]
    pub broker_name: String,
    /// Bits: 4 read, 2 write.
    #[serde(deserialize_with = "number")]
    pub perm: i32,
    /// Queues that can be read.
    #[serde(deserialize_with = "number")]
    pub read_queue_nums: i32,
    /// Bits: 1 unit, 2 unit of subscriptions. Older brokers write `topicSynFlag`.
    #[serde(deserialize_with = "number", alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues that can be written.
    #[serde(deserialize_with = "number")]
    pub write_queue_nums: i32,
}

/// Where a topic is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// The brokers; every one that `queue_datas` names is there.
    #[serde(deserialize_with = "or_default")]
    pub broker_datas: Vec<BrokerData>,
    /// Historic.
    #[serde(deserialize_with = "or_default")]
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// Replaces the computation of queues when it is set: `broker-a:4;broker-b:4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_topic_conf: Option<String>,
    /// Queues per broker.
    #[serde(deserialize_with = "or_default")]
    pub queue_datas: Vec<QueueData>,
}

impl TopicRouteData {
    /// The body for an asker of this version.
    #[must_use]
    pub fn body(&self, version: i32, standard_only: bool) -> Bytes {
        if standard_only || version >= STANDARD_SINCE {
            json::write_standard(self)
        } else {
            json::write(self)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route() -> TopicRouteData {
        TopicRouteData {
            broker_datas: vec![BrokerData {
                broker_addrs: [
                    (0, "10.0.0.1:10911".to_owned()),
                    (1, "[::1]:10911".to_owned()),
                ]
                .into(),
                broker_name: "broker-a".into(),
                cluster: "DefaultCluster".into(),
                ..BrokerData::default()
            }],
            queue_datas: vec![QueueData {
                broker_name: "broker-a".into(),
                perm: 6,
                read_queue_nums: 4,
                topic_sys_flag: 0,
                write_queue_nums: 4,
            }],
            ..TopicRouteData::default()
        }
    }

    #[test]
    fn both_forms_are_exactly_what_clients_parse() {
        let old = r#"{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"[::1]:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#;
        let new = old.replace("{0:", "{\"0\":").replace(",1:", ",\"1\":");
        assert_eq!(&route().body(400, false)[..], old.as_bytes());
        assert_eq!(&route().body(317, true)[..], new.as_bytes());
        assert_eq!(&route().body(401, false)[..], new.as_bytes());
        for form in [old, &new] {
            assert_eq!(
                json::read::<TopicRouteData>(form.as_bytes()).unwrap(),
                route()
            );
        }
    }
}
