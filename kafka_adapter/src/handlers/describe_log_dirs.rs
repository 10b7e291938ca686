//! DescribeLogDirs v1-v4: the one log as one directory, with what each partition takes in it.
//!
//! Sizes are those by which `retention.bytes` judges: bytes in the log, whole stretches of it.

use crate::error::{Close, Refusal};
use crate::topology;
use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse, TopicName};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use twinmq_core::Core;
use twinmq_core::catalog::Topic;
use twinmq_core::consume::ConsumeError;

pub(crate) async fn handle(
    core: &Core,
    request: DescribeLogDirsRequest,
    version: i16,
) -> Result<DescribeLogDirsResponse, Close> {
    let (dir, room) = core.consuming.log_dir();
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let mut result = DescribeLogDirsResult::default()
        .with_log_dir(StrBytes::from_string(dir.to_string_lossy().into_owned()));
    match topics(core, request).await {
        Ok(topics) => result.topics = topics,
        Err(error) => {
            tracing::warn!(%error, "the sizes of partitions cannot be told");
            result.error_code = Refusal::from(&error).code.code();
        }
    }
    if let (Some((total, usable)), true) = (room, version >= 4) {
        result.total_bytes = signed(total);
        result.usable_bytes = signed(usable);
    }
    Ok(DescribeLogDirsResponse::default().with_results(vec![result]))
}

async fn topics(
    core: &Core,
    request: DescribeLogDirsRequest,
) -> Result<Vec<DescribeLogDirsTopic>, ConsumeError> {
    let mut topics = Vec::new();
    let Some(asked) = request.topics else {
        for topic in core.catalog.all() {
            if topology::visible(&topic) {
                let partitions = (0..).zip(&topic.queues).map(|(partition, _)| partition);
                topics.push(one(core, &topic, partitions).await?);
            }
        }
        return Ok(topics);
    };
    for asked in asked {
        // What is not here is left out.
        if let Some(topic) = topology::by_name(&core.catalog, &asked.topic) {
            let partitions = BTreeSet::from_iter(asked.partitions);
            topics.push(one(core, &topic, partitions.into_iter()).await?);
        }
    }
    Ok(topics)
}

async fn one(
    core: &Core,
    topic: &Arc<Topic>,
    asked: impl Iterator<Item = i32>,
) -> Result<DescribeLogDirsTopic, ConsumeError> {
    let mut partitions = Vec::new();
    for partition in asked {
        let Some(queue) = topology::ordinal(topic, partition) else {
            continue;
        };
        let bytes = core.consuming.bytes_of(topic, queue).await?;
        partitions.push(
            DescribeLogDirsPartition::default()
                .with_partition_index(partition)
                .with_partition_size(signed(bytes)),
        );
    }
    // Thousands of partitions are looked at: others get their turn in between.
    tokio::task::yield_now().await;
    let name = topic.kafka.as_deref().unwrap_or_default().to_owned();
    Ok(DescribeLogDirsTopic::default()
        .with_name(TopicName(StrBytes::from_string(name)))
        .with_partitions(partitions))
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
