//! DescribeTopicPartitions v0 (KIP-966): topics in name order, page by page.

use crate::error::Close;
use crate::serve::Front;
use crate::topology::{self, TOPIC_OPERATIONS};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    BrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName,
};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeSet;

/// Most partitions of one answer: Kafka's default of `max.request.partition.size.limit`.
const PARTITIONS_MAX: usize = 2000;

pub(crate) async fn handle(
    front: &Front,
    request: DescribeTopicPartitionsRequest,
) -> Result<DescribeTopicPartitionsResponse, Close> {
    let mut response = DescribeTopicPartitionsResponse::default().with_next_cursor(None);
    let (from_topic, from_partition) = match &request.cursor {
        None => ("", 0),
        Some(cursor) => match usize::try_from(cursor.partition_index) {
            Ok(partition) => (&**cursor.topic_name, partition),
            Err(_) => {
                let topics = request.topics.into_iter();
                response.topics = topics
                    .map(|topic| failed(&topic.name, ResponseError::InvalidRequest))
                    .collect();
                return Ok(response);
            }
        },
    };
    let names: BTreeSet<String> = if request.topics.is_empty() {
        let all = front.core.catalog.all();
        let visible = all.iter().filter(|topic| topology::visible(topic));
        visible
            .filter_map(|topic| topic.kafka.as_deref().map(str::to_owned))
            .collect()
    } else {
        let topics = request.topics.iter();
        topics.map(|topic| topic.name.to_string()).collect()
    };
    let limit = usize::try_from(request.response_partition_limit).unwrap_or(0);
    let mut left = limit.clamp(1, PARTITIONS_MAX);
    for name in names.iter().filter(|name| name.as_str() >= from_topic) {
        if left == 0 {
            response.next_cursor = Some(cursor(name, 0));
            break;
        }
        let from = if name == from_topic {
            from_partition
        } else {
            0
        };
        let (topic, next) = describe(front, name, from, left);
        left -= topic.partitions.len();
        response.topics.push(topic);
        if let Some(next) = next {
            response.next_cursor = Some(cursor(name, next));
            break;
        }
    }
    Ok(response)
}

/// A topic's partitions from `from` on, at most `left`, and which comes next if there are more.
fn describe(
    front: &Front,
    name: &str,
    from: usize,
    left: usize,
) -> (DescribeTopicPartitionsResponseTopic, Option<usize>) {
    let Some(topic) = topology::by_name(&front.core.catalog, name) else {
        let code = if topology::legal_name(name) {
            ResponseError::UnknownTopicOrPartition
        } else {
            ResponseError::InvalidTopicException
        };
        return (failed(name, code), None);
    };
    let node = BrokerId(front.topology.node);
    let epoch = i32::try_from(front.core.consuming.reign().0).unwrap_or(i32::MAX);
    let end = topic.queues.len().min(from.saturating_add(left));
    let partitions = (from..end).map(|partition| {
        DescribeTopicPartitionsResponsePartition::default()
            .with_partition_index(i32::try_from(partition).unwrap_or(i32::MAX))
            .with_leader_id(node)
            .with_leader_epoch(epoch)
            .with_replica_nodes(vec![node])
            .with_isr_nodes(vec![node])
            .with_eligible_leader_replicas(Some(Vec::new()))
            .with_last_known_elr(Some(Vec::new()))
    });
    let described = DescribeTopicPartitionsResponseTopic::default()
        .with_name(Some(wire(name)))
        .with_topic_id(topic.id)
        .with_is_internal(topology::internal(&topic))
        .with_partitions(partitions.collect())
        .with_topic_authorized_operations(TOPIC_OPERATIONS);
    (described, (end < topic.queues.len()).then_some(end))
}

fn failed(name: &str, code: ResponseError) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic::default()
        .with_error_code(code.code())
        .with_name(Some(wire(name)))
}

fn cursor(name: &str, partition: usize) -> Cursor {
    Cursor::default()
        .with_topic_name(wire(name))
        .with_partition_index(i32::try_from(partition).unwrap_or(i32::MAX))
}

fn wire(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}
