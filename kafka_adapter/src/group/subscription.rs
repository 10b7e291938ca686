//! The parts of the consumer protocol that a broker looks at: which topics a member subscribes to and
//! which partitions it was given. Everything else in these bytes is the clients' own affair.
//!
//! Source: Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment schemas: an i16
//! version, then in every version an array of topics, or of topics with their partitions.
//! Bytes that do not parse yield `None` and never fail the group.

use bytes::{Buf, Bytes};
use std::sync::Arc;

/// Topics a subscription names, at most `topics_max`; `None` when it does not parse.
pub(crate) fn subscribed_topics(metadata: &Bytes, topics_max: usize) -> Option<Vec<Arc<str>>> {
    let mut rest = metadata.clone();
    let count = versioned_count(&mut rest, 2, topics_max)?;
    let mut topics = Vec::with_capacity(count.min(64));
    for _ in 0..count {
        topics.push(text(&mut rest)?);
    }
    Some(topics)
}

/// Partitions an assignment gives, at most `partitions_max`; `None` when it does not parse.
pub(crate) fn assigned_partitions(
    assignment: &Bytes,
    partitions_max: usize,
) -> Option<Vec<(Arc<str>, u32)>> {
    if assignment.is_empty() {
        return Some(Vec::new());
    }
    let mut rest = assignment.clone();
    let count = versioned_count(&mut rest, 6, partitions_max)?;
    let mut partitions = Vec::new();
    for _ in 0..count {
        let topic = text(&mut rest)?;
        let ids = claimed(&mut rest, 4, partitions_max)?;
        if partitions.len() + ids > partitions_max {
            return None;
        }
        for _ in 0..ids {
            let id = u32::try_from(rest.try_get_i32().ok()?).ok()?;
            partitions.push((topic.clone(), id));
        }
    }
    Some(partitions)
}

/// The version and then a count of elements that take `each` bytes at least.
fn versioned_count(rest: &mut Bytes, each: usize, max: usize) -> Option<usize> {
    if rest.try_get_i16().ok()? < 0 {
        return None;
    }
    claimed(rest, each, max)
}

/// A count that the bytes left can hold.
fn claimed(rest: &mut Bytes, each: usize, max: usize) -> Option<usize> {
    let count = usize::try_from(rest.try_get_i32().ok()?).ok()?;
    (count <= max && count.checked_mul(each)? <= rest.remaining()).then_some(count)
}

fn text(rest: &mut Bytes) -> Option<Arc<str>> {
    let length = usize::try_from(rest.try_get_i16().ok()?).ok()?;
    if length > rest.remaining() {
        return None;
    }
    let bytes = rest.split_to(length);
    std::str::from_utf8(&bytes).ok().map(Arc::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn subscription(topics: &[&str]) -> Bytes {
        let mut bytes = vec![0, 3];
        bytes.extend(i32::try_from(topics.len()).unwrap().to_be_bytes());
        for topic in topics {
            bytes.extend(i16::try_from(topic.len()).unwrap().to_be_bytes());
            bytes.extend(topic.as_bytes());
        }
        bytes.extend((-1i32).to_be_bytes());
        bytes.into()
    }

    #[test]
    fn topics_are_read_and_the_rest_is_ignored() {
        let topics = subscribed_topics(&subscription(&["a", "flights"]), 10).unwrap();
        assert_eq!(topics, vec![Arc::from("a"), Arc::<str>::from("flights")]);
        assert_eq!(subscribed_topics(&subscription(&["a", "b"]), 1), None);
        assert_eq!(subscribed_topics(&Bytes::from_static(b"range"), 10), None);
    }

    #[test]
    fn partitions_are_read() {
        let bytes = Bytes::from_static(
            b"\0\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x05\xff\xff\xff\xff",
        );
        let expected = vec![(Arc::from("t"), 0), (Arc::<str>::from("t"), 5)];
        assert_eq!(assigned_partitions(&bytes, 10), Some(expected));
        assert_eq!(assigned_partitions(&bytes, 1), None);
        assert_eq!(assigned_partitions(&Bytes::new(), 1), Some(vec![]));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let bytes = Bytes::from(bytes);
            let _ = subscribed_topics(&bytes, 1000);
            let _ = assigned_partitions(&bytes, 1000);
        }
    }
}
