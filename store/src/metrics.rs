//! Every metric of this crate, registered once.

use twinmq_metrics::{RegisterError, Registry};

/// The store's metrics.
#[derive(Clone, Debug, Default)]
pub struct StoreMetrics {}

impl StoreMetrics {
    /// Registers the store's families.
    ///
    /// # Errors
    /// A family of the same name is there already.
    pub fn register(_registry: &Registry) -> Result<Self, RegisterError> {
        Ok(Self {})
    }
}
