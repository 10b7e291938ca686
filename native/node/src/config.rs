//! The process's settings: the crates' own structs side by side. Everything has a default; a TOML
//! file, then `TWINMQ_*` environment variables, then flags override it.
//!
//! An environment variable names a key in capitals with `_` between section and key:
//! `TWINMQ_DATA_DIR`, `TWINMQ_STORE_FLUSH=sync`, `TWINMQ_BROKER_NODE_ID=2`. A flag names it with dots:
//! `--set store.flush=sync`. Values are TOML; what is not TOML is taken as a string.

use crate::error::StartError;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::{Table, Value};
use twinmq_core::CoreConfig;
use twinmq_kafka::KafkaConfig;
use twinmq_nameserver::NameserverConfig;
use twinmq_native::NativeConfig;
use twinmq_store::StoreConfig;

/// All settings of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeConfig {
    /// Where everything is kept. Created if absent.
    pub data_dir: PathBuf,
    /// Milliseconds that a stop waits for requests under way. 0 to 600000.
    pub drain_ms: u64,
    /// The threads that serve requests. 0 = one per core.
    pub worker_threads: usize,
    /// What is logged, and how.
    pub log: LogConfig,
    /// The HTTP port.
    pub http: HttpConfig,
    /// The broker itself.
    pub broker: CoreConfig,
    /// The log on disk.
    pub store: StoreConfig,
    /// The name server.
    pub nameserver: NameserverConfig,
    /// The RocketMQ front.
    pub native: NativeConfig,
    /// The Kafka front.
    pub kafka: KafkaConfig,
}

/// What is logged, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LogConfig {
    /// `error`, `warn`, `info`, `debug`, or a filter such as `info,twinmq_store=debug`.
    pub level: String,
    /// One JSON object a line instead of text.
    pub json: bool,
}

/// The HTTP port: `/metrics`, `/healthz`, `/readyz`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct HttpConfig {
    /// Where it listens.
    pub listen: SocketAddr,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::from("./twinmq-data"),
            drain_ms: 5000,
            worker_threads: 0,
            log: LogConfig::default(),
            http: HttpConfig::default(),
            broker: CoreConfig::default(),
            store: StoreConfig::default(),
            nameserver: NameserverConfig::default(),
            native: NativeConfig::default(),
            kafka: KafkaConfig::default(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            json: false,
        }
    }
}

impl Default for HttpConfig {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 5557)),
        }
    }
}

impl NodeConfig {
    /// Reads the file, if one is given, and lays environment and flags over it.
    ///
    /// # Errors
    /// A file that cannot be read, a key that does not exist, a value out of its limits; the message
    /// names the key.
    pub(crate) fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        flags: &[String],
    ) -> Result<Self, StartError> {
        let mut table = match file {
            Some(path) => std::fs::read_to_string(path)
                .map_err(|error| StartError::config(&path.display().to_string(), &error))?
                .parse::<Table>()
                .map_err(|error| StartError::config(&path.display().to_string(), &error))?,
            None => Table::new(),
        };
        let defaults = Table::try_from(Self::default())
            .map_err(|error| StartError::config("the defaults", &error))?;
        for (name, value) in environment {
            if let Some(path) = environment_key(&name, &defaults) {
                set(&mut table, &path, value_of(&value));
            }
        }
        for flag in flags {
            let Some((key, value)) = flag.split_once('=') else {
                return Err(StartError::config(flag, &"must read key=value"));
            };
            let path: Vec<String> = key.split('.').map(str::to_owned).collect();
            set(&mut table, &path, value_of(value));
        }
        let config: Self = table
            .try_into()
            .map_err(|error| StartError::config("the configuration", &error))?;
        config.validate()?;
        Ok(config)
    }

    /// Asks each part for contradictions.
    fn validate(&self) -> Result<(), StartError> {
        let wrong = |error: &dyn std::fmt::Display| StartError::config("the configuration", error);
        if self.drain_ms > 600_000 {
            return Err(wrong(&"drain_ms: must be from 0 to 600000"));
        }
        self.store.validate().map_err(|error| wrong(&error))?;
        self.broker
            .validate()
            .map_err(|(key, reason)| wrong(&format!("{key}: {reason}")))?;
        self.nameserver.validate().map_err(|error| wrong(&error))?;
        self.native.validate().map_err(|error| wrong(&error))?;
        self.kafka.validate().map_err(|error| wrong(&error))
    }
}

/// The path of keys that an environment variable names; `None` for variables that name none.
fn environment_key(name: &str, defaults: &Table) -> Option<Vec<String>> {
    let rest = name.strip_prefix("TWINMQ_")?.to_lowercase();
    if defaults.contains_key(&rest) {
        return Some(vec![rest]);
    }
    let (section, key) = rest.split_once('_')?;
    matches!(defaults.get(section), Some(Value::Table(_)))
        .then(|| vec![section.to_owned(), key.to_owned()])
}

fn value_of(text: &str) -> Value {
    format!("value = {text}")
        .parse::<Table>()
        .ok()
        .and_then(|mut table| table.remove("value"))
        .unwrap_or_else(|| Value::String(text.to_owned()))
}

fn set(table: &mut Table, path: &[String], value: Value) {
    match path {
        [] => {}
        [key] => {
            table.insert(key.clone(), value);
        }
        [section, rest @ ..] => {
            let inner = table
                .entry(section.clone())
                .or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = include_str!("../../../config/twinmq.toml");

    #[test]
    fn the_file_lists_every_key_at_its_default() {
        let listed: Table = FILE.parse().expect("config/twinmq.toml is TOML");
        let defaults = Table::try_from(NodeConfig::default()).expect("serialises");
        same("", &defaults, &listed);
        let read: NodeConfig = toml::from_str(FILE).expect("every key is known");
        assert_eq!(read, NodeConfig::default());
    }

    fn same(at: &str, defaults: &Table, listed: &Table) {
        for (key, value) in defaults {
            let place = format!("{at}{key}");
            let found = listed
                .get(key)
                .unwrap_or_else(|| panic!("config/twinmq.toml lacks {place}"));
            match (value, found) {
                (Value::Table(value), Value::Table(found)) => {
                    same(&format!("{place}."), value, found)
                }
                _ => assert_eq!(value, found, "{place}"),
            }
        }
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("twinmq.toml");
        std::fs::write(
            &file,
            "data_dir = \"a\"\n[store]\nflush = \"sync\"\nflush_interval_ms = 100\n",
        )
        .expect("writes");
        let environment = [
            ("TWINMQ_DATA_DIR".to_owned(), "b".to_owned()),
            (
                "TWINMQ_STORE_FLUSH_INTERVAL_MS".to_owned(),
                "200".to_owned(),
            ),
            ("TWINMQ_BROKER_NODE_ID".to_owned(), "3".to_owned()),
            ("PATH".to_owned(), "/bin".to_owned()),
        ];
        let flags = ["data_dir=c".to_owned()];
        let config = NodeConfig::load(Some(&file), environment.into_iter(), &flags).expect("loads");
        assert_eq!(config.data_dir, PathBuf::from("c"));
        assert_eq!(config.store.flush, twinmq_store::Flush::Sync);
        assert_eq!(config.store.flush_interval_ms, 200);
        assert_eq!(config.broker.node_id, 3);
    }

    #[test]
    fn unknown_keys_and_bad_values_are_refused_by_name() {
        for (flag, word) in [
            ("store.flash=sync", "flash"),
            ("store.flush_interval_ms=1", "store.flush_interval_ms"),
            ("nonsense", "key=value"),
        ] {
            let error = NodeConfig::load(None, std::iter::empty(), &[flag.to_owned()])
                .expect_err("refuses");
            let text = format!("{error}: {:?}", std::error::Error::source(&error));
            assert!(text.contains(word), "{flag}: {text}");
        }
    }
}
