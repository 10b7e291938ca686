//! Every metric of this crate, registered once.

use crate::table::APIS;
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use twinmq_metrics::{RegisterError, Registry, StageMetrics, StageRow};

/// The Kafka front's metrics: `twinmq_kafka_*`, and its rows of the request stages.
#[derive(Clone, Debug)]
pub struct KafkaMetrics {
    /// By place in [`APIS`]: answered, answered without a response (acks=0), closed.
    pub(crate) requests: Vec<RequestRow>,
    pub(crate) received_bytes: IntCounter,
    pub(crate) sent_bytes: IntCounter,
    pub(crate) connections: IntGauge,
    pub(crate) connections_accepted: IntCounter,
    pub(crate) connections_refused: IntCounter,
    pub(crate) closed_for_cause: IntCounter,
    pub(crate) fetch_sessions: IntGauge,
    pub(crate) fetch_session_partitions: IntGauge,
    pub(crate) fetch_session_evictions: IntCounter,
    pub(crate) groups: GroupMetrics,
    errors: IntCounterVec,
}

/// One API's handles.
#[derive(Clone, Debug)]
pub(crate) struct RequestRow {
    pub(crate) answered: IntCounter,
    pub(crate) unanswered: IntCounter,
    pub(crate) closed: IntCounter,
    pub(crate) stages: StageRow,
}

/// The classic group protocol's part.
#[derive(Clone, Debug)]
pub(crate) struct GroupMetrics {
    pub(crate) groups: IntGauge,
    pub(crate) members: IntGauge,
    pub(crate) rebalances: IntCounter,
    pub(crate) store_failures: IntCounter,
}

impl GroupMetrics {
    /// Registers the groups' families.
    ///
    /// # Errors
    /// A family of the same name is there already.
    pub(crate) fn register(registry: &Registry) -> Result<Self, RegisterError> {
        Ok(Self {
            groups: registry.add(IntGauge::new(
                "twinmq_kafka_groups",
                "Groups with Kafka members or a stored generation.",
            )?)?,
            members: registry.add(IntGauge::new(
                "twinmq_kafka_group_members",
                "Kafka members of all groups.",
            )?)?,
            rebalances: registry.add(IntCounter::new(
                "twinmq_kafka_group_rebalances_total",
                "Generations that groups began.",
            )?)?,
            store_failures: registry.add(IntCounter::new(
                "twinmq_kafka_group_store_failures_total",
                "Group records that the log did not take.",
            )?)?,
        })
    }
}

impl KafkaMetrics {
    /// Registers the front's families; `stages` is shared with the other front.
    ///
    /// # Errors
    /// A family of the same name is there already.
    pub fn register(registry: &Registry, stages: &StageMetrics) -> Result<Self, RegisterError> {
        let counter = |name: &str, help: &str| -> Result<IntCounter, RegisterError> {
            registry.add(IntCounter::new(name, help)?)
        };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, RegisterError> {
            registry.add(IntGauge::new(name, help)?)
        };
        let requests = registry.add(IntCounterVec::new(
            Opts::new(
                "twinmq_kafka_requests_total",
                "Kafka requests by API and result: answered, unanswered (acks=0), closed.",
            ),
            &["api", "result"],
        )?)?;
        let errors = registry.add(IntCounterVec::new(
            Opts::new(
                "twinmq_kafka_partition_errors_total",
                "Partitions of Produce and Fetch answered with an error, by error code.",
            ),
            &["api", "code"],
        )?)?;
        let rows = APIS
            .iter()
            .map(|api| RequestRow {
                answered: requests.with_label_values(&[api.name, "answered"]),
                unanswered: requests.with_label_values(&[api.name, "unanswered"]),
                closed: requests.with_label_values(&[api.name, "closed"]),
                stages: stages.row("kafka", api.name),
            })
            .collect();
        Ok(Self {
            requests: rows,
            groups: GroupMetrics::register(registry)?,
            errors,
            received_bytes: counter(
                "twinmq_kafka_received_bytes_total",
                "Bytes read from Kafka clients.",
            )?,
            sent_bytes: counter(
                "twinmq_kafka_sent_bytes_total",
                "Bytes written to Kafka clients.",
            )?,
            connections: gauge("twinmq_kafka_connections", "Open Kafka connections.")?,
            connections_accepted: counter(
                "twinmq_kafka_connections_accepted_total",
                "Kafka connections accepted.",
            )?,
            connections_refused: counter(
                "twinmq_kafka_connections_refused_total",
                "Kafka connections closed at once because of kafka.connections_max.",
            )?,
            closed_for_cause: counter(
                "twinmq_kafka_connections_closed_for_cause_total",
                "Kafka connections closed because of what the client sent or failed to take.",
            )?,
            fetch_sessions: gauge(
                "twinmq_kafka_fetch_sessions",
                "Fetch sessions kept (KIP-227).",
            )?,
            fetch_session_partitions: gauge(
                "twinmq_kafka_fetch_session_partitions",
                "Partitions in all fetch sessions.",
            )?,
            fetch_session_evictions: counter(
                "twinmq_kafka_fetch_session_evictions_total",
                "Fetch sessions evicted for another.",
            )?,
        })
    }

    /// Counts a partition's error code. Only called off the fast path.
    pub(crate) fn partition_error(&self, api: &str, code: i16) {
        self.errors
            .with_label_values(&[api, &code.to_string()])
            .inc();
    }
}
