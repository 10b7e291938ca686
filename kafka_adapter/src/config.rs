//! Every setting of the Kafka front, with its default, unit and limits.

use crate::group::GroupConfig;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use thiserror::Error;

/// One address that Kafka clients connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerConfig {
    /// The listener's name, as in Kafka's `listeners`; unique.
    pub name: String,
    /// Address and port to bind. Default `0.0.0.0:9092`.
    pub bind: SocketAddr,
    /// `host:port` that clients of this listener are told to connect to. Unset: the address that the
    /// client did connect to, which is right everywhere but behind address translation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advertised: Option<String>,
}

/// Settings of the Kafka front. Bytes and milliseconds throughout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {
    /// Where clients connect. Default: one listener `PLAINTEXT` on `0.0.0.0:9092`.
    pub listeners: Vec<ListenerConfig>,
    /// The broker's rack, shown in Metadata. Unset by default. Kafka's `broker.rack`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Most connections at one time, over all listeners. Default 20000. Kafka's `max.connections`.
    pub connections_max: usize,
    /// Milliseconds without any traffic after which a connection is closed. Default 600000. Kafka's
    /// `connections.max.idle.ms`.
    pub connections_max_idle_ms: u64,
    /// Largest Produce request. Default 104857600. Kafka's `socket.request.max.bytes`.
    pub produce_bytes_max: u32,
    /// Largest request of any other kind: room for the assignment of a full group. Default 16777216.
    pub request_bytes_max: u32,
    /// Bytes of unfinished and unhandled requests above 256 KiB each, over all connections. A
    /// connection that gets no share within 10 s is closed. Default 536870912.
    pub requests_bytes_total_max: u64,
    /// Most array elements and tagged fields in one request. Default 200000.
    pub request_elements_max: u32,
    /// Milliseconds within which a begun request has to get on arriving. Default 30000.
    pub request_stall_ms: u64,
    /// Requests of one connection that may be started but not answered. Default 64.
    pub requests_in_flight_max: usize,
    /// Bytes of answers waiting in one connection above which no further request is started.
    /// Default 1048576.
    pub output_bytes_max: usize,
    /// Milliseconds after which a client that takes nothing of its answers is closed. Default 30000.
    pub output_stall_ms: u64,
    /// Most bytes of one Fetch answer. Default 57671680. Kafka's `fetch.max.bytes`.
    pub fetch_bytes_max: u32,
    /// Longest time a Fetch may be parked, in milliseconds, whatever it asks for. Default 600000.
    pub fetch_wait_max_ms: u64,
    /// Fetch sessions kept. Default 1000; 0 switches sessions off. Kafka's
    /// `max.incremental.fetch.session.cache.slots`.
    pub fetch_sessions_max: usize,
    /// Milliseconds of idleness after which a fetch session may be evicted for another. Default 120000.
    pub fetch_session_idle_ms: u64,
    /// Most partitions over all fetch sessions. Default 2000000.
    pub fetch_session_partitions_max: usize,
    /// Milliseconds that acks wait for the disk where a Produce asks for more. Default 300000.
    pub produce_wait_max_ms: u64,
    /// Whether DeleteTopics works. Default true. Kafka's `delete.topic.enable`.
    pub delete_topic_enable: bool,
    /// The classic group protocol.
    pub group: GroupConfig,
}

impl Default for KafkaConfig {
    fn default() -> Self {
        Self {
            listeners: vec![ListenerConfig {
                name: "PLAINTEXT".to_owned(),
                bind: SocketAddr::from(([0, 0, 0, 0], 9092)),
                advertised: None,
            }],
            rack: None,
            connections_max: 20_000,
            connections_max_idle_ms: 600_000,
            produce_bytes_max: 104_857_600,
            request_bytes_max: 16 << 20,
            requests_bytes_total_max: 512 << 20,
            request_elements_max: 200_000,
            request_stall_ms: 30_000,
            requests_in_flight_max: 64,
            output_bytes_max: 1 << 20,
            output_stall_ms: 30_000,
            fetch_bytes_max: 57_671_680,
            fetch_wait_max_ms: 600_000,
            fetch_sessions_max: 1000,
            fetch_session_idle_ms: 120_000,
            fetch_session_partitions_max: 2_000_000,
            produce_wait_max_ms: 300_000,
            delete_topic_enable: true,
            group: GroupConfig::default(),
        }
    }
}

/// A contradiction in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {reason}")]
pub struct ConfigError {
    /// The key to change.
    pub key: &'static str,
    /// Why its value does not do.
    pub reason: String,
}

impl KafkaConfig {
    /// Refuses contradictions, naming the key to change.
    ///
    /// # Errors
    /// The first key out of its limits.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let bad = |key, reason: &str| {
            Err(ConfigError {
                key,
                reason: reason.to_owned(),
            })
        };
        if self.listeners.is_empty() {
            return bad("kafka.listeners", "at least one listener is needed");
        }
        for (place, listener) in self.listeners.iter().enumerate() {
            if listener.name.is_empty()
                || self.listeners[..place]
                    .iter()
                    .any(|other| other.name == listener.name)
            {
                return bad("kafka.listeners.name", "must be set and unique");
            }
            if let Some(advertised) = &listener.advertised {
                let Some((host, _)) = split_host_port(advertised) else {
                    return bad("kafka.listeners.advertised", "must read host:port");
                };
                if host
                    .parse::<std::net::IpAddr>()
                    .is_ok_and(|ip| ip.is_unspecified())
                {
                    return bad(
                        "kafka.listeners.advertised",
                        "0.0.0.0 is no address that a client can connect to; name one that it can reach",
                    );
                }
            }
        }
        let at_least: [(&'static str, bool); 8] = [
            ("kafka.connections_max", self.connections_max >= 1),
            ("kafka.produce_bytes_max", self.produce_bytes_max >= 1024),
            ("kafka.request_bytes_max", self.request_bytes_max >= 1024),
            (
                "kafka.requests_bytes_total_max",
                self.requests_bytes_total_max >= u64::from(self.produce_bytes_max),
            ),
            (
                "kafka.request_elements_max",
                self.request_elements_max >= 100,
            ),
            (
                "kafka.requests_in_flight_max",
                self.requests_in_flight_max >= 1,
            ),
            ("kafka.output_bytes_max", self.output_bytes_max >= 1024),
            ("kafka.fetch_bytes_max", self.fetch_bytes_max >= 1024),
        ];
        match at_least.iter().find(|(_, fine)| !fine) {
            Some((key, _)) => bad(key, "is too low"),
            None => Ok(()),
        }
    }
}

/// `host:port` or `[v6]:port`.
pub(crate) fn split_host_port(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let host = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_valid() {
        KafkaConfig::default().validate().unwrap();
    }

    #[test]
    fn refuses_to_advertise_the_unspecified_address() {
        let mut config = KafkaConfig::default();
        for (text, fine) in [
            ("0.0.0.0:9092", false),
            ("[::]:9092", false),
            ("broker", false),
            ("broker:0", false),
            ("broker:9092", true),
            ("[::1]:9092", true),
        ] {
            config.listeners[0].advertised = Some(text.to_owned());
            assert_eq!(config.validate().is_ok(), fine, "{text}");
        }
    }
}
