//! Requests that several tests send.

use super::{Broker, Client};
use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName(name.to_owned().into())
}

pub(crate) fn produce_request(
    name: &str,
    partition: i32,
    records: Bytes,
    acks: i16,
) -> ProduceRequest {
    let partition = PartitionProduceData::default()
        .with_index(partition)
        .with_records(Some(records));
    let topic = TopicProduceData::default()
        .with_name(topic(name))
        .with_partition_data(vec![partition]);
    ProduceRequest::default()
        .with_acks(acks)
        .with_timeout_ms(5000)
        .with_topic_data(vec![topic])
}

pub(crate) async fn produce(
    client: &mut Client,
    name: &str,
    records: Bytes,
) -> PartitionProduceResponse {
    let response = client.call(&produce_request(name, 0, records, -1), 8).await;
    response.responses[0].partition_responses[0].clone()
}

pub(crate) fn fetch_request(name: &str, partition: i32, offset: i64) -> FetchRequest {
    let partition = FetchPartition::default()
        .with_partition(partition)
        .with_fetch_offset(offset)
        .with_partition_max_bytes(1 << 20);
    let topic = FetchTopic::default()
        .with_topic(topic(name))
        .with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(0)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_topics(vec![topic])
}

pub(crate) async fn fetch(client: &mut Client, name: &str, offset: i64) -> PartitionData {
    let response = client.call(&fetch_request(name, 0, offset), 11).await;
    response.responses[0].partitions[0].clone()
}

pub(crate) async fn versions(broker: &Broker) -> Vec<(i16, i16, i16)> {
    let response = broker
        .connect()
        .await
        .call(&ApiVersionsRequest::default(), 0)
        .await;
    response
        .api_keys
        .iter()
        .map(|api| (api.api_key, api.min_version, api.max_version))
        .collect()
}

pub(crate) fn list_offsets_request(name: &str, time: i64) -> ListOffsetsRequest {
    let partition = ListOffsetsPartition::default()
        .with_partition_index(0)
        .with_timestamp(time);
    let topic = ListOffsetsTopic::default()
        .with_name(topic(name))
        .with_partitions(vec![partition]);
    ListOffsetsRequest::default()
        .with_replica_id(BrokerId(-1))
        .with_topics(vec![topic])
}
