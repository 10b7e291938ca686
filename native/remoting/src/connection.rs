//! One task per connection, owning both halves of the socket: read, cut all complete frames, handle
//! each in order, write the answers together. Long polls and disk waits answer later, from futures
//! that the connection owns. When it ends, long polls are dropped; the others are done to their end,
//! for a peer may close without waiting for an answer (Go commits its offsets so).
//!
//! Promises: one write for many answers; a peer that does not read stops being read and is closed in
//! the end; what an idle connection keeps is a few hundred bytes.

use crate::metrics::Ended;
use crate::outbox::Outbox;
use crate::shared::{Claim, ROOM_ASK, Share, Shared};
use crate::socket::{Moved, READ_START, READ_STEP_MAX, moved};
use crate::{Channel, Command, FrameError, Outcome, Serve, frame};
use bytes::BytesMut;
use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};

/// An empty read buffer above this, in bytes, is given back.
const READ_KEPT: usize = 64 << 10;
/// Idle time after which buffers are given back.
const BUFFERS_KEPT: Duration = Duration::from_secs(5);

/// A waiting answer that has come, and whether a stop waits for its kind.
struct Answer {
    command: Option<Command>,
    soon: bool,
}

/// Calls `closed` however the connection's task ends.
struct Registered<S: Serve> {
    handler: Arc<S>,
    peer: Arc<S::Peer>,
    channel: Channel,
}

impl<S: Serve> Drop for Registered<S> {
    fn drop(&mut self) {
        self.channel.gone();
        self.handler.closed(&self.peer);
    }
}

/// One connection and everything it holds.
pub(crate) struct Connection<T, S: Serve> {
    stream: T,
    input: BytesMut,
    step: usize,
    output: Outbox,
    backlog: mpsc::Receiver<Box<Command>>,
    waiting: JoinSet<Answer>,
    soon: usize,
    shared: Arc<Shared>,
    share: Share,
    stop: watch::Receiver<bool>,
    /// Since when the peer has neither sent nor taken a byte.
    quiet_since: Instant,
    /// Since when output waits without progress.
    stalled_since: Option<Instant>,
    registered: Registered<S>,
}

/// Why the loop ended.
enum End {
    /// The peer closed it.
    Peer,
    /// The network failed.
    Network(io::Error),
    Frame(FrameError),
    Idle,
    Stalled,
    /// Its unfinished frame found no room, or held it for too long.
    NoRoom(&'static str),
    /// The front closed it.
    Closed(&'static str),
    /// The listener stops.
    Stop,
}

impl<T: AsyncRead + AsyncWrite + Unpin, S: Serve> Connection<T, S> {
    pub(crate) fn new(
        stream: T,
        channel: Channel,
        backlog: mpsc::Receiver<Box<Command>>,
        handler: Arc<S>,
        shared: Arc<Shared>,
        stop: watch::Receiver<bool>,
    ) -> Self {
        let peer = handler.opened(&channel);
        Self {
            stream,
            input: BytesMut::new(),
            step: READ_START,
            output: Outbox::default(),
            backlog,
            waiting: JoinSet::new(),
            soon: 0,
            shared,
            share: Share::default(),
            stop,
            quiet_since: Instant::now(),
            stalled_since: None,
            registered: Registered {
                handler,
                peer,
                channel,
            },
        }
    }

    /// Runs until the connection ends, and says in the log why unless it is ordinary.
    pub(crate) async fn run(mut self) {
        let end = self.work().await;
        let remote = self.registered.channel.remote();
        let (why, ended) = match end {
            End::Peer => {
                self.leave().await;
                ("the peer closed it".to_owned(), Ended::Peer)
            }
            End::Network(error) => {
                self.leave().await;
                (format!("network: {error}"), Ended::Peer)
            }
            End::Frame(error) => {
                self.shared.no_frame(remote, &error);
                (error.to_string(), Ended::Frame)
            }
            End::Idle => {
                if let Some(more_like_it) = self.shared.may_say() {
                    let seconds = self.shared.limits.idle_seconds_max;
                    tracing::info!(%remote, seconds, more_like_it, "connection closed: idle");
                }
                ("idle".to_owned(), Ended::Idle)
            }
            End::Stalled => {
                if let Some(more_like_it) = self.shared.may_say() {
                    let unsent = self.output.len();
                    tracing::warn!(%remote, unsent, more_like_it, "connection closed: the peer does not read");
                }
                ("the peer does not read".to_owned(), Ended::Stalled)
            }
            End::NoRoom(why) => {
                if let Some(more_like_it) = self.shared.may_say() {
                    tracing::warn!(%remote, more_like_it, "connection closed: {why}");
                }
                (why.to_owned(), Ended::Here)
            }
            End::Closed(why) => {
                tracing::info!(%remote, "connection closed: {why}");
                (why.to_owned(), Ended::Here)
            }
            End::Stop => {
                self.drain().await;
                ("the listener stops".to_owned(), Ended::Here)
            }
        };
        self.shared.metrics.ended(ended);
        tracing::debug!(%remote, why, "connection ended");
    }

    async fn work(&mut self) -> End {
        let first = BUFFERS_KEPT.min(self.shared.limits.idle());
        let mut alarm = Box::pin(tokio::time::sleep_until(self.quiet_since + first));
        let (channel, mut stop) = (self.registered.channel.clone(), self.stop.clone());
        let mut closing = std::pin::pin!(channel.closing());
        let mut stopping = std::pin::pin!(stopped(&mut stop));
        loop {
            if let Err(end) = self.handle_all().await {
                return end;
            }
            self.watch_output(&mut alarm);
            let unsent = self.output.len();
            let may_take = unsent < self.shared.limits.unsent_bytes_max;
            let wants = may_take && self.waiting.len() < self.shared.limits.waiting_max;
            let starved = match self.share.claim(&self.shared, self.input.len() + self.step) {
                Claim::Granted => false,
                Claim::Wait => wants,
                Claim::Refused => {
                    return End::NoRoom("input_bytes_total_max left no room for its frame");
                }
                Claim::TooSlow => {
                    return End::NoRoom("its frame came too slowly while others waited for room");
                }
            };
            let may_read = wants && !starved;
            tokio::select! {
                biased;
                moved = moved(&mut self.stream, &mut self.input, &mut self.output, self.step, may_read) => {
                    match moved {
                        Ok(Moved::Read(0)) => return End::Peer,
                        Ok(moved) => self.note(&moved, &mut alarm),
                        Err(error) => return End::Network(error),
                    }
                }
                Some(command) = self.backlog.recv(), if may_take => self.output.push(&command),
                Some(answer) = self.waiting.join_next(), if may_take && !self.waiting.is_empty() => {
                    self.answer(answer);
                }
                () = tokio::time::sleep(ROOM_ASK), if starved => {}
                why = &mut closing => return End::Closed(why),
                () = &mut stopping => return End::Stop,
                () = &mut alarm => {
                    if let Some(end) = self.alarm(&mut alarm) {
                        return end;
                    }
                }
            }
            self.collect();
        }
    }

    /// Handles every complete frame, as long as the output may grow.
    async fn handle_all(&mut self) -> Result<(), End> {
        loop {
            if self.output.len() >= self.shared.limits.flush_bytes {
                self.write_now()?;
            }
            let full = self.output.len() >= self.shared.limits.unsent_bytes_max
                || self.waiting.len() >= self.shared.limits.waiting_max;
            if full || self.input.is_empty() {
                break;
            }
            match frame::next(&mut self.input, self.shared.limits.frame_bytes_max) {
                Ok(Ok(command)) => {
                    self.handle(command).await;
                    self.share.keep(self.input.len());
                }
                Ok(Err(_)) => break,
                Err(error) => return Err(End::Frame(error)),
            }
        }
        if self.input.is_empty() && self.input.capacity() > READ_KEPT {
            self.input = BytesMut::new();
        }
        if !self.output.is_empty() {
            self.write_now()?;
        }
        Ok(())
    }

    async fn handle(&mut self, command: Command) {
        let Registered {
            handler,
            peer,
            channel,
        } = &self.registered;
        channel.saw(command.encoding);
        if command.is_response() {
            let opaque = command.opaque;
            if !channel.answered(command.detached()) {
                tracing::debug!(remote = %channel.remote(), opaque, "an answer that nobody waits for");
            }
            return;
        }
        let oneway = command.is_oneway();
        let (answer, soon) = match handler.handle(peer, command).await {
            Outcome::Reply(response) => {
                if !oneway {
                    self.output.push(&response);
                }
                return;
            }
            Outcome::None => return,
            Outcome::Later(answer) => (answer, true),
            Outcome::Parked(answer) => (answer, false),
        };
        self.soon += usize::from(soon);
        self.waiting.spawn(async move {
            let command = answer.await;
            Answer {
                command: command.filter(|_| !oneway),
                soon,
            }
        });
    }

    /// Writes what the socket takes without waiting.
    fn write_now(&mut self) -> Result<(), End> {
        let waker = std::task::Waker::noop();
        let mut cx = Context::from_waker(waker);
        while !self.output.is_empty() {
            match self.output.poll_write(&mut self.stream, &mut cx) {
                Poll::Ready(Ok(written)) => {
                    self.shared.metrics.sent.inc_by(written as u64);
                    self.quiet_since = Instant::now();
                    self.stalled_since = None;
                }
                Poll::Ready(Err(error)) => return Err(End::Network(error)),
                Poll::Pending => break,
            }
        }
        Ok(())
    }

    fn answer(&mut self, answer: Result<Answer, tokio::task::JoinError>) {
        match answer {
            Ok(Answer { command, soon }) => {
                self.soon -= usize::from(soon && self.soon > 0);
                if let Some(command) = command {
                    self.output.push(&command);
                }
            }
            Err(error) => {
                tracing::error!(remote = %self.registered.channel.remote(), %error, "a waiting request failed");
            }
        }
    }

    /// Takes what else is ready, so that one write carries it.
    fn collect(&mut self) {
        while self.output.len() < self.shared.limits.flush_bytes {
            if let Ok(command) = self.backlog.try_recv() {
                self.output.push(&command);
            } else if let Some(answer) = self.waiting.try_join_next() {
                self.answer(answer);
            } else {
                break;
            }
        }
    }

    /// The socket moved.
    fn note(&mut self, moved: &Moved, alarm: &mut Pin<Box<Sleep>>) {
        let now = Instant::now();
        if now - self.quiet_since >= BUFFERS_KEPT {
            alarm
                .as_mut()
                .reset(now + BUFFERS_KEPT.min(self.shared.limits.idle()));
        }
        self.quiet_since = now;
        match *moved {
            Moved::Read(bytes) => {
                self.shared.metrics.received.inc_by(bytes as u64);
                // A read that filled its step asks for a larger one.
                self.step = if bytes >= self.step {
                    (self.step * 2).min(READ_STEP_MAX)
                } else {
                    (self.step / 2).max(READ_START).max(bytes)
                };
            }
            Moved::Wrote(bytes) => {
                self.shared.metrics.sent.inc_by(bytes as u64);
                self.stalled_since = None;
            }
        }
    }

    /// Starts and ends the clock of a peer that does not read.
    fn watch_output(&mut self, alarm: &mut Pin<Box<Sleep>>) {
        if self.output.is_empty() {
            self.stalled_since = None;
        } else if self.stalled_since.is_none() {
            let now = Instant::now();
            self.stalled_since = Some(now);
            let due = now + self.shared.limits.stall();
            if alarm.deadline() > due {
                alarm.as_mut().reset(due);
            }
        }
    }

    /// The alarm rang: gives buffers back, or ends an idle or stalled connection.
    fn alarm(&mut self, alarm: &mut Pin<Box<Sleep>>) -> Option<End> {
        let now = Instant::now();
        let stall = self
            .stalled_since
            .map(|since| since + self.shared.limits.stall());
        let idle = self.quiet_since + self.shared.limits.idle();
        if stall.is_some_and(|due| due <= now) {
            return Some(End::Stalled);
        }
        if idle <= now {
            return Some(End::Idle);
        }
        let release = self.quiet_since + BUFFERS_KEPT;
        let mut due = idle;
        if release <= now {
            if self.input.is_empty() {
                self.input = BytesMut::new();
                self.step = READ_START;
            }
            self.output.release();
        } else {
            due = due.min(release);
        }
        alarm
            .as_mut()
            .reset(stall.map_or(due, |stall| stall.min(due)));
        None
    }

    /// After the peer has left: what it asked for before is still done. Where a write failed first,
    /// that may still have to be read.
    async fn leave(&mut self) {
        self.registered.channel.gone();
        loop {
            while self.waiting.len() < self.shared.limits.waiting_max
                && let Ok(Ok(command)) =
                    frame::next(&mut self.input, self.shared.limits.frame_bytes_max)
            {
                self.handle(command).await;
                self.output = Outbox::default();
            }
            // As much as needs no share of the input of all connections.
            let mut none = Outbox::default();
            let (stream, input) = (&mut self.stream, &mut self.input);
            let more = input.len() < READ_STEP_MAX;
            let read = std::pin::pin!(moved(stream, input, &mut none, READ_START, more));
            match read.poll(&mut Context::from_waker(std::task::Waker::noop())) {
                Poll::Ready(Ok(Moved::Read(bytes))) if bytes > 0 => {}
                _ => break,
            }
        }
        self.finish().await;
    }

    /// Lets answers that are under way finish; tells until when they may.
    async fn finish(&mut self) -> Instant {
        let deadline = Instant::now() + self.shared.limits.drain();
        while self.soon > 0 {
            match tokio::time::timeout_at(deadline, self.waiting.join_next()).await {
                Ok(Some(answer)) => self.answer(answer),
                Ok(None) | Err(_) => break,
            }
        }
        deadline
    }

    /// After a stop: handles no more, lets answers that are under way finish, writes them.
    async fn drain(&mut self) {
        let deadline = self.finish().await;
        self.collect();
        let (stream, output) = (&mut self.stream, &mut self.output);
        let write = async {
            while !output.is_empty() {
                std::future::poll_fn(|cx| output.poll_write(stream, cx)).await?;
            }
            std::future::poll_fn(|cx| Pin::new(&mut *stream).poll_shutdown(cx)).await
        };
        let _: Result<io::Result<()>, _> = tokio::time::timeout_at(deadline, write).await;
    }
}

/// Resolves when the listener stops.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, ListenerMetrics};
    use bytes::Bytes;
    use tokio::io::AsyncWriteExt;

    struct Echo;

    impl Serve for Echo {
        type Peer = ();

        fn opened(&self, _channel: &Channel) -> Arc<()> {
            Arc::new(())
        }

        async fn handle(&self, _peer: &Arc<()>, request: Command) -> Outcome {
            Outcome::Reply(Command::response_to(&request, 0))
        }

        fn closed(&self, _peer: &Arc<()>) {}
    }

    #[derive(Default)]
    struct Count(std::sync::atomic::AtomicUsize);

    impl Serve for Count {
        type Peer = ();

        fn opened(&self, _channel: &Channel) -> Arc<()> {
            Arc::new(())
        }

        async fn handle(&self, _peer: &Arc<()>, request: Command) -> Outcome {
            self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Outcome::Reply(Command::response_to(&request, 0))
        }

        fn closed(&self, _peer: &Arc<()>) {}
    }

    #[tokio::test]
    async fn what_came_before_the_peer_left_is_handled_though_answers_fail() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let nowhere = ([127, 0, 0, 1], 1).into();
        let (channel, backlog) = Channel::new(nowhere, nowhere, 16);
        let (_stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared::new(Limits::default(), ListenerMetrics::detached()));
        let count = Arc::new(Count::default());
        let connection =
            Connection::new(near, channel, backlog, Arc::clone(&count), shared, stopped);
        let mut out = Outbox::default();
        for _ in 0..500 {
            out.push(&Command::request(1).with_body(Bytes::from(vec![1; 1000])));
        }
        while !out.is_empty() {
            std::future::poll_fn(|cx| out.poll_write(&mut far, cx))
                .await
                .unwrap();
        }
        drop(far);
        connection.run().await;
        assert_eq!(count.0.load(std::sync::atomic::Ordering::Relaxed), 500);
    }

    #[tokio::test]
    async fn an_idle_connection_keeps_no_buffers() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let nowhere = ([127, 0, 0, 1], 1).into();
        let (channel, backlog) = Channel::new(nowhere, nowhere, 16);
        let (_stop, stopped) = watch::channel(false);
        let shared = Arc::new(Shared::new(Limits::default(), ListenerMetrics::detached()));
        let mut connection =
            Connection::new(near, channel, backlog, Arc::new(Echo), shared, stopped);
        let mut out = Outbox::default();
        out.push(&Command::request(1).with_body(Bytes::from(vec![1; 20_000])));
        while !out.is_empty() {
            std::future::poll_fn(|cx| out.poll_write(&mut far, cx))
                .await
                .unwrap();
        }
        far.flush().await.unwrap();
        let short = Duration::from_millis(50);
        assert!(
            tokio::time::timeout(short, connection.work())
                .await
                .is_err()
        );
        assert!(connection.input.capacity() > 0);
        connection.quiet_since = Instant::now()
            .checked_sub(BUFFERS_KEPT)
            .expect("the machine runs longer than that");
        let mut alarm = Box::pin(tokio::time::sleep(short));
        assert!(connection.alarm(&mut alarm).is_none());
        assert_eq!(connection.input.capacity(), 0);
        assert_eq!(connection.output.capacity(), 0);
        assert!(alarm.deadline() > Instant::now() + Duration::from_secs(100));
        let bytes = size_of_val(&connection);
        assert!(bytes < 1024, "{bytes} bytes");
    }
}
