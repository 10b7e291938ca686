//! One request's frame: length prefix, size cap, header. No sockets.
//!
//! Layout (Apache Kafka protocol guide): i32 length, then i16 key, i16 version, i32 correlation id,
//! nullable i16-length client id, and in flexible versions tagged fields. The client id is never
//! compact.

use crate::error::Close;
use crate::guard;
use bytes::{Buf, Bytes, BytesMut};

/// Sizes above which a frame is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For Produce.
    pub(crate) produce: u32,
    /// For every other request.
    pub(crate) other: u32,
    /// Elements and tagged fields in one request.
    pub(crate) elements: u32,
}

/// What lies at the front of a connection's buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Not a whole frame yet; this many bytes (prefix included) make one, as far as known.
    Need(usize),
    /// A frame of this many bytes, prefix not included.
    Frame(usize),
}

/// A request, its header taken off.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: i16,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    /// client.id as UTF-8; empty when null.
    pub(crate) client_id: Bytes,
    pub(crate) body: Bytes,
}

/// Key, version and correlation id: the least that a frame holds.
const SHORTEST: usize = 8;

/// Looks at the buffer without taking anything.
///
/// # Errors
/// A length out of bounds; what it looks like goes into the reason.
pub(crate) fn look(buffer: &[u8], limits: Limits) -> Result<Look, Close> {
    let Some(prefix) = buffer.first_chunk::<4>() else {
        return Ok(Look::Need(4));
    };
    let claimed = i32::from_be_bytes(*prefix);
    let length = match u32::try_from(claimed) {
        Ok(length) if length as usize >= SHORTEST && length <= limits.produce.max(limits.other) => {
            length
        }
        _ => {
            return Err(Close::because(format!(
                "a frame of {claimed} bytes{}",
                match prefix {
                    b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" => " (an HTTP request?)",
                    [0x16, 3, ..] => " (a TLS handshake on a plain listener?)",
                    _ => ", above kafka.produce_bytes_max",
                }
            )));
        }
    };
    // The cap depends on the key, so two more bytes are needed before more is reserved.
    let Some(key) = buffer.get(4..6) else {
        return Ok(Look::Need(4 + SHORTEST));
    };
    let cap = if key == [0, 0] {
        limits.produce
    } else {
        limits.other
    };
    if length > cap {
        return Err(Close::because(format!(
            "a request of {length} bytes is above {} = {cap}",
            if key == [0, 0] {
                "kafka.produce_bytes_max"
            } else {
                "kafka.request_bytes_max"
            }
        )));
    }
    let length = length as usize;
    Ok(if buffer.len() - 4 >= length {
        Look::Frame(length)
    } else {
        Look::Need(4 + length)
    })
}

/// Takes the frame that [`look`] found and parses its header.
///
/// # Errors
/// A header that does not hold together.
pub(crate) fn take(buffer: &mut BytesMut, length: usize, limits: Limits) -> Result<Request, Close> {
    buffer.advance(4);
    let mut frame = buffer.split_to(length).freeze();
    if frame.len() < SHORTEST {
        return Err(Close::because("a frame without a header"));
    }
    let key = frame.get_i16();
    let version = frame.get_i16();
    let correlation = frame.get_i32();
    // A RocketMQ frame has its header's length here, and JSON after it.
    if key == 0 && version > i16::from(b' ') && correlation.to_be_bytes()[0] == b'{' {
        return Err(Close::because(
            "a RocketMQ frame on the Kafka port: point RocketMQ clients at the name server",
        ));
    }
    if frame.len() < 2 {
        return Err(Close::because(
            "a request header that ends before client.id",
        ));
    }
    let client_id = match frame.get_i16() {
        -1 => Bytes::new(),
        claimed => match usize::try_from(claimed) {
            Ok(length) if length <= frame.len() => frame.split_to(length),
            _ => return Err(Close::because(format!("client.id claims {claimed} bytes"))),
        },
    };
    if std::str::from_utf8(&client_id).is_err() {
        return Err(Close::because("client.id is not UTF-8"));
    }
    if version >= guard::flexible_from(key) {
        let tags = guard::header_tags(&frame, limits.elements)?;
        frame.advance(tags);
    }
    Ok(Request {
        key,
        version,
        correlation,
        client_id,
        body: frame,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: Limits = Limits {
        produce: 1000,
        other: 100,
        elements: 100,
    };

    #[test]
    fn refuses_lengths_out_of_bounds_before_anything_else_arrives() {
        for (bytes, fine) in [
            (&[0xff, 0xff, 0xff, 0xff][..], false),
            (&[0, 0, 0, 7], false),
            (&[0, 0, 0, 8], true),
            (&[0, 0, 3, 0xe8], true),
            (&[0, 0, 3, 0xe9], false),
            (b"GET / HTTP/1.1", false),
            (&[0x16, 3, 1, 2, 0], false),
            (&[0, 0, 0, 101, 0, 3], false),
            (&[0, 0, 0, 101, 0, 0], true),
        ] {
            assert_eq!(look(bytes, LIMITS).is_ok(), fine, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = BytesMut::from(&bytes[..]);
            if let Ok(Look::Frame(length)) = look(&buffer, LIMITS) {
                let _ = take(&mut buffer, length, LIMITS);
            }
        }
    }
}
