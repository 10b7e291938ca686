//! RocketMQ's property text: `name 0x01 value 0x02 name 0x01 value 0x02 …`.
//!
//! Promises: reads as RocketMQ's Java client does (the last 0x02 may be missing; entries without name
//! or value are passed over; the last of a repeated name wins); never panics. What the builder writes
//! always reads back. Leaves out: the length limit ([`crate::message::PROPERTIES_MAX`]).

use bytes::Bytes;
use memchr::{memchr, memchr2};
use thiserror::Error;

/// Between a name and its value.
pub const NAME_VALUE: u8 = 1;
/// After a value.
pub const PAIR_END: u8 = 2;
/// Longest tag, in bytes, that a Kafka header named `TAGS` gives to its record.
pub const TAG_MAX: usize = 1024;

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*
        /// Whether RocketMQ (`MessageConst`) or this broker gives `name` a meaning.
        #[must_use]
        pub fn is_system(name: &[u8]) -> bool {
            name.starts_with(b"__RMQ.TRANSIENT.") || SYSTEM.contains(&name)
        }
        const SYSTEM: &[&[u8]] = &[$($text.as_bytes()),*];
    };
}

names! {
    /// User keys, separated by one space.
    KEYS = "KEYS";
    /// The tag.
    TAGS = "TAGS";
    /// `false`: the sender does not wait for the disk.
    WAIT = "WAIT";
    /// Delay level, 1 to 18.
    DELAY = "DELAY";
    /// The client's unique id of the message.
    UNIQ_KEY = "UNIQ_KEY";
    /// Extension of the unique id.
    EXTEND_UNIQ_INFO = "EXTEND_UNIQ_INFO";
    /// Namespace.
    INSTANCE_ID = "INSTANCE_ID";
    /// Legacy.
    BUYER_ID = "BUYER_ID";
    /// Region, set by the broker.
    MSG_REGION = "MSG_REGION";
    /// Whether traces are wanted, set by the broker.
    TRACE_ON = "TRACE_ON";
    /// Cluster name.
    CLUSTER = "CLUSTER";
    /// `true`: a half message.
    TRAN_MSG = "TRAN_MSG";
    /// Producer group.
    PGROUP = "PGROUP";
    /// Topic a delayed or half message is meant for.
    REAL_TOPIC = "REAL_TOPIC";
    /// Queue a delayed or half message is meant for.
    REAL_QID = "REAL_QID";
    /// Checks of a half message so far.
    TRANSACTION_CHECK_TIMES = "TRANSACTION_CHECK_TIMES";
    /// Seconds without check of a half message.
    CHECK_IMMUNITY_TIME_IN_SECONDS = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    /// First offset of a half message that was stored again.
    TRAN_PREPARED_QUEUE_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET";
    /// Transaction id.
    TRANSACTION_ID = "__transactionId__";
    /// Topic of a message sent back.
    RETRY_TOPIC = "RETRY_TOPIC";
    /// Message id of the first copy of a message sent back.
    ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID";
    /// Retries counted by the client.
    RECONSUME_TIME = "RECONSUME_TIME";
    /// Bound of the retries counted by the client.
    MAX_RECONSUME_TIMES = "MAX_RECONSUME_TIMES";
    /// Client-side only.
    CONSUME_START_TIME = "CONSUME_START_TIME";
    /// Client-side only.
    MIN_OFFSET = "MIN_OFFSET";
    /// Client-side only.
    MAX_OFFSET = "MAX_OFFSET";
    /// Topic of a dead letter.
    DLQ_ORIGIN_TOPIC = "DLQ_ORIGIN_TOPIC";
    /// Message id of a dead letter.
    DLQ_ORIGIN_MESSAGE_ID = "DLQ_ORIGIN_MESSAGE_ID";
    /// Legacy.
    TRANSFER_FLAG = "TRANSFER_FLAG";
    /// Legacy.
    CORRECTION_FLAG = "CORRECTION_FLAG";
    /// Legacy.
    MQ2_FLAG = "MQ2_FLAG";
    /// Receipt handle of a pop.
    POP_CK = "POP_CK";
    /// Checkpoint offset of a pop.
    POP_CK_OFFSET = "POP_CK_OFFSET";
    /// First pop time.
    FIRST_POP_TIME = "1ST_POP_TIME";
    /// Message group.
    SHARDING_KEY = "__SHARDINGKEY";
    /// Static topics.
    FORWARD_QUEUE_ID = "PROPERTY_FORWARD_QUEUE_ID";
    /// Static topics.
    REDIRECT = "REDIRECT";
    /// Light queues.
    INNER_MULTI_DISPATCH = "INNER_MULTI_DISPATCH";
    /// Light queues.
    INNER_MULTI_QUEUE_OFFSET = "INNER_MULTI_QUEUE_OFFSET";
    /// Inner batch.
    INNER_NUM = "INNER_NUM";
    /// Inner batch.
    INNER_BASE = "INNER_BASE";
    /// Delay in seconds.
    TIMER_DELAY_SEC = "TIMER_DELAY_SEC";
    /// Delay in ms.
    TIMER_DELAY_MS = "TIMER_DELAY_MS";
    /// Delivery time in ms.
    TIMER_DELIVER_MS = "TIMER_DELIVER_MS";
    /// Timer bookkeeping.
    TIMER_OUT_MS = "TIMER_OUT_MS";
    /// Timer bookkeeping.
    TIMER_ENQUEUE_MS = "TIMER_ENQUEUE_MS";
    /// Timer bookkeeping.
    TIMER_DEQUEUE_MS = "TIMER_DEQUEUE_MS";
    /// Timer bookkeeping.
    TIMER_ROLL_TIMES = "TIMER_ROLL_TIMES";
    /// Timer bookkeeping.
    TIMER_DELAY_LEVEL = "TIMER_DELAY_LEVEL";
    /// Unique key of the timer to cancel.
    TIMER_DEL_UNIQKEY = "TIMER_DEL_UNIQKEY";
    /// Request-reply.
    CORRELATION_ID = "CORRELATION_ID";
    /// Request-reply.
    REPLY_TO_CLIENT = "REPLY_TO_CLIENT";
    /// Request-reply.
    TTL = "TTL";
    /// Request-reply.
    MSG_TYPE = "MSG_TYPE";
    /// Request-reply.
    ARRIVE_TIME = "ARRIVE_TIME";
    /// Request-reply.
    PUSH_REPLY_TIME = "PUSH_REPLY_TIME";
    /// Tracing.
    TRACE_CONTEXT = "TRACE_CONTEXT";
    /// Legacy.
    DUP_INFO = "DUP_INFO";
    /// Original born host, set by proxies.
    BORN_HOST = "__BORNHOST";
    /// Original born time, set by proxies.
    BORN_TIMESTAMP = "BORN_TIMESTAMP";
    /// Checksum of the record.
    CRC32 = "__CRC32#";
}

/// Names by which a Kafka header acts as the RocketMQ property of that name. Other system names in
/// a Kafka record are the application's own words and never act.
#[must_use]
pub fn acts_from_kafka(name: &[u8]) -> bool {
    const ACTING: [&str; 8] = [
        TAGS,
        KEYS,
        DELAY,
        SHARDING_KEY,
        TIMER_DELAY_SEC,
        TIMER_DELAY_MS,
        TIMER_DELIVER_MS,
        TIMER_DEL_UNIQKEY,
    ];
    ACTING.iter().any(|acting| acting.as_bytes() == name)
}

/// Whether a property can have this value: UTF-8, not empty, no separator.
#[must_use]
pub fn is_value(value: &[u8]) -> bool {
    !value.is_empty()
        && !value.iter().any(|&b| b == NAME_VALUE || b == PAIR_END)
        && std::str::from_utf8(value).is_ok()
}

/// The tag that a Kafka header named `TAGS` with this value gives its record: any property value of
/// at most [`TAG_MAX`] bytes.
#[must_use]
pub fn tag(value: &[u8]) -> Option<&str> {
    if value.len() > TAG_MAX || !is_value(value) {
        return None;
    }
    std::str::from_utf8(value).ok()
}

/// Property text, read in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Properties<'a> {
    text: &'a [u8],
}

impl<'a> Properties<'a> {
    /// Wraps property text.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self { text }
    }

    /// Names and values in order, as bytes, repeats included.
    #[must_use]
    pub fn pairs(self) -> Pairs<'a> {
        Pairs { rest: self.text }
    }

    /// Names and values in order; those that are not UTF-8 are passed over.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, &'a str)> + Clone + use<'a> {
        self.pairs().filter_map(|(name, value)| {
            let name = std::str::from_utf8(name).ok()?;
            Some((name, std::str::from_utf8(value).ok()?))
        })
    }

    /// The value of a name; the last one where it is repeated. `None` too if it is not UTF-8.
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a str> {
        let value = self.get_bytes(name.as_bytes())?;
        std::str::from_utf8(value).ok()
    }

    /// The value of a name as bytes; the last one where it is repeated.
    #[must_use]
    pub fn get_bytes(self, name: &[u8]) -> Option<&'a [u8]> {
        self.pairs()
            .filter(|(n, _)| *n == name)
            .last()
            .map(|(_, value)| value)
    }
}

/// The first entry of a property text: where its separator stands and where it ends, both the same when
/// it has none.
#[must_use]
pub fn first_entry(text: &[u8]) -> (usize, usize) {
    let separator = memchr2(NAME_VALUE, PAIR_END, text).unwrap_or(text.len());
    let end = memchr(PAIR_END, &text[separator..]);
    (separator, end.map_or(text.len(), |at| separator + at))
}

/// See [`Properties::pairs`].
#[derive(Clone, Debug)]
pub struct Pairs<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.rest.is_empty() {
            let (from, end) = first_entry(self.rest);
            let entry = &self.rest[..end];
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if from > 0 && from + 1 < end {
                return Some((&entry[..from], &entry[from + 1..]));
            }
        }
        None
    }
}

/// Why a property cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("property {0:?}: names and values are not empty and hold neither byte 1 nor byte 2")]
pub struct PropertyError(pub String);

/// Property text under change.
#[derive(Clone, Debug, Default)]
pub struct PropertiesBuilder {
    text: Vec<u8>,
}

impl PropertiesBuilder {
    /// Empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts from existing text, kept byte for byte but for a missing last separator.
    #[must_use]
    pub fn from_text(text: &[u8]) -> Self {
        let mut copy = Vec::with_capacity(text.len() + 128);
        copy.extend_from_slice(text);
        if copy.last().is_some_and(|&b| b != PAIR_END) {
            copy.push(PAIR_END);
        }
        Self { text: copy }
    }

    /// Adds a property at the end; does not look for one of the same name.
    ///
    /// # Errors
    /// The name or value cannot stand in a property text.
    pub fn append(&mut self, name: &str, value: &str) -> Result<&mut Self, PropertyError> {
        if !is_value(name.as_bytes()) || !is_value(value.as_bytes()) {
            return Err(PropertyError(name.to_owned()));
        }
        put(&mut self.text, name.as_bytes(), value.as_bytes());
        Ok(self)
    }

    /// Replaces all properties of this name by one at the end.
    ///
    /// # Errors
    /// The name or value cannot stand in a property text; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<&mut Self, PropertyError> {
        if !is_value(name.as_bytes()) || !is_value(value.as_bytes()) {
            return Err(PropertyError(name.to_owned()));
        }
        self.remove(name).append(name, value)
    }

    /// Removes all properties of this name.
    pub fn remove(&mut self, name: &str) -> &mut Self {
        if Properties::new(&self.text)
            .get_bytes(name.as_bytes())
            .is_some()
        {
            let mut kept = Vec::with_capacity(self.text.len());
            for (n, value) in Properties::new(&self.text).pairs() {
                if n != name.as_bytes() {
                    put(&mut kept, n, value);
                }
            }
            self.text = kept;
        }
        self
    }

    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        Properties::new(&self.text).get(name)
    }

    /// The text so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// The text.
    #[must_use]
    pub fn finish(self) -> Bytes {
        Bytes::from(self.text)
    }
}

pub(crate) fn put(text: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    text.extend_from_slice(name);
    text.push(NAME_VALUE);
    text.extend_from_slice(value);
    text.push(PAIR_END);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_as_java_does() {
        let read = |text: &'static [u8]| Properties::new(text).iter().collect::<Vec<_>>();
        assert_eq!(read(b""), []);
        assert_eq!(read(b"a\x01b\x02c\x01d\x02"), [("a", "b"), ("c", "d")]);
        assert_eq!(read(b"a\x01b\x02c\x01d"), [("a", "b"), ("c", "d")]);
        assert_eq!(
            read(b"\x02a\x01\x02\x01b\x02ab\x02x\x01y\x01z\x02"),
            [("x", "y\u{1}z")]
        );
        assert_eq!(Properties::new(b"a\x01b\x02a\x01c\x02").get("a"), Some("c"));
        assert_eq!(Properties::new(b"a\x01\xFF\x02").get("a"), None);
    }

    #[test]
    fn builder() {
        let mut builder = PropertiesBuilder::from_text(b"a\x01b\x02c\x01d");
        builder.append("e", "f").unwrap().set("a", "z").unwrap();
        assert_eq!(builder.as_bytes(), b"c\x01d\x02e\x01f\x02a\x01z\x02");
        assert!(builder.set("a", "x\u{2}").is_err());
        assert!(builder.append("", "x").is_err());
        assert_eq!(builder.remove("a").remove("e").remove("c").as_bytes(), b"");
    }

    #[test]
    fn system_names() {
        assert!(is_system(b"UNIQ_KEY"));
        assert!(is_system(b"__RMQ.TRANSIENT.TOPIC_SYS_FLAG"));
        assert!(!is_system(b"carrier"));
        assert!(acts_from_kafka(b"TAGS") && !acts_from_kafka(b"WAIT"));
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text: Vec<u8>) {
            let properties = Properties::new(&text);
            for (name, value) in properties.pairs() {
                prop_assert!(!name.is_empty() && !value.is_empty());
            }
            let _ = properties.iter().count();
            let mut builder = PropertiesBuilder::from_text(&text);
            let before: Vec<_> = properties.pairs().collect();
            let after: Vec<_> = Properties::new(builder.as_bytes()).pairs().collect();
            prop_assert_eq!(before, after);
            builder.set("name", "value").unwrap();
            prop_assert_eq!(builder.get("name"), Some("value"));
        }

        #[test]
        fn reads_what_it_wrote(pairs in proptest::collection::vec(("[^\u{1}\u{2}]{1,8}", "[^\u{1}\u{2}]{1,8}"), 0..6)) {
            let mut builder = PropertiesBuilder::new();
            for (name, value) in &pairs {
                builder.append(name, value).unwrap();
            }
            let read: Vec<_> = Properties::new(builder.as_bytes())
                .iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            prop_assert_eq!(read, pairs);
        }
    }
}
