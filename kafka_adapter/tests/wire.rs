//! Produce and Fetch over a real socket keep Kafka's rules.

mod harness;

use harness::*;
use kafka_protocol::messages::fetch_request::ForgottenTopic;
use kafka_protocol::messages::*;
use std::time::{Duration, Instant};

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
async fn what_a_client_sent_before_it_left_is_still_done() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let mut leaver = broker.connect().await;
    let mut stayer = broker.connect().await;
    // A fetch that parks, and behind it a commit that nobody waits for.
    let parked = fetch_request("t", 0, 0).with_max_wait_ms(60_000);
    leaver.send(&parked, 11).await;
    let partition = offset_commit_request::OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(0)
        .with_committed_metadata(Some("left".into()));
    let of_topic = offset_commit_request::OffsetCommitRequestTopic::default()
        .with_name(topic("t"))
        .with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(GroupId("g".into()))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![of_topic]);
    leaver.send(&commit, 8).await;
    drop(leaver);
    let groups = DescribeGroupsRequest::default()
        .with_groups(vec![GroupId("g".into())])
        .with_include_authorized_operations(true);
    let begun = Instant::now();
    loop {
        let seen = stayer.call(&groups, 5).await.groups.remove(0);
        if &*seen.group_state == "Empty" {
            // READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS.
            assert_eq!(seen.authorized_operations, 0xd48);
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
