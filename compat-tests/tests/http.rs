//! The HTTP port, as Prometheus and an orchestrator see it.

use anyhow::{Context as _, Result, ensure};
use std::io::Write as _;
use std::process::{Command, ExitCode, Stdio};
use twinmq_compat_tests::clients::{Client, on_path};
use twinmq_compat_tests::suite::Suite;
use twinmq_compat_tests::topic::Topic;
use twinmq_compat_tests::{Node, sample};

const KAFKA: Client = Client::PythonKafka;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add("health_and_readiness_answer", &[], || {
        let node = Node::start()?;
        ensure!(node.get("/healthz")?.starts_with("HTTP/1.1 200"));
        ensure!(node.get("/readyz")?.starts_with("HTTP/1.1 200"));
        Ok(())
    });
    suite.add("metrics_tell_of_the_records_that_passed", &[KAFKA], metrics);
    if on_path("promtool") {
        suite.add("promtool_accepts_the_metrics", &[KAFKA], promtool);
    } else {
        eprintln!(
            "IGNORED SCENARIOS: promtool is not installed; install it with: apt-get install -y prometheus"
        );
    }
    suite.run()
}

fn loaded() -> Result<(Node, String)> {
    let node = Node::start()?;
    let topic = Topic::of(&node, "measured");
    topic.send(KAFKA, &sample::kafka(100, "m"), &[])?;
    topic.consume(KAFKA, "meters", 100, &[])?;
    let answer = node.get("/metrics")?;
    let (_, body) = answer.split_once("\r\n\r\n").context("a body")?;
    let body = body.to_owned();
    Ok((node, body))
}

fn metrics() -> Result<()> {
    let (_node, body) = loaded()?;
    for name in [
        "twinmq_store_",
        "twinmq_kafka_",
        "twinmq_native_",
        "twinmq_core_",
        "twinmq_nameserver_",
    ] {
        ensure!(body.contains(name), "no metric begins with {name}:\n{body}");
    }
    ensure!(
        body.contains("twinmq_request_stage_seconds_bucket"),
        "no stage histogram"
    );
    Ok(())
}

fn promtool() -> Result<()> {
    let (_node, body) = loaded()?;
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("stdin")?
        .write_all(body.as_bytes())?;
    let ran = child.wait_with_output()?;
    ensure!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(())
}
