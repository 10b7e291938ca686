//! The name server: which brokers live, which topics they have, and a little KV config. It speaks
//! RocketMQ's remoting protocol and follows its name server's rules, so that any RocketMQ client,
//! broker or tool can use it.
//!
//! Promises: routes are in memory and come from registrations alone; name servers never talk to each
//! other; a broker that is silent for its time, or whose connection closes, is out; KV config is on
//! disk before it is acknowledged.
//!
//! Reading order: [`routing`] is the pure table, `handlers` turn requests into calls on it, `table`
//! says which code goes where, [`Nameserver`] owns the tasks.
//!
//! Left out: acting masters (a replica shown as master), notices about a changed lowest broker id,
//! static topics, the controller.

mod config;
mod error;
mod handlers;
mod kv;
mod metrics;
pub mod routing;
mod server;
mod table;

pub use config::NameserverConfig;
pub use error::{KvError, RouteError, StartError};
pub use metrics::NameserverMetrics;
pub use server::{Nameserver, Routes};
