//! What the broker reads from a sent message's property text, and what it adds to it: one pass over
//! the text, one allocation. Leaves everything else in its place and in its order.
//!
//! The text is `name 0x01 value 0x02 …` (RocketMQ `MessageDecoder`); the last 0x02 may be missing.

use bytes::Bytes;
use std::sync::atomic::{AtomicU16, Ordering};

const SEPARATOR: u8 = 1;
const END: u8 = 2;

/// What of the properties decides what happens to a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits<'a> {
    /// UNIQ_KEY, empty when missing.
    pub(crate) unique_key: &'a str,
    /// TRAN_MSG is true.
    pub(crate) half: bool,
    /// One of TIMER_DELAY_SEC, TIMER_DELAY_MS, TIMER_DELIVER_MS is there.
    pub(crate) timer: Option<&'a str>,
    /// DELAY, 0 when missing or no number.
    pub(crate) delay_level: i32,
    /// WAIT is `false`.
    pub(crate) no_wait: bool,
    /// REPLY_TO_CLIENT.
    pub(crate) reply_to: Option<&'a str>,
    /// KEYS is there.
    pub(crate) has_keys: bool,
}

/// The entries of a property text; malformed ones (no separator, empty name) are skipped.
pub(crate) fn entries(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split('\u{2}').filter_map(|entry| {
        let (name, value) = entry.split_once('\u{1}')?;
        (!name.is_empty()).then_some((name, value))
    })
}

/// Reads what decides the message's way.
pub(crate) fn traits(text: &str) -> Traits<'_> {
    let mut found = Traits::default();
    for (name, value) in entries(text) {
        match name {
            "UNIQ_KEY" => found.unique_key = value,
            "TRAN_MSG" => found.half = value.eq_ignore_ascii_case("true"),
            "TIMER_DELAY_SEC" | "TIMER_DELAY_MS" | "TIMER_DELIVER_MS" => found.timer = Some(value),
            "DELAY" => found.delay_level = value.parse().unwrap_or(0),
            "WAIT" => found.no_wait = value.eq_ignore_ascii_case("false"),
            "REPLY_TO_CLIENT" => found.reply_to = Some(value),
            "KEYS" => found.has_keys = !value.is_empty(),
            _ => {}
        }
    }
    found
}

/// The broker's own properties, ready to append: MSG_REGION, TRACE_ON, CLUSTER.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    tail: Vec<u8>,
    ids: UniqueIds,
}

impl Stamp {
    /// For one broker.
    pub(crate) fn new(cluster: &str, region: &str, trace_on: bool, host: [u8; 4]) -> Self {
        let mut tail = Vec::new();
        push(&mut tail, "MSG_REGION", region);
        push(
            &mut tail,
            "TRACE_ON",
            if trace_on { "true" } else { "false" },
        );
        push(&mut tail, "CLUSTER", cluster);
        Self {
            tail,
            ids: UniqueIds::new(host),
        }
    }

    /// The text to store: the sender's, without what the broker sets anew (MSG_REGION, TRACE_ON,
    /// CLUSTER), without POP_CK and WAIT, which mean nothing once stored; then the broker's own. An
    /// id is made when the sender gave none: it is returned beside the text.
    pub(crate) fn apply(
        &self,
        text: &str,
        has_unique_key: bool,
        now_ms: i64,
    ) -> (Bytes, Option<String>) {
        let mut out = Vec::with_capacity(text.len() + self.tail.len() + 48);
        for entry in text.split('\u{2}') {
            let Some((name, _)) = entry.split_once('\u{1}') else {
                continue;
            };
            if matches!(
                name,
                "" | "MSG_REGION" | "TRACE_ON" | "CLUSTER" | "POP_CK" | "WAIT"
            ) || (!has_unique_key && name == "UNIQ_KEY")
            {
                continue;
            }
            out.extend_from_slice(entry.as_bytes());
            out.push(END);
        }
        let made = (!has_unique_key).then(|| {
            let id = self.ids.next(now_ms);
            push(&mut out, "UNIQ_KEY", &id);
            id
        });
        out.extend_from_slice(&self.tail);
        (Bytes::from(out), made)
    }
}

/// Appends one property.
pub(crate) fn push(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(name.as_bytes());
    out.push(SEPARATOR);
    out.extend_from_slice(value.as_bytes());
    out.push(END);
}

/// Ids for messages that came without one, in the layout of RocketMQ's `MessageClientIDSetter`:
/// address 4, process 2, marker 4, milliseconds of the month 4, counter 2; upper-case hex.
#[derive(Debug)]
struct UniqueIds {
    prefix: [u8; 10],
    counter: AtomicU16,
}

impl Clone for UniqueIds {
    fn clone(&self) -> Self {
        Self::new([
            self.prefix[0],
            self.prefix[1],
            self.prefix[2],
            self.prefix[3],
        ])
    }
}

impl UniqueIds {
    fn new(host: [u8; 4]) -> Self {
        let mut prefix = [0u8; 10];
        prefix[..4].copy_from_slice(&host);
        let process = std::process::id().to_be_bytes();
        prefix[4..6].copy_from_slice(&process[2..]);
        prefix[6..].copy_from_slice(&rand::random::<[u8; 4]>());
        Self {
            prefix,
            counter: AtomicU16::new(0),
        }
    }

    fn next(&self, now_ms: i64) -> String {
        let mut id = [0u8; 16];
        id[..10].copy_from_slice(&self.prefix);
        id[10..14].copy_from_slice(&ms_of_month(now_ms).to_be_bytes());
        let count = self.counter.fetch_add(1, Ordering::Relaxed);
        id[14..].copy_from_slice(&count.to_be_bytes());
        hex(&id)
    }
}

/// Milliseconds since the month began (UTC); at most 31 days, which fits 32 bits.
fn ms_of_month(now_ms: i64) -> u32 {
    const DAY: i64 = 86_400_000;
    let days = now_ms.div_euclid(DAY);
    // Days since 1970 to day of month, by the civil calendar (400-year eras from March 1st).
    let shifted = days + 719_468;
    let era_day = shifted.rem_euclid(146_097);
    let year = (era_day - era_day / 1460 + era_day / 36_524 - era_day / 146_096) / 365;
    let year_day = era_day - (365 * year + year / 4 - year / 100);
    let month = (5 * year_day + 2) / 153;
    let day = year_day - (153 * month + 2) / 5;
    u32::try_from(day * DAY + now_ms.rem_euclid(DAY)).unwrap_or(0)
}

/// Upper-case hex.
fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    push_hex(&mut out, bytes);
    out
}

/// Appends upper-case hex.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_brokers_properties_replace_the_senders_and_the_rest_stays_in_order() {
        let stamp = Stamp::new("C", "R", true, [1, 2, 3, 4]);
        let sent = "b\u{1}2\u{2}TRACE_ON\u{1}x\u{2}UNIQ_KEY\u{1}U\u{2}WAIT\u{1}true\u{2}a\u{1}1";
        let (text, made) = stamp.apply(sent, true, 0);
        assert_eq!(made, None);
        assert_eq!(
            std::str::from_utf8(&text).expect("text"),
            "b\u{1}2\u{2}UNIQ_KEY\u{1}U\u{2}a\u{1}1\u{2}MSG_REGION\u{1}R\u{2}TRACE_ON\u{1}true\u{2}CLUSTER\u{1}C\u{2}"
        );
    }

    #[test]
    fn a_missing_id_is_made_and_no_two_are_alike() {
        let stamp = Stamp::new("C", "R", true, [127, 0, 0, 1]);
        let (text, first) = stamp.apply("", false, 1_700_000_000_000);
        let (_, second) = stamp.apply("", false, 1_700_000_000_000);
        let first = first.expect("made");
        assert_eq!(first.len(), 32);
        assert!(first.starts_with("7F000001"));
        assert_ne!(Some(&first), second.as_ref());
        assert_eq!(
            traits(std::str::from_utf8(&text).expect("text")).unique_key,
            first
        );
    }

    #[test]
    fn milliseconds_of_the_month() {
        // 2023-11-14T22:13:20Z
        assert_eq!(
            ms_of_month(1_700_000_000_000),
            13 * 86_400_000 + 22 * 3_600_000 + 13 * 60_000 + 20_000
        );
        assert_eq!(ms_of_month(0), 0);
        // 2024-03-01T00:00:00.001Z, the day after a leap day
        assert_eq!(ms_of_month(1_709_251_200_001), 1);
    }

    #[test]
    fn traits_are_found() {
        let text =
            "TRAN_MSG\u{1}true\u{2}DELAY\u{1}3\u{2}WAIT\u{1}false\u{2}TIMER_DELAY_MS\u{1}9\u{2}";
        let found = traits(text);
        assert!(found.half && found.no_wait);
        assert_eq!(found.delay_level, 3);
        assert_eq!(found.timer, Some("9"));
    }

    proptest! {
        #[test]
        fn any_text_is_stamped_without_losing_ordinary_entries(text in ".{0,200}") {
            let stamp = Stamp::new("C", "R", false, [0; 4]);
            let (out, _) = stamp.apply(&text, false, 5);
            let out = std::str::from_utf8(&out).expect("text");
            for (name, value) in entries(&text) {
                if !matches!(name, "MSG_REGION" | "TRACE_ON" | "CLUSTER" | "POP_CK" | "WAIT" | "UNIQ_KEY") {
                    prop_assert!(entries(out).any(|(n, v)| n == name && v == value));
                }
            }
        }
    }
}
