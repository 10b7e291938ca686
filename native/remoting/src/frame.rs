//! Bytes to frames. No sockets.
//!
//! Promises: nothing is reserved or waited for that the limit does not allow; "not enough yet" and
//! "wrong" are different answers.

use crate::{Command, Encoding, FrameError, header};
use bytes::{Bytes, BytesMut};

/// A frame cut out of the stream, its header not yet looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// How the header is written.
    pub encoding: Encoding,
    /// The header.
    pub header: Bytes,
    /// The body, maybe empty.
    pub body: Bytes,
}

/// What the start of a buffer is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cut {
    /// So many bytes in all are needed before there is a frame.
    Need(usize),
    /// A frame; its bytes are gone from the buffer.
    Frame(Frame),
}

/// Word before everything: the length of the rest, in bytes.
const LENGTH: usize = 4;
/// Word after it: encoding and header length.
const WORD: usize = 4;

/// First byte of a TLS handshake record.
const TLS: u8 = 0x16;
const HTTP: [&[u8; 4]; 5] = [b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"];
const PROXY_TEXT: &[u8] = b"PROXY";
const PROXY_BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// Cuts the first frame off the buffer. `limit` counts the length field too.
///
/// # Errors
/// The bytes cannot be a frame: close the connection.
pub fn cut(buffer: &mut BytesMut, limit: usize) -> Result<Cut, FrameError> {
    let Some(length) = buffer.first_chunk::<LENGTH>() else {
        return match buffer.first() {
            Some(&TLS) => Err(FrameError::Tls),
            _ => Ok(Cut::Need(LENGTH)),
        };
    };
    let claimed = i32::from_be_bytes(*length);
    let rest = usize::try_from(claimed)
        .ok()
        .filter(|rest| *rest >= WORD && rest + LENGTH <= limit);
    let Some(rest) = rest else {
        return Err(opening(buffer, claimed, limit));
    };
    let total = LENGTH + rest;
    if let Some(word) = buffer.get(LENGTH..LENGTH + WORD) {
        check_word(word, rest)?;
    }
    if buffer.len() < total {
        return Ok(Cut::Need(total));
    }
    let bytes = buffer.split_to(total).freeze();
    let (encoding, header_len) = check_word(&bytes[LENGTH..LENGTH + WORD], rest)?;
    let start = LENGTH + WORD;
    Ok(Cut::Frame(Frame {
        encoding,
        header: bytes.slice(start..start + header_len),
        body: bytes.slice(start + header_len..),
    }))
}

fn check_word(word: &[u8], rest: usize) -> Result<(Encoding, usize), FrameError> {
    let &[kind, a, b, c] = word else {
        return Err(FrameError::Length {
            claimed: 0,
            limit: 0,
        });
    };
    let encoding = match kind {
        0 => Encoding::Json,
        1 => Encoding::Binary,
        other => return Err(FrameError::Encoding(other)),
    };
    let header_len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
    if header_len > rest - WORD {
        // A Kafka request has its API key and version here: small numbers both.
        if kind == 0 && (1..=127).contains(&a) && b == 0 && c < 32 {
            return Err(FrameError::Kafka);
        }
        return Err(FrameError::HeaderLength {
            claimed: header_len,
            frame: rest,
        });
    }
    Ok((encoding, header_len))
}

/// Names what a peer opened with when it is no frame.
fn opening(buffer: &[u8], claimed: i32, limit: usize) -> FrameError {
    if buffer.first() == Some(&TLS) {
        return FrameError::Tls;
    }
    let starts = |mark: &[u8]| {
        let seen = buffer.len().min(mark.len());
        buffer[..seen] == mark[..seen]
    };
    if starts(PROXY_TEXT) || starts(PROXY_BINARY) {
        return FrameError::Proxy;
    }
    if HTTP.iter().any(|method| buffer.starts_with(*method)) {
        return FrameError::Http;
    }
    FrameError::Length {
        claimed: i64::from(claimed),
        limit,
    }
}

/// Cuts and decodes the first command of the buffer; `Ok(Err(n))` means `n` bytes in all are needed.
///
/// # Errors
/// The bytes cannot be a command: close the connection.
pub fn next(buffer: &mut BytesMut, limit: usize) -> Result<Result<Command, usize>, FrameError> {
    match cut(buffer, limit)? {
        Cut::Need(bytes) => Ok(Err(bytes)),
        Cut::Frame(frame) => header::decode(frame).map(Ok),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: usize = 1 << 20;

    fn buffer(bytes: &[u8]) -> BytesMut {
        BytesMut::from(bytes)
    }

    #[test]
    fn waits_for_the_whole_frame_and_leaves_the_next() {
        let mut bytes = vec![0, 0, 0, 9, 0, 0, 0, 2, b'{', b'}', b'x', b'y', b'z'];
        assert_eq!(cut(&mut buffer(&bytes[..3]), LIMIT), Ok(Cut::Need(4)));
        assert_eq!(cut(&mut buffer(&bytes[..12]), LIMIT), Ok(Cut::Need(13)));
        bytes.push(0xff);
        let mut whole = buffer(&bytes);
        let Ok(Cut::Frame(frame)) = cut(&mut whole, LIMIT) else {
            panic!("a frame")
        };
        assert_eq!(
            (&frame.header[..], &frame.body[..]),
            (&b"{}"[..], &b"xyz"[..])
        );
        assert_eq!(&whole[..], [0xff]);
    }

    #[test]
    fn refuses_lengths_before_the_bytes_are_there() {
        for claimed in [-1, i32::MIN, 0, 3, i32::MAX, 1 << 20] {
            let got = cut(&mut buffer(&claimed.to_be_bytes()), LIMIT);
            assert!(
                matches!(got, Err(FrameError::Length { .. })),
                "{claimed}: {got:?}"
            );
        }
        let header = cut(&mut buffer(&[0, 0, 0, 8, 0, 0, 0, 5]), LIMIT);
        assert_eq!(
            header,
            Err(FrameError::HeaderLength {
                claimed: 5,
                frame: 8
            })
        );
        assert_eq!(
            cut(&mut buffer(&[0, 0, 0, 8, 9, 0, 0, 0]), LIMIT),
            Err(FrameError::Encoding(9))
        );
    }

    #[test]
    fn names_strangers() {
        assert_eq!(cut(&mut buffer(&[0x16]), LIMIT), Err(FrameError::Tls));
        assert_eq!(
            cut(&mut buffer(&[0x16, 3, 1, 2]), LIMIT),
            Err(FrameError::Tls)
        );
        assert_eq!(
            cut(&mut buffer(b"PROXY TCP4 1.2.3.4"), LIMIT),
            Err(FrameError::Proxy)
        );
        assert_eq!(
            cut(&mut buffer(b"\r\n\r\n\0\r\n"), LIMIT),
            Err(FrameError::Proxy)
        );
        assert_eq!(
            cut(&mut buffer(b"GET / HTTP/1.1"), LIMIT),
            Err(FrameError::Http)
        );
        let api_versions = [0, 0, 0, 13, 0, 18, 0, 3, 0, 0, 0, 1, 0, 3, b'a', b'b', b'c'];
        assert_eq!(
            cut(&mut buffer(&api_versions), LIMIT),
            Err(FrameError::Kafka)
        );
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut buffer = buffer(&bytes);
            while let Ok(Ok(_)) = next(&mut buffer, 4096) {}
        }

        #[test]
        fn random_headers_never_panic(kind in 0u8..2, header in proptest::collection::vec(any::<u8>(), 0..120)) {
            let mut bytes = BytesMut::new();
            let total = u32::try_from(4 + header.len()).unwrap();
            bytes.extend_from_slice(&total.to_be_bytes());
            bytes.extend_from_slice(&(u32::from(kind) << 24 | (total - 4)).to_be_bytes());
            bytes.extend_from_slice(&header);
            let _ = next(&mut bytes, 4096);
        }
    }
}
