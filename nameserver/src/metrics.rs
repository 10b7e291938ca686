//! The name server's metrics.

use twinmq_metrics::prometheus::{IntCounter, IntCounterVec, IntGauge, Opts};
use twinmq_metrics::{RegisterError, Registry};
use twinmq_remoting::code;

/// Every metric of this crate, registered once.
#[derive(Clone, Debug)]
pub struct NameserverMetrics {
    /// Brokers that are in.
    pub(crate) brokers: IntGauge,
    /// Topics that somebody has.
    pub(crate) topics: IntGauge,
    /// Brokers that were silent for too long.
    pub(crate) expired: IntCounter,
    requests: IntCounterVec,
}

impl NameserverMetrics {
    /// Registers the families.
    ///
    /// # Errors
    /// They are there already.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        let requests = Opts::new(
            "twinmq_nameserver_requests_total",
            "Requests answered, by request code and result.",
        );
        Ok(Self {
            brokers: registry.add(IntGauge::new(
                "twinmq_nameserver_brokers",
                "Brokers that are registered.",
            )?)?,
            topics: registry.add(IntGauge::new(
                "twinmq_nameserver_topics",
                "Topics that a registered broker has.",
            )?)?,
            expired: registry.add(IntCounter::new(
                "twinmq_nameserver_brokers_expired_total",
                "Brokers that were dropped because they were silent.",
            )?)?,
            requests: registry.add(IntCounterVec::new(requests, &["request", "result"])?)?,
        })
    }

    pub(crate) fn request(&self, code: i32, result: i32) {
        let request = code::request::name(code).unwrap_or("other");
        let result = code::response::name(result).unwrap_or("other");
        self.requests.with_label_values(&[request, result]).inc();
    }
}
