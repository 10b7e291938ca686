//! Topics over a real socket: created, named, grown, changed, emptied, deleted.

mod harness;

use harness::*;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::*;

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
