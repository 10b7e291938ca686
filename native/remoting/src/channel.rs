//! A handle to one connection for everyone who is not its task: server-initiated requests, one-way
//! notices, closing. Bounded; it never waits for the peer to read.

use crate::{CallError, Command, Encoding};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One connection. Clones are cheap and speak to the same connection.
#[derive(Clone, Debug)]
pub struct Channel {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: u64,
    remote: SocketAddr,
    local: SocketAddr,
    binary: AtomicBool,
    closed: AtomicBool,
    why: Mutex<Option<&'static str>>,
    closing: Notify,
    next_opaque: AtomicI32,
    backlog: mpsc::Sender<Box<Command>>,
    calls: Mutex<HashMap<i32, oneshot::Sender<Command>>>,
    calls_max: usize,
}

/// Forgets a call when nobody waits for it any more.
struct Waiting<'a> {
    inner: &'a Inner,
    opaque: i32,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.inner.calls.lock().remove(&self.opaque);
    }
}

impl Channel {
    pub(crate) fn new(
        remote: SocketAddr,
        local: SocketAddr,
        backlog_max: usize,
    ) -> (Self, mpsc::Receiver<Box<Command>>) {
        let (backlog, queued) = mpsc::channel(backlog_max);
        let inner = Inner {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            remote,
            local,
            binary: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            why: Mutex::new(None),
            closing: Notify::new(),
            next_opaque: AtomicI32::new(0),
            backlog,
            calls: Mutex::new(HashMap::new()),
            calls_max: backlog_max,
        };
        (
            Self {
                inner: Arc::new(inner),
            },
            queued,
        )
    }

    /// A number that no other connection of this process has or had.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.inner.id
    }

    /// The peer's socket address.
    #[must_use]
    pub fn remote(&self) -> SocketAddr {
        self.inner.remote
    }

    /// The address the peer connected to.
    #[must_use]
    pub fn local(&self) -> SocketAddr {
        self.inner.local
    }

    /// Whether it is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.inner.closed.load(Ordering::Acquire)
    }

    /// How requests of ours are written: binary only to peers that have sent binary.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        if self.inner.binary.load(Ordering::Relaxed) {
            Encoding::Binary
        } else {
            Encoding::Json
        }
    }

    /// Sends a one-way request, in the connection's encoding.
    ///
    /// # Errors
    /// `Closed`, or `Busy` when `backlog_max` commands wait already.
    pub fn notify(&self, mut command: Command) -> Result<(), CallError> {
        command.opaque = self.opaque();
        command.encoding = self.encoding();
        self.send(command)
    }

    /// Sends a request, in the connection's encoding, and waits for its answer.
    ///
    /// # Errors
    /// No answer came within `limit`, or the connection is closed or overloaded.
    pub async fn request(
        &self,
        mut command: Command,
        limit: Duration,
    ) -> Result<Command, CallError> {
        let opaque = self.opaque();
        command.opaque = opaque;
        command.encoding = self.encoding();
        let (answered, answer) = oneshot::channel();
        {
            let mut calls = self.inner.calls.lock();
            // Under the lock, so that `close` either sees this call or is seen here.
            if self.is_closed() {
                return Err(CallError::Closed);
            }
            if calls.len() >= self.inner.calls_max || calls.contains_key(&opaque) {
                return Err(CallError::Busy);
            }
            calls.insert(opaque, answered);
        }
        let _waiting = Waiting {
            inner: &self.inner,
            opaque,
        };
        self.send(command)?;
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(_)) => Err(CallError::Closed),
            Err(_) => Err(CallError::TimedOut),
        }
    }

    /// Closes the connection; what is queued may be lost. `why` goes into the log.
    pub fn close(&self, why: &'static str) {
        self.inner.why.lock().get_or_insert(why);
        self.inner.closing.notify_one();
    }

    fn opaque(&self) -> i32 {
        self.inner.next_opaque.fetch_add(1, Ordering::Relaxed)
    }

    fn send(&self, command: Command) -> Result<(), CallError> {
        self.inner
            .backlog
            .try_send(Box::new(command))
            .map_err(|error| match error {
                mpsc::error::TrySendError::Full(_) => CallError::Busy,
                mpsc::error::TrySendError::Closed(_) => CallError::Closed,
            })
    }

    pub(crate) fn saw(&self, encoding: Encoding) {
        if encoding == Encoding::Binary && !self.inner.binary.load(Ordering::Relaxed) {
            self.inner.binary.store(true, Ordering::Relaxed);
        }
    }

    /// Hands an answer to whoever waits for it; false when nobody does.
    pub(crate) fn answered(&self, response: Command) -> bool {
        let waiting = self.inner.calls.lock().remove(&response.opaque);
        waiting.is_some_and(|waiting| waiting.send(response).is_ok())
    }

    /// Resolves when someone has called `close`.
    pub(crate) async fn closing(&self) -> &'static str {
        loop {
            if let Some(why) = *self.inner.why.lock() {
                return why;
            }
            self.inner.closing.notified().await;
        }
    }

    /// The connection is gone: fails every call.
    pub(crate) fn gone(&self) {
        self.inner.closed.store(true, Ordering::Release);
        let calls = std::mem::take(&mut *self.inner.calls.lock());
        drop(calls);
    }
}
