//! Large groups over a real socket.

mod harness;

use harness::*;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::*;
use twinmq_kafka::KafkaConfig;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_leader_of_a_full_group_can_bring_its_assignment() {
    let broker = Broker::start().await;
    let mut client = broker.connect().await;
    let parts = (0..KafkaConfig::default().group.max_size).map(|place| {
        SyncGroupRequestAssignment::default()
            .with_member_id(format!("consumer-flights-{place:05}-{}", "0".repeat(36)).into())
            .with_assignment(vec![0; 200].into())
    });
    let request = SyncGroupRequest::default()
        .with_group_id(GroupId("crowd".into()))
        .with_generation_id(1)
        .with_assignments(parts.collect());
    let answer = client.call(&request, 5).await;
    assert_eq!(answer.error_code, 25, "answered, though nobody is known");
}
