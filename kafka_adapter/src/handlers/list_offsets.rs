//! ListOffsets v1-v10: ends of partitions, and the first record at or after a time.

use crate::error::{Close, Refusal};
use crate::topology;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
use std::collections::HashSet;
use twinmq_core::Core;
use twinmq_core::catalog::Topic;
use twinmq_store::Timestamp;

/// The highest offset.
const LATEST: i64 = -1;
/// The lowest offset.
const EARLIEST: i64 = -2;
/// The record with the greatest timestamp (KIP-734).
const MAX_TIMESTAMP: i64 = -3;
/// The lowest offset on local disk (KIP-405); without tiers the same as EARLIEST.
const EARLIEST_LOCAL: i64 = -4;
/// The highest offset in remote storage (KIP-1005); there is none.
const LATEST_TIERED: i64 = -5;

pub(crate) async fn handle(
    core: &Core,
    request: ListOffsetsRequest,
    version: i16,
) -> Result<ListOffsetsResponse, Close> {
    let committed = request.isolation_level == 1;
    let mut repeated = HashSet::new();
    let mut seen = HashSet::new();
    for topic in &request.topics {
        for partition in &topic.partitions {
            if !seen.insert((&topic.name, partition.partition_index)) {
                repeated.insert((topic.name.clone(), partition.partition_index));
            }
        }
    }
    let mut topics = Vec::with_capacity(request.topics.len());
    for asked in &request.topics {
        let topic = topology::by_name(&core.catalog, &asked.name);
        let mut partitions = Vec::with_capacity(asked.partitions.len());
        for partition in &asked.partitions {
            let answer = ListOffsetsPartitionResponse::default()
                .with_partition_index(partition.partition_index)
                .with_offset(-1)
                .with_timestamp(-1);
            let found = if repeated.contains(&(asked.name.clone(), partition.partition_index)) {
                Err(ResponseError::InvalidRequest)
            } else {
                look_up(core, topic.as_deref(), partition, committed, version).await
            };
            partitions.push(match found {
                Ok(found) => {
                    let answer = answer.with_offset(found.offset).with_timestamp(found.time);
                    if version >= 4 {
                        answer.with_leader_epoch(found.epoch)
                    } else {
                        answer
                    }
                }
                Err(code) => answer.with_error_code(code.code()),
            });
        }
        topics.push(
            ListOffsetsTopicResponse::default()
                .with_name(asked.name.clone())
                .with_partitions(partitions),
        );
    }
    Ok(ListOffsetsResponse::default().with_topics(topics))
}

struct Found {
    offset: i64,
    time: i64,
    epoch: i32,
}

const NOTHING: Found = Found {
    offset: -1,
    time: -1,
    epoch: -1,
};

async fn look_up(
    core: &Core,
    topic: Option<&Topic>,
    asked: &ListOffsetsPartition,
    committed: bool,
    version: i16,
) -> Result<Found, ResponseError> {
    let unknown = ResponseError::UnknownTopicOrPartition;
    let topic = topic.ok_or(unknown)?;
    let queue = topology::ordinal(topic, asked.partition_index).ok_or(unknown)?;
    let reign = core.consuming.reign();
    topology::check_epoch(asked.current_leader_epoch, reign)?;
    let signed = |offset: u64| i64::try_from(offset).unwrap_or(i64::MAX);
    let epoch = |reign: u32| i32::try_from(reign).unwrap_or(i32::MAX);
    let record = |found: Option<(twinmq_store::QueueOffset, Timestamp, twinmq_store::Reign)>| {
        found.map_or(NOTHING, |(offset, time, reign)| Found {
            offset: signed(offset.0),
            time: time.0,
            epoch: epoch(reign.0),
        })
    };
    match asked.timestamp {
        LATEST => {
            let ends = core.consuming.ends(topic, queue, false);
            let end = if committed { ends.stable } else { ends.end };
            Ok(Found {
                offset: signed(end.0),
                time: -1,
                epoch: epoch(reign.0),
            })
        }
        EARLIEST => {
            let ends = core.consuming.ends(topic, queue, false);
            Ok(Found {
                offset: signed(ends.first.0),
                time: -1,
                epoch: -1,
            })
        }
        EARLIEST_LOCAL if version >= 8 => {
            let ends = core.consuming.ends(topic, queue, false);
            Ok(Found {
                offset: signed(ends.first.0),
                time: -1,
                epoch: -1,
            })
        }
        MAX_TIMESTAMP if version >= 7 => {
            let found = core.consuming.latest_record(topic, queue).await;
            found
                .map(record)
                .map_err(|error| Refusal::from(&error).code)
        }
        LATEST_TIERED if version >= 9 => Ok(NOTHING),
        time if time >= 0 => {
            let time = Timestamp(time);
            let found = core
                .consuming
                .offset_by_record_time(topic, queue, time, committed)
                .await;
            found
                .map(record)
                .map_err(|error| Refusal::from(&error).code)
        }
        _ => Err(ResponseError::UnsupportedVersion),
    }
}
