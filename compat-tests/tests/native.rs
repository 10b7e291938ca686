//! RocketMQ clients against a real process: the Java client of two generations, the C++ client under
//! Python, and mqadmin.

use anyhow::{Context as _, Result, ensure};
use std::process::ExitCode;
use std::time::Duration;
use twinmq_compat_tests::Node;
use twinmq_compat_tests::clients::{Client, mqadmin};
use twinmq_compat_tests::lines::{NativeMessage, Sent, encode};
use twinmq_compat_tests::sample;
use twinmq_compat_tests::scenarios::{self, MANY, Stop};
use twinmq_compat_tests::suite::Suite;
use twinmq_compat_tests::topic::{Member, Topic, until};

const NEW: Client = Client::ROCKET_TOOLS;
const OLD: Client = Client::JavaRocket("4.9.8");
const CPP: Client = Client::PythonRocket;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for client in [NEW, OLD, CPP] {
        let mut add = |what: &str, body: fn(Client) -> Result<()>| {
            let name = format!("{}_{what}", client.name());
            suite.add(name, &[client, NEW], move || body(client));
        };
        add("reads_what_it_sent_sync", |client| {
            round_trip(client, "sync")
        });
        add("reads_what_it_sent_batch", |client| {
            round_trip(client, "batch")
        });
        add("reads_what_it_sent_oneway", |client| {
            round_trip(client, "oneway")
        });
        add("filters_by_tag", tags);
        add("sends_large_bodies_compressed_and_no_empty_ones", large);
        add(
            "resumes_from_its_commit",
            scenarios::resume::<NativeMessage>,
        );
        add("loses_nothing_over_sigterm_while_it_sends", |client| {
            scenarios::restart::<NativeMessage>(client, Stop::Sigterm)
        });
        add("loses_nothing_over_kill_9_while_it_sends", |client| {
            scenarios::restart::<NativeMessage>(client, Stop::Kill9)
        });
        if client == CPP {
            add("reads_what_it_sent_orderly", cpp_orderly);
            add("members_share_the_queues_until_one_dies", cpp_rebalance);
            continue;
        }
        add("reads_what_it_sent_async", |client| {
            round_trip(client, "async")
        });
        add("keeps_order_in_a_queue", orderly);
        add("reads_with_lite_pull", lite_pull);
        add(
            "members_share_the_queues_until_one_leaves",
            scenarios::rebalance::<NativeMessage>,
        );
        add("gets_back_what_it_sent_back", sent_back);
    }
    suite.add("dead_letters_go_to_their_topic", &[NEW], dead_letters);
    suite.add("a_delayed_message_comes_late_and_once", &[NEW], delayed);
    suite.add(
        "java_reads_what_cpp_sent_and_back",
        &[CPP, NEW],
        java_and_cpp,
    );
    suite.add("mqadmin_creates_lists_and_shows", &[NEW], admin);
    suite.add(
        "mqadmin_reads_what_it_sent_before_sigterm_and_kill_9",
        &[NEW],
        admin_over_restarts,
    );
    suite.run()
}

fn create(node: &Node, name: &str, queues: u32) -> Result<Topic<NativeMessage>> {
    Topic::create(node, name, queues)
}

fn round_trip(client: Client, mode: &str) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "RoundTrip", 4)?;
    let messages = sample::native(500, mode);
    let sent = topic.send(client, &messages, &[mode])?;
    let read = topic.consume(client, "readers", messages.len(), &[])?;
    if mode == "oneway" {
        sample::same_bodies(&messages, &read)
    } else {
        sample::judge_native(&sent, &messages, &read)
    }
}

fn tags(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Tagged", 2)?;
    let messages = sample::native(300, "t");
    topic.send(client, &messages, &[])?;
    let wanted: Vec<NativeMessage> = messages
        .into_iter()
        .filter(|m| matches!(m.tags.as_deref(), Some("Tag0" | "Tag2")))
        .collect();
    let filter = ["tags=Tag0 || Tag2"];
    let read = topic.consume(client, "readers", wanted.len(), &filter)?;
    sample::same_bodies(&wanted, &read)
}

fn orderly(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Ordered", 4)?;
    let messages = sample::native(400, "o");
    let sent = topic.send_around(client, &messages, 4, &[])?;
    let read = topic.consume(client, "readers", messages.len(), &["orderly"])?;
    sample::judge_native(&sent, &messages, &read)?;
    for queue in 0..4 {
        let of_queue = read.iter().filter(|at| at.queue == queue);
        let offsets: Vec<u64> = of_queue.map(|at| at.offset).collect();
        ensure!(
            offsets == (0..100).collect::<Vec<u64>>(),
            "queue {queue} was read as {offsets:?}"
        );
    }
    Ok(())
}

fn lite_pull(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Pulled", 2)?;
    let messages = sample::native(200, "l");
    let sent = topic.send(client, &messages, &[])?;
    let read = topic.consume(client, "pullers", messages.len(), &["litepull"])?;
    sample::judge_native(&sent, &messages, &read)
}

fn message(body: Vec<u8>) -> NativeMessage {
    NativeMessage {
        body,
        ..NativeMessage::default()
    }
}

/// Text that hardly compresses: the Python module's bodies end at their first zero byte.
fn noise(length: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0_u32..)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(7).to_be_bytes())
        .take(length / 4 * 3)
        .collect();
    encode(&bytes).into_bytes()
}

/// No RocketMQ producer sends an empty body: Java says "the message body length is zero", C++ "the
/// message body is empty". What reading one is like, the cross suite shows with Kafka's.
fn large(client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Large", 1)?;
    let before = node.metric("twinmq_store_appended_bytes_total")?;
    let bodies = [
        b"compressible ".repeat(80_000),
        noise(1_000_000),
        b"x".to_vec(),
    ];
    let plain: usize = bodies.iter().map(Vec::len).sum();
    let messages = bodies.map(message);
    let sent = topic.send(client, &messages, &[])?;
    let taken = node.metric("twinmq_store_appended_bytes_total")? - before;
    ensure!(
        taken < plain as u64 / 2,
        "bodies of {plain} bytes take {taken} in the log: not compressed"
    );
    let read = topic.consume(client, "readers", messages.len(), &[])?;
    sample::judge_native(&sent, &messages, &read)?;
    let sent = topic.send(client, &[message(noise(7 << 20)), message(Vec::new())], &[])?;
    let [Err(huge), Err(empty)] = sent.as_slice() else {
        anyhow::bail!("7 MiB or nothing went in: {sent:?}");
    };
    ensure!(!huge.contains("empty"), "{huge}");
    ensure!(
        empty.contains("the message body is empty") || empty.contains("length is zero"),
        "{empty}"
    );
    Ok(())
}

fn sent_back(client: Client) -> Result<()> {
    let node = Node::start_with(&[EVERY_DELAY_ONE_SECOND])?;
    let topic = create(&node, "Retried", 1)?;
    let messages = sample::native(5, "b");
    topic.send(client, &messages, &[])?;
    let read = topic.consume(client, "retriers", messages.len(), &["failing=2"])?;
    sample::same_bodies(&messages, &read)?;
    ensure!(
        read.iter().filter(|at| at.reconsumed == 1).count() == 2,
        "two messages were sent back: {read:?}"
    );
    Ok(())
}

const EVERY_DELAY_ONE_SECOND: &str =
    "broker.message_delay_level=1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s";

const DEAD_LETTERS: &str = r#"twinmq_core_returned_messages_total{to="dead_letters"}"#;

fn dead_letters() -> Result<()> {
    let node = Node::start_with(&[EVERY_DELAY_ONE_SECOND])?;
    let topic = create(&node, "Doomed", 1)?;
    let messages = sample::native(1, "d");
    topic.send(NEW, &messages, &[])?;
    // A client looks for the route of its retry topic every 20 to 30 s.
    let failing = ["failing=1000", "maxretry=2"];
    let _fails = topic.member(NEW, "losers", 1, &failing)?;
    until("there is a dead letter", || {
        Ok(node.metric(DEAD_LETTERS)? == 1)
    })?;
    let dead = Topic::<NativeMessage>::of(&node, "%DLQ%losers");
    let read = dead.consume(NEW, "undertakers", 1, &[])?;
    sample::same_bodies(&messages, &read).context("the dead letter")
}

fn delayed() -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Late", 1)?;
    let mut messages = sample::native(1, "late");
    for message in &mut messages {
        let (name, value) = ("DELAY".to_owned(), "2".to_owned());
        message.properties.insert(name, value);
    }
    // The sender's program may take its time to end: what counts is that nothing comes too early.
    let began = std::time::Instant::now();
    topic.send(NEW, &messages, &[])?;
    let read = topic.consume(NEW, "readers", 1, &[])?;
    ensure!(read.len() == 1, "{} messages", read.len());
    ensure!(
        began.elapsed() >= Duration::from_secs(5),
        "level 2 is five seconds, it took {:?}",
        began.elapsed()
    );
    Ok(())
}

fn cpp_orderly(_client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Ordered", 4)?;
    let messages = sample::native(200, "o");
    let sent = topic.send_around(CPP, &messages, 4, &["orderly"])?;
    let read = topic.consume(CPP, "readers", messages.len(), &[])?;
    sample::judge_native(&sent, &messages, &read)?;
    let expected = |queue| (0..50).map(move |offset| (queue, offset));
    for queue in 0..4 {
        let of_queue = read.iter().filter(|at| at.queue == queue);
        let mut offsets: Vec<(u32, u64)> = of_queue.map(|at| (at.queue, at.offset)).collect();
        offsets.sort_unstable();
        ensure!(offsets.into_iter().eq(expected(queue)), "queue {queue}");
    }
    Ok(())
}

/// What two members read, and everything sent to them.
struct Team {
    topic: Topic<NativeMessage>,
    members: Vec<Member<NativeMessage>>,
    sent: Vec<Sent>,
    messages: Vec<NativeMessage>,
}

impl Team {
    /// Sends two messages to each queue; how many of them each member read.
    fn wave(&mut self) -> Result<Vec<usize>> {
        let wave = sample::native(8, &format!("wave-{}", self.messages.len()));
        let sent = self.topic.send_around(CPP, &wave, 4, &["orderly"])?;
        self.sent.extend(sent);
        self.messages.extend(wave.iter().cloned());
        let mut shares = Vec::new();
        until("a wave is read", || {
            shares.clear();
            for member in &mut self.members {
                let read = member.so_far()?;
                let of_wave = |body: &[u8]| read.iter().any(|at| at.record.body == body);
                shares.push(wave.iter().filter(|sent| of_wave(&sent.body)).count());
            }
            Ok(shares.iter().sum::<usize>() >= wave.len())
        })?;
        Ok(shares)
    }
}

/// The C++ client does not tell which queues it has, so waves of messages show it.
fn cpp_rebalance(_client: Client) -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Shared", 4)?;
    let members = vec![
        topic.member(CPP, "team", MANY, &[])?,
        topic.member(CPP, "team", MANY, &[])?,
    ];
    let (sent, messages) = (Vec::new(), Vec::new());
    let mut team = Team {
        topic,
        members,
        sent,
        messages,
    };
    until(
        "both have half of the queues",
        || Ok(team.wave()? == [4, 4]),
    )?;
    let mut gone = team.members.remove(0);
    let mut read = gone.so_far()?;
    drop(gone);
    until("the other has all queues", || Ok(team.wave()? == [8]))?;
    for member in &mut team.members {
        read.extend(member.so_far()?);
    }
    sample::judge_native_kept(&team.sent, &team.messages, &read)
}

fn java_and_cpp() -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Between", 4)?;
    let messages = sample::native(100, "jc");
    let mut sent = topic.send(CPP, &messages, &[])?;
    let read = topic.consume(NEW, "java-readers", messages.len(), &[])?;
    sample::judge_native(&sent, &messages, &read)?;
    let more = sample::native(100, "cj");
    sent.extend(topic.send(NEW, &more, &["batch"])?);
    let read = topic.consume(CPP, "cpp-readers", 200, &[])?;
    sample::judge_native(&sent, &[messages, more].concat(), &read)
}

/// Runs an mqadmin command, which must say each of `words`.
fn says(node: &Node, command: &[&str], words: &[&str]) -> Result<()> {
    let nameserver = node.nameserver();
    let mut arguments = command.to_vec();
    arguments.extend(["-n", &nameserver]);
    let out = mqadmin(&arguments)?;
    for word in words {
        ensure!(
            out.contains(word),
            "{command:?} does not say {word:?}:\n{out}"
        );
    }
    Ok(())
}

fn admin() -> Result<()> {
    let node = Node::start()?;
    let topic = create(&node, "Shown", 4)?;
    let says = |command: &[&str], words: &[&str]| says(&node, command, words);
    let broker = node.native();
    says(&["clusterList"], &["DefaultCluster", &broker, "V5_3_3"])?;
    says(&["topicList"], &["Shown", "TBW102"])?;
    says(
        &["topicRoute", "-t", "Shown"],
        &["\"readQueueNums\":4", &broker],
    )?;
    let send = ["sendMessage", "-t", "Shown", "-p", "hello there", "-c", "A"];
    says(&send, &["SEND_OK"])?;
    says(&["topicStatus", "-t", "Shown"], &["twinmq-1", "Max Offset"])?;
    says(
        &["consumeMessage", "-t", "Shown", "-g", "admin-readers"],
        &["hello there"],
    )?;
    topic.send(NEW, &sample::native(20, "p"), &[])?;
    topic.consume(NEW, "shown-readers", 21, &[])?;
    says(
        &["consumerProgress", "-g", "shown-readers"],
        &["Shown", "Diff Total: 0"],
    )
}

/// mqadmin is no member of a group, so it has nothing to rebalance; its bodies are arguments of a
/// command line, which the system keeps below 128 KiB; and it refuses an empty one as the Java client
/// does that it is made of.
fn admin_over_restarts() -> Result<()> {
    let mut node = Node::start()?;
    create(&node, "Lasting", 1)?;
    let long = "a body that the client compresses, ".repeat(3000) + "and its end";
    let before = node.metric("twinmq_store_appended_bytes_total")?;
    let send = |node: &Node, body: &str, words: &[&str]| {
        let command = ["sendMessage", "-t", "Lasting", "-p", body];
        says(
            node,
            &[&command[..], &["-k", "key-1", "-c", "TagA"]].concat(),
            words,
        )
    };
    send(&node, &long, &["SEND_OK"])?;
    let taken = node.metric("twinmq_store_appended_bytes_total")? - before;
    ensure!(
        taken < 50_000,
        "{} bytes take {taken} in the log",
        long.len()
    );
    send(&node, "", &["the message body length is zero"])?;
    let consume = ["consumeMessage", "-t", "Lasting", "-g", "admin-readers"];
    Stop::Sigterm.restart(&mut node)?;
    says(&node, &consume, &[&long, "key-1", "TagA"])?;
    send(&node, "a short body", &["SEND_OK"])?;
    Stop::Kill9.restart(&mut node)?;
    says(&node, &consume, &[&long, "a short body"])
}
