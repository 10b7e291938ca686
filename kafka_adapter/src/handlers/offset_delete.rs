//! OffsetDelete v0: forgets progress in topics that no member of the group subscribes to.

use crate::error::{Close, Refusal};
use crate::group::Coordinator;
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{OffsetDeleteRequest, OffsetDeleteResponse};
use std::sync::Arc;
use twinmq_core::Core;
use twinmq_core::catalog::Topic;

pub(crate) async fn handle(
    core: &Core,
    coordinator: &Coordinator,
    request: OffsetDeleteRequest,
) -> Result<OffsetDeleteResponse, Close> {
    let refused =
        |code: ResponseError| OffsetDeleteResponse::default().with_error_code(code.code());
    let subscribed = match coordinator.subscribed(&request.group_id) {
        Ok(subscribed) => subscribed,
        Err(code) => return Ok(refused(code)),
    };
    let mut gone: Vec<(Arc<Topic>, u32)> = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in &request.topics {
        let topic = topology::by_name(&core.catalog, &asked.name);
        let partitions = asked.partitions.iter().map(|partition| {
            let queue = topic.as_ref().and_then(|topic| {
                let queue = topology::ordinal(topic, partition.partition_index)?;
                Some((Arc::clone(topic), queue))
            });
            let code = match queue {
                None => ResponseError::UnknownTopicOrPartition.code(),
                Some((topic, _)) if subscribed.contains(topic.key()) => {
                    ResponseError::GroupSubscribedToTopic.code()
                }
                Some(queue) => {
                    gone.push(queue);
                    0
                }
            };
            OffsetDeleteResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(code)
        });
        let partitions = partitions.collect();
        topics.push(
            OffsetDeleteResponseTopic::default()
                .with_name(asked.name.clone())
                .with_partitions(partitions),
        );
    }
    if !gone.is_empty()
        && let Err(error) = core.offsets.remove(&request.group_id, &gone).await
    {
        tracing::warn!(group = request.group_id.as_str(), %error, "offsets were not removed");
        return Ok(refused(Refusal::from(&error).code));
    }
    Ok(OffsetDeleteResponse::default().with_topics(topics))
}
