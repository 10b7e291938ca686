//! How this node, its listeners and its topics look to a Kafka client.

use crate::config::split_host_port;
use kafka_protocol::ResponseError;
use kafka_protocol::protocol::StrBytes;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use twinmq_core::catalog::{Catalog, Class, Topic};

/// One live client connection, as the handlers see it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// client.id of the request at hand; empty where the client sent none.
    pub(crate) id: Arc<str>,
    /// Where it connects from.
    pub(crate) host: SocketAddr,
    /// The broker's address as this client sees it: the listener's advertised one.
    pub(crate) endpoint: Endpoint,
}

/// A host and port to put into answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub(crate) host: StrBytes,
    pub(crate) port: i32,
}

impl Endpoint {
    /// The listener's advertised address, else the address the client connected to.
    pub(crate) fn of(advertised: Option<&str>, local: SocketAddr) -> Self {
        match advertised.and_then(split_host_port) {
            Some((host, port)) => Self {
                host: StrBytes::from_string(host),
                port: i32::from(port),
            },
            None => Self {
                host: StrBytes::from_string(canonical(local.ip()).to_string()),
                port: i32::from(local.port()),
            },
        }
    }
}

/// An IPv4 address that came in through an IPv6 socket is shown as IPv4.
pub(crate) fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// This node in the cluster's picture.
#[derive(Debug)]
pub(crate) struct Topology {
    /// Kafka's node id of this broker; also the controller's.
    pub(crate) node: i32,
    /// Kafka's cluster id.
    pub(crate) cluster: StrBytes,
    /// The broker's rack.
    pub(crate) rack: Option<StrBytes>,
}

/// Kafka topics that belong to the broker (`is_internal`).
pub(crate) fn internal(topic: &Topic) -> bool {
    topic.class == Class::Internal
}

/// Whether Kafka clients see a topic at all: it has a Kafka name and is no RocketMQ system topic.
pub(crate) fn visible(topic: &Topic) -> bool {
    topic.kafka.is_some() && topic.class != Class::System
}

/// A visible topic by name.
pub(crate) fn by_name(catalog: &Catalog, name: &str) -> Option<Arc<Topic>> {
    catalog.by_kafka(name).filter(|topic| visible(topic))
}

/// A visible topic by id.
pub(crate) fn by_id(catalog: &Catalog, id: uuid::Uuid) -> Option<Arc<Topic>> {
    if id.is_nil() {
        return None;
    }
    catalog.by_id(id).filter(|topic| visible(topic))
}

/// A visible topic by name, or Kafka's code for one that is not there.
pub(crate) fn named(catalog: &Catalog, name: &str) -> Result<Arc<Topic>, ResponseError> {
    by_name(catalog, name).ok_or(ResponseError::UnknownTopicOrPartition)
}

/// A visible topic by id, or Kafka's code for one that is not there.
pub(crate) fn identified(catalog: &Catalog, id: uuid::Uuid) -> Result<Arc<Topic>, ResponseError> {
    by_id(catalog, id).ok_or(ResponseError::UnknownTopicId)
}

/// Partition index on the wire to queue ordinal, where the topic has it.
pub(crate) fn ordinal(topic: &Topic, partition: i32) -> Option<u32> {
    let ordinal = u32::try_from(partition).ok()?;
    topic.queue(ordinal).map(|_| ordinal)
}

/// Kafka's rule for topic names: 1 to 249 of `[A-Za-z0-9._-]`, neither `.` nor `..`.
pub(crate) fn legal_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 249
        && name != "."
        && name != ".."
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// Bits of the operations that an unsecured broker allows on a topic: READ, WRITE, CREATE, DELETE,
/// ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS (`AclOperation` codes 3 to 8, 10, 11).
pub(crate) const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
/// The same for the cluster: CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS,
/// IDEMPOTENT_WRITE (5, 7 to 12).
pub(crate) const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
/// The same for a consumer group: READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS (3, 6, 8, 10,
/// 11).
pub(crate) const GROUP_OPERATIONS: i32 = 0b1101_0100_1000;

/// Kafka's codes for a request's `current_leader_epoch` (-1 skips the check).
pub(crate) fn check_epoch(claimed: i32, reign: twinmq_store::Reign) -> Result<(), ResponseError> {
    let current = i64::from(reign.0);
    match i64::from(claimed) {
        -1 => Ok(()),
        claimed if claimed < current => Err(ResponseError::FencedLeaderEpoch),
        claimed if claimed > current => Err(ResponseError::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}
