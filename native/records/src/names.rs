//! The two-way rule for topic and group names, and which names are legal on each side.
//!
//! Topics. Kafka allows `a-zA-Z0-9._-`, RocketMQ `a-zA-Z0-9_%|-`:
//!
//! | Kafka | RocketMQ |
//! |---|---|
//! | `.` | `%2E` |
//! | `RETRY-` in front | `%RETRY%` in front |
//! | `DLQ-` in front | `%DLQ%` in front |
//! | `.-7C` | <code>&#124;</code> |
//! | `.-25` | any other `%` |
//! | `.-2E` | `%2E`, where `.` alone would be read as one of these marks |
//! | `RETRY.-2D`, `DLQ.-2D` in front | `RETRY-`, `DLQ-` in front |
//!
//! Groups. Kafka allows any text, RocketMQ `a-zA-Z0-9_%|-`. A name that is legal on both sides is the
//! same on both, but for escapes: what RocketMQ does not allow is written `%XX` (upper-case
//! hexadecimal of its UTF-8 bytes) there, and a `%` in front of what looks like such an escape is
//! `%25`. So `orders.eu` is `orders%2Eeu` for RocketMQ, as it is for topics.
//!
//! Promises: where a function gives a name, its counterpart gives the first name back (property test).
//! A topic has no name on the other side when that would be too long, when it is `%2E` or `%2E%2E`
//! (Kafka allows neither `.` nor `..`), or when a Kafka name holds one of the marks without need.

use thiserror::Error;

/// Longest Kafka topic name.
pub const KAFKA_TOPIC_MAX: usize = 249;
/// Longest RocketMQ topic name that every client can read.
pub const NATIVE_TOPIC_MAX: usize = crate::message::TOPIC_MAX_V1;
/// Longest RocketMQ topic name; above [`NATIVE_TOPIC_MAX`] only Java clients since 5.0 read it.
pub const NATIVE_TOPIC_MAX_V2: usize = crate::message::TOPIC_MAX;
/// Longest RocketMQ group name (`Validators`).
pub const NATIVE_GROUP_MAX: usize = 255;
/// Longest Kafka group name (an i16 counts it).
pub const KAFKA_GROUP_MAX: usize = 32_767;

/// RocketMQ's prefix of a group's retry topic.
pub const NATIVE_RETRY: &str = "%RETRY%";
/// RocketMQ's prefix of a group's dead letters.
pub const NATIVE_DLQ: &str = "%DLQ%";
/// Kafka's prefix of a group's retry topic.
pub const KAFKA_RETRY: &str = "RETRY-";
/// Kafka's prefix of a group's dead letters.
pub const KAFKA_DLQ: &str = "DLQ-";

const PREFIXES: [(&str, &str); 2] = [(KAFKA_RETRY, NATIVE_RETRY), (KAFKA_DLQ, NATIVE_DLQ)];

/// Why a name is illegal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NameError {
    /// No characters.
    #[error("it is empty")]
    Empty,
    /// Kafka refuses `.` and `..`.
    #[error("it is \".\" or \"..\"")]
    Dots,
    /// Too long, in bytes.
    #[error("it has {bytes} bytes, more than {max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
    /// A character outside the side's alphabet.
    #[error("{0:?} is not allowed")]
    Character(char),
}

/// Whether Kafka allows this topic name (`Topic.validate`).
///
/// # Errors
/// Why not.
pub fn check_kafka_topic(name: &str) -> Result<(), NameError> {
    if name == "." || name == ".." {
        return Err(NameError::Dots);
    }
    check(name, KAFKA_TOPIC_MAX, |c| {
        c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
    })
}

/// Whether RocketMQ allows this topic name (`TopicValidator`), with [`NATIVE_TOPIC_MAX_V2`] as limit.
///
/// # Errors
/// Why not.
pub fn check_native_topic(name: &str) -> Result<(), NameError> {
    check(name, NATIVE_TOPIC_MAX_V2, native)
}

/// Whether Kafka allows this group name: anything not empty.
///
/// # Errors
/// Why not.
pub fn check_kafka_group(name: &str) -> Result<(), NameError> {
    check(name, KAFKA_GROUP_MAX, |_| true)
}

/// Whether RocketMQ allows this group name.
///
/// # Errors
/// Why not.
pub fn check_native_group(name: &str) -> Result<(), NameError> {
    check(name, NATIVE_GROUP_MAX, native)
}

fn check(name: &str, max: usize, allowed: impl Fn(char) -> bool) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > max {
        return Err(NameError::TooLong {
            bytes: name.len(),
            max,
        });
    }
    match name.chars().find(|&c| !allowed(c)) {
        None => Ok(()),
        Some(c) => Err(NameError::Character(c)),
    }
}

fn native(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '|' | '-')
}

/// RocketMQ's name of a Kafka topic; `None` if it has none, or is not a Kafka topic name.
#[must_use]
pub fn native_topic(kafka: &str) -> Option<String> {
    check_kafka_topic(kafka).ok()?;
    let name = topic_to_native(kafka);
    (check_native_topic(&name).is_ok() && topic_to_kafka(&name) == kafka).then_some(name)
}

/// Kafka's name of a RocketMQ topic; `None` if it has none, or is not a RocketMQ topic name.
#[must_use]
pub fn kafka_topic(native: &str) -> Option<String> {
    check_native_topic(native).ok()?;
    let name = topic_to_kafka(native);
    (check_kafka_topic(&name).is_ok() && topic_to_native(&name) == native).then_some(name)
}

fn topic_to_native(kafka: &str) -> String {
    let mut out = String::with_capacity(kafka.len() + 8);
    let mut rest = kafka;
    for (here, there) in PREFIXES {
        if let Some(after) = kafka.strip_prefix(here) {
            out.push_str(there);
            rest = after;
        } else if let Some(after) = escaped_prefix(kafka, here) {
            out.push_str(here);
            rest = after;
        }
    }
    while let Some(c) = rest.chars().next() {
        let mark = [(".-7C", "|"), (".-25", "%"), (".-2E", "%2E"), (".", "%2E")]
            .into_iter()
            .find_map(|(from, to)| Some((rest.strip_prefix(from)?, to)));
        match mark {
            Some((after, to)) => {
                out.push_str(to);
                rest = after;
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// What follows `RETRY.-2D` for the prefix `RETRY-`.
fn escaped_prefix<'a>(kafka: &'a str, prefix: &str) -> Option<&'a str> {
    kafka
        .strip_prefix(prefix.trim_end_matches('-'))?
        .strip_prefix(".-2D")
}

fn topic_to_kafka(native: &str) -> String {
    let mut out = String::with_capacity(native.len() + 8);
    let mut rest = native;
    for (there, here) in PREFIXES {
        if let Some(after) = native.strip_prefix(here) {
            out.push_str(there);
            rest = after;
        } else if let Some(after) = native.strip_prefix(there) {
            out.push_str(there.trim_end_matches('-'));
            out.push_str(".-2D");
            rest = after;
        }
    }
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("%2E") {
            let confusing = ["-7C", "-25", "-2E"].iter().any(|m| after.starts_with(m))
                || (after.starts_with("-2D") && matches!(out.as_str(), "RETRY" | "DLQ"));
            out.push_str(if confusing { ".-2E" } else { "." });
            rest = after;
            continue;
        }
        match c {
            '|' => out.push_str(".-7C"),
            '%' => out.push_str(".-25"),
            c => out.push(c),
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}

/// RocketMQ's name of a Kafka group; `None` if it would be empty or too long.
#[must_use]
pub fn native_group(kafka: &str) -> Option<String> {
    let mut out = String::with_capacity(kafka.len() + 8);
    for (at, c) in kafka.char_indices() {
        if c == '%' && is_escaped(&kafka.as_bytes()[at + 1..]) {
            out.push_str("%25");
        } else if native(c) {
            out.push(c);
        } else {
            let mut utf8 = [0; 4];
            for byte in c.encode_utf8(&mut utf8).bytes() {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
    check_native_group(&out).is_ok().then_some(out)
}

/// Kafka's name of a RocketMQ group. Every one has one.
#[must_use]
pub fn kafka_group(native: &str) -> String {
    let mut out = String::with_capacity(native.len());
    let mut rest = native;
    while let Some(c) = rest.chars().next() {
        if c == '%' {
            if let Some((escaped, length)) = escape(rest.as_bytes()) {
                out.push(escaped);
                rest = &rest[length..];
                continue;
            }
            if let Some(after) = rest.strip_prefix("%25")
                && is_escaped(after.as_bytes())
            {
                out.push('%');
                rest = after;
                continue;
            }
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    out
}

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Whether a `%` before this text would read as the start of an escape, or of an escaped one.
fn is_escaped(mut after: &[u8]) -> bool {
    loop {
        if escape_body(after).is_some() {
            return true;
        }
        match after.strip_prefix(b"25") {
            Some(rest) => after = rest,
            None => return false,
        }
    }
}

/// A `%XX` sequence at the front that spells one character RocketMQ does not allow, and its length.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let (c, length) = escape_body(text.strip_prefix(b"%")?)?;
    Some((c, length + 1))
}

/// The same without the first `%`.
fn escape_body(text: &[u8]) -> Option<(char, usize)> {
    let hex = |at: usize| {
        let digit = |b: &u8| HEX.iter().position(|h| h == b);
        let high = digit(text.get(at)?)?;
        u8::try_from(high * 16 + digit(text.get(at + 1)?)?).ok()
    };
    let first = hex(0)?;
    let bytes = match first {
        0..0x80 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
        _ => return None,
    };
    let mut utf8 = [first, 0, 0, 0];
    for (i, byte) in utf8.iter_mut().enumerate().take(bytes).skip(1) {
        if text.get(3 * i - 1) != Some(&b'%') {
            return None;
        }
        *byte = hex(3 * i)?;
    }
    let c = std::str::from_utf8(&utf8[..bytes]).ok()?.chars().next()?;
    (!native(c)).then_some((c, 3 * bytes - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn topics() {
        for (kafka, native) in [
            ("orders", "orders"),
            ("orders.eu-1_x", "orders%2Eeu-1_x"),
            ("RETRY-group.a", "%RETRY%group%2Ea"),
            ("DLQ-group", "%DLQ%group"),
            ("RETRY.-2Dx", "RETRY-x"),
            ("DLQ.-2Dx", "DLQ-x"),
            ("a.-7Cb.-25c", "a|b%c"),
            ("a.-2E-7C", "a%2E-7C"),
            ("RETRY.-2E-2D", "RETRY%2E-2D"),
        ] {
            assert_eq!(native_topic(kafka).as_deref(), Some(native));
            assert_eq!(kafka_topic(native).as_deref(), Some(kafka));
        }
        assert_eq!(native_topic("a.-2Eb"), None, "a mark without need");
        assert_eq!(native_topic(&".".repeat(100)), None, "too long there");
        assert_eq!(native_topic("a%"), None);
        assert_eq!(kafka_topic("a.b"), None);
        assert_eq!(kafka_topic(&"x".repeat(255)), None);
    }

    #[test]
    fn groups() {
        for (kafka, native) in [
            ("orders", "orders"),
            ("orders.eu", "orders%2Eeu"),
            ("a b", "a%20b"),
            ("é😀", "%C3%A9%F0%9F%98%80"),
            ("100%", "100%"),
            ("a%41", "a%41"),
            ("a%2E", "a%252E"),
            ("a%252E", "a%25252E"),
            ("a%25", "a%25"),
            ("%FF", "%FF"),
            ("%%.", "%%%2E"),
        ] {
            assert_eq!(native_group(kafka).as_deref(), Some(native), "{kafka}");
            assert_eq!(kafka_group(native), kafka);
        }
    }

    #[test]
    fn legal_names() {
        assert_eq!(check_kafka_topic(""), Err(NameError::Empty));
        assert_eq!(check_kafka_topic(".."), Err(NameError::Dots));
        assert_eq!(check_kafka_topic("a%"), Err(NameError::Character('%')));
        assert!(check_kafka_topic(&"a".repeat(249)).is_ok());
        assert!(check_kafka_topic(&"a".repeat(250)).is_err());
        assert_eq!(check_native_topic("a.b"), Err(NameError::Character('.')));
        assert!(check_native_topic("%RETRY%a|b").is_ok());
        assert!(check_native_topic(&"a".repeat(256)).is_err());
        assert!(check_native_group("a b").is_err());
        assert!(check_kafka_group("a b").is_ok() && check_kafka_group("").is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn every_native_topic_comes_back(
            name in prop_oneof![
                "[a-z%|25E7CD-]{1,12}",
                "((RETRY|DLQ|%RETRY%|%DLQ%)?(%2E|-2E|-2D|-7C|-25|%|\\||-|a)){1,5}",
            ],
        ) {
            if name == "%2E" || name == "%2E%2E" {
                prop_assert_eq!(kafka_topic(&name), None);
                return Ok(());
            }
            let kafka = kafka_topic(&name).unwrap();
            prop_assert!(check_kafka_topic(&kafka).is_ok());
            prop_assert_eq!(native_topic(&kafka), Some(name));
        }

        #[test]
        fn a_kafka_topic_comes_back_or_has_no_other_name(
            name in prop_oneof![
                "[a-z._-]{3,12}",
                "(RETRY-|DLQ-|RETRY|DLQ)?(\\.-2E|\\.-2D|\\.-7C|\\.-25|\\.|-|2E|a){1,6}",
            ],
        ) {
            if let Some(native) = native_topic(&name) {
                prop_assert_eq!(kafka_topic(&native), Some(name));
            } else {
                prop_assert!(name.contains(".-2") || name.contains(".-7") || check_kafka_topic(&name).is_err());
            }
        }

        #[test]
        fn every_group_comes_back(
            kafka in prop_oneof![".{1,10}", "(%|25|2E|C3|A9|F0|\\.|a|é|%25|%2E|%C3%A9){1,8}"],
            native in prop_oneof!["[a-z0-9A-F%|-]{1,20}", "(%|25|2E|C3|A9|F0|%25|%2E|%C3%A9|a){1,8}"],
        ) {
            let there = native_group(&kafka).unwrap();
            prop_assert_eq!(kafka_group(&there), kafka);
            let there = kafka_group(&native);
            prop_assert_eq!(native_group(&there), Some(native));
        }
    }
}
