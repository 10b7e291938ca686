//! Topic and broker settings as Kafka's tools see them: names, types, defaults, synonyms.
//!
//! Names, types and defaults are those of Apache Kafka 4.x (`TopicConfig`, `LogConfig`,
//! `ServerTopicConfigSynonyms`). Which values a topic accepts is the catalogue's matter; here they are
//! only shown.

mod tables;

use crate::config::KafkaConfig;
use std::collections::BTreeMap;
use tables::{BROKER, TOPIC, TopicSetting};
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
