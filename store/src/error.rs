//! One error type per operation: a caller sees only what can happen to him.

use crate::types::{LogOffset, QueueNumber, QueueOffset};
use std::path::PathBuf;
use thiserror::Error;

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process holds the directory.
    #[error("{dir} is in use by another process (its lock file is held)")]
    Locked {
        /// The store's directory.
        dir: PathBuf,
    },
    /// A file system call failed.
    #[error("{what} {path}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The directory holds something that this version cannot read, or that is damaged before the
    /// point up to which everything was known to be on disk.
    #[error("{path} at {at}: {reason}")]
    Corrupt {
        /// Which file.
        path: PathBuf,
        /// Where in it or in the log.
        at: u64,
        /// What is wrong.
        reason: String,
    },
    /// A contradiction in the configuration.
    #[error("{key}: {reason}")]
    Config {
        /// The key to change.
        key: &'static str,
        /// Why its value does not do.
        reason: String,
    },
}

/// Why nothing was appended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AppendError {
    /// The disk has no room for another file, or is above the refusal mark. Reads go on.
    #[error("the disk is full: {reason}")]
    Full {
        /// Which limit, and the key to change.
        reason: String,
    },
    /// Housekeeping did not make room in time, or too much is not yet on disk. Try again.
    #[error("the log is busy: {reason}")]
    Busy {
        /// What was waited for.
        reason: &'static str,
    },
    /// The lane is closed: the store is stopping, or a write or sync failed.
    #[error("the log takes no more writes: {reason}")]
    Closed {
        /// Why.
        reason: String,
    },
    /// The run is longer than `run_bytes_max`, or an entry is malformed.
    #[error("run of {bytes} bytes is more than run_bytes_max = {max}")]
    TooLarge {
        /// Its size in the log.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The producer's epoch is lower than the last one seen in this queue.
    #[error("producer epoch {epoch} is older than {current}")]
    ProducerFenced {
        /// Claimed epoch.
        epoch: i16,
        /// The epoch on record.
        current: i16,
    },
    /// The sequence does not follow the last one of this producer in this queue.
    #[error("sequence {first} does not follow {last}")]
    OutOfOrderSequence {
        /// Claimed first sequence.
        first: i32,
        /// The last sequence on record, −1 for none.
        last: i32,
    },
    /// A plain batch of a producer whose transaction is open here.
    #[error("the producer has an open transaction in this queue")]
    InvalidTransactionState,
    /// The queue was dropped.
    #[error("queue {queue} was deleted")]
    QueueDropped {
        /// Which.
        queue: QueueNumber,
    },
}

/// Why a wait for durability ended without it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("not known to be on disk: {reason}")]
pub struct WaitError {
    /// Why.
    pub reason: String,
}

/// Why nothing could be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The offset lies before the queue's first or after its end.
    #[error("offset {asked} is outside {first}..={end}")]
    OutOfRange {
        /// What was asked for.
        asked: QueueOffset,
        /// First offset.
        first: QueueOffset,
        /// End of what this reader may see.
        end: QueueOffset,
    },
    /// No entry starts there any more (retention), or never did.
    #[error("nothing at address {at}")]
    NoSuchAddress {
        /// The address.
        at: u64,
    },
    /// Too many bytes read from disk wait for their readers (`cold_bytes_max`); try again.
    #[error("too many bytes read from disk wait for their readers (store.cold_bytes_max)")]
    Busy,
    /// Bytes on disk are damaged.
    #[error("log offset {at}: {reason}")]
    Corrupt {
        /// Where.
        at: LogOffset,
        /// What.
        reason: String,
    },
    /// The disk answered with an error.
    #[error("reading at log offset {at}")]
    Io {
        /// Where.
        at: LogOffset,
        /// The system's answer.
        #[source]
        source: std::io::Error,
    },
}
