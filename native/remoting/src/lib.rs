//! The RocketMQ remoting wire: frames, headers, codes, typed header fields and JSON bodies, and the
//! connections that carry them. It knows no broker rule and no store.
//!
//! One frame, all integers big-endian:
//!
//! ```text
//! +-------------+------------------------------+-----------------+--------------------------+
//! | i32 length  | u8 encoding | u24 header len | header          | body                     |
//! | of the rest | 0 JSON, 1 binary             | JSON or binary  | may be empty             |
//! +-------------+------------------------------+-----------------+--------------------------+
//! ```
//!
//! Reading order: [`frame`] cuts frames out of bytes, [`header`] turns one into a [`Command`],
//! [`fields`] and [`bodies`] give its strings types, [`serve()`] and [`Channel`] carry commands over
//! sockets, [`Caller`] is the calling side.
//!
//! Left out: TLS and the PROXY header (a connection that opens with either is closed with a log line).

mod caller;
mod channel;
mod command;
mod connection;
mod error;
mod escape;
mod handler;
mod limits;
mod metrics;
mod outbox;
mod serve;
mod shared;
mod socket;

pub mod bodies;
pub mod code;
pub mod fields;
pub mod frame;
pub mod header;
pub mod json;

pub use caller::Caller;
pub use channel::Channel;
pub use command::{Command, Encoding, FIELDS_MAX, Fields, Language, VERSION};
pub use error::{CallError, FieldError, FrameError};
pub use handler::{LaterFuture, Outcome, Serve};
pub use limits::Limits;
pub use metrics::{ListenerMetrics, RemotingMetrics};
pub use serve::serve;
