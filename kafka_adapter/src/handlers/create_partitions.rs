//! CreatePartitions v0-v3: more partitions for a topic; there are never fewer.

use super::create_topics::{NEW_PARTITIONS_MAX, repeated};
use crate::error::{Close, Refusal};
use crate::topology::{self, Topology};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{BrokerId, CreatePartitionsRequest, CreatePartitionsResponse};
use kafka_protocol::protocol::StrBytes;
use std::collections::HashSet;
use twinmq_core::catalog::{Catalog, TopicChange};

pub(crate) async fn handle(
    catalog: &Catalog,
    topology: &Topology,
    request: CreatePartitionsRequest,
) -> Result<CreatePartitionsResponse, Close> {
    let twice = repeated(request.topics.iter().map(|topic| &**topic.name));
    let mut answered = HashSet::new();
    let mut room = NEW_PARTITIONS_MAX;
    let mut results = Vec::with_capacity(request.topics.len());
    for asked in &request.topics {
        let mut result = CreatePartitionsTopicResult::default().with_name(asked.name.clone());
        let outcome = if twice.contains(&**asked.name) {
            if !answered.insert(asked.name.clone()) {
                continue;
            }
            Err(Refusal::new(
                ResponseError::InvalidRequest,
                "the topic is named twice",
            ))
        } else {
            grow(catalog, topology, asked, request.validate_only, &mut room).await
        };
        if let Err(refusal) = outcome {
            result.error_code = refusal.code.code();
            result.error_message = Some(StrBytes::from_string(refusal.message));
        }
        results.push(result);
    }
    Ok(CreatePartitionsResponse::default().with_results(results))
}

async fn grow(
    catalog: &Catalog,
    topology: &Topology,
    asked: &CreatePartitionsTopic,
    validate_only: bool,
    room: &mut u64,
) -> Result<(), Refusal> {
    let topic = topology::by_name(catalog, &asked.name)
        .ok_or_else(|| Refusal::new(ResponseError::UnknownTopicOrPartition, "no such topic"))?;
    if topology::internal(&topic) {
        return Err(Refusal::new(
            ResponseError::InvalidTopicException,
            "internal topics keep their partitions",
        ));
    }
    let have = topic.queues.len();
    let count = u32::try_from(asked.count).unwrap_or(0);
    let more = (count as usize).saturating_sub(have);
    if more == 0 {
        return Err(Refusal::new(
            ResponseError::InvalidPartitions,
            format!(
                "the topic has {have} partitions already; {} is not more",
                asked.count
            ),
        ));
    }
    *room = room.checked_sub(more as u64).ok_or_else(|| {
        Refusal::new(
            ResponseError::PolicyViolation,
            format!("more than {NEW_PARTITIONS_MAX} new partitions in one request"),
        )
    })?;
    if let Some(assignments) = &asked.assignments {
        let here = |ids: &Vec<BrokerId>| *ids == [BrokerId(topology.node)];
        if assignments.len() != more || !assignments.iter().all(|one| here(&one.broker_ids)) {
            return Err(Refusal::new(
                ResponseError::InvalidReplicaAssignment,
                format!(
                    "{more} assignments to broker {} are expected",
                    topology.node
                ),
            ));
        }
    }
    if validate_only {
        return Ok(());
    }
    let change = TopicChange {
        read_queues: Some(count),
        write_queues: Some(count),
        ..TopicChange::default()
    };
    catalog
        .change(topic.key(), change)
        .await
        .map_err(|error| Refusal::from(&error))?;
    Ok(())
}
