//! Kafka's record batch v2: checked borrowed iterator, the produce walk, writer.

use thiserror::Error;

/// What is wrong with a batch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    /// Bytes that do not make a batch: lengths, checksum, varints, decompression. Kafka's CORRUPT_MESSAGE.
    #[error("corrupt batch: {0}")]
    Corrupt(String),
    /// Well formed but not allowed. Kafka's INVALID_RECORD.
    #[error("invalid record: {0}")]
    Invalid(String),
    /// A message set of the old format. Kafka's UNSUPPORTED_FOR_MESSAGE_FORMAT or INVALID_RECORD.
    #[error("magic {0} is not supported")]
    Magic(u8),
    /// Unknown codec.
    #[error("compression codec {0} is unknown")]
    Codec(u8),
    /// A LogAppendTime bit from a client.
    #[error("the LogAppendTime bit belongs to the broker")]
    TimestampType,
    /// Decompresses to more than allowed.
    #[error("decompresses to more than {0} bytes")]
    TooBig(u64),
}
