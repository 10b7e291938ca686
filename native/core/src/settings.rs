//! Kafka's topic configs and RocketMQ's topic attributes: which names exist, what values they take,
//! and what they amount to. Pure.
//!
//! Names, types and defaults are Apache Kafka 4.x's `TopicConfig`. A name that TwinMQ cannot honour
//! is refused by name instead of being accepted silently; those that only tune Kafka's own files are
//! kept and echoed.

use crate::catalog::{CatalogError, Origin, Resolved};
use crate::config::CoreConfig;
use std::collections::BTreeMap;

/// What values a setting takes.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A whole number in a range.
    Number(i64, i64),
    /// A floating-point number in a range.
    Fraction(f64, f64),
    /// `true` or `false`.
    Bool,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A comma list of these words, maybe empty.
    List(&'static [&'static str]),
    /// Any text.
    Text,
    /// A whole number, of which only these values can be honoured.
    Only(&'static [i64]),
}

/// One topic setting: its name and its values.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Kafka's name.
    pub name: &'static str,
    /// What it takes.
    pub values: Values,
}

const fn setting(name: &'static str, values: Values) -> Setting {
    Setting { name, values }
}

const INT: i64 = i32::MAX as i64;

/// Every topic setting that may be given.
pub const SETTINGS: &[Setting] = &[
    setting("cleanup.policy", Values::List(&["delete", "compact"])),
    setting("retention.ms", Values::Number(-1, i64::MAX)),
    setting("retention.bytes", Values::Number(-1, i64::MAX)),
    setting("max.message.bytes", Values::Number(0, INT)),
    setting("min.insync.replicas", Values::Number(1, INT)),
    setting(
        "message.timestamp.type",
        Values::Word(&["CreateTime", "LogAppendTime"]),
    ),
    setting(
        "message.timestamp.before.max.ms",
        Values::Number(0, i64::MAX),
    ),
    setting(
        "message.timestamp.after.max.ms",
        Values::Number(0, i64::MAX),
    ),
    // Gone in Kafka 4.0; tools of the 3.x era still set them.
    setting(
        "message.timestamp.difference.max.ms",
        Values::Number(0, i64::MAX),
    ),
    setting("message.format.version", Values::Text),
    setting("message.downconversion.enable", Values::Bool),
    setting("compression.type", Values::Word(&["producer"])),
    setting("compression.gzip.level", Values::Number(-1, 9)),
    setting("compression.lz4.level", Values::Number(1, 17)),
    setting("compression.zstd.level", Values::Number(-131_072, 22)),
    setting("delete.retention.ms", Values::Number(0, i64::MAX)),
    setting("min.cleanable.dirty.ratio", Values::Fraction(0.0, 1.0)),
    setting("min.compaction.lag.ms", Values::Number(0, i64::MAX)),
    setting("max.compaction.lag.ms", Values::Number(1, i64::MAX)),
    setting("segment.bytes", Values::Number(14, INT)),
    setting("segment.ms", Values::Number(1, i64::MAX)),
    setting("segment.jitter.ms", Values::Number(0, i64::MAX)),
    setting("segment.index.bytes", Values::Number(4, INT)),
    setting("index.interval.bytes", Values::Number(0, INT)),
    setting("file.delete.delay.ms", Values::Number(0, i64::MAX)),
    setting("flush.messages", Values::Only(&[1, i64::MAX])),
    setting("flush.ms", Values::Only(&[i64::MAX])),
    setting("preallocate", Values::Bool),
    setting("unclean.leader.election.enable", Values::Bool),
    setting("leader.replication.throttled.replicas", Values::Text),
    setting("follower.replication.throttled.replicas", Values::Text),
    setting("remote.storage.enable", Values::Word(&["false"])),
    setting("local.retention.ms", Values::Number(-2, i64::MAX)),
    setting("local.retention.bytes", Values::Number(-2, i64::MAX)),
    setting("remote.log.copy.disable", Values::Bool),
    setting("remote.log.delete.on.disable", Values::Bool),
];

/// RocketMQ's topic attributes (`TopicAttributes`), in the values this broker honours.
const ATTRIBUTES: &[Setting] = &[
    setting("cleanup.policy", Values::Word(&["DELETE", "COMPACTION"])),
    setting("queue.type", Values::Word(&["SimpleCQ"])),
    setting(
        "message.type",
        Values::Word(&[
            "UNSPECIFIED",
            "NORMAL",
            "FIFO",
            "DELAY",
            "TRANSACTION",
            "MIXED",
        ]),
    ),
    setting("reserve.time", Values::Number(-1, i64::MAX)),
];

/// Checks Kafka configs.
///
/// # Errors
/// `InvalidSetting` for the first unknown name or illegal value.
pub fn check_settings(given: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    check(SETTINGS, given)?;
    if let (Some(min), Some(max)) = (
        number(given, "min.compaction.lag.ms"),
        number(given, "max.compaction.lag.ms"),
    ) && min > max
    {
        return Err(invalid(
            "min.compaction.lag.ms",
            format!("{min} is more than max.compaction.lag.ms = {max}"),
        ));
    }
    Ok(())
}

/// Checks RocketMQ attributes.
///
/// # Errors
/// `InvalidSetting` for the first unknown name or illegal value.
pub fn check_attributes(given: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    check(ATTRIBUTES, given)
}

fn check(known: &[Setting], given: &BTreeMap<String, String>) -> Result<(), CatalogError> {
    for (key, value) in given {
        if value.len() > 32_767 {
            return Err(invalid(key, "longer than 32767 bytes".to_owned()));
        }
        let Some(setting) = known.iter().find(|setting| setting.name == key) else {
            return Err(invalid(key, "unknown topic setting".to_owned()));
        };
        check_value(setting, value.trim()).map_err(|reason| invalid(key, reason))?;
    }
    Ok(())
}

fn check_value(setting: &Setting, value: &str) -> Result<(), String> {
    match setting.values {
        Values::Number(low, high) => match value.parse::<i64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            Ok(number) => Err(format!("{number} is outside {low} to {high}")),
            Err(_) => Err(format!("{value:?} is not a whole number")),
        },
        Values::Fraction(low, high) => match value.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(()),
            Ok(number) => Err(format!("{number} is outside {low} to {high}")),
            Err(_) => Err(format!("{value:?} is not a number")),
        },
        Values::Bool if matches!(value, "true" | "false") => Ok(()),
        Values::Bool => Err(format!("{value:?} is neither true nor false")),
        Values::Word(words) if words.contains(&value) => Ok(()),
        Values::Word(words) => Err(format!(
            "{value:?} is not supported; possible: {}",
            words.join(", ")
        )),
        Values::List(words) => list(value)
            .find(|word| !words.contains(word))
            .map_or(Ok(()), |word| {
                Err(format!("{word:?} is none of {}", words.join(", ")))
            }),
        Values::Text => Ok(()),
        Values::Only(numbers) => match value.parse::<i64>() {
            Ok(number) if numbers.contains(&number) => Ok(()),
            Ok(number) => Err(format!(
                "{number} is not supported; possible: {numbers:?} (1 of flush.messages = flush on each write)"
            )),
            Err(_) => Err(format!("{value:?} is not a whole number")),
        },
    }
}

fn list(value: &str) -> impl Iterator<Item = &str> {
    value
        .split(',')
        .map(str::trim)
        .filter(|word| !word.is_empty())
}

fn invalid(key: &str, reason: String) -> CatalogError {
    CatalogError::InvalidSetting {
        key: key.to_owned(),
        reason,
    }
}

fn number(given: &BTreeMap<String, String>, key: &str) -> Option<i64> {
    given.get(key)?.trim().parse().ok()
}

/// What checked settings and attributes amount to.
#[must_use]
pub fn resolve(
    settings: &BTreeMap<String, String>,
    attributes: &BTreeMap<String, String>,
    origin: Origin,
    config: &CoreConfig,
) -> Resolved {
    let unlimited = |ms: i64| u64::try_from(ms).ok();
    let retention_ms = number(settings, "retention.ms").map_or_else(
        || match origin {
            Origin::Kafka => unlimited(config.log_retention_ms),
            Origin::Native => Some(config.file_reserved_time_hours.saturating_mul(3_600_000)),
        },
        unlimited,
    );
    let policy = settings.get("cleanup.policy").map(String::as_str);
    let compacted = attributes
        .get("cleanup.policy")
        .is_some_and(|value| value == "COMPACTION");
    let compact = policy.map_or(compacted, |value| list(value).any(|word| word == "compact"));
    let delete = policy.map_or(!compacted, |value| list(value).any(|word| word == "delete"));
    Resolved {
        flush_sync: number(settings, "flush.messages") == Some(1) || config.flush_sync,
        retention_ms,
        retention_bytes: number(settings, "retention.bytes").and_then(unlimited),
        max_message_bytes: number(settings, "max.message.bytes")
            .and_then(|bytes| u32::try_from(bytes).ok())
            .unwrap_or(config.message_max_bytes),
        log_append_time: settings
            .get("message.timestamp.type")
            .is_some_and(|value| value.trim() == "LogAppendTime"),
        timestamp_before_max_ms: number(settings, "message.timestamp.before.max.ms")
            .unwrap_or(i64::MAX),
        timestamp_after_max_ms: number(settings, "message.timestamp.after.max.ms")
            .unwrap_or(3_600_000),
        compact,
        delete,
        min_insync_replicas: number(settings, "min.insync.replicas")
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn values_are_checked_by_type_and_range() {
        for good in [
            ("retention.ms", "-1"),
            ("retention.ms", " 1000 "),
            ("cleanup.policy", "compact,delete"),
            ("cleanup.policy", ""),
            ("flush.messages", "1"),
            ("flush.messages", "9223372036854775807"),
            ("compression.type", "producer"),
            ("min.cleanable.dirty.ratio", "0.5"),
            ("preallocate", "true"),
        ] {
            check_settings(&map(&[good])).unwrap_or_else(|error| panic!("{good:?}: {error}"));
        }
        for bad in [
            ("retention.ms", "-2"),
            ("retention.ms", "many"),
            ("cleanup.policy", "compress"),
            ("flush.messages", "10"),
            ("flush.ms", "1000"),
            ("compression.type", "gzip"),
            ("remote.storage.enable", "true"),
            ("min.cleanable.dirty.ratio", "1.5"),
            ("no.such.setting", "1"),
        ] {
            let error = check_settings(&map(&[bad])).expect_err(bad.0);
            assert!(
                matches!(&error, CatalogError::InvalidSetting { key, .. } if key == bad.0),
                "{error}"
            );
        }
    }

    #[test]
    fn defaults_differ_by_origin() {
        let config = CoreConfig::default();
        let none = BTreeMap::new();
        let kafka = resolve(&none, &none, Origin::Kafka, &config);
        assert_eq!(kafka.retention_ms, Some(604_800_000));
        let native = resolve(&none, &none, Origin::Native, &config);
        assert_eq!(native.retention_ms, Some(72 * 3_600_000));
        assert!(native.delete && !native.compact && !native.flush_sync);
        let set = map(&[
            ("retention.ms", "-1"),
            ("flush.messages", "1"),
            ("cleanup.policy", "compact"),
        ]);
        let set = resolve(&set, &none, Origin::Kafka, &config);
        assert_eq!(set.retention_ms, None);
        assert!(set.flush_sync && set.compact && !set.delete);
        let attributes = map(&[("cleanup.policy", "COMPACTION")]);
        assert!(resolve(&none, &attributes, Origin::Native, &config).compact);
    }
}
