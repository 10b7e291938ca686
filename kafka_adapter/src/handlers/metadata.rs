//! Metadata v0-v13: the broker, the topics and who leads them. Creates named topics where allowed.

use crate::error::{Close, Refusal};
use crate::serve::Front;
use crate::topology::{self, CLUSTER_OPERATIONS, Client, TOPIC_OPERATIONS};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{BrokerId, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_core::catalog::{CatalogError, NewTopic, Origin, Perm, Topic};
use uuid::Uuid;

pub(crate) async fn handle(
    front: &Front,
    request: MetadataRequest,
    version: i16,
    client: &Client,
) -> Result<MetadataResponse, Close> {
    let creates = request.allow_auto_topic_creation || version < 4;
    let all = match &request.topics {
        None => true,
        // v0 had no null.
        Some(topics) => version == 0 && topics.is_empty(),
    };
    let with_operations = request.include_topic_authorized_operations && version >= 8;
    let mut topics = Vec::new();
    if all {
        for topic in front.core.catalog.all() {
            if topology::visible(&topic) {
                topics.push(describe(front, &topic, with_operations));
            }
        }
    } else {
        for asked in request.topics.unwrap_or_default() {
            topics.push(
                one(
                    front,
                    asked.name,
                    asked.topic_id,
                    version,
                    creates,
                    with_operations,
                )
                .await,
            );
        }
    }
    let node = &front.topology;
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(node.node))
        .with_host(client.endpoint.host.clone())
        .with_port(client.endpoint.port)
        .with_rack(node.rack.clone().filter(|_| version >= 1));
    let mut response = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_topics(topics);
    if version >= 1 {
        response.controller_id = BrokerId(node.node);
    }
    if version >= 2 {
        response.cluster_id = Some(node.cluster.clone());
    }
    if request.include_cluster_authorized_operations && (8..=10).contains(&version) {
        response.cluster_authorized_operations = CLUSTER_OPERATIONS;
    }
    Ok(response)
}

async fn one(
    front: &Front,
    name: Option<TopicName>,
    id: Uuid,
    version: i16,
    creates: bool,
    with_operations: bool,
) -> MetadataResponseTopic {
    if version < 12 && (name.is_none() || !id.is_nil()) {
        return failed(
            name.or(Some(TopicName::default())),
            id,
            ResponseError::InvalidRequest,
        );
    }
    if !id.is_nil() {
        return match topology::by_id(&front.core.catalog, id) {
            Some(topic) => describe(front, &topic, with_operations),
            None => failed(None, id, ResponseError::UnknownTopicId),
        };
    }
    let Some(name) = name else {
        return failed(None, id, ResponseError::InvalidRequest);
    };
    if let Some(topic) = topology::by_name(&front.core.catalog, &name) {
        return describe(front, &topic, with_operations);
    }
    if !topology::legal_name(&name) {
        return failed(Some(name), id, ResponseError::InvalidTopicException);
    }
    if !(creates && front.defaults.auto_create_topics) {
        return failed(Some(name), id, ResponseError::UnknownTopicOrPartition);
    }
    match create(front, &name).await {
        Ok(topic) => describe(front, &topic, with_operations),
        Err(code) => failed(Some(name), id, code),
    }
}

async fn create(front: &Front, name: &str) -> Result<Arc<Topic>, ResponseError> {
    let new = NewTopic {
        name: name.to_owned(),
        origin: Origin::Kafka,
        queues: front.defaults.num_partitions,
        perm: Perm(6),
        order: false,
        sys_flag: 0,
        multi_tag: false,
        attributes: BTreeMap::new(),
        settings: BTreeMap::new(),
    };
    match front.core.catalog.create(new).await {
        Ok(topic) => {
            tracing::info!(topic = name, "created on first use by a Kafka client");
            Ok(topic)
        }
        // Somebody else was faster.
        Err(CatalogError::Exists(_)) => {
            topology::by_name(&front.core.catalog, name).ok_or(ResponseError::LeaderNotAvailable)
        }
        Err(error) => {
            tracing::warn!(topic = name, %error, "could not be created on first use");
            let refusal = Refusal::from(&error);
            // Only what a client should not try again is told as it is.
            Err(match refusal.code {
                ResponseError::InvalidTopicException | ResponseError::PolicyViolation => {
                    refusal.code
                }
                _ => ResponseError::LeaderNotAvailable,
            })
        }
    }
}

fn failed(name: Option<TopicName>, id: Uuid, error: ResponseError) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_error_code(error.code())
        .with_name(name)
        .with_topic_id(id)
}

fn describe(front: &Front, topic: &Topic, with_operations: bool) -> MetadataResponseTopic {
    let node = BrokerId(front.topology.node);
    let epoch = i32::try_from(front.core.consuming.reign().0).unwrap_or(i32::MAX);
    let partitions = (0_i32..)
        .zip(&topic.queues)
        .map(|(index, _)| {
            MetadataResponsePartition::default()
                .with_partition_index(index)
                .with_leader_id(node)
                .with_leader_epoch(epoch)
                .with_replica_nodes(vec![node])
                .with_isr_nodes(vec![node])
        })
        .collect();
    let name = topic.kafka.as_deref().unwrap_or_default();
    let mut described = MetadataResponseTopic::default()
        .with_name(Some(TopicName(StrBytes::from_string(name.to_owned()))))
        .with_topic_id(topic.id)
        .with_is_internal(topology::internal(topic))
        .with_partitions(partitions);
    if with_operations {
        described.topic_authorized_operations = TOPIC_OPERATIONS;
    }
    described
}
