//! What a connection still has to write: small things copied into one buffer, large bodies as they are.

use crate::{Command, header};
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::AsyncWrite;

/// Body pieces below this, in bytes, are copied: cheaper than an entry of a vectored write.
const COPIED: usize = 4096;
/// Most pieces in one vectored write.
const SLICES: usize = 64;
/// A buffer above this, in bytes, is given back when it is empty.
const KEPT: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    pieces: VecDeque<Bytes>,
    tail: BytesMut,
    /// Where a header is written before it joins the tail.
    header: Vec<u8>,
    len: usize,
}

impl Outbox {
    /// Unsent bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory held, pieces apart.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.tail.capacity() + self.header.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Encodes a command behind what is there.
    pub(crate) fn push(&mut self, command: &Command) {
        self.header.clear();
        header::encode(command, &mut self.header);
        self.tail.extend_from_slice(&self.header);
        self.len += self.header.len();
        self.piece(&command.body);
        for chunk in &command.chunks {
            self.piece(chunk);
        }
    }

    fn piece(&mut self, bytes: &Bytes) {
        self.len += bytes.len();
        if bytes.len() < COPIED {
            self.tail.extend_from_slice(bytes);
            return;
        }
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
        self.pieces.push_back(bytes.clone());
    }

    /// Writes once; how many bytes went.
    pub(crate) fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let to = Pin::new(to);
        let written = if self.pieces.is_empty() {
            std::task::ready!(to.poll_write(cx, &self.tail))?
        } else {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = 0;
            let parts = self
                .pieces
                .iter()
                .map(|piece| &piece[..])
                .chain([&self.tail[..]]);
            for (slice, part) in slices.iter_mut().zip(parts) {
                *slice = IoSlice::new(part);
                count += 1;
            }
            std::task::ready!(to.poll_write_vectored(cx, &slices[..count]))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.advance(written);
        Poll::Ready(Ok(written))
    }

    fn advance(&mut self, mut written: usize) {
        self.len = self.len.saturating_sub(written);
        while written > 0 {
            let Some(first) = self.pieces.front_mut() else {
                self.tail.advance(written.min(self.tail.len()));
                break;
            };
            if first.len() > written {
                first.advance(written);
                break;
            }
            written -= first.len();
            self.pieces.pop_front();
        }
        if self.len == 0 && self.tail.capacity().max(self.header.capacity()) > KEPT {
            self.release();
        }
    }

    /// Gives all memory back when nothing is unsent.
    pub(crate) fn release(&mut self) {
        if self.len == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn pieces_arrive_whole_and_in_order_through_a_narrow_pipe() {
        let (mut near, mut far) = tokio::io::duplex(100);
        let mut out = Outbox::default();
        let chunks: Vec<Bytes> = (0..200u8)
            .map(|n| Bytes::from(vec![n; if n % 3 == 0 { 5000 } else { 7 }]))
            .collect();
        let body: Vec<u8> = chunks.concat();
        let command = Command::request(1).with_chunks(chunks);
        out.push(&command);
        out.push(&Command::request(2).with_body(Bytes::from_static(b"end")));
        let all = out.len();
        let reader = tokio::spawn(async move {
            let mut got = Vec::new();
            far.read_to_end(&mut got).await.map(|_| got)
        });
        while !out.is_empty() {
            std::future::poll_fn(|cx| out.poll_write(&mut near, cx))
                .await
                .unwrap();
        }
        drop(near);
        let mut got = BytesMut::from(&reader.await.unwrap().unwrap()[..]);
        assert_eq!(got.len(), all);
        let first = crate::frame::next(&mut got, 1 << 24).unwrap().unwrap();
        assert_eq!(&first.body[..], &body[..]);
        let second = crate::frame::next(&mut got, 1 << 24).unwrap().unwrap();
        assert_eq!((second.code, &second.body[..]), (2, &b"end"[..]));
    }
}
