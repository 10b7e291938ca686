//! The metrics of connections, by listener.

use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts};
use twinmq_metrics::{RegisterError, Registry};

/// The families of this crate.
#[derive(Clone, Debug)]
pub struct RemotingMetrics {
    connections: IntGaugeVec,
    closed: IntCounterVec,
    refused: IntCounterVec,
    bytes: IntCounterVec,
}

/// One listener's children, resolved up front.
#[derive(Clone, Debug)]
pub struct ListenerMetrics {
    /// Open connections.
    pub(crate) connections: IntGauge,
    /// Connections closed for what the peer did: not a frame, idle, does not read.
    pub(crate) closed: [IntCounter; 5],
    /// Connections refused at the cap.
    pub(crate) refused: IntCounter,
    /// Bytes received.
    pub(crate) received: IntCounter,
    /// Bytes sent.
    pub(crate) sent: IntCounter,
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The peer closed it, or the network did.
    Peer = 0,
    /// Something that is no frame.
    Frame = 1,
    /// Nothing came for too long.
    Idle = 2,
    /// The peer does not read.
    Stalled = 3,
    /// We closed it: a stop, or the front asked for it.
    Here = 4,
}

const REASONS: [&str; 5] = ["peer", "frame", "idle", "stalled", "here"];

impl RemotingMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// They are there already.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        let gauge = |name: &str, help: &str| IntGaugeVec::new(Opts::new(name, help), &["listener"]);
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, help), labels)
        };
        Ok(Self {
            connections: registry
                .add(gauge("twinmq_remoting_connections", "Open connections.")?)?,
            closed: registry.add(counter(
                "twinmq_remoting_closed_total",
                "Connections that ended, by reason.",
                &["listener", "reason"],
            )?)?,
            refused: registry.add(counter(
                "twinmq_remoting_refused_total",
                "Connections refused because connections_max was reached.",
                &["listener"],
            )?)?,
            bytes: registry.add(counter(
                "twinmq_remoting_bytes_total",
                "Bytes on the wire, by direction.",
                &["listener", "direction"],
            )?)?,
        })
    }

    /// The children of one listener.
    #[must_use]
    pub fn listener(&self, name: &str) -> ListenerMetrics {
        ListenerMetrics {
            connections: self.connections.with_label_values(&[name]),
            closed: REASONS.map(|reason| self.closed.with_label_values(&[name, reason])),
            refused: self.refused.with_label_values(&[name]),
            received: self.bytes.with_label_values(&[name, "in"]),
            sent: self.bytes.with_label_values(&[name, "out"]),
        }
    }
}

impl ListenerMetrics {
    /// Counts into nowhere: for outgoing connections and for tests.
    #[must_use]
    pub fn detached() -> Self {
        let counter =
            || IntCounter::new("unused", "unused").unwrap_or_else(|_| unreachable!("a legal name"));
        Self {
            connections: IntGauge::new("unused", "unused")
                .unwrap_or_else(|_| unreachable!("a legal name")),
            closed: [counter(), counter(), counter(), counter(), counter()],
            refused: counter(),
            received: counter(),
            sent: counter(),
        }
    }

    pub(crate) fn ended(&self, why: Ended) {
        if let Some(counter) = self.closed.get(why as usize) {
            counter.inc();
        }
    }
}
