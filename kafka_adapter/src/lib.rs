//! The Kafka front: an unmodified Kafka client speaks to this crate and sees a Kafka broker.
//!
//! A request walks `connection` (frames, order) -> `guard` (claimed counts) -> `table` (which
//! handler) -> `handlers/<api>` -> `twinmq_core` and back. Promises: answers leave in request order,
//! nothing a client sends can abort or panic the process, every buffer and wait has a limit of
//! [`KafkaConfig`], and only what is answered is advertised. Leaves out: security, transactions and
//! the newer group protocols, none of which is advertised.

mod config;
mod connection;
mod error;
mod frame;
mod group;
mod guard;
mod handlers;
mod metrics;
mod output;
#[cfg(feature = "fuzz")]
mod probe;
mod serve;
mod session;
mod settings;
mod table;
mod topology;

pub use config::{ConfigError, KafkaConfig, ListenerConfig};
pub use group::GroupConfig;
pub use metrics::KafkaMetrics;
#[cfg(feature = "fuzz")]
pub use probe::probe;
pub use serve::{BindError, Bound, Kafka, Parts, bind};
