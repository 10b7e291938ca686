//! OffsetFetch v1-v9: committed progress of one group (to v7) or several (from v8), of named
//! partitions or of all. Without a commit the offset is -1 and there is no error.
//!
//! Not here: topic ids (v10). `require_stable` finds nothing unstable, as transactions do not exist.

use crate::error::Close;
use crate::handlers::text;
use crate::topology;
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{OffsetFetchRequest, OffsetFetchResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;
use std::sync::Arc;
use twinmq_core::Core;
use twinmq_core::offsets::Committed;

/// Progress in one partition; `None` without a commit.
type Progress = (i32, Option<Committed>);

pub(crate) async fn handle(
    core: &Core,
    request: OffsetFetchRequest,
    version: i16,
) -> Result<OffsetFetchResponse, Close> {
    if version >= 8 {
        let groups = request.groups.into_iter().map(|group| {
            let asked = group.topics.map(|topics| {
                let topics = topics.into_iter();
                topics
                    .map(|topic| (topic.name, topic.partition_indexes))
                    .collect()
            });
            let topics = progress(core, &group.group_id, asked);
            OffsetFetchResponseGroup::default()
                .with_group_id(group.group_id)
                .with_topics(topics.into_iter().map(several).collect())
        });
        return Ok(OffsetFetchResponse::default().with_groups(groups.collect()));
    }
    let asked = request.topics.map(|topics| {
        let topics = topics.into_iter();
        topics
            .map(|topic| (topic.name, topic.partition_indexes))
            .collect()
    });
    // Null means all from v2 on; v1 has no null.
    let topics = progress(core, &request.group_id, asked).into_iter();
    let topics = topics.map(|topic| single(topic, version)).collect();
    Ok(OffsetFetchResponse::default().with_topics(topics))
}

/// What was asked for of one group, by topic.
fn progress(
    core: &Core,
    group: &str,
    asked: Option<Vec<(TopicName, Vec<i32>)>>,
) -> Vec<(TopicName, Vec<Progress>)> {
    let Some(asked) = asked else {
        return everything(core, group);
    };
    let topics = asked.into_iter().map(|(name, partitions)| {
        let topic = topology::by_name(&core.catalog, &name);
        let partitions = partitions.into_iter().map(|partition| {
            let committed = topic.as_ref().and_then(|topic| {
                let queue = topology::ordinal(topic, partition)?;
                core.offsets.get(group, topic, queue)
            });
            (partition, committed)
        });
        (name, partitions.collect())
    });
    topics.collect()
}

fn everything(core: &Core, group: &str) -> Vec<(TopicName, Vec<Progress>)> {
    let mut topics: BTreeMap<Arc<str>, Vec<Progress>> = BTreeMap::new();
    for (key, queue, committed) in core.offsets.of_group(group) {
        let visible = core
            .catalog
            .by_key(&key)
            .filter(|topic| topology::visible(topic));
        let name = visible.and_then(|topic| topic.kafka.clone());
        if let (Some(name), Ok(partition)) = (name, i32::try_from(queue)) {
            topics
                .entry(name)
                .or_default()
                .push((partition, Some(committed)));
        }
    }
    let named = topics
        .into_iter()
        .map(|(name, progress)| (TopicName(text::wire(&name)), progress));
    named.collect()
}

fn several((name, progress): (TopicName, Vec<Progress>)) -> OffsetFetchResponseTopics {
    let partitions = progress.into_iter().map(|(partition, committed)| {
        let (offset, epoch, metadata) = parts(committed);
        OffsetFetchResponsePartitions::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(epoch)
            .with_metadata(Some(metadata))
    });
    OffsetFetchResponseTopics::default()
        .with_name(name)
        .with_partitions(partitions.collect())
}

fn single((name, progress): (TopicName, Vec<Progress>), version: i16) -> OffsetFetchResponseTopic {
    let partitions = progress.into_iter().map(|(partition, committed)| {
        let (offset, epoch, metadata) = parts(committed);
        OffsetFetchResponsePartition::default()
            .with_partition_index(partition)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(if version >= 5 { epoch } else { -1 })
            .with_metadata(Some(metadata))
    });
    OffsetFetchResponseTopic::default()
        .with_name(name)
        .with_partitions(partitions.collect())
}

fn parts(committed: Option<Committed>) -> (i64, i32, StrBytes) {
    match committed {
        Some(committed) => (
            committed.offset,
            committed.leader_epoch,
            StrBytes::from_string(committed.metadata),
        ),
        None => (-1, -1, StrBytes::from_static_str("")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BytesMut;
    use kafka_protocol::messages::GroupId;
    use kafka_protocol::protocol::Encodable;
    use twinmq_store::Timestamp;

    #[test]
    fn every_version_can_carry_progress() {
        let committed = Committed {
            offset: 7,
            leader_epoch: 3,
            metadata: "m".to_owned(),
            commit_time: Timestamp(1),
            expires: None,
        };
        let progress = vec![(2, Some(committed)), (3, None)];
        for version in 1..=9 {
            let name = TopicName(StrBytes::from_static_str("t"));
            let answer = if version >= 8 {
                let group = OffsetFetchResponseGroup::default()
                    .with_group_id(GroupId(StrBytes::from_static_str("g")))
                    .with_topics(vec![several((name, progress.clone()))]);
                OffsetFetchResponse::default().with_groups(vec![group])
            } else {
                let topic = single((name, progress.clone()), version);
                OffsetFetchResponse::default().with_topics(vec![topic])
            };
            answer.encode(&mut BytesMut::new(), version).unwrap();
        }
    }
}
