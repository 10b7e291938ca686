//! What can be wrong with a frame, with a header field, and with an outgoing call.

use std::fmt;
use thiserror::Error;

/// The bytes of a connection are not a frame; the connection must be closed, nothing is answered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The peer speaks TLS (first byte 0x16), which this listener does not.
    #[error("the peer opened with a TLS handshake; this listener is plain text")]
    Tls,
    /// The peer sent a PROXY protocol header.
    #[error("the peer opened with a PROXY protocol header, which this listener does not take")]
    Proxy,
    /// The peer sent an HTTP request.
    #[error("the peer opened with an HTTP request; this listener speaks the RocketMQ protocol")]
    Http,
    /// The peer sent what reads as a Kafka request.
    #[error("the peer opened with a Kafka request; this listener speaks the RocketMQ protocol")]
    Kafka,
    /// The length is negative, too small for a header word, or above the limit.
    #[error("a frame claims {claimed} bytes, allowed are 4 to {limit}")]
    Length {
        /// What the length field says, in bytes.
        claimed: i64,
        /// The configured limit, in bytes.
        limit: usize,
    },
    /// The header is longer than its frame.
    #[error("a header claims {claimed} bytes in a frame of {frame}")]
    HeaderLength {
        /// What the header word says, in bytes.
        claimed: usize,
        /// Bytes of the frame after the length field.
        frame: usize,
    },
    /// The header encoding is neither 0 (JSON) nor 1 (binary).
    #[error("unknown header encoding {0}")]
    Encoding(u8),
    /// The header does not parse.
    #[error("header: {reason} at byte {at}")]
    Header {
        /// What is wrong.
        reason: &'static str,
        /// Where in the header, in bytes.
        at: usize,
    },
}

/// A header field is missing or does not parse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field's name on the wire.
    pub field: &'static str,
    /// The value as it came, cut to 64 bytes; `None` when it was absent.
    pub value: Option<String>,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            None => write!(f, "the custom field <{}> is null", self.field),
            Some(value) => write!(
                f,
                "the custom field <{}> has an illegal value: {value:?}",
                self.field
            ),
        }
    }
}

impl std::error::Error for FieldError {}

/// A request of ours got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The connection is closed, or closed before the answer came.
    #[error("the connection is closed")]
    Closed,
    /// Too much is waiting to be sent to this peer, or too many calls are unanswered.
    #[error("too much is waiting for this peer")]
    Busy,
    /// No answer within the time given.
    #[error("no answer in time")]
    TimedOut,
}
