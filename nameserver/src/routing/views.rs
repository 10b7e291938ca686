//! What the table says: routes, clusters, lists.

use super::Table;
use std::collections::BTreeMap;
use twinmq_remoting::bodies::cluster::{BrokerMembers, ClusterInfo};
use twinmq_remoting::bodies::route::{BrokerData, QueueData, TopicRouteData};

/// `topicSysFlag`: the topic belongs to a unit.
const UNIT: i32 = 1;
/// `topicSysFlag`: its subscriptions do.
const UNIT_SUB: i32 = 2;

impl Table {
    /// Where a topic is; `None` when nobody has it.
    #[must_use]
    pub fn route(&self, topic: &str) -> Option<TopicRouteData> {
        let queues = self.topics.get(topic)?;
        let with_broker = queues
            .iter()
            .filter(|(name, _)| self.brokers.contains_key(*name));
        let queue_datas: Vec<QueueData> = with_broker.map(|(_, queues)| queues.clone()).collect();
        let broker_datas: Vec<BrokerData> = queue_datas
            .iter()
            .filter_map(|queues| self.brokers.get(&queues.broker_name))
            .cloned()
            .collect();
        if broker_datas.is_empty() {
            return None;
        }
        Some(TopicRouteData {
            broker_datas,
            queue_datas,
            ..TopicRouteData::default()
        })
    }

    /// All brokers and clusters.
    #[must_use]
    pub fn clusters(&self) -> ClusterInfo {
        ClusterInfo {
            broker_addr_table: self.brokers.clone(),
            cluster_addr_table: self.clusters.clone(),
        }
    }

    /// The members of one broker.
    #[must_use]
    pub fn members(&self, cluster: &str, name: &str) -> BrokerMembers {
        let broker = self
            .brokers
            .get(name)
            .filter(|broker| broker.cluster == cluster);
        BrokerMembers {
            broker_addrs: broker
                .map(|broker| broker.broker_addrs.clone())
                .unwrap_or_default(),
            broker_name: name.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// What brokers say of themselves beyond RocketMQ: name, id, address and their extra texts.
    pub fn extras(&self) -> impl Iterator<Item = (&str, i64, &str, &BTreeMap<String, String>)> {
        self.live
            .iter()
            .map(|(member, live)| (&live.name[..], live.id, &member.addr[..], &live.extra))
    }

    /// Names of all topics.
    pub fn topics(&self) -> impl Iterator<Item = &str> {
        self.topics.keys().map(String::as_str)
    }

    /// Names of the topics that a broker of the cluster has.
    pub fn topics_of(&self, cluster: &str) -> impl Iterator<Item = &str> {
        let names = self.clusters.get(cluster);
        self.topics
            .iter()
            .filter(move |(_, brokers)| {
                names.is_some_and(|names| brokers.keys().any(|name| names.contains(name)))
            })
            .map(|(topic, _)| topic.as_str())
    }

    /// Names of unit topics: by whether they are, and whether their subscriptions are; `None`: either.
    pub fn unit_topics(&self, unit: Option<bool>, sub: Option<bool>) -> impl Iterator<Item = &str> {
        let has = |flag: i32, bit: i32, wanted: Option<bool>| {
            wanted.is_none_or(|wanted| (flag & bit != 0) == wanted)
        };
        self.topics
            .iter()
            .filter(move |(_, brokers)| {
                let flag = brokers
                    .values()
                    .next()
                    .map_or(0, |queues| queues.topic_sys_flag);
                has(flag, UNIT, unit) && has(flag, UNIT_SUB, sub)
            })
            .map(|(topic, _)| topic.as_str())
    }

    /// How many broker names are in.
    #[must_use]
    pub fn broker_count(&self) -> usize {
        self.brokers.len()
    }

    /// How many topics somebody has.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.topics.len()
    }
}
