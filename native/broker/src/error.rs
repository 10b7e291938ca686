//! The only table from domain errors to response codes. Each match is exhaustive: a new error does
//! not compile until somebody has decided what a client sees.

use bytes::Bytes;
use std::fmt;
use twinmq_core::catalog::CatalogError;
use twinmq_core::consume::ConsumeError;
use twinmq_core::offsets::OffsetsError;
use twinmq_core::produce::ProduceError;
use twinmq_core::retry::RetryError;
use twinmq_records::batch::BatchError;
use twinmq_records::message::MessageError;
use twinmq_remoting::code::response;
use twinmq_store::{AppendError, ReadError, WaitError};

/// A request refused: what goes into the answer's code and remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The answer's code.
    pub(crate) code: i32,
    /// The answer's remark: cause and, where there is one, the key to change.
    pub(crate) remark: String,
    /// A header field that goes with the code.
    pub(crate) field: Option<(&'static str, i32)>,
}

impl Refusal {
    /// A refusal in this front's own words.
    pub(crate) fn new(code: i32, remark: impl Into<String>) -> Self {
        Self {
            code,
            remark: remark.into(),
            field: None,
        }
    }
    /// The same with a header field.
    pub(crate) fn with_field(mut self, name: &'static str, value: i32) -> Self {
        self.field = Some((name, value));
        self
    }
    /// SYSTEM_ERROR, what Apache answers to anything unexpected.
    pub(crate) fn system(remark: impl fmt::Display) -> Self {
        Self::new(response::SYSTEM_ERROR, remark.to_string())
    }
    /// The message, unless a client's frame could not hold it: an answer larger than that would close
    /// his connection.
    pub(crate) fn unless_framed(message: Bytes, bytes_max: u32) -> Result<Bytes, Self> {
        if message.len() > bytes_max as usize {
            return Err(Self::system(format!(
                "the message of {} bytes is larger than any frame",
                message.len()
            )));
        }
        Ok(message)
    }
    /// INVALID_PARAMETER.
    pub(crate) fn parameter(remark: impl Into<String>) -> Self {
        Self::new(response::INVALID_PARAMETER, remark)
    }
    /// TOPIC_NOT_EXIST as the send and most admin calls say it.
    pub(crate) fn no_topic(topic: &str) -> Self {
        Self::new(
            response::TOPIC_NOT_EXIST,
            format!(
                "topic[{topic}] not exist, apply first please!\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ/ for further details."
            ),
        )
    }
    /// SUBSCRIPTION_GROUP_NOT_EXIST.
    pub(crate) fn no_group(group: &str) -> Self {
        Self::new(
            response::SUBSCRIPTION_GROUP_NOT_EXIST,
            format!(
                "subscription group [{group}] does not exist\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ/ for further details."
            ),
        )
    }
}

impl From<twinmq_remoting::FieldError> for Refusal {
    fn from(error: twinmq_remoting::FieldError) -> Self {
        // Apache throws while decoding, which its clients see as SYSTEM_ERROR.
        Self::system(error)
    }
}

impl From<AppendError> for Refusal {
    fn from(error: AppendError) -> Self {
        let remark = error.to_string();
        let code = match error {
            AppendError::Full { .. } | AppendError::Closed { .. } => {
                response::SERVICE_NOT_AVAILABLE
            }
            AppendError::Busy { .. } => {
                return Self::new(
                    response::SYSTEM_BUSY,
                    format!(
                        "[PC_SYNCHRONIZED]broker busy, start flow control for a while: {remark}"
                    ),
                );
            }
            AppendError::TooLarge { .. } => response::MESSAGE_ILLEGAL,
            AppendError::ProducerFenced { .. }
            | AppendError::OutOfOrderSequence { .. }
            | AppendError::InvalidTransactionState => response::SYSTEM_ERROR,
            AppendError::QueueDropped { .. } => response::TOPIC_NOT_EXIST,
        };
        Self::new(code, remark)
    }
}

impl From<WaitError> for Refusal {
    fn from(error: WaitError) -> Self {
        Self::new(response::SERVICE_NOT_AVAILABLE, error.to_string())
    }
}

impl From<MessageError> for Refusal {
    fn from(error: MessageError) -> Self {
        let remark = error.to_string();
        match error {
            MessageError::Corrupt(_) | MessageError::TooLong { .. } => {
                Self::new(response::MESSAGE_ILLEGAL, remark)
            }
        }
    }
}

impl From<BatchError> for Refusal {
    fn from(error: BatchError) -> Self {
        let remark = error.to_string();
        match error {
            BatchError::Corrupt(_)
            | BatchError::Invalid(_)
            | BatchError::Magic(_)
            | BatchError::Codec(_)
            | BatchError::TimestampType
            | BatchError::TooBig(_) => Self::new(response::MESSAGE_ILLEGAL, remark),
        }
    }
}

impl From<ProduceError> for Refusal {
    fn from(error: ProduceError) -> Self {
        match error {
            ProduceError::NotWritable(remark) => Self::new(response::NO_PERMISSION, remark),
            ProduceError::NoSuchQueue(_) => Self::parameter(error.to_string()),
            ProduceError::Batch(inner) => inner.into(),
            ProduceError::Message(inner) => inner.into(),
            ProduceError::TooLarge { .. }
            | ProduceError::InvalidTimestamp { .. }
            | ProduceError::NoKey { .. } => Self::new(response::MESSAGE_ILLEGAL, error.to_string()),
            ProduceError::Append(inner) => inner.into(),
            ProduceError::Wait(inner) => inner.into(),
        }
    }
}

impl From<ReadError> for Refusal {
    fn from(error: ReadError) -> Self {
        let remark = error.to_string();
        match error {
            ReadError::OutOfRange { .. } => Self::new(response::PULL_OFFSET_MOVED, remark),
            ReadError::Busy => Self::new(response::SYSTEM_BUSY, remark),
            ReadError::NoSuchAddress { .. } | ReadError::Corrupt { .. } | ReadError::Io { .. } => {
                Self::system(remark)
            }
        }
    }
}

impl From<ConsumeError> for Refusal {
    fn from(error: ConsumeError) -> Self {
        match error {
            ConsumeError::NoSuchQueue(_) => Self::parameter(error.to_string()),
            ConsumeError::Read(inner) => inner.into(),
            ConsumeError::Busy => Self::new(response::SYSTEM_BUSY, error.to_string()),
            ConsumeError::Untranslatable { .. } => Self::system(error),
        }
    }
}

impl From<CatalogError> for Refusal {
    fn from(error: CatalogError) -> Self {
        let remark = error.to_string();
        match error {
            CatalogError::Exists(_) => Self::new(response::TOPIC_EXIST_ALREADY, remark),
            CatalogError::Unknown(name) => Self::no_topic(&name),
            CatalogError::InvalidName { .. }
            | CatalogError::Reserved(_)
            | CatalogError::InvalidQueues(_)
            | CatalogError::InvalidSetting { .. } => Self::parameter(remark),
            CatalogError::TooMany(_) => Self::system(remark),
            CatalogError::Append(inner) => inner.into(),
            CatalogError::Wait(inner) => inner.into(),
        }
    }
}

impl From<OffsetsError> for Refusal {
    fn from(error: OffsetsError) -> Self {
        match error {
            OffsetsError::Append(inner) => inner.into(),
            OffsetsError::Wait(inner) => inner.into(),
        }
    }
}

impl From<RetryError> for Refusal {
    fn from(error: RetryError) -> Self {
        match error {
            RetryError::UnknownGroup(group) => Self::no_group(&group),
            RetryError::Read(inner) => Self::system(inner),
            RetryError::Produce(inner) => inner.into(),
            RetryError::Catalog(inner) => inner.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_retried_elsewhere_and_a_busy_log_here() {
        let full = Refusal::from(ProduceError::Append(AppendError::Full {
            reason: "store.disk_refuse_percent = 90".to_owned(),
        }));
        assert_eq!(full.code, response::SERVICE_NOT_AVAILABLE);
        assert!(full.remark.contains("disk_refuse_percent"));
        let busy = Refusal::from(AppendError::Busy { reason: "dirty" });
        assert_eq!(busy.code, response::SYSTEM_BUSY);
    }
}
