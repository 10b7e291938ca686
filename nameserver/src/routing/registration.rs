//! What goes into the table and what falls out of it.

use std::collections::BTreeMap;
use std::time::Duration;
use twinmq_remoting::bodies::DataVersion;
use twinmq_remoting::bodies::topic::TopicConfig;

/// What names one member of a broker: its cluster and address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    /// The cluster.
    pub cluster: String,
    /// `host:port`.
    pub addr: String,
}

/// A registration.
#[derive(Clone, Debug, Default)]
pub struct Registration {
    /// The cluster.
    pub cluster: String,
    /// The broker's name.
    pub name: String,
    /// Its address, `host:port`.
    pub addr: String,
    /// 0 is the master.
    pub id: i64,
    /// Where its replicas reach it.
    pub ha_addr: String,
    /// Its own limit of silence.
    pub silence_max: Option<Duration>,
    /// Whether a replica may stand in for the master; `None` from brokers that do not know of it.
    pub acting_master: Option<bool>,
    /// Its zone.
    pub zone: Option<String>,
    /// The version of its topics.
    pub version: DataVersion,
    /// Its topics, all or those that changed.
    pub topics: BTreeMap<String, TopicConfig>,
    /// Whether these are all its topics, so that others of its are gone. Only TwinMQ brokers say so.
    pub whole: bool,
    /// What only TwinMQ brokers say of themselves: Kafka listeners, node id, rack.
    pub extra: BTreeMap<String, String>,
    /// The connection it came over; its end is the broker's end.
    pub channel: Option<u64>,
}

/// What a registered broker is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registered {
    /// The master's address for replicas; to a replica only.
    pub ha_addr: Option<String>,
    /// The master's address; to a replica only.
    pub master_addr: Option<String>,
}

/// Limits of the table.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Broker names at most.
    pub brokers_max: usize,
    /// Topics at most.
    pub topics_max: usize,
}

/// A member that was dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fallen {
    /// Which.
    pub member: Member,
    /// The broker's name.
    pub name: String,
    /// Its connection.
    pub channel: Option<u64>,
}
