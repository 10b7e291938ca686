//! One connection: frames in, answers out, in the order of the requests.
//!
//! One task owns the socket. Requests run one after the other, as in Kafka, so their effects keep
//! their order; only the wait for the disk of a Produce overlaps with following requests. While a
//! request is parked the socket is still read a little, so that a client that went away is noticed,
//! and its request dropped. Everything is bounded: buffered input, requests in flight, output; a
//! client that stalls with any of them is closed.

mod intake;

use crate::error::Close;
use crate::output::Outbox;
use crate::serve::Front;
use crate::table::{self, Later, Reply, Work};
use crate::topology::{Client, Endpoint};
use bytes::Bytes;
use intake::{Got, Intake};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, Sleep};
use twinmq_metrics::Stage;

/// Serves a connection until either side ends it.
pub(crate) async fn serve(
    front: Arc<Front>,
    stream: TcpStream,
    peer: SocketAddr,
    endpoint: Endpoint,
    mut stopped: watch::Receiver<bool>,
) {
    let stop = Box::pin(async move {
        let _ = stopped.wait_for(|stop| *stop).await;
    });
    let client = Client {
        id: Arc::from(""),
        host: peer,
        endpoint,
    };
    let mut connection = Connection {
        tick: Box::pin(tokio::time::sleep(tick(&front))),
        heard: Instant::now(),
        taken: Instant::now(),
        front,
        stream,
        client: Arc::new(client),
        client_id: Bytes::new(),
        input: Intake::new(),
        running: None,
        later: VecDeque::new(),
        outbox: Outbox::default(),
        ended: false,
        stop: Some(stop),
    };
    match connection.run().await {
        Ok(()) => {}
        Err(End::Quiet) => {}
        Err(End::Close(close)) => {
            // Answers to earlier requests go out as far as the socket takes them.
            let _ = connection.write();
            connection.front.metrics.closed_for_cause.inc();
            let now = connection.front.clock.now().0;
            connection.front.complaints.say(now, peer, &close);
        }
    }
}

/// How often a connection looks for stalls.
fn tick(front: &Front) -> Duration {
    let config = &front.config;
    let shortest = config
        .connections_max_idle_ms
        .min(config.request_stall_ms)
        .min(config.output_stall_ms);
    Duration::from_millis((shortest / 2).max(10))
}

/// Why serving ends.
enum End {
    /// The client left, or nothing went wrong.
    Quiet,
    /// With a line in the log.
    Close(Close),
}

impl From<Close> for End {
    fn from(close: Close) -> Self {
        Self::Close(close)
    }
}

impl From<std::io::Error> for End {
    fn from(_: std::io::Error) -> Self {
        Self::Quiet
    }
}

struct Running {
    key: i16,
    work: Work,
    /// Held while the request's bytes are.
    _share: Option<OwnedSemaphorePermit>,
}

struct Waiting {
    key: i16,
    work: Later,
}

struct Connection {
    front: Arc<Front>,
    stream: TcpStream,
    client: Arc<Client>,
    client_id: Bytes,
    input: Intake,
    running: Option<Running>,
    later: VecDeque<Waiting>,
    outbox: Outbox,
    /// The client sends no more.
    ended: bool,
    stop: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    tick: Pin<Box<Sleep>>,
    /// When bytes last came in.
    heard: Instant,
    /// When bytes last went out, or there was nothing to send.
    taken: Instant,
}

/// What a wait ended with.
enum Event {
    Handled(Result<Reply, Close>),
    Durable(Result<crate::output::Answer, Close>),
    Readable,
    Writable,
    Tick,
    Stop,
}

impl Connection {
    async fn run(&mut self) -> Result<(), End> {
        loop {
            let need = self.start_requests().await?;
            if !self.outbox.is_empty() {
                self.write()?;
            }
            if self.ended && self.parked() {
                // Who left does not wait for it; what it had sent behind it still counts.
                self.running = None;
                continue;
            }
            if self.over() {
                return Ok(());
            }
            match self.wait(need).await? {
                Event::Handled(reply) => self.finish(reply)?,
                Event::Durable(answer) => {
                    if let Some(waiting) = self.later.pop_front() {
                        self.answered(waiting.key, answer)?;
                    }
                }
                Event::Readable => self.read(need.unwrap_or(0)).await?,
                Event::Writable => self.write()?,
                Event::Tick => self.check_stalls(need)?,
                Event::Stop => self.stop = None,
            }
        }
    }

    /// Nothing more will come or go.
    fn over(&self) -> bool {
        let done = self.running.is_none() && self.later.is_empty();
        let leaving = self.ended || self.stop.is_none();
        // On a stop, clients ask again elsewhere for what is parked.
        leaving
            && ((done && (self.outbox.is_empty() || self.ended))
                || (self.parked() && self.later.is_empty()))
    }

    /// The request in hand only waits for other clients.
    fn parked(&self) -> bool {
        self.running
            .as_ref()
            .is_some_and(|running| parks(running.key))
    }

    /// Starts complete requests until one has to wait. `Some`: bytes that the next frame needs.
    async fn start_requests(&mut self) -> Result<Option<usize>, End> {
        loop {
            if self.running.is_some()
                || self.later.len() >= self.front.config.requests_in_flight_max
                || self.outbox.bytes() >= self.front.config.output_bytes_max
                || self.stop.is_none()
            {
                return Ok(None);
            }
            let (request, share) = match self.input.next(self.front.limits)? {
                Ok(next) => next,
                Err(need) => return Ok(Some(need)),
            };
            table::admit(&request)?;
            if request.client_id != self.client_id {
                // A copy: the frame's buffer must not be kept.
                self.client_id = Bytes::copy_from_slice(&request.client_id);
                let client = Client {
                    id: table::client_id(&request.client_id),
                    host: self.client.host,
                    endpoint: self.client.endpoint.clone(),
                };
                self.client = Arc::new(client);
            }
            let key = request.key;
            let mut work = table::start(Arc::clone(&self.front), Arc::clone(&self.client), request);
            // Most requests end without waiting for anything.
            match poll_fn(|cx| Poll::Ready(work.as_mut().poll(cx))).await {
                Poll::Ready(reply) => {
                    drop(work);
                    self.handled(key, reply)?;
                }
                Poll::Pending => {
                    self.running = Some(Running {
                        key,
                        work,
                        _share: share,
                    })
                }
            }
        }
    }

    fn finish(&mut self, reply: Result<Reply, Close>) -> Result<(), End> {
        match self.running.take() {
            Some(running) => self.handled(running.key, reply),
            None => Ok(()),
        }
    }

    fn handled(&mut self, key: i16, reply: Result<Reply, Close>) -> Result<(), End> {
        match reply {
            Ok(Reply::Nothing) => {
                self.front.request_row(key).unanswered.inc();
                Ok(())
            }
            Ok(Reply::Now(answer)) if self.later.is_empty() => self.answered(key, Ok(answer)),
            Ok(Reply::Now(answer)) => {
                let work = Box::pin(std::future::ready(Ok(answer)));
                self.later.push_back(Waiting { key, work });
                Ok(())
            }
            Ok(Reply::Later(work)) => {
                self.later.push_back(Waiting { key, work });
                Ok(())
            }
            Err(close) => {
                self.front.request_row(key).closed.inc();
                Err(close.into())
            }
        }
    }

    fn answered(
        &mut self,
        key: i16,
        answer: Result<crate::output::Answer, Close>,
    ) -> Result<(), End> {
        let row = self.front.request_row(key);
        match answer {
            Ok(answer) => {
                row.answered.inc();
                if self.outbox.is_empty() {
                    self.taken = Instant::now();
                }
                self.outbox.push(key, answer);
                Ok(())
            }
            Err(close) => {
                row.closed.inc();
                Err(close.into())
            }
        }
    }

    /// Waits for whatever comes first.
    async fn wait(&mut self, need: Option<usize>) -> Result<Event, End> {
        let reads = !self.ended && (need.is_some() || self.input.has_room());
        if self.parked() {
            // Who only waits keeps no buffer.
            self.input.release();
        }
        poll_fn(|cx| self.poll_event(cx, reads)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>, reads: bool) -> Poll<Result<Event, End>> {
        if let Some(running) = &mut self.running
            && let Poll::Ready(reply) = running.work.as_mut().poll(cx)
        {
            return Poll::Ready(Ok(Event::Handled(reply)));
        }
        if let Some(waiting) = self.later.front_mut()
            && let Poll::Ready(answer) = waiting.work.as_mut().poll(cx)
        {
            return Poll::Ready(Ok(Event::Durable(answer)));
        }
        if !self.outbox.is_empty()
            && let Poll::Ready(ready) = self.stream.poll_write_ready(cx)
        {
            return Poll::Ready(ready.map(|()| Event::Writable).map_err(End::from));
        }
        if reads && let Poll::Ready(ready) = self.stream.poll_read_ready(cx) {
            return Poll::Ready(ready.map(|()| Event::Readable).map_err(End::from));
        }
        if let Some(stop) = &mut self.stop
            && stop.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Ok(Event::Stop));
        }
        self.tick.as_mut().poll(cx).map(|()| Ok(Event::Tick))
    }

    async fn read(&mut self, need: usize) -> Result<(), End> {
        match self
            .input
            .read(&self.stream, need, &self.front.room)
            .await?
        {
            Got::End => self.ended = true,
            Got::Nothing => {}
            Got::Bytes(bytes) => {
                self.heard = Instant::now();
                self.front.metrics.received_bytes.inc_by(bytes as u64);
            }
        }
        Ok(())
    }

    /// Writes what the socket takes. Who takes no answers any more is as good as gone: what it asked
    /// for is still done.
    fn write(&mut self) -> Result<(), End> {
        while !self.outbox.is_empty() {
            let stream = &self.stream;
            match self
                .outbox
                .write_with(|slices| stream.try_write_vectored(slices))
            {
                Ok(bytes) if bytes > 0 => {
                    self.taken = Instant::now();
                    self.front.metrics.sent_bytes.inc_by(bytes as u64);
                    while let Some((key, mut clock)) = self.outbox.sent() {
                        clock.lap(self.front.row(key), Stage::Send);
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Ok(_) | Err(_) => {
                    self.outbox = Outbox::default();
                    self.ended = true;
                }
            }
        }
        Ok(())
    }

    fn check_stalls(&mut self, need: Option<usize>) -> Result<(), End> {
        let now = Instant::now();
        self.tick.as_mut().reset(now + tick(&self.front));
        let config = &self.front.config;
        let after = |since: Instant, ms: u64| now - since >= Duration::from_millis(ms);
        if !self.outbox.is_empty() && after(self.taken, config.output_stall_ms) {
            let reason = "it took nothing of its answers for kafka.output_stall_ms";
            return Err(Close::because(reason).into());
        }
        if need.is_some() && !self.input.is_empty() && after(self.heard, config.request_stall_ms) {
            let reason = "a request stopped arriving for kafka.request_stall_ms";
            return Err(Close::because(reason).into());
        }
        let quiet = self.running.is_none() && self.later.is_empty() && self.outbox.is_empty();
        if quiet
            && after(self.heard, config.connections_max_idle_ms)
            && after(self.taken, config.connections_max_idle_ms)
        {
            return Err(End::Quiet);
        }
        if quiet && after(self.heard, 1000) {
            self.input.calm();
        }
        Ok(())
    }
}

/// Requests that may wait for other clients; giving one up harms nothing.
fn parks(key: i16) -> bool {
    use kafka_protocol::messages::ApiKey;
    [ApiKey::Fetch, ApiKey::JoinGroup, ApiKey::SyncGroup]
        .iter()
        .any(|api| *api as i16 == key)
}
