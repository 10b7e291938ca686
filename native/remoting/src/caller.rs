//! The calling side: one outgoing connection, requests matched to answers by opaque.

use crate::connection::Connection;
use crate::shared::Shared;
use crate::{CallError, Channel, Command, Limits, ListenerMetrics, Outcome, Serve, code};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpStream, ToSocketAddrs};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// An outgoing connection. Dropping it closes the connection.
#[derive(Debug)]
pub struct Caller {
    channel: Channel,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// Answers requests of the server's with "not supported".
#[derive(Debug)]
struct Deaf;

impl Serve for Deaf {
    type Peer = ();

    fn opened(&self, _channel: &Channel) -> Arc<()> {
        Arc::new(())
    }

    async fn handle(&self, _peer: &Arc<()>, request: Command) -> Outcome {
        Outcome::Reply(code::not_supported(&request))
    }

    fn closed(&self, _peer: &Arc<()>) {}
}

impl Caller {
    /// Connects; requests that the server sends are answered with "not supported".
    ///
    /// # Errors
    /// No connection within `limit`.
    pub async fn connect(
        to: impl ToSocketAddrs,
        limits: Limits,
        limit: Duration,
    ) -> io::Result<Self> {
        Self::connect_with(to, Arc::new(Deaf), limits, limit).await
    }

    /// Connects; requests that the server sends go to `handler`.
    ///
    /// # Errors
    /// No connection within `limit`.
    pub async fn connect_with<S: Serve>(
        to: impl ToSocketAddrs,
        handler: Arc<S>,
        limits: Limits,
        limit: Duration,
    ) -> io::Result<Self> {
        let stream = tokio::time::timeout(limit, TcpStream::connect(to)).await??;
        crate::serve::prepare(&stream);
        let (channel, backlog) = Channel::new(
            stream.peer_addr()?,
            stream.local_addr()?,
            limits.backlog_max,
        );
        let (stop, stopped) = watch::channel(false);
        let shared = Shared::new(limits, ListenerMetrics::detached());
        let connection = Connection::new(
            stream,
            channel.clone(),
            backlog,
            handler,
            Arc::new(shared),
            stopped,
        );
        let task = tokio::spawn(connection.run());
        Ok(Self {
            channel,
            stop,
            task,
        })
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    /// No answer came within `limit`, or the connection is closed or overloaded.
    pub async fn call(&self, request: Command, limit: Duration) -> Result<Command, CallError> {
        self.channel.request(request, limit).await
    }

    /// Sends a one-way request.
    ///
    /// # Errors
    /// The connection is closed or overloaded.
    pub fn notify(&self, request: Command) -> Result<(), CallError> {
        self.channel.notify(request)
    }

    /// Whether the connection is gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Our end's address.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.channel.local()
    }

    /// Writes what is queued and closes.
    pub async fn close(mut self) {
        self.stop.send_replace(true);
        if let Err(error) = (&mut self.task).await {
            tracing::debug!(%error, "closing a call connection");
        }
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.task.abort();
    }
}
