//! A group as bytes: Kafka's GroupMetadata value, version 3 (kafka's GroupMetadataValue schema), under
//! which tools that read `__consumer_offsets` know it. Reads versions 0 to 3.

use super::event::{GroupRecord, MemberRecord};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use std::sync::Arc;
use thiserror::Error;
use twinmq_store::Timestamp;

/// Why a stored group cannot be read, or a group not be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum RecordError {
    /// A version of the schema that is not known.
    #[error("version {0} is not known")]
    Version(i16),
    /// The bytes end early or say nonsense.
    #[error("malformed at {0}")]
    Malformed(&'static str),
    /// A text or blob longer than the format can say.
    #[error("{0} is too long to be stored")]
    TooLong(&'static str),
}

const VERSION: i16 = 3;

/// A group as it is stored.
pub(crate) fn encode(group: &GroupRecord) -> Result<Bytes, RecordError> {
    let mut out = BytesMut::with_capacity(256 + 256 * group.members.len());
    out.put_i16(VERSION);
    put_text(&mut out, &group.protocol_type, "protocol type")?;
    out.put_i32(group.generation);
    put_nullable(&mut out, group.protocol.as_deref(), "protocol")?;
    put_nullable(&mut out, group.leader.as_deref(), "leader")?;
    out.put_i64(group.since.0);
    let count = i32::try_from(group.members.len()).map_err(|_| RecordError::TooLong("members"))?;
    out.put_i32(count);
    for member in &group.members {
        put_text(&mut out, &member.member_id, "member id")?;
        put_nullable(&mut out, member.instance_id.as_deref(), "instance id")?;
        put_text(&mut out, &member.client_id, "client id")?;
        put_text(&mut out, &member.client_host, "client host")?;
        out.put_i32(member.rebalance_timeout_ms);
        out.put_i32(member.session_timeout_ms);
        put_blob(&mut out, &member.subscription, "subscription")?;
        put_blob(&mut out, &member.assignment, "assignment")?;
    }
    Ok(out.freeze())
}

/// A stored group.
pub(crate) fn decode(bytes: &Bytes) -> Result<GroupRecord, RecordError> {
    let mut rest = bytes.clone();
    let version = i16_of(&mut rest)?;
    if !(0..=VERSION).contains(&version) {
        return Err(RecordError::Version(version));
    }
    let protocol_type = text(&mut rest)?;
    let generation = i32_of(&mut rest)?;
    let protocol = nullable(&mut rest)?;
    let leader = nullable(&mut rest)?;
    let since = if version >= 2 { i64_of(&mut rest)? } else { -1 };
    // A member takes 20 bytes at least, so the bytes bound the count.
    let count = usize::try_from(i32_of(&mut rest)?)
        .ok()
        .filter(|count| *count <= rest.remaining() / 20)
        .ok_or(RecordError::Malformed("member count"))?;
    let mut members = Vec::with_capacity(count);
    for _ in 0..count {
        members.push(member(&mut rest, version)?);
    }
    Ok(GroupRecord {
        protocol_type,
        generation,
        protocol,
        leader,
        since: Timestamp(since),
        members,
    })
}

fn member(rest: &mut Bytes, version: i16) -> Result<MemberRecord, RecordError> {
    let member_id = text(rest)?;
    let instance_id = if version >= 3 { nullable(rest)? } else { None };
    let client_id = text(rest)?;
    let client_host = text(rest)?;
    let rebalance = if version >= 1 {
        Some(i32_of(rest)?)
    } else {
        None
    };
    let session_timeout_ms = i32_of(rest)?;
    Ok(MemberRecord {
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms: rebalance.unwrap_or(session_timeout_ms),
        session_timeout_ms,
        subscription: blob(rest)?,
        assignment: blob(rest)?,
    })
}

fn put_text(out: &mut BytesMut, text: &str, what: &'static str) -> Result<(), RecordError> {
    let length = i16::try_from(text.len()).map_err(|_| RecordError::TooLong(what))?;
    out.put_i16(length);
    out.put_slice(text.as_bytes());
    Ok(())
}

fn put_nullable(
    out: &mut BytesMut,
    text: Option<&str>,
    what: &'static str,
) -> Result<(), RecordError> {
    match text {
        Some(text) => put_text(out, text, what),
        None => {
            out.put_i16(-1);
            Ok(())
        }
    }
}

fn put_blob(out: &mut BytesMut, blob: &Bytes, what: &'static str) -> Result<(), RecordError> {
    let length = i32::try_from(blob.len()).map_err(|_| RecordError::TooLong(what))?;
    out.put_i32(length);
    out.put_slice(blob);
    Ok(())
}

const CUT: RecordError = RecordError::Malformed("the end");

fn i16_of(rest: &mut Bytes) -> Result<i16, RecordError> {
    rest.try_get_i16().map_err(|_| CUT)
}

fn i32_of(rest: &mut Bytes) -> Result<i32, RecordError> {
    rest.try_get_i32().map_err(|_| CUT)
}

fn i64_of(rest: &mut Bytes) -> Result<i64, RecordError> {
    rest.try_get_i64().map_err(|_| CUT)
}

fn nullable(rest: &mut Bytes) -> Result<Option<Arc<str>>, RecordError> {
    let length = i16_of(rest)?;
    if length == -1 {
        return Ok(None);
    }
    let length = usize::try_from(length).map_err(|_| RecordError::Malformed("a length"))?;
    if length > rest.remaining() {
        return Err(CUT);
    }
    let bytes = rest.split_to(length);
    let text = std::str::from_utf8(&bytes).map_err(|_| RecordError::Malformed("a text"))?;
    Ok(Some(Arc::from(text)))
}

fn text(rest: &mut Bytes) -> Result<Arc<str>, RecordError> {
    nullable(rest)?.ok_or(RecordError::Malformed("a text that may not be null"))
}

fn blob(rest: &mut Bytes) -> Result<Bytes, RecordError> {
    let length = usize::try_from(i32_of(rest)?).map_err(|_| RecordError::Malformed("a length"))?;
    if length > rest.remaining() {
        return Err(CUT);
    }
    // A copy: the group outlives the buffer it was read from.
    Ok(Bytes::copy_from_slice(&rest.split_to(length)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn example() -> GroupRecord {
        GroupRecord {
            protocol_type: "consumer".into(),
            generation: 7,
            protocol: Some("range".into()),
            leader: Some("a-1".into()),
            since: Timestamp(1_700_000_000_000),
            members: vec![MemberRecord {
                member_id: "a-1".into(),
                instance_id: Some("i".into()),
                client_id: "a".into(),
                client_host: "/127.0.0.1".into(),
                rebalance_timeout_ms: 300_000,
                session_timeout_ms: 45_000,
                subscription: Bytes::from_static(b"sub"),
                assignment: Bytes::from_static(b"part"),
            }],
        }
    }

    #[test]
    fn what_is_stored_comes_back() {
        let empty = GroupRecord {
            protocol: None,
            leader: None,
            members: vec![],
            ..example()
        };
        for group in [example(), empty] {
            assert_eq!(decode(&encode(&group).unwrap()), Ok(group));
        }
    }

    #[test]
    fn golden_bytes() {
        let empty = GroupRecord {
            protocol: None,
            leader: None,
            members: vec![],
            ..example()
        };
        let expected =
            b"\0\x03\0\x08consumer\0\0\0\x07\xff\xff\xff\xff\0\0\x01\x8b\xcf\xe5\x68\0\0\0\0\0";
        assert_eq!(&encode(&empty).unwrap()[..], expected);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let long = "x".repeat(40_000);
        let group = GroupRecord {
            protocol: Some(long.into()),
            ..example()
        };
        assert_eq!(encode(&group), Err(RecordError::TooLong("protocol")));
    }

    #[test]
    fn every_cut_is_refused() {
        let whole = encode(&example()).unwrap();
        for end in 0..whole.len() {
            assert!(decode(&whole.slice(..end)).is_err(), "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(mut bytes in proptest::collection::vec(any::<u8>(), 2..200), version in 0u8..5) {
            bytes[0] = 0;
            bytes[1] = version;
            let _ = decode(&Bytes::from(bytes));
        }
    }
}
