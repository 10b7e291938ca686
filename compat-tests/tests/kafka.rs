//! Kafka clients against a real process: each client produces, consumes with a group, rebalances,
//! resumes, and lives through restarts.

use anyhow::{Context as _, Result, ensure};
use std::process::ExitCode;
use std::time::Duration;
use twinmq_compat_tests::Node;
use twinmq_compat_tests::clients::Client;
use twinmq_compat_tests::lines::{self, At, KafkaRecord};
use twinmq_compat_tests::sample;
use twinmq_compat_tests::suite::Suite;

const ADMIN: Client = Client::JavaKafka("4.3.1");
const CLIENTS: [Client; 3] = [
    Client::JavaKafka("4.3.1"),
    Client::JavaKafka("3.9.1"),
    Client::PythonKafka,
];

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for client in CLIENTS {
        let needs = [client, ADMIN];
        let name = client.name();
        suite.add(
            format!("{name}_reads_what_it_wrote_with_a_group"),
            &needs,
            move || round_trip(client),
        );
        for codec in ["gzip", "snappy", "lz4", "zstd"] {
            suite.add(format!("{name}_reads_back_{codec}"), &needs, move || {
                compressed(client, codec)
            });
        }
        suite.add(format!("{name}_sends_one_megabyte"), &needs, move || {
            megabyte(client)
        });
        suite.add(
            format!("{name}_members_share_the_partitions"),
            &needs,
            move || rebalance(client),
        );
        suite.add(
            format!("{name}_resumes_from_its_commit"),
            &needs,
            move || resume(client),
        );
        suite.add(
            format!("{name}_loses_nothing_over_sigterm"),
            &needs,
            move || restart(client, false),
        );
        suite.add(
            format!("{name}_loses_nothing_over_kill_9"),
            &needs,
            move || restart(client, true),
        );
    }
    suite.add("kcat_reads_what_it_wrote", &[Client::Kcat], kcat);
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

/// Produces `records` and gives back the acknowledged places.
fn produce(
    node: &Node,
    client: Client,
    topic: &str,
    records: &[KafkaRecord],
    settings: &[&str],
) -> Result<Vec<lines::Sent>> {
    let (input, sent) = (node.file("in"), node.file("sent"));
    lines::write_kafka(&input, records, |_| None)?;
    let (input, sent) = (input.display().to_string(), sent.display().to_string());
    let kafka = node.kafka();
    let mut arguments = vec!["produce", &kafka, topic, &input, &sent];
    arguments.extend(settings);
    client.run(&arguments)?;
    lines::read_sent(sent.as_ref())
}

fn consume(
    node: &Node,
    client: Client,
    topic: &str,
    group: &str,
    count: usize,
) -> Result<Vec<At<KafkaRecord>>> {
    let got = node.file(&format!("got-{group}")).display().to_string();
    client.run(&[
        "consume",
        &node.kafka(),
        topic,
        group,
        &count.to_string(),
        "60",
        &got,
    ])?;
    lines::read_kafka(got.as_ref())
}

fn topic(node: &Node, name: &str, partitions: u32) -> Result<()> {
    ADMIN.run(&["create", &node.kafka(), name, &partitions.to_string()])?;
    Ok(())
}

fn round_trip(client: Client) -> Result<()> {
    let node = Node::start()?;
    topic(&node, "round.trip", 3)?;
    let records = sample::kafka(2000, "a");
    let sent = produce(&node, client, "round.trip", &records, &[])?;
    let read = consume(&node, client, "round.trip", "readers", records.len())?;
    sample::judge_kafka(&sent, &records, &read)
}

fn compressed(client: Client, codec: &str) -> Result<()> {
    let node = Node::start()?;
    topic(&node, "squeezed", 2)?;
    let records = sample::kafka(1000, codec);
    let sent = produce(
        &node,
        client,
        "squeezed",
        &records,
        &[&format!("compression.type={codec}")],
    )?;
    let read = consume(&node, client, "squeezed", "readers", records.len())?;
    sample::judge_kafka(&sent, &records, &read)
}

fn megabyte(client: Client) -> Result<()> {
    let node = Node::start()?;
    topic(&node, "large", 1)?;
    let record = KafkaRecord {
        key: Some(b"big".to_vec()),
        value: Some(vec![b'x'; 1_000_000]),
        headers: Vec::new(),
    };
    let sent = produce(&node, client, "large", std::slice::from_ref(&record), &[])?;
    let read = consume(&node, client, "large", "readers", 1)?;
    sample::judge_kafka(&sent, std::slice::from_ref(&record), &read)?;
    // Above max.message.bytes the client gets its error and the topic stays as it was.
    let huge = KafkaRecord {
        key: None,
        value: Some(vec![b'x'; 2_000_000]),
        headers: Vec::new(),
    };
    let sent = produce(&node, client, "large", &[huge], &[])?;
    ensure!(sent.iter().all(Result::is_err), "2 MB went in: {sent:?}");
    Ok(())
}

fn rebalance(client: Client) -> Result<()> {
    let node = Node::start()?;
    topic(&node, "shared", 4)?;
    let (first, second) = (
        node.file("got-1").display().to_string(),
        node.file("got-2").display().to_string(),
    );
    let kafka = node.kafka();
    let member =
        |out: &str| client.start(&["consume", &kafka, "shared", "team", "100000", "20", out]);
    let mut one = member(&first)?;
    one.until("assigned", Duration::from_secs(30))?;
    let mut two = member(&second)?;
    two.until("assigned", Duration::from_secs(30))?;
    std::thread::sleep(Duration::from_secs(4));
    let records = sample::kafka(400, "b");
    let (input, sent) = (node.file("in"), node.file("sent").display().to_string());
    lines::write_kafka(&input, &records, |place| u32::try_from(place % 4).ok())?;
    client.run(&[
        "produce",
        &kafka,
        "shared",
        &input.display().to_string(),
        &sent,
    ])?;
    one.wait()?;
    two.wait()?;
    let (one, two) = (
        lines::read_kafka(first.as_ref())?,
        lines::read_kafka(second.as_ref())?,
    );
    ensure!(
        !one.is_empty() && !two.is_empty(),
        "one member read {}, the other {}",
        one.len(),
        two.len()
    );
    let sent = lines::read_sent(sent.as_ref())?;
    sample::judge_kafka(&sent, &records, &[one, two].concat())
}

fn resume(client: Client) -> Result<()> {
    let node = Node::start()?;
    topic(&node, "resumed", 1)?;
    let records = sample::kafka(300, "c");
    produce(&node, client, "resumed", &records, &[])?;
    let first = consume(&node, client, "resumed", "readers", records.len())?;
    ensure!(first.len() == records.len());
    let more = sample::kafka(50, "d");
    let sent = produce(&node, client, "resumed", &more, &[])?;
    let second = consume(&node, client, "resumed", "readers", more.len())?;
    sample::judge_kafka(&sent, &more, &second)?;
    let committed = ADMIN.run(&["committed", &node.kafka(), "readers"])?;
    ensure!(
        committed.contains("resumed\t0\t350"),
        "committed: {committed}"
    );
    Ok(())
}

fn restart(client: Client, kill: bool) -> Result<()> {
    let mut node = Node::start()?;
    topic(&node, "lasting", 3)?;
    let records = sample::kafka(1500, "e");
    let mut sent = produce(&node, client, "lasting", &records, &[])?;
    let read = consume(&node, client, "lasting", "readers", 1500)?;
    sample::judge_kafka(&sent, &records, &read)?;
    if kill {
        node.kill()?
    } else {
        node.terminate()?
    }
    node.start_again()?;
    let more = sample::kafka(500, "f");
    let sent_later = produce(&node, client, "lasting", &more, &[])?;
    let read_later = consume(&node, client, "lasting", "readers", 500)?;
    sample::judge_kafka(&sent_later, &more, &read_later)
        .context("the group goes on where it was")?;
    sent.extend(sent_later);
    let all = consume(&node, client, "lasting", "newcomers", 2000)?;
    sample::judge_kafka(&sent, &[records, more].concat(), &all)
        .context("a new group sees everything")
}

fn kcat() -> Result<()> {
    let node = Node::start()?;
    let lines: String = (0..500)
        .map(|number| format!("key{}:value {number}\n", number % 7))
        .collect();
    let input = node.file("in");
    std::fs::write(&input, &lines)?;
    let (kafka, input) = (node.kafka(), input.display().to_string());
    Client::Kcat.run(&[
        "-b", &kafka, "-P", "-t", "kitty", "-K:", "-z", "lz4", "-l", &input,
    ])?;
    let read = Client::Kcat.run(&[
        "-b", &kafka, "-C", "-t", "kitty", "-e", "-q", "-f", "%k:%s\\n",
    ])?;
    let sorted = |text: &str| {
        let mut all: Vec<String> = text.lines().map(str::to_owned).collect();
        all.sort();
        all
    };
    ensure!(
        sorted(&read) == sorted(&lines),
        "kcat read {} lines of 500",
        read.lines().count()
    );
    let listed = Client::Kcat.run(&["-b", &kafka, "-L"])?;
    ensure!(listed.contains("topic \"kitty\""), "{listed}");
    Ok(())
}

fn delete_and_create() -> Result<()> {
    let node = Node::start()?;
    topic(&node, "phoenix", 2)?;
    let records = sample::kafka(20, "g");
    produce(&node, ADMIN, "phoenix", &records, &[])?;
    consume(&node, ADMIN, "phoenix", "readers", 20)?;
    ADMIN.run(&["delete", &node.kafka(), "phoenix"])?;
    let committed = ADMIN.run(&["committed", &node.kafka(), "readers"])?;
    ensure!(
        !committed.contains("phoenix"),
        "offsets outlived their topic: {committed}"
    );
    topic(&node, "phoenix", 1)?;
    let ends = ADMIN.run(&["ends", &node.kafka(), "phoenix"])?;
    ensure!(ends.contains("0\t0\t0"), "a new topic starts at 0: {ends}");
    Ok(())
}

fn group_tools() -> Result<()> {
    let node = Node::start()?;
    topic(&node, "tooled", 1)?;
    let records = sample::kafka(30, "h");
    produce(&node, ADMIN, "tooled", &records, &[])?;
    consume(&node, ADMIN, "tooled", "readers", 30)?;
    let groups = ADMIN.run(&["groups", &node.kafka()])?;
    ensure!(groups.contains("readers"), "groups: {groups}");
    ADMIN.run(&["commit", &node.kafka(), "readers", "tooled", "0", "10"])?;
    let again = consume(&node, ADMIN, "tooled", "readers", 20)?;
    ensure!(
        again.first().is_some_and(|at| at.offset == 10) && again.len() == 20,
        "{} read again",
        again.len()
    );
    Ok(())
}
