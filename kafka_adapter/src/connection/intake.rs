//! A connection's input: one buffer that grows with what arrives and shrinks when nothing does.

use crate::error::Close;
use crate::frame::{self, Limits, Look, Request};
use bytes::BytesMut;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// First and smallest read buffer.
const READ_MIN: usize = 8 << 10;
/// Largest single read of small frames.
const READ_MAX: usize = 128 << 10;
/// Input bytes of a connection that need no share of `requests_bytes_total_max`; also the most that
/// is read ahead behind a running request.
const FREE: usize = 256 << 10;
/// A buffer that grew beyond this is not kept for the next request.
const KEEP: usize = 4 << 20;
/// How long a connection waits for a share.
const ROOM_WAIT: Duration = Duration::from_secs(10);

/// What has been read and not yet taken.
#[derive(Debug)]
pub(super) struct Intake {
    buffer: BytesMut,
    /// How much is asked for at a time; doubles while reads fill it.
    read_size: usize,
    /// The share held for the buffer.
    share: Option<OwnedSemaphorePermit>,
}

/// How a read went.
pub(super) enum Got {
    /// So many bytes.
    Bytes(usize),
    /// The socket had none after all.
    Nothing,
    /// The client sends no more.
    End,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self {
            buffer: BytesMut::new(),
            read_size: READ_MIN,
            share: None,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Whether more may be read behind a running request.
    pub(super) fn has_room(&self) -> bool {
        self.buffer.len() < FREE
    }

    /// Takes the next whole request with the share that its bytes hold, or tells how many bytes it needs.
    pub(super) fn next(
        &mut self,
        limits: Limits,
    ) -> Result<Result<(Request, Option<OwnedSemaphorePermit>), usize>, Close> {
        let length = match frame::look(&self.buffer, limits)? {
            Look::Need(need) => return Ok(Err(need)),
            Look::Frame(length) => length,
        };
        let request = frame::take(&mut self.buffer, length, limits)?;
        if length > KEEP {
            self.buffer = BytesMut::from(&self.buffer[..]);
        }
        Ok(Ok((request, self.share.take())))
    }

    /// Gives the buffer back: nothing is in hand.
    pub(super) fn release(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.share = None;
        }
    }

    /// Starts over with small reads.
    pub(super) fn calm(&mut self) {
        self.read_size = READ_MIN;
        self.release();
    }

    /// Reads once. `need`: bytes that the next frame takes, 0 when reading ahead. The buffer grows at
    /// most to double of what is there, never to what a frame claims.
    pub(super) async fn read(
        &mut self,
        stream: &TcpStream,
        need: usize,
        room: &Arc<Semaphore>,
    ) -> Result<Got, Close> {
        let have = self.buffer.len();
        let least = need
            .saturating_sub(have)
            .clamp(READ_MIN, have.max(self.read_size));
        if self.buffer.capacity() - have < least {
            let more = if need == 0 {
                READ_MIN
            } else {
                least.max(self.read_size)
            };
            self.claim(have + more, room).await?;
            self.buffer.reserve(more);
        }
        match stream.try_read_buf(&mut self.buffer) {
            Ok(0) => Ok(Got::End),
            Ok(bytes) => {
                if self.buffer.len() == self.buffer.capacity() {
                    self.read_size = (self.read_size * 2).min(READ_MAX);
                }
                Ok(Got::Bytes(bytes))
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(Got::Nothing),
            // The client is gone, whatever the reason.
            Err(_) => Ok(Got::End),
        }
    }

    /// A share of the process-wide room for a buffer of this size.
    async fn claim(&mut self, size: usize, room: &Arc<Semaphore>) -> Result<(), Close> {
        let kib = u32::try_from(size.saturating_sub(FREE).div_ceil(1024)).unwrap_or(u32::MAX);
        let held = self.share.as_ref().map_or(0, |share| {
            u32::try_from(share.num_permits()).unwrap_or(u32::MAX)
        });
        if kib <= held {
            return Ok(());
        }
        let more = Arc::clone(room).acquire_many_owned(kib - held);
        match tokio::time::timeout(ROOM_WAIT, more).await {
            Ok(Ok(more)) => {
                match &mut self.share {
                    Some(share) => share.merge(more),
                    none => *none = Some(more),
                }
                Ok(())
            }
            _ => Err(Close::because(
                "kafka.requests_bytes_total_max left no room for its request",
            )),
        }
    }
}
