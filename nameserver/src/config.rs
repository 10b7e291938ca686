//! The name server's settings.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;
use twinmq_remoting::Limits;

/// Settings of a name server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NameserverConfig {
    /// Where it listens, `host:port`. Default `0.0.0.0:9876`.
    pub listen: String,
    /// The file of the KV config; its directory is made. Default empty: `nameserver/kvConfig.json` in the
    /// process's data directory, filled in by the process.
    pub kv_path: PathBuf,
    /// Largest KV config, in bytes of its file. Default 4 MiB.
    pub kv_bytes_max: usize,
    /// Seconds between two looks for silent brokers. Default 5. 1 to 60.
    pub scan_seconds: u64,
    /// Seconds of silence after which a broker is out, unless it names its own. Default 120. At least 2.
    pub broker_silence_seconds_max: u64,
    /// Brokers at most; a further one is refused. Default 10,000.
    pub brokers_max: usize,
    /// Topics at most; registrations that bring more are refused. Default 1,000,000.
    pub topics_max: usize,
    /// What a compressed registration may unpack to, in bytes. Default 64 MiB.
    pub registration_bytes_max: usize,
    /// Whether routes carry the order configuration of a topic (KV namespace `ORDER_TOPIC_CONFIG`).
    /// Default false, as RocketMQ's `orderMessageEnable`.
    pub order_topics: bool,
    /// Limits of its connections.
    pub limits: Limits,
}

impl Default for NameserverConfig {
    fn default() -> Self {
        Self {
            listen: "0.0.0.0:9876".to_owned(),
            kv_path: PathBuf::new(),
            kv_bytes_max: 4 << 20,
            scan_seconds: 5,
            broker_silence_seconds_max: 120,
            brokers_max: 10_000,
            topics_max: 1_000_000,
            registration_bytes_max: 64 << 20,
            order_topics: false,
            limits: Limits::default(),
        }
    }
}

impl NameserverConfig {
    /// Refuses values that contradict each other or make no sense.
    ///
    /// # Errors
    /// A sentence that names the key.
    pub fn validate(&self) -> Result<(), String> {
        if self.listen.is_empty() {
            return Err("listen must be host:port".into());
        }
        if !self.kv_path.as_os_str().is_empty() && self.kv_path.file_name().is_none() {
            return Err("kv_path must name a file".into());
        }
        if !(1..=60).contains(&self.scan_seconds) {
            return Err("scan_seconds must be 1 to 60".into());
        }
        if self.broker_silence_seconds_max < 2 {
            return Err("broker_silence_seconds_max must be at least 2".into());
        }
        if self.brokers_max == 0 || self.topics_max == 0 || self.kv_bytes_max == 0 {
            return Err("brokers_max, topics_max and kv_bytes_max must be at least 1".into());
        }
        if self.registration_bytes_max < 64 << 10 {
            return Err("registration_bytes_max must be at least 64 KiB".into());
        }
        self.limits
            .validate()
            .map_err(|why| format!("limits: {why}"))
    }

    pub(crate) fn scan(&self) -> Duration {
        Duration::from_secs(self.scan_seconds)
    }

    pub(crate) fn silence(&self) -> Duration {
        Duration::from_secs(self.broker_silence_seconds_max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_valid_and_nonsense_is_named() {
        assert_eq!(NameserverConfig::default().validate(), Ok(()));
        let bad = NameserverConfig {
            scan_seconds: 0,
            ..NameserverConfig::default()
        };
        assert!(bad.validate().unwrap_err().contains("scan_seconds"));
        let limits = Limits {
            flush_bytes: 0,
            ..Limits::default()
        };
        let bad = NameserverConfig {
            limits,
            ..NameserverConfig::default()
        };
        assert!(bad.validate().unwrap_err().contains("flush_bytes"));
    }
}
