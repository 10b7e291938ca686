//! Debian's kcat against a real process. It takes records as lines and files instead of the format of
//! the other clients, and tells of a delivery only that it succeeded; so what is read is compared with
//! what was fed, without places.

use anyhow::{Context as _, Result, bail, ensure};
use std::process::ExitCode;
use std::time::Duration;
use twinmq_compat_tests::Node;
use twinmq_compat_tests::clients::{Client, Running};
use twinmq_compat_tests::lines::{At, KafkaRecord};
use twinmq_compat_tests::sample;
use twinmq_compat_tests::scenarios::Stop;
use twinmq_compat_tests::suite::Suite;
use twinmq_compat_tests::topic::until;

/// partition, offset, lengths of key and value (-1 for null), key, value, headers, timestamp
const FORMAT: &str = "R\\t%p\\t%o\\t%K\\t%S\\t%k\\t%s\\t%h\\t%T\\n";

fn main() -> ExitCode {
    let mut suite = Suite::new();
    let mut add = |what: &str, body: fn() -> Result<()>| {
        suite.add(format!("kcat_{what}"), &[Client::Kcat], body);
    };
    add(
        "reads_what_it_wrote_nulls_empties_and_headers_too",
        round_trip,
    );
    add("reads_back_gzip", || compressed("gzip"));
    add("reads_back_snappy", || compressed("snappy"));
    add("reads_back_lz4", || compressed("lz4"));
    add("reads_back_zstd", || compressed("zstd"));
    add("sends_one_megabyte_and_is_refused_two", megabyte);
    add("members_share_the_partitions_until_one_leaves", rebalance);
    add("resumes_from_its_commit", resume);
    add("loses_nothing_over_sigterm_while_it_sends", || {
        restart(Stop::Sigterm)
    });
    add("loses_nothing_over_kill_9_while_it_sends", || {
        restart(Stop::Kill9)
    });
    suite.run()
}

/// Sends lines of `key:value`; `more` are further arguments.
fn send(node: &Node, topic: &str, lines: &str, more: &[&str]) -> Result<()> {
    let input = node.file("in");
    std::fs::write(&input, lines)?;
    let (kafka, input) = (node.kafka(), input.display().to_string());
    let mut arguments = vec!["-b", &kafka, "-P", "-t", topic, "-K:", "-l", &input];
    arguments.extend(more);
    Client::Kcat.run(&arguments)?;
    Ok(())
}

/// Reads a topic to its end, without a group.
fn read(node: &Node, topic: &str) -> Result<Vec<At<KafkaRecord>>> {
    let printed = Client::Kcat.run(&[
        "-b",
        &node.kafka(),
        "-C",
        "-t",
        topic,
        "-e",
        "-q",
        "-f",
        FORMAT,
    ])?;
    parse(&printed)
}

/// Starts a member of `group` that commits what it reads.
fn member(node: &Node, topic: &str, group: &str, more: &[&str]) -> Result<Running> {
    let kafka = node.kafka();
    let mut arguments = vec![
        "-b",
        &kafka,
        "-G",
        group,
        "-X",
        "auto.offset.reset=earliest",
    ];
    // Without the library's own log, whose lines come in between.
    arguments.extend(["-X", "log_level=0", "-E", "-u", "-f", FORMAT]);
    arguments.extend(more);
    arguments.push(topic);
    Client::Kcat.start(&arguments)
}

fn ended(member: Running) -> Result<Vec<At<KafkaRecord>>> {
    let ran = member.wait()?;
    ensure!(ran.success, "kcat failed:\n{}", ran.output);
    parse(&ran.output)
}

/// What it printed about records; the rest is about the group. A line may still be in the making.
fn parse(printed: &str) -> Result<Vec<At<KafkaRecord>>> {
    let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
    let lines = whole.lines().filter(|line| line.starts_with("R\t"));
    lines
        .map(|line| record(line).with_context(|| format!("printed {line:?}")))
        .collect()
}

fn record(line: &str) -> Result<At<KafkaRecord>> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [
        _,
        queue,
        offset,
        key_length,
        length,
        key,
        value,
        headers,
        time,
    ] = fields.as_slice()
    else {
        bail!("{} fields", fields.len());
    };
    let field = |length: &str, text: &str| {
        ensure!(
            text.len() == usize::try_from(length.parse::<i64>()?.max(0))?,
            "{length}"
        );
        Ok((length != "-1").then(|| text.as_bytes().to_vec()))
    };
    let mut read = Vec::new();
    for header in headers.split(',').filter(|header| !header.is_empty()) {
        let (name, value) = header.split_once('=').context("a header without =")?;
        let value = (value != "NULL").then(|| value.as_bytes().to_vec());
        read.push((name.to_owned(), value));
    }
    Ok(At {
        queue: queue.parse()?,
        offset: offset.parse()?,
        record: KafkaRecord {
            key: field(key_length, key)?,
            value: field(length, value)?,
            headers: read,
        },
        reconsumed: 0,
        time: time.parse()?,
    })
}

/// `key:value` lines and the records that they stand for.
fn sample(count: usize, tag: &str) -> (String, Vec<KafkaRecord>) {
    let pairs: Vec<(String, String)> = (0..count)
        .map(|number| {
            let text = "lorem ipsum ".repeat(number % 20);
            (
                format!("key{}", number % 7),
                format!("{tag} {number} {text}"),
            )
        })
        .collect();
    let lines: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}:{v}\n")).collect();
    let records = pairs.into_iter().map(|(key, value)| KafkaRecord {
        key: Some(key.into_bytes()),
        value: Some(value.into_bytes()),
        headers: Vec::new(),
    });
    (lines.concat(), records.collect())
}

/// The same records, each once, and each place once.
fn judge(wanted: &[KafkaRecord], read: &[At<KafkaRecord>]) -> Result<()> {
    sample::places(read)?;
    let mut wanted: Vec<&KafkaRecord> = wanted.iter().collect();
    let mut found: Vec<&KafkaRecord> = read.iter().map(|at| &at.record).collect();
    wanted.sort();
    found.sort();
    let differ = wanted.iter().zip(&found).find(|(one, other)| one != other);
    ensure!(differ.is_none(), "wanted and read: {differ:?}");
    ensure!(
        wanted.len() == found.len(),
        "{} sent, {} read",
        wanted.len(),
        found.len()
    );
    Ok(())
}

/// kcat sends an empty value for `key:`, and a null one with -Z; headers are the same for all of a run.
fn round_trip() -> Result<()> {
    let node = Node::start()?;
    let (lines, mut records) = sample(500, "plain");
    send(&node, "kitty", &lines, &[])?;
    let odd = "full:value\nempty:\n:keyless\n";
    let headers = [
        "-H",
        "city=Zurich",
        "-H",
        "city=Bern",
        "-H",
        "none",
        "-H",
        "empty=",
    ];
    send(&node, "kitty", odd, &headers)?;
    send(&node, "kitty", odd, &["-Z"])?;
    let record = |key: Option<&str>, value: Option<&str>, headers: &[(&str, Option<&str>)]| {
        let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
        KafkaRecord {
            key: bytes(key),
            value: bytes(value),
            headers: headers
                .iter()
                .map(|(name, value)| ((*name).to_owned(), bytes(*value)))
                .collect(),
        }
    };
    let headers = [
        ("city", Some("Zurich")),
        ("city", Some("Bern")),
        ("none", None),
        ("empty", Some("")),
    ];
    records.extend([
        record(Some("full"), Some("value"), &headers),
        record(Some("empty"), Some(""), &headers),
        record(Some(""), Some("keyless"), &headers),
        record(Some("full"), Some("value"), &[]),
        record(Some("empty"), None, &[]),
        record(None, Some("keyless"), &[]),
    ]);
    judge(&records, &read(&node, "kitty")?)?;
    let listed = Client::Kcat.run(&["-b", &node.kafka(), "-L"])?;
    ensure!(listed.contains("topic \"kitty\""), "{listed}");
    Ok(())
}

fn compressed(codec: &str) -> Result<()> {
    let node = Node::start()?;
    let (lines, records) = sample(1000, codec);
    // The topic is made by the first record, and not counted.
    send(&node, "squeezed", "key:first\n", &[])?;
    let before = node.metric("twinmq_store_appended_bytes_total")?;
    send(&node, "squeezed", &lines, &["-z", codec])?;
    let taken = node.metric("twinmq_store_appended_bytes_total")? - before;
    ensure!(
        taken < lines.len() as u64 / 2,
        "{} bytes of text take {taken} in the log: not compressed",
        lines.len()
    );
    let read = read(&node, "squeezed")?;
    judge(&records, read.get(1..).unwrap_or_default())
}

fn megabyte() -> Result<()> {
    let node = Node::start()?;
    let file = |name: &str, length: usize| -> Result<String> {
        let path = node.file(name);
        std::fs::write(&path, vec![b'x'; length])?;
        Ok(path.display().to_string())
    };
    let kafka = node.kafka();
    // A file is one record; the client's own limit is out of the way.
    let mut arguments = vec![
        "-b",
        &kafka,
        "-P",
        "-t",
        "large",
        "-X",
        "message.max.bytes=8000000",
    ];
    let (large, huge) = (file("large", 1_000_000)?, file("huge", 2_000_000)?);
    Client::Kcat.run(&[&arguments[..], &[&large]].concat())?;
    arguments.push(&huge);
    let refused = Client::Kcat.start(&arguments)?.wait()?;
    ensure!(
        !refused.success && refused.output.contains("Message size too large"),
        "2 MB went in: {}",
        refused.output
    );
    let wanted = KafkaRecord {
        value: Some(vec![b'x'; 1_000_000]),
        ..KafkaRecord::default()
    };
    judge(&[wanted], &read(&node, "large")?)
}

/// How many partitions a member has, as it said last.
fn assigned(member: &Running) -> usize {
    let printed = member.printed();
    let said = printed.lines().rev().find_map(|line| {
        line.strip_prefix("% Group team rebalanced")?
            .split_once("): ")
    });
    match said {
        Some((_, list)) if list.starts_with("assigned") => list.matches('[').count(),
        _ => 0,
    }
}

fn rebalance() -> Result<()> {
    let node = Node::start_with(&["broker.num_partitions=4"])?;
    let mut all = Vec::new();
    let mut send = |count: usize, tag: &str| -> Result<()> {
        for partition in ["0", "1", "2", "3"] {
            let (lines, records) = sample(count, &format!("{tag}{partition}"));
            send(&node, "shared", &lines, &["-p", partition])?;
            all.extend(records);
        }
        Ok(())
    };
    send(1, "first")?;
    // Each leaves when it has read so much.
    let mut one = member(&node, "shared", "team", &["-c", "104"])?;
    until("one member has all partitions", || {
        Ok(assigned(&one) == 4 && parse(&one.printed())?.len() == 4)
    })?;
    let two = member(&node, "shared", "team", &["-c", "300"])?;
    until("both members have half of the partitions", || {
        Ok(assigned(&one) == 2 && assigned(&two) == 2)
    })?;
    send(50, "shared")?;
    until("the first reads its half and leaves", || one.ended())?;
    until("the other has all partitions", || Ok(assigned(&two) == 4))?;
    send(50, "alone")?;
    judge(&all, &[ended(one)?, ended(two)?].concat())
}

fn resume() -> Result<()> {
    let node = Node::start()?;
    let (lines, records) = sample(300, "c");
    send(&node, "resumed", &lines, &[])?;
    let first = ended(member(&node, "resumed", "readers", &["-c", "120"])?)?;
    let (lines, more) = sample(50, "d");
    send(&node, "resumed", &lines, &[])?;
    let second = ended(member(&node, "resumed", "readers", &["-e"])?)?;
    ensure!(
        first.len() == 120 && second.first().is_some_and(|at| at.offset == 120),
        "{} read, then from {:?}",
        first.len(),
        second.first().map(|at| at.offset)
    );
    judge(&[records, more].concat(), &[first, second].concat())
}

/// Feeds a line each millisecond, as long as they last.
fn feed(mut sending: Running, lines: &str) -> Result<Running> {
    for line in lines.split_inclusive('\n') {
        sending.feed(line.as_bytes())?;
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(sending)
}

/// As `scenarios::restart`: kcat ends well only if every record was acknowledged, and as an idempotent
/// producer each is there once.
fn restart(stop: Stop) -> Result<()> {
    let mut node = Node::start_with(&["broker.num_partitions=3"])?;
    let (lines, before) = sample(300, "before");
    send(&node, "lasting", &lines, &[])?;
    judge(
        &before,
        &ended(member(&node, "lasting", "readers", &["-c", "300"])?)?,
    )?;

    let follower = member(&node, "lasting", "followers", &[])?;
    let (lines, meanwhile) = sample(800, "meanwhile");
    let kafka = node.kafka();
    let sending = Client::Kcat.start_fed(&[
        "-b",
        &kafka,
        "-P",
        "-t",
        "lasting",
        "-K:",
        "-E",
        "-X",
        "enable.idempotence=true",
    ])?;
    let sent = std::thread::scope(|scope| {
        let feeder = scope.spawn(|| feed(sending, &lines));
        until("the follower reads on", || {
            Ok(parse(&follower.printed())?.len() >= before.len() + 100)
        })?;
        stop.restart(&mut node)?;
        let sending = feeder.join().map_err(|_| anyhow::anyhow!("the feeder"))??;
        sending.wait()
    })?;
    ensure!(sent.success, "not all was sent:\n{}", sent.output);

    let read_on = ended(member(&node, "lasting", "readers", &["-c", "800"])?)?;
    judge(&meanwhile, &read_on).context("the group goes on where it was")?;
    let all = [before, meanwhile].concat();
    judge(&all, &read(&node, "lasting")?).context("everything is there")?;
    until("a running reader goes on", || {
        let read = sample::without_repeats(&parse(&follower.printed())?)?;
        Ok(judge(&all, &read).is_ok())
    })
    .with_context(|| follower.printed())
}
