//! Every advertised version is answered in its own layout.

mod harness;

use bytes::Buf;
use harness::*;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;

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
                DescribeLogDirsRequest => DescribeLogDirsRequest::default().with_topics(None),
                ElectLeadersRequest => ElectLeadersRequest::default().with_topic_partitions(Some(vec![
                    elect_leaders_request::TopicPartitions::default()
                        .with_topic(topic("t"))
                        .with_partitions(vec![0, 9]),
                ])),
                ListPartitionReassignmentsRequest =>
                    ListPartitionReassignmentsRequest::default().with_topics(None),
                DescribeTopicPartitionsRequest => DescribeTopicPartitionsRequest::default(),
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
