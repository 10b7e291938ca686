//! DeleteRecords v0-v2: raises the first offset of partitions.

use crate::error::{Close, Refusal};
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::delete_records_request::DeleteRecordsPartition;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use twinmq_core::Core;
use twinmq_core::catalog::Topic;
use twinmq_store::QueueOffset;

pub(crate) async fn handle(
    core: &Core,
    request: DeleteRecordsRequest,
) -> Result<DeleteRecordsResponse, Close> {
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in request.topics {
        let topic = topology::by_name(&core.catalog, &asked.name);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for partition in &asked.partitions {
            let result = DeleteRecordsPartitionResult::default()
                .with_partition_index(partition.partition_index)
                .with_low_watermark(-1);
            partitions.push(match delete(core, topic.as_deref(), partition).await {
                Ok(low) => result.with_low_watermark(low),
                Err(code) => result.with_error_code(code.code()),
            });
        }
        topics.push(
            DeleteRecordsTopicResult::default()
                .with_name(asked.name)
                .with_partitions(partitions),
        );
    }
    Ok(DeleteRecordsResponse::default().with_topics(topics))
}

async fn delete(
    core: &Core,
    topic: Option<&Topic>,
    asked: &DeleteRecordsPartition,
) -> Result<i64, ResponseError> {
    let unknown = ResponseError::UnknownTopicOrPartition;
    let topic = topic.ok_or(unknown)?;
    if topology::internal(topic) {
        return Err(ResponseError::InvalidTopicException);
    }
    let queue = topology::ordinal(topic, asked.partition_index).ok_or(unknown)?;
    if topic.resolved.compact && !topic.resolved.delete {
        return Err(ResponseError::PolicyViolation);
    }
    let end = core.consuming.ends(topic, queue, false).end;
    let before = match asked.offset {
        -1 => end,
        offset => u64::try_from(offset)
            .map(QueueOffset)
            .ok()
            .filter(|offset| *offset <= end)
            .ok_or(ResponseError::OffsetOutOfRange)?,
    };
    let raised = core.catalog.delete_records(topic, queue, before).await;
    raised.map_err(|error| Refusal::from(&error).code)?;
    let first = core.consuming.ends(topic, queue, false).first;
    Ok(i64::try_from(first.0).unwrap_or(i64::MAX))
}
