//! Hostile and careless peers against the real process, over plain sockets: whatever they send, hold back
//! or leave unread, the process stays up, its memory stays bounded, its log says why in a few lines, and
//! the next well-behaved client of either protocol is served within a second.

use anyhow::{Context as _, Result, bail, ensure};
use rand::{RngCore as _, SeedableRng as _};
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use twinmq_compat_tests::Node;
use twinmq_compat_tests::suite::Suite;

/// Within this everybody else must be served.
const SERVED: Duration = Duration::from_secs(1);
/// How long a peer that did wrong may stay connected.
const CLOSED: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add("random_bytes_on_every_port_harm_nobody", &[], random_bytes);
    suite.add(
        "absurd_lengths_and_counts_close_the_connection",
        &[],
        absurd,
    );
    suite.add(
        "unknown_requests_and_versions_get_the_protocols_error",
        &[],
        unknown,
    );
    suite.add(
        "a_client_of_another_protocol_is_turned_away_with_the_reason",
        &[],
        strangers,
    );
    suite.add(
        "ten_thousand_half_open_connections_keep_nobody_out",
        &[],
        half_open,
    );
    suite.add(
        "a_process_out_of_file_descriptors_serves_again_once_there_are_some",
        &[],
        no_descriptors,
    );
    suite.add(
        "clients_that_never_read_do_not_fill_the_memory",
        &[],
        never_reads,
    );
    suite.add(
        "frames_that_never_end_do_not_fill_the_memory",
        &[],
        endless_frames,
    );
    suite.add(
        "batches_that_expand_without_end_are_too_large_and_fill_no_memory",
        &[],
        bombs,
    );
    suite.add("a_flood_of_bad_peers_is_a_few_log_lines", &[], few_lines);
    suite.add(
        "a_second_process_on_the_same_directory_says_so_and_ends",
        &[],
        second_process,
    );
    suite.run()
}

fn ports(node: &Node) -> [(&'static str, u16); 5] {
    let ports = node.ports;
    [
        ("name server", ports.nameserver),
        ("native", ports.native),
        ("native vip", ports.native - 2),
        ("kafka", ports.kafka),
        ("http", ports.http),
    ]
}

fn connect(port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(CLOSED))?;
    stream.set_write_timeout(Some(CLOSED))?;
    Ok(stream)
}

/// A Kafka request; `rest` follows a header of version 1.
fn kafka(key: i16, version: i16, rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    body.extend(key.to_be_bytes());
    body.extend(version.to_be_bytes());
    body.extend(7_i32.to_be_bytes());
    body.extend([0, 1, b't']);
    body.extend(rest);
    prefixed(&body)
}

fn prefixed(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len())
        .unwrap_or(0)
        .to_be_bytes()
        .to_vec();
    frame.extend(body);
    frame
}

/// A RocketMQ request with a JSON header.
fn native(code: i32, fields: &str, body: &[u8]) -> Vec<u8> {
    let header = format!(
        r#"{{"code":{code},"language":"JAVA","version":453,"opaque":7,"flag":0,"extFields":{{{fields}}}}}"#
    );
    let mut rest = u32::try_from(header.len())
        .unwrap_or(0)
        .to_be_bytes()
        .to_vec();
    rest.extend(header.as_bytes());
    rest.extend(body);
    prefixed(&rest)
}

/// Sends `request` and returns the answer's frame.
fn ask(port: u16, request: &[u8]) -> Result<Vec<u8>> {
    let mut stream = connect(port)?;
    stream.write_all(request)?;
    answer(&mut stream)
}

/// The next frame that comes in.
fn answer(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// A client of each kind is served within a second.
fn serves(node: &mut Node, meanwhile: &str) -> Result<()> {
    let begun = Instant::now();
    let answer = ask(node.ports.kafka, &kafka(18, 0, &[]))?;
    ensure!(answer.get(4..6) == Some(&[0, 0]), "ApiVersions: {answer:?}");
    let send = native(
        310,
        r#""a":"g","b":"served","c":"TBW102","d":"1","e":"0","f":"0","g":"1","h":"0","i":"","j":"0""#,
        b"hello",
    );
    let answer = ask(node.ports.native, &send)?;
    ensure!(
        String::from_utf8_lossy(&answer).contains(r#""code":0"#),
        "send: {}",
        String::from_utf8_lossy(&answer)
    );
    ask(
        node.ports.nameserver,
        &native(105, r#""topic":"served""#, &[]),
    )?;
    ensure!(node.get("/healthz")?.starts_with("HTTP/1.1 200"));
    let took = begun.elapsed();
    ensure!(took < SERVED, "{meanwhile}: served only after {took:?}");
    Ok(())
}

/// Sends bytes, and waits until the connection ends; what came back before.
fn ends(port: u16, bytes: &[u8], what: &str) -> Result<Vec<u8>> {
    let mut stream = connect(port)?;
    let mut got = Vec::new();
    // A peer that has closed already may reset what is still being written.
    if stream.write_all(bytes).is_ok() {
        let mut some = [0; 4096];
        loop {
            match stream.read(&mut some) {
                Ok(0) => break,
                Ok(n) => got.extend(some.iter().take(n)),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    bail!("{what} on port {port}: not closed within {CLOSED:?}")
                }
                Err(_) => break,
            }
        }
    }
    Ok(got)
}

/// A line of the process's status, in MiB.
fn memory(node: &Node) -> Result<u64> {
    let pid = node.pid().context("a running node")?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .context("RssAnon")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1024)
}

fn random_bytes() -> Result<()> {
    let mut node = Node::start()?;
    let mut random = rand::rngs::StdRng::seed_from_u64(3);
    for (name, port) in ports(&node) {
        for round in 0..60 {
            let length = [1, 3, 4, 8, 12, 100, 5000, 100_000][round % 8];
            let mut bytes = vec![0_u8; length];
            random.fill_bytes(&mut bytes);
            if round % 3 == 0 && length > 8 {
                // Frames of a possible length get further.
                let rest = u32::try_from(length - 4)?.to_be_bytes();
                bytes.splice(..4, rest);
            }
            let mut stream = connect(port)?;
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = Vec::new();
            if let Err(error) = stream.read_to_end(&mut answer) {
                let late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                ensure!(
                    !late,
                    "{name}: {length} random bytes leave the connection open"
                );
            }
        }
        serves(&mut node, name)?;
    }
    node.terminate()
}

fn absurd() -> Result<()> {
    let mut node = Node::start()?;
    let big = i32::MAX.to_be_bytes();
    for (name, port) in ports(&node).into_iter().take(4) {
        for claim in [i32::MAX, i32::MIN, -1, 0, 3] {
            ends(
                port,
                &claim.to_be_bytes(),
                &format!("{name}: length {claim}"),
            )?;
        }
        serves(&mut node, name)?;
    }
    let counts: [(i16, i16, Vec<u8>); 4] = [
        (3, 1, big.to_vec()),
        (19, 2, big.to_vec()),
        (
            8,
            2,
            [&[0, 1, b'g', 0, 0, 0, 1, 0, 0][..], &[0; 8], &big].concat(),
        ),
        (0, 3, [&[0xff, 0xff, 0, 1, 0, 0, 0, 9][..], &big].concat()),
    ];
    for (key, version, rest) in counts {
        let what = format!("API {key} with a count of 2^31");
        ends(node.ports.kafka, &kafka(key, version, &rest), &what)?;
    }
    // A header that claims to be longer than its frame, and a field that claims to be longer than its header.
    ends(
        node.ports.native,
        &prefixed(&[0, 0xff, 0xff, 0xff, b'{']),
        "header length",
    )?;
    let mut binary = vec![1, 0, 0, 21];
    binary.extend([0, 11, 0, 1, 0x90, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    binary.extend(big);
    ends(node.ports.native, &prefixed(&binary), "field length")?;
    let deep = format!("{}1{}", r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let mut header = u32::try_from(deep.len())?.to_be_bytes().to_vec();
    header.extend(deep.as_bytes());
    ends(node.ports.nameserver, &prefixed(&header), "nested JSON")?;
    serves(&mut node, "absurd counts")?;
    ensure!(memory(&node)? < 256, "{} MiB", memory(&node)?);
    node.terminate()
}

fn unknown() -> Result<()> {
    let mut node = Node::start()?;
    let ports = node.ports;
    // ApiVersions is answered in version 0 with 35, UNSUPPORTED_VERSION, so that clients can step down.
    let answer = ask(ports.kafka, &kafka(18, 99, &[0, 2, b'c', 2, b'1', 0]))?;
    ensure!(answer.get(4..6) == Some(&[0, 35]), "{answer:?}");
    for (key, version) in [(3, 99), (0, -1), (1, 2000), (999, 0), (-7, 0)] {
        let what = format!("API {key} in version {version}");
        let answer = ends(ports.kafka, &kafka(key, version, &[0; 64]), &what)?;
        ensure!(answer.is_empty(), "{what} was answered: {answer:?}");
    }
    let log = node.log_tail();
    ensure!(
        log.contains("127.0.0.1:"),
        "the log does not say who:\n{log}"
    );
    for port in [ports.native, ports.nameserver] {
        for code in [9999, -1, i32::MAX] {
            let answer = ask(port, &native(code, "", b"body"))?;
            let answer = String::from_utf8_lossy(&answer);
            ensure!(answer.contains(r#""code":3"#), "{code}: {answer}");
        }
    }
    serves(&mut node, "after what nobody knows")?;
    node.terminate()
}

fn strangers() -> Result<()> {
    let mut node = Node::start()?;
    let ports = node.ports;
    let http = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec();
    let tls = [0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3].to_vec();
    let cases = [
        ("HTTP", http.clone(), ports.kafka, "an HTTP request?"),
        ("TLS", tls.clone(), ports.kafka, "a TLS handshake"),
        (
            "RocketMQ",
            native(105, r#""topic":"t""#, &[]),
            ports.kafka,
            "a RocketMQ frame on the Kafka port",
        ),
        ("HTTP", http, ports.native, "opened with an HTTP request"),
        (
            "TLS",
            tls.clone(),
            ports.nameserver,
            "opened with a TLS handshake",
        ),
        (
            "Kafka",
            kafka(18, 3, b"\0\x02a\x021\0"),
            ports.nameserver,
            "opened with a Kafka request",
        ),
        (
            "Kafka",
            kafka(3, 1, &[0; 4]),
            ports.native,
            "opened with a Kafka request",
        ),
    ];
    for (who, bytes, port, reason) in cases {
        let answer = ends(port, &bytes, who)?;
        ensure!(answer.is_empty(), "{who} on {port} was answered");
        let log = node.log_tail();
        ensure!(
            log.contains(reason),
            "{who} on {port}: no {reason:?} in\n{log}"
        );
        ensure!(log.contains("127.0.0.1:"), "the log does not say who");
    }
    for (who, bytes) in [
        ("TLS", tls),
        ("Kafka", kafka(18, 0, &[])),
        ("RocketMQ", native(105, "", &[])),
    ] {
        let answer = ends(ports.http, &bytes, who)?;
        ensure!(
            answer.starts_with(b"HTTP/1.1 400"),
            "{who} on the HTTP port"
        );
    }
    serves(&mut node, "after strangers")?;
    node.terminate()
}

fn half_open() -> Result<()> {
    let mut node = Node::start()?;
    let before = memory(&node)?;
    let mut open = Vec::new();
    for (name, port) in ports(&node) {
        for n in 0..2000 {
            let mut stream = connect(port).with_context(|| format!("{name}: connection {n}"))?;
            if n % 2 == 0 {
                stream.write_all(if name == "http" { b"GE" } else { &[0, 0] })?;
            }
            open.push(stream);
        }
        serves(&mut node, name)?;
        let grown = memory(&node)?.saturating_sub(before);
        ensure!(
            grown < 192,
            "{name}: {} half-open connections take {grown} MiB",
            open.len()
        );
    }
    node.terminate()
}

fn no_descriptors() -> Result<()> {
    let mut node = Node::start()?;
    let pid = node.pid().context("a running node")?;
    let mut early = connect(node.ports.kafka)?;
    early.write_all(&kafka(18, 0, &[]))?;
    answer(&mut early)?;
    let held = std::fs::read_dir(format!("/proc/{pid}/fd"))?.count();
    let status = std::process::Command::new("prlimit")
        .args([
            "--pid",
            &pid.to_string(),
            &format!("--nofile={}", held + 20),
        ])
        .status()?;
    ensure!(status.success(), "prlimit: {status}");
    let begun = Instant::now();
    let mut open = Vec::new();
    for _ in 0..100 {
        for port in [node.ports.kafka, node.ports.native, node.ports.nameserver] {
            open.push(connect(port)?);
        }
    }
    // Clock ticks of 10 ms that the process has run for: fields 14 and 15, the name in brackets is the second.
    let ran = || -> Result<u64> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, rest) = stat.rsplit_once(')').context("a name")?;
        let fields = rest.split_whitespace().skip(11).take(2);
        fields.map(|field| Ok(field.parse::<u64>()?)).sum()
    };
    let before = ran()?;
    std::thread::sleep(Duration::from_secs(2));
    let ticks = ran()? - before;
    ensure!(ticks < 60, "accepting spins: {ticks} ticks in 2 s");
    let log = std::fs::read_to_string(node.file("twinmq.log"))?;
    let said = log.matches("Too many open files").count();
    let most = 3 * 10 * (usize::try_from(begun.elapsed().as_secs())? + 1);
    ensure!(
        (1..=most).contains(&said),
        "{said} lines tell of it:\n{log}"
    );
    // Whoever is connected is served all along, everybody else once descriptors come back.
    early.write_all(&kafka(18, 0, &[]))?;
    answer(&mut early)?;
    drop(open);
    std::thread::sleep(Duration::from_millis(500));
    serves(&mut node, "after they left")?;
    node.terminate()
}

/// Writes without reading until the socket takes no more.
fn stuff(port: u16, request: &[u8]) -> Result<TcpStream> {
    let mut stream = connect(port)?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    let many = request.repeat(64);
    for _ in 0..40 {
        if stream.write_all(&many).is_err() {
            break;
        }
    }
    Ok(stream)
}

fn never_reads() -> Result<()> {
    // Records of one protocol are read through the other, so that the answers are not slices of the log.
    let mut node = Node::start_with(&[
        "broker.translation_cache_bytes=8388608",
        "broker.translated_bytes_max=33554432",
    ])?;
    let mut body = vec![0_u8; 1 << 20];
    rand::rngs::StdRng::seed_from_u64(5).fill_bytes(&mut body);
    for _ in 0..24 {
        let send = native(
            310,
            r#""a":"g","b":"unread","c":"TBW102","d":"1","e":"0","f":"0","g":"1","h":"0","i":"","j":"0""#,
            &body,
        );
        ask(node.ports.native, &send)?;
    }
    let before = memory(&node)?;
    let mut fetch = Vec::new();
    fetch.extend((-1_i32).to_be_bytes());
    fetch.extend(0_i32.to_be_bytes());
    fetch.extend(1_i32.to_be_bytes());
    fetch.extend((1_i32 << 30).to_be_bytes());
    fetch.extend([0, 0, 0, 0, 1, 0, 6]);
    fetch.extend(b"unread");
    fetch.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    fetch.extend(0_i64.to_be_bytes());
    fetch.extend((1_i32 << 30).to_be_bytes());
    let pull = native(
        11,
        r#""consumerGroup":"g","topic":"unread","queueId":"0","queueOffset":"0","maxMsgNums":"32","sysFlag":"4","commitOffset":"0","suspendTimeoutMillis":"0","subscription":"*","subVersion":"0""#,
        &[],
    );
    let mut deaf = Vec::new();
    for _ in 0..16 {
        deaf.push(stuff(node.ports.kafka, &kafka(1, 4, &fetch))?);
        deaf.push(stuff(node.ports.native, &pull)?);
        deaf.push(stuff(node.ports.nameserver, &native(206, "", &[]))?);
    }
    serves(&mut node, "clients that never read")?;
    let grown = memory(&node)?.saturating_sub(before);
    ensure!(grown < 192, "clients that never read take {grown} MiB");
    drop(deaf);
    serves(&mut node, "after they left")?;
    node.terminate()
}

fn endless_frames() -> Result<()> {
    let mut node = Node::start_with(&[
        "native.limits.input_bytes_total_max=67108864",
        "nameserver.limits.input_bytes_total_max=67108864",
        "kafka.requests_bytes_total_max=134217728",
    ])?;
    let before = memory(&node)?;
    let ports = node.ports;
    let part = vec![b'x'; 12 << 20];
    let native_head = [&(15_u32 << 20).to_be_bytes()[..], &[0, 0, 4, 0]].concat();
    let kafka_head = [&(15_u32 << 20).to_be_bytes()[..], &[0, 0, 0, 3, 0, 0, 0, 1]].concat();
    let mut begun = Vec::new();
    for (port, head) in [
        (ports.native, &native_head),
        (ports.nameserver, &native_head),
        (ports.kafka, &kafka_head),
    ] {
        for _ in 0..16 {
            let mut stream = connect(port)?;
            stream.set_write_timeout(Some(Duration::from_millis(100)))?;
            let _ = stream
                .write_all(head)
                .and_then(|()| stream.write_all(&part));
            begun.push(stream);
        }
        serves(&mut node, "frames that never end")?;
    }
    let grown = memory(&node)?.saturating_sub(before);
    ensure!(grown < 448, "48 frames that never end take {grown} MiB");
    drop(begun);
    serves(&mut node, "after they left")?;
    node.terminate()
}

/// A record batch of two records of 100 MiB of zeros each, in 6 KiB of Zstandard: blocks of 128 KiB that
/// say one byte and how often it comes (RFC 8878).
fn bomb() -> Vec<u8> {
    const VALUE: u32 = 100 << 20;
    const BLOCK: u32 = 128 << 10;
    let varint = |n: u32| -> Vec<u8> {
        let mut rest = n * 2; // zigzag
        let mut out = Vec::new();
        while rest >= 0x80 {
            out.push(rest.to_le_bytes()[0] | 0x80);
            rest >>= 7;
        }
        out.push(rest.to_le_bytes()[0]);
        out
    };
    // Kind 0 is a plain block, kind 1 a repeated byte.
    let block = |size: u32, kind: u32, last: u32| (size << 3 | kind << 1 | last).to_le_bytes();
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    let mut plain = Vec::new();
    for delta in 0..2 {
        let value = varint(VALUE);
        // Attributes, time and offset deltas, no key, the value, no headers.
        let fields = [&[0, 0, delta * 2, 1][..], &value].concat();
        plain.extend(varint(u32::try_from(fields.len()).unwrap_or(0) + VALUE + 1));
        plain.extend(fields);
        packed.extend(&block(u32::try_from(plain.len()).unwrap_or(0), 0, 0)[..3]);
        packed.append(&mut plain);
        for _ in 0..VALUE / BLOCK {
            packed.extend(&block(BLOCK, 1, 0)[..3]);
            packed.push(0);
        }
        plain.push(0);
    }
    packed.extend(&block(1, 0, 1)[..3]);
    packed.push(0);
    let mut summed = Vec::new();
    summed.extend(4_i16.to_be_bytes());
    summed.extend(1_i32.to_be_bytes());
    summed.extend([0; 16]);
    summed.extend([0xff; 14]);
    summed.extend(2_i32.to_be_bytes());
    summed.extend(packed);
    let mut batch = vec![0; 8];
    batch.extend((u32::try_from(summed.len()).unwrap_or(0) + 9).to_be_bytes());
    batch.extend([0xff, 0xff, 0xff, 0xff, 2]);
    batch.extend(crc32c::crc32c(&summed).to_be_bytes());
    batch.extend(summed);
    batch
}

fn bombs() -> Result<()> {
    let mut node = Node::start()?;
    serves(&mut node, "at first")?; // makes the topic
    let before = memory(&node)?;
    let bomb = bomb();
    ensure!(bomb.len() < 8 << 10, "{} bytes", bomb.len());
    let mut produce = vec![0xff, 0xff, 0, 1, 0, 0, 0x75, 0x30, 0, 0, 0, 1, 0, 6];
    produce.extend(b"served");
    produce.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    produce.extend(u32::try_from(bomb.len())?.to_be_bytes());
    produce.extend(bomb);
    let request = kafka(0, 7, &produce);
    let mut open = Vec::new();
    for _ in 0..16 {
        let mut stream = connect(node.ports.kafka)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.write_all(&request)?;
        open.push(stream);
    }
    serves(&mut node, "batches that expand")?;
    let grown = memory(&node)?.saturating_sub(before);
    ensure!(grown < 128, "16 batches that expand take {grown} MiB");
    for mut stream in open {
        let answer = answer(&mut stream)?;
        // Correlation, topics, the topic, partitions, the partition, its error: MESSAGE_TOO_LARGE.
        ensure!(answer.get(24..26) == Some(&[0, 10]), "{answer:?}");
    }
    serves(&mut node, "after them")?;
    node.terminate()
}

fn few_lines() -> Result<()> {
    let mut node = Node::start()?;
    let ports = node.ports;
    let lines = |node: &Node| -> Result<usize> {
        Ok(std::fs::read_to_string(node.file("twinmq.log"))?
            .lines()
            .count())
    };
    let (before, begun) = (lines(&node)?, Instant::now());
    for _ in 0..500 {
        for port in [ports.nameserver, ports.native, ports.kafka] {
            ends(port, &[0xff; 8], "a negative length")?;
        }
    }
    let seconds = usize::try_from(begun.elapsed().as_secs())? + 2;
    let written = lines(&node)? - before;
    ensure!(written >= 3, "nothing was said");
    ensure!(
        written <= 3 * 10 * seconds,
        "{written} lines about 1,500 bad peers in {seconds} s"
    );
    serves(&mut node, "after the flood")?;
    node.terminate()
}

fn second_process() -> Result<()> {
    let mut node = Node::start()?;
    let output = std::process::Command::new(twinmq_compat_tests::node::binary()?)
        .arg("server")
        .args(["--data-dir".as_ref(), node.data().as_os_str()])
        .args(["--set", "nameserver.listen=127.0.0.1:0"])
        .args(["--set", "native.listen=127.0.0.1:0"])
        .args(["--set", "native.vip=false"])
        .args([
            "--set",
            r#"kafka.listeners=[{name="PLAINTEXT",bind="127.0.0.1:0"}]"#,
        ])
        .args(["--set", "http.listen=127.0.0.1:0"])
        .output()?;
    ensure!(!output.status.success(), "the second process ran");
    let said = String::from_utf8_lossy(&output.stderr);
    let data = node.data().display().to_string();
    ensure!(
        said.contains("in use by another process") && said.contains(&data),
        "it says {said:?}"
    );
    serves(&mut node, "beside a second process")?;
    node.kill()?;
    node.start_again()?;
    serves(&mut node, "after kill -9")?;
    node.terminate()
}
