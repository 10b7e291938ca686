//! The registry, the naming rule and the stage clock. A leaf: knows no crate of ours.
//!
//! Every family is named `twinmq_<crate>_<what>_<unit>`. The registry is made once in the process
//! and passed by reference to each crate's `XMetrics::register`; there are no statics.

mod endpoint;
mod stage;

pub use endpoint::{BeforeScrape, Endpoint, Readiness};
pub use prometheus;
pub use stage::{Stage, StageClock, StageMetrics, StageRow};

use prometheus::core::Collector;
use thiserror::Error;

/// A family could not be registered.
#[derive(Debug, Error)]
#[error("metric family: {0}")]
pub struct RegisterError(#[from] prometheus::Error);

/// All metric families of the process.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: prometheus::Registry,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a family and gives it back.
    ///
    /// # Errors
    /// A family of that name is there already.
    pub fn add<C: Collector + Clone + 'static>(&self, family: C) -> Result<C, RegisterError> {
        self.inner.register(Box::new(family.clone()))?;
        Ok(family)
    }

    /// Everything in Prometheus' text format, version 0.0.4.
    #[must_use]
    pub fn text(&self) -> String {
        use prometheus::Encoder;
        let mut out = Vec::new();
        if let Err(error) = prometheus::TextEncoder::new().encode(&self.inner.gather(), &mut out) {
            tracing::warn!(%error, "metrics could not be encoded");
        }
        String::from_utf8_lossy(&out).into_owned()
    }
}

/// The three bucket sets.
pub mod buckets {
    /// 10 µs to 30 s.
    pub const SECONDS: &[f64] = &[
        0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01,
        0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    ];
    /// 64 B to 64 MiB.
    pub const BYTES: &[f64] = &[
        64.0,
        256.0,
        1024.0,
        4096.0,
        16384.0,
        65536.0,
        262_144.0,
        1_048_576.0,
        4_194_304.0,
        16_777_216.0,
        67_108_864.0,
    ];
    /// 1 to 10,000.
    pub const COUNTS: &[f64] = &[
        1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 10_000.0,
    ];
}
