//! RocketMQ's stored message: checked view, writer.

use thiserror::Error;

/// What is wrong with a message.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MessageError {
    /// Bytes that do not make a message.
    #[error("corrupt message: {0}")]
    Corrupt(String),
    /// A part is longer than the layout or the configuration allows.
    #[error("{what} of {bytes} bytes is longer than {max}")]
    TooLong {
        /// Which part.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The limit.
        max: usize,
    },
}
