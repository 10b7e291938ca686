//! Answers on their way out: pieces of bytes in order, written with as few calls as they allow.
//!
//! Record chunks of a Fetch are slices of the log itself and go out as they are; only small pieces
//! are ever copied together (by whoever builds the answer).

use bytes::{Buf, Bytes, BytesMut};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::io::IoSlice;
use twinmq_metrics::StageClock;

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
    /// Answers not yet sent whole.
    sending: VecDeque<Sending>,
    /// Bytes ever pushed.
    pushed: u64,
}

/// An answer on its way.
#[derive(Debug)]
struct Sending {
    /// Its API.
    key: i16,
    /// Where it ends, in bytes ever pushed.
    end: u64,
    /// Since it was pushed.
    clock: StageClock,
}

/// As many pieces as tokio and Linux take in one call without splitting.
const SLICES_MAX: usize = 64;

impl Outbox {
    pub(crate) fn push(&mut self, key: i16, answer: Answer) {
        for piece in answer.pieces {
            if !piece.is_empty() {
                self.bytes += piece.len();
                self.pushed += piece.len() as u64;
                self.pieces.push_back(piece);
            }
        }
        self.sending.push_back(Sending {
            key,
            end: self.pushed,
            clock: StageClock::start(),
        });
    }

    /// The next answer whose last byte is in the socket: its API, and a clock that runs since it was
    /// pushed. Each is told once.
    pub(crate) fn sent(&mut self) -> Option<(i16, StageClock)> {
        let written = self.pushed - self.bytes as u64;
        self.sending.front().filter(|first| first.end <= written)?;
        self.sending.pop_front().map(|sent| (sent.key, sent.clock))
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
        for (key, text) in (0..).zip(["one", "two", "three"]) {
            let pieces = [Bytes::new(), Bytes::from_static(text.as_bytes())];
            outbox.push(
                key,
                Answer {
                    pieces: SmallVec::from_iter(pieces),
                },
            );
        }
        let mut seen = Vec::new();
        let mut told = Vec::new();
        while !outbox.is_empty() {
            outbox
                .write_with(|slices| {
                    let all: Vec<u8> = slices.iter().flat_map(|s| s.to_vec()).collect();
                    let take = all.len().min(4);
                    seen.extend_from_slice(&all[..take]);
                    Ok(take)
                })
                .unwrap();
            while let Some((key, _)) = outbox.sent() {
                told.push((seen.len(), key));
            }
        }
        assert_eq!(told, [(4, 0), (8, 1), (11, 2)]);
        assert_eq!(seen, b"onetwothree");
        assert_eq!(outbox.bytes(), 0);
    }
}
