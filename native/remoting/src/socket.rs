//! One step of a socket: write what waits, else read what there is. The read buffer grows as bytes
//! come; without one, the first bytes are read on the stack, so that an idle connection has none.

use crate::outbox::Outbox;
use bytes::BytesMut;
use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// First size of the read buffer, in bytes; before it there is only the stack.
pub(crate) const READ_START: usize = 8 << 10;
/// Largest step by which the read buffer grows ahead of the bytes, in bytes.
pub(crate) const READ_STEP_MAX: usize = 256 << 10;
/// Read on the stack when there is no buffer, in bytes.
const READ_STACK: usize = 4 << 10;
/// What the socket did.
pub(crate) enum Moved {
    /// So many bytes came; none: the peer has closed.
    Read(usize),
    /// So many bytes went.
    Wrote(usize),
}

/// Writes what waits, else reads what there is.
pub(crate) async fn moved<T: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut T,
    input: &mut BytesMut,
    output: &mut Outbox,
    step: usize,
    may_read: bool,
) -> io::Result<Moved> {
    std::future::poll_fn(|cx| {
        if !output.is_empty()
            && let Poll::Ready(written) = output.poll_write(stream, cx)
        {
            return Poll::Ready(written.map(Moved::Wrote));
        }
        if may_read {
            poll_read(stream, input, step, cx)
        } else {
            Poll::Pending
        }
    })
    .await
}

fn poll_read<T: AsyncRead + Unpin>(
    stream: &mut T,
    input: &mut BytesMut,
    step: usize,
    cx: &mut Context<'_>,
) -> Poll<io::Result<Moved>> {
    if input.capacity() == 0 {
        let mut stack = [const { MaybeUninit::uninit() }; READ_STACK];
        let mut space = ReadBuf::uninit(&mut stack);
        std::task::ready!(Pin::new(stream).poll_read(cx, &mut space))?;
        if !space.filled().is_empty() {
            input.reserve(READ_START);
            input.extend_from_slice(space.filled());
        }
        return Poll::Ready(Ok(Moved::Read(space.filled().len())));
    }
    input.reserve(step);
    let read = std::pin::pin!(tokio::io::AsyncReadExt::read_buf(stream, input)).poll(cx);
    std::task::ready!(read).map_or_else(
        |error| Poll::Ready(Err(error)),
        |bytes| Poll::Ready(Ok(Moved::Read(bytes))),
    )
}
