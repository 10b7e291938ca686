//! The front's settings. Only the node reads files and environment; this is their shape.

use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use thiserror::Error;
use twinmq_remoting::Limits;

/// Settings of the RocketMQ front. Milliseconds and bytes throughout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NativeConfig {
    /// Where the broker listens. RocketMQ's `listenPort` is 10911.
    pub listen: SocketAddr,
    /// Whether the port two below is served too, without pulls: old Java producers go there.
    pub vip: bool,
    /// Host that clients are told, in routes, in storeHost and in message ids. Empty = loopback.
    /// A wildcard address is refused.
    pub advertised_host: String,
    /// Port that clients are told. 0 = the port bound.
    pub advertised_port: u16,
    /// Name servers, `host:port` each. The node puts its own in when it runs one.
    pub name_servers: Vec<String>,
    /// Milliseconds between registrations. 10000 to 60000. RocketMQ's `registerNameServerPeriod`.
    pub register_interval_ms: u64,
    /// Longest time one name server may take to answer.
    pub register_timeout_ms: u64,
    /// Limits of each of the two listeners and of their connections.
    pub limits: Limits,
    /// Milliseconds without a heartbeat after which a client's registration ends.
    pub client_expiry_ms: u64,
    /// Most messages of one pull. RocketMQ's `maxTransferCountOnMessageInMemory`.
    pub pull_messages_max: u32,
    /// Most bytes of one pull; at least one message always comes. RocketMQ's
    /// `maxTransferBytesOnMessageInMemory`.
    pub pull_bytes_max: u32,
    /// Longest a pull is held, whatever the client asks.
    pub pull_hold_ms_max: u64,
    /// Whether pulls are held as long as clients ask; else for a second. RocketMQ's
    /// `longPollingEnable`.
    pub long_polling: bool,
    /// Most messages of one native batch.
    pub batch_messages_max: usize,
    /// Milliseconds that a lock of an ordered queue lasts without renewal.
    pub queue_lock_ms: u64,
    /// Most groups, of either kind, that live clients may be registered under.
    pub live_groups_max: usize,
    /// Most groups and topics in one heartbeat.
    pub heartbeat_entries_max: usize,
    /// Milliseconds a call passed on to a client may take (307, 309, 326).
    pub client_call_ms: u64,
    /// RocketMQ's `regionId`: put into each message and each send's answer.
    pub region_id: String,
    /// RocketMQ's `traceOn`: `false` tells clients to send no trace messages.
    pub trace_on: bool,
}

impl Default for NativeConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 10911)),
            vip: true,
            advertised_host: String::new(),
            advertised_port: 0,
            name_servers: Vec::new(),
            register_interval_ms: 30_000,
            register_timeout_ms: 3_000,
            limits: Limits::default(),
            client_expiry_ms: 120_000,
            pull_messages_max: 32,
            pull_bytes_max: 256 << 10,
            pull_hold_ms_max: 60_000,
            long_polling: true,
            batch_messages_max: 32_768,
            queue_lock_ms: 60_000,
            live_groups_max: 100_000,
            heartbeat_entries_max: 20_000,
            client_call_ms: 10_000,
            region_id: "DefaultRegion".to_owned(),
            trace_on: true,
        }
    }
}

/// Largest frame that clients take unless told otherwise (`com.rocketmq.remoting.frameMaxLength`).
const CLIENT_FRAME_BYTES: usize = 16 << 20;
/// Bytes of a frame kept free for its header.
const HEADER_BYTES: usize = 64 << 10;

/// A contradiction in the settings.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The key to change.
    pub key: &'static str,
    /// What is wrong with its value.
    pub reason: String,
}

impl NativeConfig {
    /// Most bytes of messages that a frame to a client holds. Clients whose limit is raised are met with
    /// `limits.frame_bytes_max`.
    pub(crate) fn message_bytes_max(&self) -> u32 {
        let frame = self.limits.frame_bytes_max.max(CLIENT_FRAME_BYTES);
        u32::try_from(frame - HEADER_BYTES).unwrap_or(u32::MAX)
    }

    /// Refuses contradictions, naming the key to change.
    ///
    /// # Errors
    /// [`ConfigError`] for the first key out of its limits.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bad = |key, reason: &str| {
            Err(ConfigError {
                key,
                reason: reason.to_owned(),
            })
        };
        if self
            .advertised_host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_unspecified())
        {
            return bad(
                "native.advertised_host",
                "0.0.0.0 and :: cannot be connected to; give the address that clients reach",
            );
        }
        if self.vip && self.listen.port() != 0 && self.listen.port() < 3 {
            return bad("native.listen", "with vip = true the port must be above 2");
        }
        if !(10_000..=60_000).contains(&self.register_interval_ms) {
            return bad("native.register_interval_ms", "must be from 10000 to 60000");
        }
        if let Err(reason) = self.limits.validate() {
            return bad("native.limits", &reason);
        }
        if self.pull_messages_max == 0 || self.pull_bytes_max == 0 {
            return bad(
                "native.pull_messages_max",
                "pull_messages_max and pull_bytes_max must be above 0",
            );
        }
        if self.region_id.bytes().any(|b| b == 1 || b == 2) || self.region_id.len() > 255 {
            return bad(
                "native.region_id",
                "at most 255 bytes, without 0x01 and 0x02",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid_and_a_wildcard_is_not_advertised() {
        let mut config = NativeConfig::default();
        assert_eq!(config.validate(), Ok(()));
        for wildcard in ["0.0.0.0", "::"] {
            config.advertised_host = wildcard.to_owned();
            assert_eq!(
                config.validate().expect_err("a wildcard").key,
                "native.advertised_host"
            );
        }
    }
}
