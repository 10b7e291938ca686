//! Sent-back messages: delay step, retry topic, dead letters; and the timer that delivers them.

use crate::consume::ConsumeError;
use crate::produce::ProduceError;
use thiserror::Error;
use twinmq_store::Address;

/// A message that a consumer gives back.
#[derive(Clone, Debug)]
pub struct SendBack {
    /// The consumer group, native name.
    pub group: String,
    /// The message's address.
    pub address: Address,
    /// 0 = by the retry ladder, above 0 = that delay level, below 0 = dead letter at once.
    pub delay_level: i32,
    /// The client's own bound; `None` = the group's retryMaxTimes.
    pub max_reconsume_times: Option<i32>,
}

/// Why it was not taken back.
#[derive(Debug, Error)]
pub enum RetryError {
    /// The group has no definition.
    #[error("subscription group not exist, {0}")]
    UnknownGroup(String),
    /// The record is gone.
    #[error(transparent)]
    Read(#[from] ConsumeError),
    /// The log did not take it.
    #[error(transparent)]
    Produce(#[from] ProduceError),
    /// The retry topic could not be created.
    #[error(transparent)]
    Catalog(#[from] crate::catalog::CatalogError),
}

/// Sent-back and delayed messages.
#[derive(Debug)]
pub struct Retry {}

impl Retry {
    /// Takes a message back: it is durable (as the retry topic's flush asks) when this returns.
    ///
    /// # Errors
    /// See [`RetryError`].
    pub async fn send_back(&self, back: SendBack) -> Result<(), RetryError> {
        let _ = back;
        unimplemented!()
    }
}
