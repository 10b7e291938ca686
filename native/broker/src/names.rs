//! Names on the native side: legality, prefixes, ids, and what a name means to core.

use crate::error::Refusal;
use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use twinmq_records::names as records;
use twinmq_store::Address;

/// Retry topic of a group.
pub(crate) const RETRY_PREFIX: &str = records::NATIVE_RETRY;
/// Dead letters of a group.
pub(crate) const DLQ_PREFIX: &str = records::NATIVE_DLQ;
/// The template for topics made by a send.
pub(crate) const TEMPLATE: &str = "TBW102";
/// RocketMQ's `Validators.TOPIC_MAX_LENGTH`.
const TOPIC_BYTES_MAX: usize = records::NATIVE_TOPIC_MAX;
/// Retry and dead-letter topics may be longer.
const GROUP_TOPIC_BYTES_MAX: usize = records::NATIVE_TOPIC_MAX_V2;
/// RocketMQ's `CHARACTER_MAX_LENGTH` of groups.
const GROUP_BYTES_MAX: usize = 120;

/// Topics that no client may send to (RocketMQ `TopicValidator.NOT_ALLOWED_SEND_TOPIC_SET`).
pub(crate) fn no_send(topic: &str) -> bool {
    matches!(
        topic,
        "SCHEDULE_TOPIC_XXXX"
            | "RMQ_SYS_TRANS_HALF_TOPIC"
            | "RMQ_SYS_TRANS_OP_HALF_TOPIC"
            | "TRANS_CHECK_MAX_TIME_TOPIC"
            | "SELF_TEST_TOPIC"
            | "OFFSET_MOVED_EVENT"
    )
}

/// RocketMQ `TopicValidator.isSystemTopic`: the fixed names and the reserved prefix.
pub(crate) fn is_system_topic(topic: &str) -> bool {
    no_send(topic)
        || matches!(
            topic,
            TEMPLATE | "RMQ_SYS_TRACE_TOPIC" | "BenchmarkTest" | "CHECKPOINT_TOPIC"
        )
        || topic.starts_with("rmq_sys_")
}

/// Whether a topic may be named so.
pub(crate) fn check_topic(topic: &str) -> Result<(), Refusal> {
    if topic.trim().is_empty() {
        return Err(Refusal::parameter("The specified topic is blank."));
    }
    if let Err(records::NameError::Character(_)) = records::check_native_topic(topic) {
        return Err(Refusal::parameter(
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ));
    }
    let max = if topic.starts_with(RETRY_PREFIX) || topic.starts_with(DLQ_PREFIX) {
        GROUP_TOPIC_BYTES_MAX
    } else {
        TOPIC_BYTES_MAX
    };
    if topic.len() > max {
        return Err(Refusal::parameter(format!(
            "The specified topic is longer than topic max length {max}."
        )));
    }
    Ok(())
}

/// Whether a group may be named so.
pub(crate) fn is_group(group: &str) -> bool {
    group.len() <= GROUP_BYTES_MAX && records::check_native_group(group).is_ok()
}

/// The spelling under which core keeps a group's members and offsets: Kafka's.
pub(crate) fn group_key(group: &str) -> Cow<'_, str> {
    if group.contains('%') {
        Cow::Owned(records::kafka_group(group))
    } else {
        // Without an escape both spellings are one.
        Cow::Borrowed(group)
    }
}

/// The native spelling of a group that core knows by [`group_key`].
pub(crate) fn group_name(key: &str) -> Cow<'_, str> {
    records::native_group(key).map_or(Cow::Borrowed(key), Cow::Owned)
}

/// Appends an offsetMsgId: host address, port, address in the log; upper-case hex (RocketMQ
/// `MessageDecoder.createMessageId`).
pub(crate) fn push_message_id(out: &mut String, host: SocketAddr, address: Address) {
    let mut id = [0u8; 28];
    let length = match host.ip() {
        IpAddr::V4(v4) => {
            id[..4].copy_from_slice(&v4.octets());
            4
        }
        IpAddr::V6(v6) => {
            id[..16].copy_from_slice(&v6.octets());
            16
        }
    };
    id[length..length + 4].copy_from_slice(&u32::from(host.port()).to_be_bytes());
    id[length + 4..length + 12].copy_from_slice(&address.0.to_be_bytes());
    crate::stamp::push_hex(out, &id[..length + 12]);
}

/// The address in the log that an offsetMsgId names; `None` if it is none.
pub(crate) fn address_of_message_id(id: &str) -> Option<Address> {
    if !matches!(id.len(), 32 | 56) || !id.is_ascii() {
        return None;
    }
    u64::from_str_radix(&id[id.len() - 16..], 16)
        .ok()
        .map(Address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_ids_name_host_and_address() {
        let mut id = String::new();
        let host = SocketAddr::from(([10, 0, 0, 1], 10911));
        push_message_id(&mut id, host, Address(0x1234));
        assert_eq!(id, "0A00000100002A9F0000000000001234");
        assert_eq!(address_of_message_id(&id), Some(Address(0x1234)));
        assert_eq!(address_of_message_id("not an id"), None);
        let mut id = String::new();
        push_message_id(
            &mut id,
            "[::1]:10911".parse().expect("address"),
            Address(u64::MAX >> 1),
        );
        assert_eq!(id.len(), 56);
        assert_eq!(address_of_message_id(&id), Some(Address(u64::MAX >> 1)));
    }

    #[test]
    fn names() {
        assert!(check_topic("a_b-%|9").is_ok());
        assert!(check_topic("a.b").is_err());
        assert!(check_topic("").is_err());
        assert!(check_topic(&"x".repeat(128)).is_err());
        assert!(check_topic(&format!("%RETRY%{}", "x".repeat(120))).is_ok());
        assert!(!is_group(&"x".repeat(121)));
    }
}
