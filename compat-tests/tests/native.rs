//! RocketMQ clients against a real process: the Java client of two generations, the C++ client under
//! Python, and mqadmin.

use anyhow::{Context as _, Result, ensure};
use std::process::ExitCode;
use std::time::Duration;
use twinmq_compat_tests::Node;
use twinmq_compat_tests::clients::{Client, mqadmin};
use twinmq_compat_tests::lines::{self, At, NativeMessage};
use twinmq_compat_tests::sample;
use twinmq_compat_tests::suite::Suite;

const NEW: Client = Client::JavaRocket("5.3.3");
const JAVA: [Client; 2] = [NEW, Client::JavaRocket("4.9.8")];
const CPP: Client = Client::PythonRocket;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    for client in JAVA {
        let (name, needs) = (client.name(), [client, NEW]);
        for mode in ["sync", "async", "batch", "oneway"] {
            suite.add(
                format!("{name}_reads_what_it_sent_{mode}"),
                &needs,
                move || round_trip(client, mode),
            );
        }
        suite.add(format!("{name}_filters_by_tag"), &needs, move || {
            tags(client)
        });
        suite.add(
            format!("{name}_keeps_order_in_a_queue"),
            &needs,
            move || orderly(client),
        );
        suite.add(format!("{name}_reads_with_lite_pull"), &needs, move || {
            lite_pull(client)
        });
        suite.add(
            format!("{name}_sends_large_bodies_compressed"),
            &needs,
            move || large(client),
        );
        suite.add(
            format!("{name}_members_share_the_queues"),
            &needs,
            move || rebalance(client),
        );
        suite.add(
            format!("{name}_resumes_from_its_commit"),
            &needs,
            move || resume(client),
        );
        suite.add(
            format!("{name}_gets_back_what_it_sent_back"),
            &needs,
            move || sent_back(client),
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
    suite.add("dead_letters_go_to_their_topic", &[NEW], dead_letters);
    suite.add("a_delayed_message_comes_late_and_once", &[NEW], delayed);
    for mode in ["sync", "orderly", "batch", "oneway"] {
        suite.add(
            format!("rocketmq_python_cpp_reads_what_it_sent_{mode}"),
            &[CPP, NEW],
            move || cpp(mode),
        );
    }
    suite.add("rocketmq_python_cpp_filters_by_tag", &[CPP, NEW], cpp_tags);
    suite.add(
        "java_reads_what_cpp_sent_and_back",
        &[CPP, NEW],
        java_and_cpp,
    );
    suite.add("mqadmin_creates_lists_and_shows", &[NEW], admin);
    suite.run()
}

fn make_topic(node: &Node, name: &str, queues: u32) -> Result<()> {
    let queues = queues.to_string();
    let out = mqadmin(&[
        "updateTopic",
        "-n",
        &node.nameserver(),
        "-c",
        "DefaultCluster",
        "-t",
        name,
        "-r",
        &queues,
        "-w",
        &queues,
    ])?;
    ensure!(out.contains("success"), "updateTopic: {out}");
    Ok(())
}

fn send(
    node: &Node,
    client: Client,
    topic: &str,
    mode: &str,
    messages: &[NativeMessage],
) -> Result<Vec<lines::Sent>> {
    let (input, sent) = (node.file("in"), node.file("sent").display().to_string());
    lines::write_native(&input, messages, |place| {
        (mode == "orderly").then_some(u32::try_from(place % 4).unwrap_or(0))
    })?;
    client.run(&[
        "send",
        &node.nameserver(),
        topic,
        mode,
        &input.display().to_string(),
        &sent,
    ])?;
    if mode == "oneway" {
        Ok(Vec::new())
    } else {
        lines::read_sent(sent.as_ref())
    }
}

fn consume(
    node: &Node,
    client: Client,
    topic: &str,
    group: &str,
    count: usize,
    more: &[&str],
) -> Result<Vec<At<NativeMessage>>> {
    let got = node.file(&format!("got-{group}")).display().to_string();
    let (nameserver, count) = (node.nameserver(), count.to_string());
    let mut arguments = vec!["consume", &nameserver, topic, group, &count, "60", &got];
    arguments.extend(more);
    client.run(&arguments)?;
    lines::read_native(got.as_ref())
}

fn round_trip(client: Client, mode: &str) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "RoundTrip", 4)?;
    let messages = sample::native(500, mode);
    let sent = send(&node, client, "RoundTrip", mode, &messages)?;
    let read = consume(&node, client, "RoundTrip", "readers", messages.len(), &[])?;
    if mode == "oneway" {
        sample::same_bodies(&messages, &read)
    } else {
        sample::judge_native(&sent, &messages, &read)
    }
}

fn tags(client: Client) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Tagged", 2)?;
    let messages = sample::native(300, "t");
    send(&node, client, "Tagged", "sync", &messages)?;
    let wanted: Vec<NativeMessage> = messages
        .into_iter()
        .filter(|m| matches!(m.tags.as_deref(), Some("Tag0" | "Tag2")))
        .collect();
    let read = consume(
        &node,
        client,
        "Tagged",
        "readers",
        wanted.len(),
        &["tags=Tag0 || Tag2"],
    )?;
    sample::same_bodies(&wanted, &read)
}

fn orderly(client: Client) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Ordered", 4)?;
    let messages = sample::native(400, "o");
    let (input, sent) = (node.file("in"), node.file("sent").display().to_string());
    lines::write_native(&input, &messages, |place| u32::try_from(place % 4).ok())?;
    client.run(&[
        "send",
        &node.nameserver(),
        "Ordered",
        "sync",
        &input.display().to_string(),
        &sent,
    ])?;
    let read = consume(
        &node,
        client,
        "Ordered",
        "readers",
        messages.len(),
        &["orderly"],
    )?;
    sample::judge_native(&lines::read_sent(sent.as_ref())?, &messages, &read)?;
    for queue in 0..4 {
        let offsets: Vec<u64> = read
            .iter()
            .filter(|at| at.queue == queue)
            .map(|at| at.offset)
            .collect();
        ensure!(
            offsets == (0..100).collect::<Vec<u64>>(),
            "queue {queue} was read as {offsets:?}"
        );
    }
    Ok(())
}

fn lite_pull(client: Client) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Pulled", 2)?;
    let messages = sample::native(200, "l");
    let sent = send(&node, client, "Pulled", "sync", &messages)?;
    let got = node.file("got").display().to_string();
    client.run(&[
        "litepull",
        &node.nameserver(),
        "Pulled",
        "pullers",
        "200",
        "60",
        &got,
    ])?;
    sample::judge_native(&sent, &messages, &lines::read_native(got.as_ref())?)
}

fn large(client: Client) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Large", 1)?;
    let noise: Vec<u8> = (0..250_000_u32)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes())
        .collect();
    let bodies = [b"compressible ".repeat(80_000), noise, b"x".to_vec()];
    let messages: Vec<NativeMessage> = bodies
        .into_iter()
        .map(|body| NativeMessage {
            body,
            ..NativeMessage::default()
        })
        .collect();
    let sent = send(&node, client, "Large", "sync", &messages)?;
    let read = consume(&node, client, "Large", "readers", messages.len(), &[])?;
    sample::judge_native(&sent, &messages, &read)?;
    let huge = NativeMessage {
        body: vec![b'x'; 5 << 20],
        ..NativeMessage::default()
    };
    // Five MiB of one letter compress below the limit; noise does not.
    let noise: Vec<u8> = (0..5_u32 << 18)
        .flat_map(|n| n.wrapping_mul(2_654_435_761).rotate_left(7).to_be_bytes())
        .collect();
    let sent = send(
        &node,
        client,
        "Large",
        "sync",
        &[
            huge,
            NativeMessage {
                body: noise,
                ..NativeMessage::default()
            },
        ],
    )?;
    ensure!(
        sent.get(1).is_some_and(Result::is_err),
        "5 MiB went in: {sent:?}"
    );
    Ok(())
}

fn rebalance(client: Client) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Shared", 4)?;
    let nameserver = node.nameserver();
    let (first, second) = (
        node.file("got-1").display().to_string(),
        node.file("got-2").display().to_string(),
    );
    let member = |out: &str, instance: &str| {
        client.start(&[
            "consume",
            &nameserver,
            "Shared",
            "team",
            "100000",
            "25",
            out,
            instance,
        ])
    };
    let mut one = member(&first, "instance=one")?;
    one.until("started", Duration::from_secs(30))?;
    let mut two = member(&second, "instance=two")?;
    two.until("started", Duration::from_secs(30))?;
    std::thread::sleep(Duration::from_secs(4));
    let messages = sample::native(200, "s");
    send(&node, client, "Shared", "sync", &messages)?;
    one.wait()?;
    two.wait()?;
    let (one, two) = (
        lines::read_native(first.as_ref())?,
        lines::read_native(second.as_ref())?,
    );
    ensure!(
        !one.is_empty() && !two.is_empty(),
        "one member read {}, the other {}",
        one.len(),
        two.len()
    );
    sample::same_bodies(&messages, &[one, two].concat())
}

fn resume(client: Client) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Resumed", 2)?;
    let messages = sample::native(200, "r");
    send(&node, client, "Resumed", "sync", &messages)?;
    consume(&node, client, "Resumed", "readers", messages.len(), &[])?;
    let more = sample::native(40, "r2");
    send(&node, client, "Resumed", "sync", &more)?;
    let read = consume(&node, client, "Resumed", "readers", more.len(), &[])?;
    sample::same_bodies(&more, &read)
}

fn sent_back(client: Client) -> Result<()> {
    let node = Node::start_with(&[
        "broker.message_delay_level=1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    ])?;
    make_topic(&node, "Retried", 1)?;
    let messages = sample::native(5, "b");
    send(&node, client, "Retried", "sync", &messages)?;
    let read = consume(
        &node,
        client,
        "Retried",
        "retriers",
        messages.len(),
        &["failing=2"],
    )?;
    sample::same_bodies(&messages, &read)?;
    ensure!(
        read.iter().filter(|at| at.reconsumed == 1).count() == 2,
        "two messages were sent back: {read:?}"
    );
    Ok(())
}

fn dead_letters() -> Result<()> {
    let node = Node::start_with(&[
        "broker.message_delay_level=1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s 1s",
    ])?;
    make_topic(&node, "Doomed", 1)?;
    let messages = sample::native(1, "d");
    send(&node, NEW, "Doomed", "sync", &messages)?;
    let got = node.file("got-doomed").display().to_string();
    let fails = NEW.run(&[
        "consume",
        &node.nameserver(),
        "Doomed",
        "losers",
        "1",
        "50", // a client looks for the route of its retry topic every 20 to 30 s
        &got,
        "failing=1000",
        "maxretry=2",
    ])?;
    ensure!(fails.contains("consumed\t0"), "{fails}");
    let read = consume(&node, NEW, "%DLQ%losers", "undertakers", 1, &[])?;
    sample::same_bodies(&messages, &read).context("the dead letter")
}

fn delayed() -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Late", 1)?;
    let mut message = sample::native(1, "late");
    for message in &mut message {
        message
            .properties
            .insert("DELAY".to_owned(), "2".to_owned());
    }
    send(&node, NEW, "Late", "sync", &message)?;
    let began = std::time::Instant::now();
    let read = consume(&node, NEW, "Late", "readers", 1, &[])?;
    ensure!(read.len() == 1, "{} messages", read.len());
    ensure!(
        began.elapsed() > Duration::from_secs(3),
        "level 2 is five seconds, it took {:?}",
        began.elapsed()
    );
    Ok(())
}

fn cpp(mode: &str) -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "FromCpp", 4)?;
    let messages = sample::native(200, mode);
    let sent = send(&node, CPP, "FromCpp", mode, &messages)?;
    ensure!(
        sent.iter().all(Result::is_ok),
        "{:?}",
        sent.iter().find(|sent| sent.is_err())
    );
    let read = consume(&node, CPP, "FromCpp", "readers", messages.len(), &[])?;
    sample::same_bodies(&messages, &read)
}

fn cpp_tags() -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Tagged", 2)?;
    let messages = sample::native(200, "t");
    send(&node, CPP, "Tagged", "sync", &messages)?;
    let wanted: Vec<NativeMessage> = messages
        .into_iter()
        .filter(|m| m.tags.as_deref() == Some("Tag1"))
        .collect();
    let read = consume(&node, CPP, "Tagged", "readers", wanted.len(), &["Tag1"])?;
    sample::same_bodies(&wanted, &read)
}

fn java_and_cpp() -> Result<()> {
    let node = Node::start()?;
    make_topic(&node, "Between", 4)?;
    let messages = sample::native(100, "jc");
    send(&node, CPP, "Between", "sync", &messages)?;
    let read = consume(&node, NEW, "Between", "java-readers", messages.len(), &[])?;
    sample::same_bodies(&messages, &read)?;
    let more = sample::native(100, "cj");
    send(&node, NEW, "Between", "batch", &more)?;
    let read = consume(&node, CPP, "Between", "cpp-readers", 200, &[])?;
    sample::same_bodies(&[messages, more].concat(), &read)
}

fn restart(client: Client, kill: bool) -> Result<()> {
    let mut node = Node::start()?;
    make_topic(&node, "Lasting", 3)?;
    let messages = sample::native(600, "e");
    let mut sent = send(&node, client, "Lasting", "sync", &messages)?;
    let read = consume(&node, client, "Lasting", "readers", messages.len(), &[])?;
    sample::judge_native(&sent, &messages, &read)?;
    // Native commits are one-way: they are in the log within broker.commit_linger_ms.
    std::thread::sleep(Duration::from_millis(600));
    if kill {
        node.kill()?
    } else {
        node.terminate()?
    }
    node.start_again()?;
    let more = sample::native(200, "f");
    let sent_later = send(&node, client, "Lasting", "sync", &more)?;
    let read_later = consume(&node, client, "Lasting", "readers", more.len(), &[])?;
    sample::judge_native(&sent_later, &more, &read_later)
        .context("the group goes on where it was")?;
    sent.extend(sent_later);
    let all = consume(&node, client, "Lasting", "newcomers", 800, &[])?;
    sample::judge_native(&sent, &[messages, more].concat(), &all)
        .context("a new group sees everything")
}

fn admin() -> Result<()> {
    let node = Node::start()?;
    let nameserver = node.nameserver();
    make_topic(&node, "Shown", 4)?;
    let says = |command: &[&str], words: &[&str]| -> Result<()> {
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
    };
    let broker = node.native();
    says(&["clusterList"], &["DefaultCluster", &broker, "V5_3_3"])?;
    says(&["topicList"], &["Shown", "TBW102"])?;
    says(
        &["topicRoute", "-t", "Shown"],
        &["\"readQueueNums\":4", &broker],
    )?;
    says(
        &[
            "sendMessage",
            "-t",
            "Shown",
            "-p",
            "hello there",
            "-c",
            "TagA",
        ],
        &["SEND_OK"],
    )?;
    says(&["topicStatus", "-t", "Shown"], &["twinmq-1", "Max Offset"])?;
    says(
        &["consumeMessage", "-t", "Shown", "-g", "admin-readers"],
        &["hello there"],
    )?;
    let messages = sample::native(20, "p");
    send(&node, NEW, "Shown", "sync", &messages)?;
    consume(&node, NEW, "Shown", "shown-readers", 21, &[])?;
    says(
        &["consumerProgress", "-g", "shown-readers"],
        &["Shown", "Diff Total: 0"],
    )
}
