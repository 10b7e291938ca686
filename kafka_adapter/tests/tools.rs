//! What command line tools and UIs ask beyond the clients' own requests.

mod harness;

use harness::*;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn log_dirs_tell_the_bytes_of_each_partition() {
    let broker = Broker::start().await;
    broker.create_topic("t", 2, &[]).await;
    let mut client = broker.connect().await;
    let records = batch(&[&[7; 10_000]], 1, PLAIN, 0);
    for _ in 0..3 {
        assert_eq!(
            produce(&mut client, "t", records.clone()).await.error_code,
            0
        );
    }
    let all = DescribeLogDirsRequest::default().with_topics(None);
    let answer = client.call(&all, 4).await;
    assert_eq!((answer.error_code, answer.results.len()), (0, 1));
    let dir = &answer.results[0];
    assert!(dir.log_dir.starts_with('/') && dir.error_code == 0);
    assert!(dir.usable_bytes > 0 && dir.usable_bytes <= dir.total_bytes);
    assert!(
        dir.topics
            .iter()
            .any(|found| found.name == topic("__consumer_offsets"))
    );
    let found = dir.topics.iter().find(|found| found.name == topic("t"));
    let sizes: Vec<_> = found
        .unwrap()
        .partitions
        .iter()
        .map(|p| p.partition_size)
        .collect();
    let sent = i64::try_from(records.len()).unwrap() * 3;
    assert!(
        (sent..sent + 1000).contains(&sizes[0]),
        "{sizes:?}, {sent} were sent"
    );
    assert_eq!(sizes[1], 0);
    // Named ones only; what is not there is left out.
    let asked = |name: &str, partitions: Vec<i32>| {
        describe_log_dirs_request::DescribableLogDirTopic::default()
            .with_topic(topic(name))
            .with_partitions(partitions)
    };
    let some = vec![asked("t", vec![1, 1, 9, -1]), asked("nobody", vec![0])];
    let answer = client.call(&all.with_topics(Some(some)), 1).await;
    let topics = &answer.results[0].topics;
    assert_eq!((topics.len(), topics[0].partitions.len()), (1, 1));
    assert_eq!(topics[0].partitions[0].partition_index, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_are_described_page_by_page() {
    let broker = Broker::start().await;
    for (name, partitions) in [("b", 3), ("a", 2), ("c", 1)] {
        broker.create_topic(name, partitions, &[]).await;
    }
    let mut client = broker.connect().await;
    let named = |names: &[&str]| {
        let topics = names
            .iter()
            .map(|name| TopicRequest::default().with_name(topic(name)));
        DescribeTopicPartitionsRequest::default()
            .with_topics(topics.collect())
            .with_response_partition_limit(2)
    };
    let mut seen = Vec::new();
    let mut pages = 0;
    let mut request = named(&["c", "b", "nobody", "a", "b"]);
    loop {
        let answer = client.call(&request, 0).await;
        pages += 1;
        for found in &answer.topics {
            let name = found.name.as_ref().unwrap().to_string();
            assert_eq!(found.error_code, if name == "nobody" { 3 } else { 0 });
            assert_eq!(found.topic_id.is_nil(), name == "nobody");
            for partition in &found.partitions {
                assert_eq!((*partition.leader_id, partition.isr_nodes.len()), (1, 1));
                seen.push(format!("{name}{}", partition.partition_index));
            }
        }
        let Some(next) = answer.next_cursor else {
            break;
        };
        request.cursor = Some(
            Cursor::default()
                .with_topic_name(next.topic_name)
                .with_partition_index(next.partition_index),
        );
    }
    assert_eq!(seen, ["a0", "a1", "b0", "b1", "b2", "c0"]);
    assert_eq!(pages, 4);
    // No names: all topics, internal ones too.
    let all = DescribeTopicPartitionsRequest::default();
    let answer = client.call(&all, 0).await;
    let internal = answer
        .topics
        .iter()
        .find(|found| found.is_internal)
        .unwrap();
    assert_eq!(internal.partitions.len(), 50);
    assert!(answer.next_cursor.is_none());
    // A cursor below 0 is nobody's.
    let request = named(&["a"]).with_cursor(Some(Cursor::default().with_partition_index(-1)));
    assert_eq!(client.call(&request, 0).await.topics[0].error_code, 42);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_stay_and_nothing_is_reassigned() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut client = broker.connect().await;
    let asked = elect_leaders_request::TopicPartitions::default()
        .with_topic(topic("t"))
        .with_partitions(vec![0, 1]);
    let some = ElectLeadersRequest::default().with_topic_partitions(Some(vec![asked]));
    let answer = client.call(&some, 2).await;
    let results = &answer.replica_election_results[0].partition_result;
    let codes: Vec<_> = results.iter().map(|result| result.error_code).collect();
    assert_eq!((answer.error_code, codes), (0, vec![84, 3]));
    let all = ElectLeadersRequest::default().with_topic_partitions(None);
    assert!(
        client
            .call(&all, 2)
            .await
            .replica_election_results
            .is_empty()
    );
    let moves = ListPartitionReassignmentsRequest::default().with_topics(None);
    let answer = client.call(&moves, 0).await;
    assert_eq!((answer.error_code, answer.topics.len()), (0, 0));
}
