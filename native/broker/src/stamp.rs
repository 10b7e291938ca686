//! What the broker reads from a sent message's property text, and what it adds to it: one pass over
//! the text, one allocation. Leaves everything else in its place and in its order.
//!
//! The text is `name 0x01 value 0x02 …` (RocketMQ `MessageDecoder`); the last 0x02 may be missing.

use bytes::Bytes;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU16, Ordering};
use twinmq_records::properties::{NAME_VALUE, PAIR_END, first_entry};

/// What of the properties decides what happens to a message, and what of them is not stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Traits<'a> {
    text: &'a str,
    /// Stretches of the text that are left out when it is stored, in order.
    left_out: SmallVec<[(usize, usize); 2]>,
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

impl<'a> Traits<'a> {
    /// The text without DELAY, for a dead letter.
    pub(crate) fn without_delay(&self) -> String {
        let entries = self.text.split_inclusive('\u{2}');
        entries
            .filter(|entry| !entry.starts_with("DELAY\u{1}"))
            .collect()
    }

    /// Notes an entry; false for what the broker sets anew (MSG_REGION, TRACE_ON, CLUSTER), for POP_CK
    /// and WAIT, which mean nothing once stored, and for an empty id.
    fn note(&mut self, name: &str, value: &'a str) -> bool {
        match name {
            "UNIQ_KEY" if value.is_empty() => return false,
            "UNIQ_KEY" => self.unique_key = value,
            "WAIT" => {
                self.no_wait = value.eq_ignore_ascii_case("false");
                return false;
            }
            "MSG_REGION" | "TRACE_ON" | "CLUSTER" | "POP_CK" => return false,
            "TRAN_MSG" => self.half = value.eq_ignore_ascii_case("true"),
            "TIMER_DELAY_SEC" | "TIMER_DELAY_MS" | "TIMER_DELIVER_MS" => self.timer = Some(value),
            "DELAY" => self.delay_level = value.parse().unwrap_or(0),
            "REPLY_TO_CLIENT" => self.reply_to = Some(value),
            "KEYS" => self.has_keys = !value.is_empty(),
            _ => {}
        }
        true
    }
}

/// Reads what decides the message's way. Malformed entries (no separator, empty name) are left out.
pub(crate) fn traits(text: &str) -> Traits<'_> {
    let mut found = Traits {
        text,
        ..Traits::default()
    };
    let mut start = 0;
    while start < text.len() {
        let (separator, end) = first_entry(&text.as_bytes()[start..]);
        let (at, end) = (start + separator, start + end);
        let stored = start < at && at < end && found.note(&text[start..at], &text[at + 1..end]);
        if !stored {
            found.left_out.push((start, end + 1));
        }
        start = end + 1;
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

    /// The text to store: the sender's without what is left out, then the broker's own. An id is made
    /// when the sender gave none: it is returned beside the text.
    pub(crate) fn apply(&self, traits: &Traits<'_>, now_ms: i64) -> (Bytes, Option<String>) {
        let text = traits.text.as_bytes();
        let mut out = Vec::with_capacity(text.len() + self.tail.len() + 48);
        let mut kept = 0;
        for (start, end) in &traits.left_out {
            out.extend_from_slice(&text[kept..*start]);
            kept = (*end).min(text.len());
        }
        out.extend_from_slice(&text[kept..]);
        if out.last().is_some_and(|last| *last != PAIR_END) {
            out.push(PAIR_END);
        }
        let made = traits.unique_key.is_empty().then(|| {
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
    out.push(NAME_VALUE);
    out.extend_from_slice(value.as_bytes());
    out.push(PAIR_END);
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
    for few in bytes.chunks(16) {
        let mut text = [0; 32];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(few) {
            *pair = [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ];
        }
        out.push_str(std::str::from_utf8(&text[..few.len() * 2]).unwrap_or_default());
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
        let (text, made) = stamp.apply(&traits(sent), 0);
        assert_eq!(made, None);
        assert_eq!(
            std::str::from_utf8(&text).expect("text"),
            "b\u{1}2\u{2}UNIQ_KEY\u{1}U\u{2}a\u{1}1\u{2}MSG_REGION\u{1}R\u{2}TRACE_ON\u{1}true\u{2}CLUSTER\u{1}C\u{2}"
        );
    }

    #[test]
    fn a_missing_id_is_made_and_no_two_are_alike() {
        let stamp = Stamp::new("C", "R", true, [127, 0, 0, 1]);
        let (text, first) = stamp.apply(&traits(""), 1_700_000_000_000);
        let (_, second) = stamp.apply(&traits("UNIQ_KEY\u{1}"), 1_700_000_000_000);
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
        fn any_text_is_stamped_without_losing_ordinary_entries(text in "[a-c\u{1}\u{2}A-Z_\u{e9}]{0,60}") {
            let stamp = Stamp::new("C", "R", false, [0; 4]);
            let (out, _) = stamp.apply(&traits(&text), 5);
            let out = std::str::from_utf8(&out).expect("text");
            let entries = |text| {
                let entries = str::split(text, '\u{2}');
                let pairs = entries.filter_map(|entry: &str| entry.split_once('\u{1}'));
                pairs.filter(|(name, _)| !name.is_empty())
            };
            for (name, value) in entries(text.as_str()) {
                if !matches!(name, "MSG_REGION" | "TRACE_ON" | "CLUSTER" | "POP_CK" | "WAIT" | "UNIQ_KEY") {
                    prop_assert!(entries(out).any(|(n, v)| n == name && v == value));
                }
            }
        }
    }
}
