//! What serves the requests of connections, and what it makes of each: an answer now, one that comes
//! later, or none.

use crate::{Channel, Command};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A boxed future of an answer that comes later; `None` answers nothing.
pub type LaterFuture = Pin<Box<dyn Future<Output = Option<Command>> + Send>>;

#[expect(
    clippy::large_enum_variant,
    reason = "a reply moves once, from handler to buffer; boxing it would allocate per request"
)]
/// What a handler makes of a request.
pub enum Outcome {
    /// The answer.
    Reply(Command),
    /// The answer comes soon (a disk, another server); a stop waits for it.
    Later(LaterFuture),
    /// The answer may take long (a long poll); a stop drops it.
    Parked(LaterFuture),
    /// No answer.
    None,
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Reply(command) => f.debug_tuple("Reply").field(command).finish(),
            Self::Later(_) => f.write_str("Later"),
            Self::Parked(_) => f.write_str("Parked"),
            Self::None => f.write_str("None"),
        }
    }
}

impl Outcome {
    /// An answer that comes soon.
    pub fn later(answer: impl Future<Output = Option<Command>> + Send + 'static) -> Self {
        Self::Later(Box::pin(answer))
    }

    /// An answer that may take long.
    pub fn parked(answer: impl Future<Output = Option<Command>> + Send + 'static) -> Self {
        Self::Parked(Box::pin(answer))
    }
}

/// What serves the requests of a listener's connections.
pub trait Serve: Send + Sync + 'static {
    /// What is remembered of one connection.
    type Peer: Send + Sync + 'static;

    /// A connection has sent its first bytes.
    fn opened(&self, channel: &Channel) -> Arc<Self::Peer>;

    /// Handles one request. Requests of one connection come one after the other, in their order: what
    /// is awaited in here holds up the requests behind it. Answers to one-way requests are dropped.
    fn handle(
        &self,
        peer: &Arc<Self::Peer>,
        request: Command,
    ) -> impl Future<Output = Outcome> + Send;

    /// The connection is gone; called exactly once per `opened`.
    fn closed(&self, peer: &Arc<Self::Peer>);
}
