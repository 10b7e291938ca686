//! Answers on their way out: pieces of bytes in order, written with as few calls as they allow.
//!
//! Record chunks of a Fetch are slices of the log itself and go out as they are; only small pieces
//! are ever copied together (by whoever builds the answer).

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::IoSlice;

/// A finished answer: its frame in pieces, length prefix first.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) pieces: SmallVec<[Bytes; 1]>,
}

impl Answer {
    pub(crate) fn single(frame: BytesMut) -> Self {
        Self {
            pieces: SmallVec::from_buf([frame.freeze()]),
        }
    }
}

/// What a connection has still to send.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Bytes>,
    bytes: usize,
}

/// As many pieces as tokio and Linux take in one call without splitting.
const SLICES_MAX: usize = 64;

impl Outbox {
    pub(crate) fn push(&mut self, answer: Answer) {
        for piece in answer.pieces {
            if !piece.is_empty() {
                self.bytes += piece.len();
                self.pieces.push_back(piece);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Hands the front to `write` (one vectored write) and drops what it took.
    pub(crate) fn write_with(
        &mut self,
        write: impl FnOnce(&[IoSlice<'_>]) -> std::io::Result<usize>,
    ) -> std::io::Result<usize> {
        let written = {
            let slices: SmallVec<[IoSlice<'_>; SLICES_MAX]> = self
                .pieces
                .iter()
                .take(SLICES_MAX)
                .map(|piece| IoSlice::new(piece))
                .collect();
            write(&slices)?
        };
        let mut left = written;
        while left > 0 {
            let Some(front) = self.pieces.front_mut() else {
                break;
            };
            if front.len() > left {
                front.advance(left);
                left = 0;
            } else {
                left -= front.len();
                self.pieces.pop_front();
            }
        }
        self.bytes -= written;
        Ok(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_writes_resume_where_they_stopped() {
        let mut outbox = Outbox::default();
        for text in ["one", "", "two", "three"] {
            outbox.push(Answer {
                pieces: SmallVec::from_buf([Bytes::from_static(text.as_bytes())]),
            });
        }
        let mut seen = Vec::new();
        while !outbox.is_empty() {
            outbox
                .write_with(|slices| {
                    let all: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
                    let take = all.len().min(4);
                    seen.extend_from_slice(&all[..take]);
                    Ok(take)
                })
                .unwrap();
        }
        assert_eq!(seen, b"onetwothree");
        assert_eq!(outbox.bytes(), 0);
    }
}
