//! ElectLeaders v0-v2: every partition is led by the one broker that has it, so nothing is to be done.

use crate::error::Close;
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ElectLeadersRequest, ElectLeadersResponse};
use kafka_protocol::protocol::StrBytes;
use twinmq_core::catalog::Catalog;

/// Preferred and unclean (`ElectionType`); v0 knows the first only.
const TYPES: std::ops::RangeInclusive<i8> = 0..=1;

pub(crate) async fn handle(
    catalog: &Catalog,
    request: ElectLeadersRequest,
    version: i16,
) -> Result<ElectLeadersResponse, Close> {
    let known_type = version == 0 || TYPES.contains(&request.election_type);
    // Null: all partitions; those that need no election are left out then, which is all of them.
    let asked = request.topic_partitions.unwrap_or_default();
    let results = asked.into_iter().map(|asked| {
        let topic = topology::by_name(catalog, &asked.topic);
        let partitions = asked.partitions.iter().map(|partition| {
            let there = topic
                .as_ref()
                .and_then(|topic| topology::ordinal(topic, *partition));
            let (code, text) = match there {
                _ if !known_type => (ResponseError::InvalidRequest, "unknown election type"),
                None => (ResponseError::UnknownTopicOrPartition, "no such partition"),
                Some(_) => (ResponseError::ElectionNotNeeded, "it has its only leader"),
            };
            PartitionResult::default()
                .with_partition_id(*partition)
                .with_error_code(code.code())
                .with_error_message(Some(StrBytes::from_static_str(text)))
        });
        let partitions = partitions.collect();
        ReplicaElectionResult::default()
            .with_topic(asked.topic)
            .with_partition_result(partitions)
    });
    Ok(ElectLeadersResponse::default().with_replica_election_results(results.collect()))
}
