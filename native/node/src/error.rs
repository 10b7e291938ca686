//! Why the process did not start: which part, and what a person can do about it.

use std::fmt;

/// A start that failed.
#[derive(Debug)]
pub(crate) struct StartError {
    part: String,
    reason: String,
}

impl StartError {
    /// A part that failed, with its reason and all that lies below it.
    pub(crate) fn new(part: &str, error: &dyn std::error::Error) -> Self {
        let mut reason = error.to_string();
        let mut below = error.source();
        while let Some(cause) = below {
            reason.push_str(&format!(": {cause}"));
            below = cause.source();
        }
        Self {
            part: part.to_owned(),
            reason,
        }
    }

    /// A setting that does not do.
    pub(crate) fn config(place: &str, error: &dyn fmt::Display) -> Self {
        Self {
            part: place.to_owned(),
            reason: error.to_string(),
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.reason)
    }
}

impl std::error::Error for StartError {}
