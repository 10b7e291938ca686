//! The only table from the broker's errors to Kafka's error codes, and why a connection is closed.

use kafka_protocol::ResponseError;
use std::borrow::Cow;
use thiserror::Error;
use twinmq_core::catalog::CatalogError;
use twinmq_core::consume::ConsumeError;
use twinmq_core::offsets::OffsetsError;
use twinmq_core::produce::ProduceError;
use twinmq_records::batch::BatchError;
use twinmq_records::message::MessageError;
use twinmq_store::{AppendError, ReadError};

/// Why a connection is closed without an answer. Logged once, by the connection, with the client's
/// address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub(crate) struct Close {
    pub(crate) reason: Cow<'static, str>,
}

impl Close {
    pub(crate) fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Self {
            reason: reason.into(),
        }
    }
}

/// A refused element of a request: Kafka's code, and a text for the versions that carry one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) code: ResponseError,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(code: ResponseError, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

impl From<&AppendError> for Refusal {
    fn from(error: &AppendError) -> Self {
        let code = match error {
            // Retriable without a metadata refresh loop: there is room again after retention, or soon.
            AppendError::Full { .. } | AppendError::Closed { .. } => {
                ResponseError::KafkaStorageError
            }
            AppendError::Busy { .. } => ResponseError::RequestTimedOut,
            AppendError::TooLarge { .. } => ResponseError::RecordListTooLarge,
            AppendError::ProducerFenced { .. } => ResponseError::InvalidProducerEpoch,
            AppendError::OutOfOrderSequence { .. } => ResponseError::OutOfOrderSequenceNumber,
            AppendError::InvalidTransactionState => ResponseError::InvalidTxnState,
            AppendError::QueueDropped { .. } => ResponseError::UnknownTopicOrPartition,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&BatchError> for Refusal {
    fn from(error: &BatchError) -> Self {
        let code = match error {
            BatchError::Corrupt(_) => ResponseError::CorruptMessage,
            BatchError::Invalid(_) | BatchError::Magic(_) => ResponseError::InvalidRecord,
            BatchError::Codec(_) => ResponseError::UnsupportedCompressionType,
            BatchError::TimestampType => ResponseError::InvalidTimestamp,
            BatchError::TooBig(_) => ResponseError::MessageTooLarge,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&MessageError> for Refusal {
    fn from(error: &MessageError) -> Self {
        let code = match error {
            MessageError::Corrupt(_) => ResponseError::CorruptMessage,
            MessageError::TooLong { .. } => ResponseError::MessageTooLarge,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&ProduceError> for Refusal {
    fn from(error: &ProduceError) -> Self {
        let code = match error {
            ProduceError::NotWritable(_) => ResponseError::TopicAuthorizationFailed,
            ProduceError::NoSuchQueue(_) => ResponseError::UnknownTopicOrPartition,
            ProduceError::Batch(error) => return error.into(),
            ProduceError::Message(error) => return error.into(),
            ProduceError::TooLarge { .. } => ResponseError::MessageTooLarge,
            ProduceError::InvalidTimestamp { .. } => ResponseError::InvalidTimestamp,
            ProduceError::NoKey { .. } => ResponseError::InvalidRecord,
            ProduceError::Append(error) => return error.into(),
            ProduceError::Wait(_) => ResponseError::KafkaStorageError,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&ConsumeError> for Refusal {
    fn from(error: &ConsumeError) -> Self {
        let code = match error {
            ConsumeError::NoSuchQueue(_) => ResponseError::UnknownTopicOrPartition,
            ConsumeError::Read(ReadError::OutOfRange { .. } | ReadError::NoSuchAddress { .. }) => {
                ResponseError::OffsetOutOfRange
            }
            // Of the codes a consumer retries by itself, the one that asks for patience.
            ConsumeError::Busy
            | ConsumeError::Read(
                ReadError::Busy | ReadError::Corrupt { .. } | ReadError::Io { .. },
            ) => ResponseError::KafkaStorageError,
            ConsumeError::Untranslatable { .. } => ResponseError::CorruptMessage,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&CatalogError> for Refusal {
    fn from(error: &CatalogError) -> Self {
        let code = match error {
            CatalogError::Exists(_) => ResponseError::TopicAlreadyExists,
            CatalogError::Unknown(_) => ResponseError::UnknownTopicOrPartition,
            CatalogError::InvalidName { .. } | CatalogError::Reserved(_) => {
                ResponseError::InvalidTopicException
            }
            CatalogError::InvalidQueues(_) => ResponseError::InvalidPartitions,
            CatalogError::InvalidSetting { .. } => ResponseError::InvalidConfig,
            CatalogError::TooMany(_) => ResponseError::PolicyViolation,
            CatalogError::Append(error) => return error.into(),
            CatalogError::Wait(_) => ResponseError::KafkaStorageError,
        };
        Self::new(code, error.to_string())
    }
}

impl From<&OffsetsError> for Refusal {
    fn from(error: &OffsetsError) -> Self {
        // Coordinators answer with codes that make a client look for its coordinator or try again;
        // storage codes are not among them.
        let code = match error {
            OffsetsError::Append(AppendError::TooLarge { .. }) => {
                ResponseError::OffsetMetadataTooLarge
            }
            OffsetsError::Append(
                AppendError::Full { .. }
                | AppendError::Busy { .. }
                | AppendError::Closed { .. }
                | AppendError::ProducerFenced { .. }
                | AppendError::OutOfOrderSequence { .. }
                | AppendError::InvalidTransactionState
                | AppendError::QueueDropped { .. },
            )
            | OffsetsError::Wait(_) => ResponseError::CoordinatorNotAvailable,
        };
        Self::new(code, error.to_string())
    }
}
