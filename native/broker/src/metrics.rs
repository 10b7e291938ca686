//! Every metric of this crate, registered once. Requests by kind and result, messages and bytes,
//! connections, held pulls, and a stage row per kind of request; the most used names of RocketMQ's
//! own exporters beside them.

use crate::table::Kind;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use std::sync::Arc;
use twinmq_metrics::{RegisterError, Registry, StageMetrics, StageRow};

/// The front's metrics; cheap to clone.
#[derive(Clone, Debug)]
pub struct NativeMetrics {
    /// Answered requests by kind and answer code.
    pub(crate) requests: IntCounterVec,
    succeeded: Arc<Vec<IntCounter>>,
    rows: Arc<Vec<StageRow>>,
    row_of: Arc<Vec<usize>>,
    pub(crate) messages_in: IntCounter,
    pub(crate) messages_out: IntCounter,
    pub(crate) bytes_in: IntCounter,
    pub(crate) bytes_out: IntCounter,
    pub(crate) sent_back: IntCounter,
    /// Pulls that wait for a message.
    pub(crate) held_pulls: IntGauge,
    /// Registrations with name servers that failed.
    pub(crate) register_failures: IntCounter,
}

impl NativeMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// A family of the same name is there already.
    pub fn register(registry: &Registry, stages: &StageMetrics) -> Result<Self, RegisterError> {
        let requests = registry.add(IntCounterVec::new(
            Opts::new(
                "twinmq_native_requests_total",
                "Requests answered by the RocketMQ front, by kind and answer code.",
            ),
            &["request", "code"],
        )?)?;
        let succeeded = Kind::ALL
            .iter()
            .map(|kind| requests.with_label_values(&[kind.name(), "0"]))
            .collect();
        let mut rows = vec![stages.row("rocketmq", "other")];
        let mut row_of = Vec::new();
        for kind in Kind::ALL {
            if kind.is_frequent() {
                row_of.push(rows.len());
                rows.push(stages.row("rocketmq", kind.name()));
            } else {
                row_of.push(0);
            }
        }
        let counter = |name: &str, help: &str| -> Result<IntCounter, RegisterError> {
            registry.add(IntCounter::new(name, help)?)
        };
        Ok(Self {
            succeeded: Arc::new(succeeded),
            rows: Arc::new(rows),
            row_of: Arc::new(row_of),
            messages_in: counter(
                "rocketmq_messages_in_total",
                "Messages stored through the RocketMQ protocol.",
            )?,
            messages_out: counter(
                "rocketmq_messages_out_total",
                "Messages handed out through the RocketMQ protocol.",
            )?,
            bytes_in: counter(
                "rocketmq_throughput_in_total",
                "Bytes of message bodies stored through the RocketMQ protocol.",
            )?,
            bytes_out: counter(
                "rocketmq_throughput_out_total",
                "Bytes of messages handed out through the RocketMQ protocol.",
            )?,
            sent_back: counter(
                "twinmq_native_sent_back_messages_total",
                "Messages that consumers gave back.",
            )?,
            held_pulls: registry.add(IntGauge::new(
                "twinmq_native_held_pulls",
                "Pulls that wait for a message.",
            )?)?,
            register_failures: counter(
                "twinmq_native_register_failures_total",
                "Registrations that a name server did not take.",
            )?,
            requests,
        })
    }

    /// Counts an answer.
    pub(crate) fn answered(&self, kind: Kind, code: i32) {
        match self.succeeded.get(kind as usize) {
            Some(counter) if code == 0 => counter.inc(),
            _ => self
                .requests
                .with_label_values(&[kind.name(), &code.to_string()])
                .inc(),
        }
    }

    /// The stage row of a kind; there always is one.
    pub(crate) fn row(&self, kind: Kind) -> &StageRow {
        let row = self.row_of.get(kind as usize).copied().unwrap_or(0);
        &self.rows[row]
    }
}
