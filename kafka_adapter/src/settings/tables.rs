//! The settings that Kafka's tools look for, in name order: Apache Kafka 4.x `TopicConfig`, `LogConfig`,
//! `ServerTopicConfigSynonyms` and the broker's own.

use super::Type;

/// One topic setting.
pub(super) struct TopicSetting {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    /// Kafka's default.
    pub(super) default: &'static str,
    /// Broker-level names, most specific first.
    pub(super) synonyms: &'static [&'static str],
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

/// All topic settings.
pub(super) const TOPIC: &[TopicSetting] = &[
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

/// Broker settings that tools look at: (name, type, Kafka's default).
pub(super) const BROKER: &[(&str, Type, &str)] = &[
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
