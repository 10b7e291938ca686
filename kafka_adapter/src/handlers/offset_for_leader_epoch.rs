//! OffsetForLeaderEpoch v2-v4 (KIP-320): where an epoch ends, so that a client notices a lost suffix.

use crate::error::{Close, Refusal};
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
use twinmq_core::Core;
use twinmq_core::catalog::Topic;
use twinmq_store::Reign;

pub(crate) async fn handle(
    core: &Core,
    request: OffsetForLeaderEpochRequest,
) -> Result<OffsetForLeaderEpochResponse, Close> {
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = topology::by_name(&core.catalog, &asked.topic);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for partition in asked.partitions {
            let answer = EpochEndOffset::default()
                .with_partition(partition.partition)
                .with_leader_epoch(-1)
                .with_end_offset(-1);
            partitions.push(match end(core, topic.as_deref(), &partition).await {
                Ok(Some((epoch, end))) => answer.with_leader_epoch(epoch).with_end_offset(end),
                Ok(None) => answer,
                Err(code) => answer.with_error_code(code.code()),
            });
        }
        topics.push(
            OffsetForLeaderTopicResult::default()
                .with_topic(asked.topic)
                .with_partitions(partitions),
        );
    }
    Ok(OffsetForLeaderEpochResponse::default().with_topics(topics))
}

async fn end(
    core: &Core,
    topic: Option<&Topic>,
    asked: &OffsetForLeaderPartition,
) -> Result<Option<(i32, i64)>, ResponseError> {
    let unknown = ResponseError::UnknownTopicOrPartition;
    let topic = topic.ok_or(unknown)?;
    let queue = topology::ordinal(topic, asked.partition).ok_or(unknown)?;
    topology::check_epoch(asked.current_leader_epoch, core.consuming.reign())?;
    let Ok(epoch) = u32::try_from(asked.leader_epoch) else {
        return Ok(None);
    };
    let found = core.consuming.end_of_reign(topic, queue, Reign(epoch));
    let found = found.await.map_err(|error| {
        tracing::warn!(topic = %topic.key(), queue, epoch, %error, "cannot tell where an epoch ended");
        Refusal::from(&error).code
    })?;
    Ok(found.map(|(reign, end)| {
        (
            i32::try_from(reign.0).unwrap_or(i32::MAX),
            i64::try_from(end.0).unwrap_or(i64::MAX),
        )
    }))
}
