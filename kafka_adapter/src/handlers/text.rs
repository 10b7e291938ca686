//! Text between the wire and the groups. Text of a request points into its frame, so it is copied.

use kafka_protocol::protocol::StrBytes;
use std::sync::Arc;

/// A copy that may be kept.
pub(crate) fn owned(text: &StrBytes) -> Arc<str> {
    Arc::from(text.as_str())
}

/// Text for an answer.
pub(crate) fn wire(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
