//! Messages without a body, for clients that cannot take them: Java before 5.0 decodes an empty body
//! as null, fails on it in `ProcessQueue.putMessage`, and skips everything it pulled with it. Such a
//! client gets a body of one zero byte instead; nothing else of the message changes.
//!
//! Chunks without such a message pass as the slices they are; only sizes are looked at.

use bytes::{Bytes, BytesMut};
use twinmq_remoting::{Command, Language};

/// The first Java client that takes them (RocketMQ `MQVersion.V5_0_0`).
const SINCE: i32 = 413;
/// Places in a stored message (RocketMQ `MessageDecoder`).
const SUM: usize = 8;
const SYS_FLAG: usize = 36;
/// Of the body's length, when both hosts are IPv4; each IPv6 host adds 12.
const BODY_LENGTH: usize = 84;
/// The body is compressed, and how: a body of ours is not.
const COMPRESSION: i32 = 0x701;

/// Whether this client cannot take a message without a body.
pub(crate) fn are_fatal_to(request: &Command) -> bool {
    request.language == Language::JAVA && request.version < SINCE
}

/// The same messages, each with a body.
pub(crate) fn filled(chunks: Vec<Bytes>) -> Vec<Bytes> {
    chunks
        .into_iter()
        .map(|chunk| {
            if has_empty(&chunk) {
                fill(&chunk)
            } else {
                chunk
            }
        })
        .collect()
}

fn int(bytes: &[u8], at: usize) -> Option<i32> {
    let four = bytes.get(at..at + 4)?.try_into().ok()?;
    Some(i32::from_be_bytes(four))
}

/// Each message of a chunk, with the place of its body's length; ends at what is no message.
fn messages(mut rest: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    std::iter::from_fn(move || {
        let total = usize::try_from(int(rest, 0)?).ok()?;
        let (message, after) = rest.split_at_checked(total)?;
        let flags = int(message, SYS_FLAG)?;
        let v6 = usize::from(flags & 0x10 != 0) + usize::from(flags & 0x20 != 0);
        let at = BODY_LENGTH + 12 * v6;
        int(message, at)?;
        rest = after;
        Some((message, at))
    })
}

fn has_empty(chunk: &[u8]) -> bool {
    messages(chunk).any(|(message, at)| int(message, at) == Some(0))
}

fn fill(chunk: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(chunk.len() + 64);
    let mut walked = 0;
    for (message, at) in messages(chunk) {
        walked += message.len();
        if int(message, at) != Some(0) {
            out.extend_from_slice(message);
            continue;
        }
        let start = out.len();
        out.extend_from_slice(&message[..at]);
        out.extend_from_slice(&1i32.to_be_bytes());
        out.extend_from_slice(&[0]);
        out.extend_from_slice(&message[at + 4..]);
        let longer = i32::try_from(message.len() + 1).unwrap_or(i32::MAX);
        let sum = crc32fast::hash(&[0]) & 0x7FFF_FFFF;
        let flags = int(message, SYS_FLAG).unwrap_or(0) & !COMPRESSION;
        out[start..start + 4].copy_from_slice(&longer.to_be_bytes());
        out[start + SUM..start + SUM + 4].copy_from_slice(&sum.to_be_bytes());
        out[start + SYS_FLAG..start + SYS_FLAG + 4].copy_from_slice(&flags.to_be_bytes());
    }
    out.extend_from_slice(&chunk[walked..]);
    out.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use twinmq_records::message::{self, MessageView, NewMessage};

    fn stored(body: &[u8], host: &str) -> Bytes {
        let new = NewMessage {
            queue_id: 1,
            flag: 2,
            sys_flag: 0,
            born_time: 3,
            born_host: host.parse().expect("address"),
            store_host: "127.0.0.1:10911".parse().expect("address"),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body,
            topic: "T",
            properties: b"KEYS\x01k\x02",
        };
        message::encode(&new, 1000).expect("legal").bytes
    }

    #[test]
    fn only_messages_without_a_body_change() {
        let full = stored(b"x", "10.0.0.1:1");
        assert_eq!(filled(vec![full.clone()])[0].as_ptr(), full.as_ptr());
        let mut chunk = BytesMut::new();
        for one in [
            &full,
            &stored(b"", "10.0.0.1:1"),
            &stored(b"", "[::1]:1"),
            &full,
        ] {
            chunk.extend_from_slice(one);
        }
        let out = filled(vec![chunk.freeze()]);
        let found: Vec<MessageView<'_>> = message::iter(&out[0])
            .collect::<Result<_, _>>()
            .expect("messages");
        let bodies: Vec<&[u8]> = found.iter().map(|one| one.body).collect();
        assert_eq!(bodies, [&b"x"[..], &[0], &[0], b"x"]);
        for one in &found {
            assert!(one.body_crc_is_right());
            assert_eq!(one.properties().get("KEYS"), Some("k"));
            assert_eq!((one.queue_id, one.flag, one.topic), (1, 2, "T"));
        }
    }

    proptest! {
        #[test]
        fn random_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = filled(vec![Bytes::from(bytes)]);
        }
    }
}
