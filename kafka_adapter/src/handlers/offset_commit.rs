//! OffsetCommit v2-v9: progress of a member, or of a plain consumer or tool where the group is empty.
//!
//! An answered commit is readable in the log. Offsets are stored as given, negative ones too, as
//! Kafka does. Not here: topic ids (v10), transactional commits, the newer group protocol's epochs.

use crate::error::{Close, Refusal};
use crate::group::Coordinator;
use crate::handlers::text;
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::offset_commit_request::OffsetCommitRequestPartition;
use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{OffsetCommitRequest, OffsetCommitResponse};
use std::sync::Arc;
use twinmq_core::Core;
use twinmq_core::catalog::Topic;
use twinmq_core::offsets::Committed;
use twinmq_store::Timestamp;

/// What a commit is stored with.
struct Stamp {
    now: Timestamp,
    expires: Option<Timestamp>,
    metadata_bytes_max: usize,
}

pub(crate) async fn handle(
    core: &Core,
    coordinator: &Coordinator,
    metadata_bytes_max: usize,
    now: Timestamp,
    request: OffsetCommitRequest,
    version: i16,
) -> Result<OffsetCommitResponse, Close> {
    let missing = if version >= 9 {
        ResponseError::GroupIdNotFound
    } else {
        ResponseError::IllegalGeneration
    };
    let allowed = || {
        coordinator.may_commit(
            &request.group_id,
            &request.member_id,
            request.group_instance_id.as_deref(),
            request.generation_id_or_member_epoch,
            missing,
        )
    };
    let refused = allowed();
    let retention = request.retention_time_ms;
    let stamp = Stamp {
        now,
        expires: (retention >= 0).then(|| Timestamp(now.0.saturating_add(retention))),
        metadata_bytes_max,
    };
    let mut entries: Vec<(Arc<Topic>, u32, Committed)> = Vec::new();
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in &request.topics {
        let topic = topology::by_name(&core.catalog, &asked.name);
        let partitions = asked.partitions.iter().map(|partition| {
            let result = entry(topic.as_ref(), partition, &stamp).and_then(|entry| {
                refused?;
                entries.push(entry);
                Ok(())
            });
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(result.err().map_or(0, |code| code.code()))
        });
        let partitions = partitions.collect();
        topics.push(
            OffsetCommitResponseTopic::default()
                .with_name(asked.name.clone())
                .with_partitions(partitions),
        );
    }
    if !entries.is_empty() {
        let group = text::owned(&request.group_id);
        // Asked again at the append: a rebalance that ends in between hands the partitions to others,
        // whose progress a late commit would turn back.
        match core.offsets.commit_if(&group, &entries, allowed).await {
            Ok(Ok(())) => {}
            Ok(Err(code)) => fail_rest(&mut topics, code),
            Err(error) => {
                tracing::warn!(%group, %error, "offsets were not committed");
                fail_rest(&mut topics, Refusal::from(&error).code);
            }
        }
    }
    Ok(OffsetCommitResponse::default().with_topics(topics))
}

fn entry(
    topic: Option<&Arc<Topic>>,
    partition: &OffsetCommitRequestPartition,
    stamp: &Stamp,
) -> Result<(Arc<Topic>, u32, Committed), ResponseError> {
    let unknown = ResponseError::UnknownTopicOrPartition;
    let topic = topic.ok_or(unknown)?;
    let queue = topology::ordinal(topic, partition.partition_index).ok_or(unknown)?;
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.len() > stamp.metadata_bytes_max {
        return Err(ResponseError::OffsetMetadataTooLarge);
    }
    let committed = Committed {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: metadata.to_owned(),
        commit_time: stamp.now,
        expires: stamp.expires,
    };
    Ok((Arc::clone(topic), queue, committed))
}

/// Nothing was stored: what was not refused before has failed.
fn fail_rest(topics: &mut [OffsetCommitResponseTopic], code: ResponseError) {
    let partitions = topics.iter_mut().flat_map(|topic| &mut topic.partitions);
    for partition in partitions.filter(|partition| partition.error_code == 0) {
        partition.error_code = code.code();
    }
}
