//! Requests over a real socket: every advertised version is answered in its own layout, and Produce,
//! Fetch and their neighbours keep Kafka's rules.

mod harness;

use bytes::{Buf, Bytes};
use harness::{Broker, Client, PATIENCE, PLAIN, Producer, batch, batches};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic, ForgottenTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use std::time::{Duration, Instant};

fn topic(name: &str) -> TopicName {
    TopicName(name.to_owned().into())
}

fn produce_request(name: &str, partition: i32, records: Bytes, acks: i16) -> ProduceRequest {
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

async fn produce(client: &mut Client, name: &str, records: Bytes) -> PartitionProduceResponse {
    let response = client.call(&produce_request(name, 0, records, -1), 8).await;
    response.responses[0].partition_responses[0].clone()
}

fn fetch_request(name: &str, partition: i32, offset: i64) -> FetchRequest {
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

async fn fetch(client: &mut Client, name: &str, offset: i64) -> PartitionData {
    let response = client.call(&fetch_request(name, 0, offset), 11).await;
    response.responses[0].partitions[0].clone()
}

async fn versions(broker: &Broker) -> Vec<(i16, i16, i16)> {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_advertised_version_is_answered_in_its_layout() {
    let broker = Broker::start().await;
    broker.create_topic("t", 2, &[]).await;
    let mut tried = 0;
    for (key, lowest, highest) in versions(&broker).await {
        for version in lowest..=highest {
            if key == 0 && version < 3 {
                continue;
            }
            let mut client = broker.connect().await;
            macro_rules! drive {
                ($($type:ty => $request:expr),* $(,)?) => {
                    match key {
                        $(<$type as Request>::KEY => {
                            let request: $type = $request;
                            client.call(&request, version).await;
                        })*
                        other => panic!("API {other} is not driven"),
                    }
                };
            }
            let named = |name: &str| {
                if version >= 13 {
                    TopicName::default()
                } else {
                    topic(name)
                }
            };
            drive!(
                ProduceRequest => {
                    let mut request = produce_request("t", 0, batch(&[b"v"], 1, PLAIN, 0), 1);
                    request.topic_data[0].name = named("t");
                    request
                },
                FetchRequest => {
                    let mut request = fetch_request("t", 0, 0);
                    request.topics[0].topic = named("t");
                    request
                },
                ListOffsetsRequest => list_offsets_request("t", -1),
                MetadataRequest => MetadataRequest::default().with_topics(Some(vec![
                    MetadataRequestTopic::default().with_name(Some(topic("t"))),
                ])),
                ApiVersionsRequest => if version >= 3 {
                    ApiVersionsRequest::default()
                        .with_client_software_name("t".into())
                        .with_client_software_version("1".into())
                } else {
                    ApiVersionsRequest::default()
                },
                CreateTopicsRequest => CreateTopicsRequest::default().with_topics(vec![
                    create_topics_request::CreatableTopic::default()
                        .with_name(topic(&format!("created-{version}")))
                        .with_num_partitions(1)
                        .with_replication_factor(1),
                ]),
                DeleteTopicsRequest => if version >= 6 {
                    DeleteTopicsRequest::default().with_topics(vec![
                        delete_topics_request::DeleteTopicState::default()
                            .with_name(Some(topic("created-2"))),
                    ])
                } else {
                    DeleteTopicsRequest::default().with_topic_names(vec![topic("nobody")])
                },
                DeleteRecordsRequest => DeleteRecordsRequest::default().with_topics(vec![
                    delete_records_request::DeleteRecordsTopic::default()
                        .with_name(topic("t"))
                        .with_partitions(vec![
                            delete_records_request::DeleteRecordsPartition::default().with_offset(0),
                        ]),
                ]),
                OffsetForLeaderEpochRequest => OffsetForLeaderEpochRequest::default().with_topics(vec![
                    offset_for_leader_epoch_request::OffsetForLeaderTopic::default()
                        .with_topic(topic("t"))
                        .with_partitions(vec![
                            offset_for_leader_epoch_request::OffsetForLeaderPartition::default()
                                .with_leader_epoch(1),
                        ]),
                ]),
                DescribeConfigsRequest => DescribeConfigsRequest::default()
                    .with_include_synonyms(true)
                    .with_resources(vec![
                        describe_configs_request::DescribeConfigsResource::default()
                            .with_resource_type(2)
                            .with_resource_name("t".into())
                            .with_configuration_keys(None),
                        describe_configs_request::DescribeConfigsResource::default()
                            .with_resource_type(4)
                            .with_resource_name("1".into())
                            .with_configuration_keys(None),
                    ]),
                AlterConfigsRequest => AlterConfigsRequest::default().with_resources(vec![
                    alter_configs_request::AlterConfigsResource::default()
                        .with_resource_type(2)
                        .with_resource_name("t".into()),
                ]),
                IncrementalAlterConfigsRequest => IncrementalAlterConfigsRequest::default()
                    .with_resources(vec![
                        incremental_alter_configs_request::AlterConfigsResource::default()
                            .with_resource_type(2)
                            .with_resource_name("nobody".into()),
                    ]),
                CreatePartitionsRequest => CreatePartitionsRequest::default().with_topics(vec![
                    create_partitions_request::CreatePartitionsTopic::default()
                        .with_name(topic("t"))
                        .with_count(1)
                        .with_assignments(None),
                ]),
                DescribeClusterRequest => if version >= 1 {
                    DescribeClusterRequest::default().with_endpoint_type(1)
                } else {
                    DescribeClusterRequest::default()
                },
                OffsetCommitRequest => OffsetCommitRequest::default()
                    .with_group_id(GroupId("g".into()))
                    .with_generation_id_or_member_epoch(-1),
                OffsetFetchRequest => if version >= 8 {
                    OffsetFetchRequest::default().with_groups(vec![
                        offset_fetch_request::OffsetFetchRequestGroup::default()
                            .with_group_id(GroupId("g".into()))
                            .with_topics(None),
                    ])
                } else {
                    OffsetFetchRequest::default().with_group_id(GroupId("g".into())).with_topics(Some(vec![]))
                },
                FindCoordinatorRequest => if version >= 4 {
                    FindCoordinatorRequest::default().with_coordinator_keys(vec!["g".into()])
                } else {
                    FindCoordinatorRequest::default().with_key("g".into())
                },
                JoinGroupRequest => JoinGroupRequest::default()
                    .with_group_id(GroupId("".into()))
                    .with_session_timeout_ms(10_000),
                HeartbeatRequest => HeartbeatRequest::default().with_group_id(GroupId("g".into())),
                LeaveGroupRequest => LeaveGroupRequest::default().with_group_id(GroupId("g".into())),
                SyncGroupRequest => SyncGroupRequest::default().with_group_id(GroupId("g".into())),
                DescribeGroupsRequest => DescribeGroupsRequest::default()
                    .with_groups(vec![GroupId("g".into())]),
                ListGroupsRequest => ListGroupsRequest::default(),
                InitProducerIdRequest => InitProducerIdRequest::default()
                    .with_transactional_id(None)
                    .with_producer_id(ProducerId(-1))
                    .with_producer_epoch(-1)
                    .with_transaction_timeout_ms(1000),
                DeleteGroupsRequest => DeleteGroupsRequest::default()
                    .with_groups_names(vec![GroupId("nobody".into())]),
                OffsetDeleteRequest => OffsetDeleteRequest::default().with_group_id(GroupId("nobody".into())),
            );
            tried += 1;
        }
    }
    assert!(tried > 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_versions_request_of_the_future_gets_what_it_needs_to_try_again() {
    let broker = Broker::start().await;
    let mut client = broker.connect().await;
    let mut body = vec![0, 18, 0, 99, 0, 0, 0, 5, 0xff, 0xff, 0];
    body.extend_from_slice(&[2, b'x', 2, b'y', 0]);
    client.raw(&harness::prefixed(&body)).await;
    let mut answer = client.frame().await.unwrap();
    assert_eq!(answer.get_i32(), 5, "header v0");
    assert_eq!(answer.get_i16(), 35);
    assert_eq!(answer.get_i32(), 1);
    assert_eq!(
        (answer.get_i16(), answer.get_i16(), answer.get_i16()),
        (18, 0, 4)
    );
    assert!(answer.is_empty());
    // The connection goes on.
    assert_eq!(
        client
            .call(&ApiVersionsRequest::default(), 0)
            .await
            .error_code,
        0
    );
    // Produce is shown from 0 (KAFKA-18659), transactions are not shown.
    let all = versions(&broker).await;
    assert!(all.contains(&(0, 0, 13)));
    assert!(!all.iter().any(|(key, _, _)| (24..=28).contains(key)));
}

fn list_offsets_request(name: &str, time: i64) -> ListOffsetsRequest {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_produced_is_fetched_as_it_was() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let first = batch(&[b"a", b"b", b"c"], 1000, PLAIN, 0);
    let second = batch(&[&[7; 40_000]], 2000, PLAIN, 0);
    assert_eq!(
        produce(&mut client, "t", first.clone()).await.base_offset,
        0
    );
    let answer = produce(&mut client, "t", second.clone()).await;
    assert_eq!(
        (
            answer.error_code,
            answer.base_offset,
            answer.log_append_time_ms
        ),
        (0, 3, -1)
    );
    let found = fetch(&mut client, "t", 0).await;
    assert_eq!(
        (
            found.high_watermark,
            found.last_stable_offset,
            found.log_start_offset
        ),
        (4, 4, 0)
    );
    let records = found.records.unwrap();
    assert_eq!(batches(records.clone()), [(0, 3), (3, 1)]);
    // Only base offset and leader epoch differ.
    assert_eq!(records[16..first.len()], first[16..]);
    assert_eq!(records[first.len() + 16..], second[16..]);
    // In the middle of a batch: the batch that holds it. At the end: nothing. Beyond: error 1.
    assert_eq!(
        batches(fetch(&mut client, "t", 2).await.records.unwrap()),
        [(0, 3), (3, 1)]
    );
    let end = fetch(&mut client, "t", 4).await;
    assert_eq!((end.error_code, end.records.unwrap().len()), (0, 0));
    assert_eq!(fetch(&mut client, "t", 5).await.error_code, 1);
    assert_eq!(fetch(&mut client, "nobody", 0).await.error_code, 3);
    // The first batch comes however small the limits, and only it.
    let mut request = fetch_request("t", 0, 0);
    request.max_bytes = 1;
    let response = client.call(&request, 11).await;
    assert_eq!(
        batches(response.responses[0].partitions[0].records.clone().unwrap()),
        [(0, 3)]
    );
    // Times and ends.
    for (time, expected) in [
        (-1, (4, -1)),
        (-2, (0, -1)),
        (-3, (3, 2000)),
        (1001, (1, 1001)),
        (1500, (3, 2000)),
        (2001, (-1, -1)),
    ] {
        let response = client.call(&list_offsets_request("t", time), 7).await;
        let found = &response.topics[0].partitions[0];
        assert_eq!(
            (found.offset, found.timestamp, found.error_code),
            (expected.0, expected.1, 0),
            "{time}"
        );
    }
    // And after a restart.
    let broker = broker.restart().await;
    let mut client = broker.connect().await;
    let found = fetch(&mut client, "t", 0).await;
    assert_eq!(batches(found.records.unwrap()), [(0, 3), (3, 1)]);
    assert_eq!(
        produce(&mut client, "t", batch(&[b"d"], 3000, PLAIN, 0))
            .await
            .base_offset,
        4
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idempotent_producers_are_held_to_their_sequence() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(1000)
        .with_producer_id(ProducerId(-1))
        .with_producer_epoch(-1);
    let id = *client.call(&request, 4).await.producer_id;
    let with = |sequence, epoch| {
        batch(
            &[b"a", b"b"],
            1,
            Producer {
                id,
                epoch,
                sequence,
            },
            0,
        )
    };
    assert_eq!(produce(&mut client, "t", with(0, 0)).await.base_offset, 0);
    assert_eq!(produce(&mut client, "t", with(2, 0)).await.base_offset, 2);
    // Again: success, at the offset it has.
    let again = produce(&mut client, "t", with(0, 0)).await;
    assert_eq!((again.error_code, again.base_offset), (0, 0));
    assert_eq!(produce(&mut client, "t", with(8, 0)).await.error_code, 45);
    assert_eq!(produce(&mut client, "t", with(0, 1)).await.base_offset, 4);
    assert_eq!(produce(&mut client, "t", with(4, 0)).await.error_code, 47);
    let broker = broker.restart().await;
    let mut client = broker.connect().await;
    let again = produce(&mut client, "t", with(0, 1)).await;
    assert_eq!(
        (again.error_code, again.base_offset),
        (0, 4),
        "remembered over a restart"
    );
    assert_eq!(produce(&mut client, "t", with(2, 1)).await.base_offset, 6);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acks_decide_who_is_answered() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let records = || batch(&[b"v"], 1, PLAIN, 0);
    client.send(&produce_request("t", 0, records(), 0), 8).await;
    // No answer to the first: the next answer is that of the second.
    let response = client.call(&produce_request("t", 0, records(), 1), 8).await;
    assert_eq!(response.responses[0].partition_responses[0].base_offset, 1);
    let response = client.call(&produce_request("t", 0, records(), 2), 8).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, 21);
    // A failure without acks closes.
    client
        .send(&produce_request("nobody", 0, records(), 0), 8)
        .await;
    client.closed().await;
    // Transactions are refused, not mistaken.
    let mut client = broker.connect().await;
    let bits = batch(
        &[b"v"],
        1,
        Producer {
            id: 1,
            epoch: 0,
            sequence: 0,
        },
        0x10,
    );
    assert_eq!(produce(&mut client, "t", bits.clone()).await.error_code, 53);
    let request =
        produce_request("t", 0, bits, -1).with_transactional_id(Some(TransactionalId("x".into())));
    let response = client.call(&request, 8).await;
    assert_eq!(response.responses[0].partition_responses[0].error_code, 48);
    // Acks=0 just before leaving is not lost.
    client.send(&produce_request("t", 0, records(), 0), 8).await;
    drop(client);
    let begun = Instant::now();
    let mut client = broker.connect().await;
    while fetch(&mut client, "t", 0).await.high_watermark < 3 {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_leave_in_the_order_of_the_requests() {
    let broker = Broker::start().await;
    broker
        .create_topic("t", 1, &[("flush.messages", "1")])
        .await;
    broker.create_topic("u", 1, &[]).await;
    let mut client = broker.connect().await;
    let mut sent = Vec::new();
    for round in 0..20 {
        // Durable and not, with something quick in between, all in flight at once.
        let name = if round % 2 == 0 { "t" } else { "u" };
        let records = batch(&[b"v"], 1, PLAIN, 0);
        sent.push(client.send(&produce_request(name, 0, records, -1), 8).await);
        sent.push(client.send(&list_offsets_request("u", -1), 1).await);
    }
    for pair in sent.chunks(2) {
        let (correlation, response) = client.receive::<ProduceRequest>(8).await;
        assert_eq!(correlation, pair[0]);
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
        assert_eq!(client.receive::<ListOffsetsRequest>(1).await.0, pair[1]);
    }
    assert_eq!(fetch(&mut client, "t", 0).await.high_watermark, 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_parked_fetch_wakes_for_data_for_time_and_for_deletion() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut reader = broker.connect().await;
    let mut writer = broker.connect().await;
    let parked = |wait: i32, least: i32| {
        fetch_request("t", 0, 0)
            .with_max_wait_ms(wait)
            .with_min_bytes(least)
    };
    let begun = Instant::now();
    let empty = reader.call(&parked(200, 1), 11).await;
    assert!(
        (200..2000).contains(&begun.elapsed().as_millis()),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(
        empty.responses[0].partitions[0]
            .records
            .as_ref()
            .unwrap()
            .len(),
        0
    );
    // Data.
    let begun = Instant::now();
    reader.send(&parked(20_000, 1), 11).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    produce(&mut writer, "t", batch(&[b"v"], 1, PLAIN, 0)).await;
    let (_, response) = reader.receive::<FetchRequest>(11).await;
    assert_eq!(
        batches(response.responses[0].partitions[0].records.clone().unwrap()),
        [(0, 1)]
    );
    assert!(begun.elapsed() < Duration::from_secs(5));
    // Not before there is enough.
    reader.send(&parked(20_000, 150), 11).await;
    produce(&mut writer, "t", batch(&[&[0; 100]], 1, PLAIN, 0)).await;
    let (_, response) = reader.receive::<FetchRequest>(11).await;
    assert_eq!(
        batches(response.responses[0].partitions[0].records.clone().unwrap()),
        [(0, 1), (1, 1)]
    );
    // Deletion of the topic.
    reader
        .send(&fetch_request("t", 0, 2).with_max_wait_ms(20_000), 11)
        .await;
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]);
    assert_eq!(writer.call(&request, 5).await.responses[0].error_code, 0);
    let (_, response) = reader.receive::<FetchRequest>(11).await;
    assert_eq!(response.responses[0].partitions[0].error_code, 3);
    assert!(begun.elapsed() < Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fetch_sessions_tell_only_news() {
    let broker = Broker::start().await;
    broker.create_topic("t", 2, &[]).await;
    let mut client = broker.connect().await;
    let mut request = fetch_request("t", 0, 0).with_session_epoch(0);
    let other = request.topics[0].partitions[0].clone().with_partition(1);
    request.topics[0].partitions.push(other);
    let response = client.call(&request, 11).await;
    let id = response.session_id;
    assert!(id > 0);
    assert_eq!(response.responses[0].partitions.len(), 2);
    let next = |epoch: i32| {
        FetchRequest::default()
            .with_max_wait_ms(0)
            .with_min_bytes(1)
            .with_max_bytes(1 << 20)
            .with_session_id(id)
            .with_session_epoch(epoch)
    };
    let response = client.call(&next(1), 11).await;
    assert_eq!(
        (
            response.error_code,
            response.session_id,
            response.responses.len()
        ),
        (0, id, 0)
    );
    produce(&mut client, "t", batch(&[b"v"], 1, PLAIN, 0)).await;
    let response = client.call(&next(2), 11).await;
    assert_eq!(response.responses[0].partitions.len(), 1);
    assert_eq!(
        batches(response.responses[0].partitions[0].records.clone().unwrap()),
        [(0, 1)]
    );
    // The position is the session's until the client says otherwise.
    let moved = next(3).with_topics(fetch_request("t", 0, 1).topics);
    assert_eq!(client.call(&moved, 11).await.responses.len(), 0);
    assert_eq!(client.call(&next(3), 11).await.error_code, 71);
    assert_eq!(
        client
            .call(&next(4).with_session_id(id ^ 1), 11)
            .await
            .error_code,
        70
    );
    let forget = ForgottenTopic::default()
        .with_topic(topic("t"))
        .with_partitions(vec![0, 1]);
    let response = client
        .call(&next(4).with_forgotten_topics_data(vec![forget]), 11)
        .await;
    assert_eq!((response.error_code, response.session_id), (0, 0));
    assert_eq!(client.call(&next(5), 11).await.error_code, 70);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_by_id_follow_re_creation() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let ask = MetadataRequest::default().with_topics(Some(vec![
        MetadataRequestTopic::default().with_name(Some(topic("t"))),
    ]));
    let first = client.call(&ask, 12).await;
    let id = first.topics[0].topic_id;
    assert!(!id.is_nil());
    assert_eq!(first.topics[0].partitions[0].leader_id, first.controller_id);
    assert_eq!(first.brokers[0].port, i32::from(broker.address.port()));
    let by_id = MetadataRequest::default().with_topics(Some(vec![
        MetadataRequestTopic::default()
            .with_topic_id(id)
            .with_name(None),
    ]));
    assert_eq!(
        client.call(&by_id, 12).await.topics[0].name,
        Some(topic("t"))
    );
    let mut send = produce_request("t", 0, batch(&[b"v"], 1, PLAIN, 0), -1);
    send.topic_data[0].name = TopicName::default();
    send.topic_data[0].topic_id = id;
    let mut read = fetch_request("t", 0, 0);
    read.topics[0].topic = TopicName::default();
    read.topics[0].topic_id = id;
    assert_eq!(
        client.call(&send, 13).await.responses[0].partition_responses[0].error_code,
        0
    );
    let response = client.call(&read, 13).await;
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(
        batches(response.responses[0].partitions[0].records.clone().unwrap()),
        [(0, 1)]
    );
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]);
    client.call(&request, 5).await;
    broker.create_topic("t", 1, &[]).await;
    assert_ne!(client.call(&ask, 12).await.topics[0].topic_id, id);
    assert_eq!(
        client.call(&send, 13).await.responses[0].partition_responses[0].error_code,
        100
    );
    assert_eq!(
        client.call(&read, 13).await.responses[0].partitions[0].error_code,
        100
    );
    assert_eq!(client.call(&by_id, 12).await.topics[0].error_code, 100);
    assert_eq!(fetch(&mut client, "t", 0).await.high_watermark, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn naming_a_topic_creates_it_only_where_both_sides_allow() {
    let broker = Broker::start().await;
    let mut client = broker.connect().await;
    let ask = |name: &str, allow: bool| {
        MetadataRequest::default()
            .with_allow_auto_topic_creation(allow)
            .with_topics(Some(vec![
                MetadataRequestTopic::default().with_name(Some(topic(name))),
            ]))
    };
    assert_eq!(
        client.call(&ask("x", false), 9).await.topics[0].error_code,
        3
    );
    let made = client.call(&ask("x", true), 9).await;
    assert_eq!(
        (made.topics[0].error_code, made.topics[0].partitions.len()),
        (0, 1)
    );
    assert_eq!(
        client.call(&ask("no such name!", true), 9).await.topics[0].error_code,
        17
    );
    // None asked for: brokers only. All asked for: all that Kafka sees.
    let none = MetadataRequest::default().with_topics(Some(vec![]));
    let response = client.call(&none, 9).await;
    assert_eq!((response.topics.len(), response.brokers.len()), (0, 1));
    let all = client
        .call(&MetadataRequest::default().with_topics(None), 9)
        .await;
    let names: Vec<_> = all
        .topics
        .iter()
        .map(|found| found.name.clone().unwrap().to_string())
        .collect();
    assert!(names.contains(&"x".to_owned()));
    assert!(
        !names.iter().any(|name| name.contains("TBW102")),
        "{names:?}"
    );
    let internal = all
        .topics
        .iter()
        .find(|found| **found.name.as_ref().unwrap() == *"__consumer_offsets");
    assert!(internal.is_none_or(|found| found.is_internal && found.partitions.len() == 50));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn draining_ends_parked_fetches_at_once() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    client
        .send(&fetch_request("t", 0, 0).with_max_wait_ms(60_000), 11)
        .await;
    let mut idle = broker.connect().await;
    idle.call(&ApiVersionsRequest::default(), 0).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(broker.drain().await < Duration::from_secs(2));
    client.closed().await;
    idle.closed().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_created_grown_shown_and_changed() {
    let broker = Broker::start().await;
    let mut client = broker.connect().await;
    use create_topics_request::{CreatableTopic, CreatableTopicConfig};
    let new = |name: &str| {
        CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(-1)
            .with_replication_factor(-1)
    };
    let config = |name: &'static str, value: &'static str| {
        CreatableTopicConfig::default()
            .with_name(name.into())
            .with_value(Some(value.into()))
    };
    let request = CreateTopicsRequest::default().with_topics(vec![
        new("a.b").with_configs(vec![config("cleanup.policy", "compact")]),
        new("a_b"),
        new("twice"),
        new("twice"),
        new("bad name"),
        new("none").with_num_partitions(0),
        new("many").with_num_partitions(20_000),
        new("replicas").with_replication_factor(3),
        new("setting").with_configs(vec![config("no.such.thing", "1")]),
        new("value").with_configs(vec![config("retention.ms", "soon")]),
    ]);
    let response = client.call(&request, 7).await;
    let codes: Vec<_> = response
        .topics
        .iter()
        .map(|made| (made.name.to_string(), made.error_code))
        .collect();
    let expected = [
        ("a.b", 0),
        ("a_b", 17),
        ("twice", 42),
        ("bad name", 17),
        ("none", 37),
        ("many", 44),
        ("replicas", 38),
        ("setting", 40),
        ("value", 40),
    ];
    assert_eq!(codes, expected.map(|(name, code)| (name.to_owned(), code)));
    let policy = |response: &DescribeConfigsResponse| {
        let all = &response.results[0].configs;
        let found = all
            .iter()
            .find(|entry| &*entry.name == "cleanup.policy")
            .unwrap();
        (
            found.value.as_ref().unwrap().to_string(),
            found.config_source,
            found.synonyms.len(),
        )
    };
    let show = DescribeConfigsRequest::default()
        .with_include_synonyms(true)
        .with_resources(vec![
            describe_configs_request::DescribeConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name("a.b".into())
                .with_configuration_keys(None),
        ]);
    assert_eq!(
        policy(&client.call(&show, 4).await),
        ("compact".to_owned(), 1, 2)
    );
    let alter = |operation: i8, value: &'static str| {
        use incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
        IncrementalAlterConfigsRequest::default().with_resources(vec![
            AlterConfigsResource::default()
                .with_resource_type(2)
                .with_resource_name("a.b".into())
                .with_configs(vec![
                    AlterableConfig::default()
                        .with_name("cleanup.policy".into())
                        .with_config_operation(operation)
                        .with_value(Some(value.into())),
                ]),
        ])
    };
    assert_eq!(
        client.call(&alter(2, "delete"), 1).await.responses[0].error_code,
        0
    );
    assert_eq!(policy(&client.call(&show, 4).await).0, "compact,delete");
    assert_eq!(
        client.call(&alter(3, "compact"), 1).await.responses[0].error_code,
        0
    );
    assert_eq!(policy(&client.call(&show, 4).await).0, "delete");
    assert_eq!(
        client.call(&alter(1, ""), 1).await.responses[0].error_code,
        0
    );
    assert_eq!(
        policy(&client.call(&show, 4).await),
        ("delete".to_owned(), 5, 1)
    );
    assert_eq!(
        client.call(&alter(0, "nonsense"), 1).await.responses[0].error_code,
        40
    );
    // More partitions, never fewer.
    let grow = |count| {
        CreatePartitionsRequest::default().with_topics(vec![
            create_partitions_request::CreatePartitionsTopic::default()
                .with_name(topic("a.b"))
                .with_count(count)
                .with_assignments(None),
        ])
    };
    assert_eq!(client.call(&grow(3), 3).await.results[0].error_code, 0);
    assert_eq!(client.call(&grow(3), 3).await.results[0].error_code, 37);
    let ask = MetadataRequest::default().with_topics(Some(vec![
        MetadataRequestTopic::default().with_name(Some(topic("a.b"))),
    ]));
    assert_eq!(client.call(&ask, 9).await.topics[0].partitions.len(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_records_stay_deleted() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    for _ in 0..3 {
        produce(&mut client, "t", batch(&[b"a", b"b"], 1, PLAIN, 0)).await;
    }
    let delete = |offset| {
        DeleteRecordsRequest::default().with_topics(vec![
            delete_records_request::DeleteRecordsTopic::default()
                .with_name(topic("t"))
                .with_partitions(vec![
                    delete_records_request::DeleteRecordsPartition::default().with_offset(offset),
                ]),
        ])
    };
    let result = client.call(&delete(3), 2).await.topics[0].partitions[0].clone();
    assert_eq!((result.error_code, result.low_watermark), (0, 3));
    assert_eq!(
        client.call(&delete(7), 2).await.topics[0].partitions[0].error_code,
        1
    );
    let broker = broker.restart().await;
    let mut client = broker.connect().await;
    assert_eq!(fetch(&mut client, "t", 2).await.error_code, 1);
    let found = fetch(&mut client, "t", 3).await;
    assert_eq!(found.log_start_offset, 3);
    assert_eq!(batches(found.records.unwrap()), [(2, 2), (4, 2)]);
    let result = client.call(&delete(-1), 2).await.topics[0].partitions[0].clone();
    assert_eq!(result.low_watermark, 6);
}
