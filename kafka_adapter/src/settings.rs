//! Topic and broker settings as Kafka's tools see them: names, types, defaults, synonyms.
//!
//! Names, types and defaults are those of Apache Kafka 4.x (`TopicConfig`, `LogConfig`,
//! `ServerTopicConfigSynonyms`). Which values a topic accepts is the catalogue's matter; here they are
//! only shown.

use crate::config::KafkaConfig;
use std::collections::BTreeMap;
use twinmq_core::CoreConfig;
use twinmq_core::catalog::{Origin, Topic};

/// Type of a setting, as DescribeConfigs v3+ numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub(crate) enum Type {
    Boolean = 1,
    Text = 2,
    Int = 3,
    Long = 5,
    Double = 6,
    List = 7,
}

/// Where a value comes from, as DescribeConfigs numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub(crate) enum Source {
    Topic = 1,
    StaticBroker = 4,
    Default = 5,
}

/// One shown setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) source: Source,
    pub(crate) kind: Type,
    pub(crate) read_only: bool,
    /// Most specific first: (name, value, source).
    pub(crate) synonyms: Vec<(&'static str, String, Source)>,
}

struct TopicSetting {
    name: &'static str,
    kind: Type,
    default: &'static str,
    /// Broker-level names, most specific first.
    synonyms: &'static [&'static str],
}

const fn s(
    name: &'static str,
    kind: Type,
    default: &'static str,
    synonyms: &'static [&'static str],
) -> TopicSetting {
    TopicSetting {
        name,
        kind,
        default,
        synonyms,
    }
}

const LONG_MAX: &str = "9223372036854775807";

const TOPIC: &[TopicSetting] = &[
    s(
        "cleanup.policy",
        Type::List,
        "delete",
        &["log.cleanup.policy"],
    ),
    s(
        "compression.gzip.level",
        Type::Int,
        "-1",
        &["compression.gzip.level"],
    ),
    s(
        "compression.lz4.level",
        Type::Int,
        "9",
        &["compression.lz4.level"],
    ),
    s(
        "compression.type",
        Type::Text,
        "producer",
        &["compression.type"],
    ),
    s(
        "compression.zstd.level",
        Type::Int,
        "3",
        &["compression.zstd.level"],
    ),
    s(
        "delete.retention.ms",
        Type::Long,
        "86400000",
        &["log.cleaner.delete.retention.ms"],
    ),
    s(
        "file.delete.delay.ms",
        Type::Long,
        "60000",
        &["log.segment.delete.delay.ms"],
    ),
    s(
        "flush.messages",
        Type::Long,
        LONG_MAX,
        &["log.flush.interval.messages"],
    ),
    s("flush.ms", Type::Long, LONG_MAX, &["log.flush.interval.ms"]),
    s(
        "follower.replication.throttled.replicas",
        Type::List,
        "",
        &[],
    ),
    s(
        "index.interval.bytes",
        Type::Int,
        "4096",
        &["log.index.interval.bytes"],
    ),
    s("leader.replication.throttled.replicas", Type::List, "", &[]),
    s(
        "local.retention.bytes",
        Type::Long,
        "-2",
        &["log.local.retention.bytes"],
    ),
    s(
        "local.retention.ms",
        Type::Long,
        "-2",
        &["log.local.retention.ms"],
    ),
    s(
        "max.compaction.lag.ms",
        Type::Long,
        LONG_MAX,
        &["log.cleaner.max.compaction.lag.ms"],
    ),
    s(
        "max.message.bytes",
        Type::Int,
        "1048588",
        &["message.max.bytes"],
    ),
    s(
        "message.timestamp.after.max.ms",
        Type::Long,
        "3600000",
        &["log.message.timestamp.after.max.ms"],
    ),
    s(
        "message.timestamp.before.max.ms",
        Type::Long,
        LONG_MAX,
        &["log.message.timestamp.before.max.ms"],
    ),
    s(
        "message.timestamp.type",
        Type::Text,
        "CreateTime",
        &["log.message.timestamp.type"],
    ),
    s(
        "min.cleanable.dirty.ratio",
        Type::Double,
        "0.5",
        &["log.cleaner.min.cleanable.ratio"],
    ),
    s(
        "min.compaction.lag.ms",
        Type::Long,
        "0",
        &["log.cleaner.min.compaction.lag.ms"],
    ),
    s(
        "min.insync.replicas",
        Type::Int,
        "1",
        &["min.insync.replicas"],
    ),
    s("preallocate", Type::Boolean, "false", &["log.preallocate"]),
    s("remote.log.copy.disable", Type::Boolean, "false", &[]),
    s("remote.log.delete.on.disable", Type::Boolean, "false", &[]),
    s("remote.storage.enable", Type::Boolean, "false", &[]),
    s(
        "retention.bytes",
        Type::Long,
        "-1",
        &["log.retention.bytes"],
    ),
    s(
        "retention.ms",
        Type::Long,
        "604800000",
        &["log.retention.ms"],
    ),
    s(
        "segment.bytes",
        Type::Int,
        "1073741824",
        &["log.segment.bytes"],
    ),
    s(
        "segment.index.bytes",
        Type::Int,
        "10485760",
        &["log.index.size.max.bytes"],
    ),
    s(
        "segment.jitter.ms",
        Type::Long,
        "0",
        &["log.roll.jitter.ms"],
    ),
    s("segment.ms", Type::Long, "604800000", &["log.roll.ms"]),
    s(
        "unclean.leader.election.enable",
        Type::Boolean,
        "false",
        &["unclean.leader.election.enable"],
    ),
];

/// Whether IncrementalAlterConfigs may APPEND to and SUBTRACT from a topic setting.
pub(crate) fn is_list(name: &str) -> bool {
    TOPIC
        .iter()
        .any(|setting| setting.name == name && setting.kind == Type::List)
}

/// What the broker's own settings amount to in Kafka's names.
#[derive(Debug)]
pub(crate) struct Defaults {
    /// Broker settings that differ from Kafka's defaults or have none, by broker-level name.
    broker: BTreeMap<&'static str, String>,
    pub(crate) num_partitions: u32,
    pub(crate) auto_create_topics: bool,
    native_retention_ms: u64,
}

/// Broker settings that tools look at: (name, type, Kafka's default).
const BROKER: &[(&str, Type, &str)] = &[
    ("advertised.listeners", Type::List, ""),
    ("auto.create.topics.enable", Type::Boolean, "true"),
    ("broker.id", Type::Int, "-1"),
    ("broker.rack", Type::Text, ""),
    ("compression.type", Type::Text, "producer"),
    ("connections.max.idle.ms", Type::Long, "600000"),
    ("default.replication.factor", Type::Int, "1"),
    ("delete.topic.enable", Type::Boolean, "true"),
    ("fetch.max.bytes", Type::Int, "57671680"),
    ("group.initial.rebalance.delay.ms", Type::Int, "3000"),
    ("group.max.session.timeout.ms", Type::Int, "1800000"),
    ("group.max.size", Type::Int, "2147483647"),
    ("group.min.session.timeout.ms", Type::Int, "6000"),
    ("inter.broker.protocol.version", Type::Text, "4.0-IV3"),
    ("listeners", Type::List, "PLAINTEXT://:9092"),
    ("log.cleanup.policy", Type::List, "delete"),
    ("log.flush.interval.messages", Type::Long, LONG_MAX),
    ("log.message.timestamp.after.max.ms", Type::Long, "3600000"),
    ("log.message.timestamp.before.max.ms", Type::Long, LONG_MAX),
    ("log.message.timestamp.type", Type::Text, "CreateTime"),
    ("log.retention.bytes", Type::Long, "-1"),
    ("log.retention.check.interval.ms", Type::Long, "300000"),
    ("log.retention.hours", Type::Int, "168"),
    ("log.retention.ms", Type::Long, "604800000"),
    ("log.segment.bytes", Type::Int, "1073741824"),
    ("max.connections", Type::Int, "2147483647"),
    (
        "max.incremental.fetch.session.cache.slots",
        Type::Int,
        "1000",
    ),
    ("message.max.bytes", Type::Int, "1048588"),
    ("min.insync.replicas", Type::Int, "1"),
    ("node.id", Type::Int, "-1"),
    ("num.partitions", Type::Int, "1"),
    ("offset.metadata.max.bytes", Type::Int, "4096"),
    ("offsets.retention.minutes", Type::Int, "10080"),
    ("offsets.topic.num.partitions", Type::Int, "50"),
    ("offsets.topic.replication.factor", Type::Int, "1"),
    ("process.roles", Type::List, "broker,controller"),
    ("producer.id.expiration.ms", Type::Int, "86400000"),
    ("quota.window.num", Type::Int, "11"),
    ("quota.window.size.seconds", Type::Int, "1"),
    ("replica.lag.time.max.ms", Type::Long, "30000"),
    ("request.timeout.ms", Type::Int, "30000"),
    ("security.inter.broker.protocol", Type::Text, "PLAINTEXT"),
    ("socket.request.max.bytes", Type::Int, "104857600"),
    ("transaction.max.timeout.ms", Type::Int, "900000"),
    ("transaction.state.log.num.partitions", Type::Int, "50"),
    ("transaction.state.log.replication.factor", Type::Int, "1"),
    ("transactional.id.expiration.ms", Type::Int, "604800000"),
    ("unclean.leader.election.enable", Type::Boolean, "false"),
];

impl Defaults {
    pub(crate) fn new(core: &CoreConfig, kafka: &KafkaConfig, flush_sync: bool) -> Self {
        let listeners: Vec<_> = kafka
            .listeners
            .iter()
            .map(|listener| format!("{}://{}", listener.name, listener.bind))
            .collect();
        let advertised: Vec<_> = kafka
            .listeners
            .iter()
            .filter_map(|listener| {
                let advertised = listener.advertised.as_ref()?;
                Some(format!("{}://{advertised}", listener.name))
            })
            .collect();
        let mut broker = BTreeMap::from([
            (
                "auto.create.topics.enable",
                core.auto_create_topics.to_string(),
            ),
            ("broker.id", core.node_id.to_string()),
            (
                "connections.max.idle.ms",
                kafka.connections_max_idle_ms.to_string(),
            ),
            ("delete.topic.enable", kafka.delete_topic_enable.to_string()),
            ("fetch.max.bytes", kafka.fetch_bytes_max.to_string()),
            (
                "group.initial.rebalance.delay.ms",
                kafka.group.initial_rebalance_delay_ms.to_string(),
            ),
            (
                "group.max.session.timeout.ms",
                kafka.group.max_session_timeout_ms.to_string(),
            ),
            ("group.max.size", kafka.group.max_size.to_string()),
            (
                "group.min.session.timeout.ms",
                kafka.group.min_session_timeout_ms.to_string(),
            ),
            ("advertised.listeners", advertised.join(",")),
            ("listeners", listeners.join(",")),
            (
                "log.retention.check.interval.ms",
                core.retention_interval_ms.to_string(),
            ),
            ("log.retention.ms", core.log_retention_ms.to_string()),
            ("max.connections", kafka.connections_max.to_string()),
            (
                "max.incremental.fetch.session.cache.slots",
                kafka.fetch_sessions_max.to_string(),
            ),
            ("message.max.bytes", core.message_max_bytes.to_string()),
            ("node.id", core.node_id.to_string()),
            ("num.partitions", core.num_partitions.to_string()),
            (
                "offset.metadata.max.bytes",
                kafka.group.offset_metadata_max_bytes.to_string(),
            ),
            (
                "offsets.retention.minutes",
                core.offsets_retention_minutes.to_string(),
            ),
            (
                "socket.request.max.bytes",
                kafka.produce_bytes_max.to_string(),
            ),
        ]);
        if let Some(rack) = &kafka.rack {
            broker.insert("broker.rack", rack.clone());
        }
        if flush_sync {
            broker.insert("log.flush.interval.messages", "1".to_owned());
        }
        broker.retain(|name, value| {
            BROKER
                .iter()
                .any(|(known, _, default)| known == name && default != value)
        });
        Self {
            broker,
            num_partitions: core.num_partitions,
            auto_create_topics: core.auto_create_topics,
            native_retention_ms: core.file_reserved_time_hours.saturating_mul(3_600_000),
        }
    }

    /// A topic's settings, all or those named.
    pub(crate) fn of_topic(&self, topic: &Topic, wanted: impl Fn(&str) -> bool) -> Vec<Shown> {
        TOPIC
            .iter()
            .filter(|setting| wanted(setting.name))
            .map(|setting| self.topic_setting(topic, setting))
            .collect()
    }

    fn topic_setting(&self, topic: &Topic, setting: &TopicSetting) -> Shown {
        let mut synonyms = Vec::new();
        if let Some(value) = topic.settings.get(setting.name) {
            synonyms.push((setting.name, value.clone(), Source::Topic));
        }
        let native_retention = setting.name == "retention.ms" && topic.origin == Origin::Native;
        if native_retention {
            let value = self.native_retention_ms.to_string();
            synonyms.push(("fileReservedTime", value, Source::StaticBroker));
        }
        for name in setting.synonyms {
            if let Some(value) = self.broker.get(name) {
                synonyms.push((name, value.clone(), Source::StaticBroker));
            }
        }
        let default = (
            setting.synonyms.first().copied().unwrap_or(setting.name),
            setting.default.to_owned(),
            Source::Default,
        );
        synonyms.push(default);
        // Never empty: the default was just pushed.
        let (value, source) = synonyms.first().map_or_else(
            || (String::new(), Source::Default),
            |(_, value, from)| (value.clone(), *from),
        );
        Shown {
            name: setting.name,
            value,
            source,
            kind: setting.kind,
            read_only: false,
            synonyms,
        }
    }

    /// The broker's settings, all or those named. None can be changed while it runs.
    pub(crate) fn of_broker(&self, wanted: impl Fn(&str) -> bool) -> Vec<Shown> {
        BROKER
            .iter()
            .filter(|(name, _, _)| wanted(name))
            .map(|(name, kind, default)| {
                let mut synonyms = Vec::new();
                if let Some(value) = self.broker.get(name) {
                    synonyms.push((*name, value.clone(), Source::StaticBroker));
                }
                synonyms.push((*name, (*default).to_owned(), Source::Default));
                let (_, value, source) = synonyms[0].clone();
                Shown {
                    name,
                    value,
                    source,
                    kind: *kind,
                    read_only: true,
                    synonyms,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broker_settings_show_what_is_set_before_the_default() {
        let core = CoreConfig {
            message_max_bytes: 5000,
            ..CoreConfig::default()
        };
        let defaults = Defaults::new(&core, &KafkaConfig::default(), true);
        assert_eq!(
            defaults.of_broker(|name| name == "log.flush.interval.messages")[0].value,
            "1"
        );
        let shown = defaults.of_broker(|name| name == "message.max.bytes");
        assert_eq!(shown[0].value, "5000");
        assert_eq!(shown[0].source, Source::StaticBroker);
        let shown = defaults.of_broker(|name| name == "num.partitions");
        assert_eq!(
            (shown[0].value.as_str(), shown[0].source),
            ("1", Source::Default)
        );
    }

    #[test]
    fn names_are_unique_and_sorted() {
        assert!(TOPIC.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(BROKER.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
