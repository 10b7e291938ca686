//! Kafka clients against a real process: each client produces, consumes with a group, rebalances,
//! resumes, and lives through restarts. `kcat` has a suite of its own.

use anyhow::{Result, ensure};
use std::process::ExitCode;
use twinmq_compat_tests::Node;
use twinmq_compat_tests::clients::Client;
use twinmq_compat_tests::lines::KafkaRecord;
use twinmq_compat_tests::sample;
use twinmq_compat_tests::scenarios::{self, Stop};
use twinmq_compat_tests::suite::Suite;
use twinmq_compat_tests::topic::Topic;

const ADMIN: Client = Client::KAFKA_TOOLS;
const CLIENTS: [Client; 3] = [ADMIN, Client::JavaKafka("3.9.1"), Client::PythonKafka];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for client in CLIENTS {
        let needs = [client, ADMIN];
        let mut add = |what: &str, body: fn(Client) -> Result<()>| {
            suite.add(format!("{}_{what}", client.name()), &needs, move || {
                body(client)
            });
        };
        add(
            "reads_what_it_wrote_with_a_group_nulls_empties_and_headers_too",
            round_trip,
        );
        add("reads_back_gzip", |client| compressed(client, "gzip"));
        add("reads_back_snappy", |client| compressed(client, "snappy"));
        add("reads_back_lz4", |client| compressed(client, "lz4"));
        add("reads_back_zstd", |client| compressed(client, "zstd"));
        add("sends_one_megabyte_and_is_refused_two", megabyte);
        add(
            "members_share_the_partitions_until_one_leaves",
            scenarios::rebalance::<KafkaRecord>,
        );
        add("resumes_from_its_commit", scenarios::resume::<KafkaRecord>);
        add("loses_nothing_over_sigterm_while_it_sends", |client| {
            scenarios::restart::<KafkaRecord>(client, Stop::Sigterm)
        });
        add("loses_nothing_over_kill_9_while_it_sends", |client| {
            scenarios::restart::<KafkaRecord>(client, Stop::Kill9)
        });
    }
    suite.add(
        "a_deleted_topic_is_gone_and_a_new_one_starts_at_0",
        &[ADMIN],
        delete_and_create,
    );
    suite.add(
        "a_group_is_listed_and_can_be_reset_when_empty",
        &[ADMIN],
        group_tools,
    );
    suite.run()
}

fn round_trip(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::create(&node, "round.trip", 3)?;
    let records = sample::kafka(2000, "a");
    let sent = topic.send(client, &records, &[])?;
    let read = topic.consume(client, "readers", records.len(), &[])?;
    sample::judge_kafka(&sent, &records, &read)
}

fn compressed(client: Client, codec: &str) -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::create(&node, "squeezed", 2)?;
    let records = sample::kafka(1000, codec);
    let before = node.metric("twinmq_store_appended_bytes_total")?;
    let sent = topic.send(client, &records, &[&format!("compression.type={codec}")])?;
    let taken = node.metric("twinmq_store_appended_bytes_total")? - before;
    let values = records.iter().filter_map(|record| record.value.as_ref());
    let plain: usize = values.map(Vec::len).sum();
    ensure!(
        taken < plain as u64 / 2,
        "{plain} bytes of text take {taken} in the log: not compressed"
    );
    let read = topic.consume(client, "readers", records.len(), &[])?;
    sample::judge_kafka(&sent, &records, &read)
}

fn megabyte(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::create(&node, "large", 1)?;
    let record = |bytes: usize| KafkaRecord {
        key: Some(b"big".to_vec()),
        value: Some(vec![b'x'; bytes]),
        headers: Vec::new(),
    };
    let large = [record(1_000_000)];
    let sent = topic.send(client, &large, &[])?;
    let read = topic.consume(client, "readers", 1, &[])?;
    sample::judge_kafka(&sent, &large, &read)?;
    // Above max.message.bytes the client gets its error and the topic stays as it was.
    let sent = topic.send(client, &[record(2_000_000)], &[])?;
    ensure!(sent.iter().all(Result::is_err), "2 MB went in: {sent:?}");
    Ok(())
}

fn delete_and_create() -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::create(&node, "phoenix", 2)?;
    topic.send(ADMIN, &sample::kafka(20, "g"), &[])?;
    topic.consume(ADMIN, "readers", 20, &[])?;
    ADMIN.run(&["delete", &node.kafka(), "phoenix"])?;
    let committed = ADMIN.run(&["committed", &node.kafka(), "readers"])?;
    ensure!(
        !committed.contains("phoenix"),
        "offsets outlived their topic: {committed}"
    );
    Topic::<KafkaRecord>::create(&node, "phoenix", 1)?;
    let ends = ADMIN.run(&["ends", &node.kafka(), "phoenix"])?;
    ensure!(ends.contains("0\t0\t0"), "a new topic starts at 0: {ends}");
    Ok(())
}

fn group_tools() -> Result<()> {
    let node = Node::start()?;
    let topic = Topic::create(&node, "tooled", 1)?;
    topic.send(ADMIN, &sample::kafka(30, "h"), &[])?;
    topic.consume(ADMIN, "readers", 30, &[])?;
    let groups = ADMIN.run(&["groups", &node.kafka()])?;
    ensure!(groups.contains("readers"), "groups: {groups}");
    ADMIN.run(&["commit", &node.kafka(), "readers", "tooled", "0", "10"])?;
    let again = topic.consume(ADMIN, "readers", 20, &[])?;
    ensure!(
        again.first().is_some_and(|at| at.offset == 10) && again.len() == 20,
        "{} read again",
        again.len()
    );
    Ok(())
}
