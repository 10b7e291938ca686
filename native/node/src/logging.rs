//! Where log lines go and how they look: standard error, text or JSON.

use crate::config::LogConfig;
use crate::error::StartError;
use tracing_subscriber::EnvFilter;

/// Starts logging for the whole process.
///
/// # Errors
/// A level that cannot be read, or logging was started before.
pub(crate) fn start(config: &LogConfig) -> Result<(), StartError> {
    let filter =
        EnvFilter::try_new(&config.level).map_err(|error| StartError::new("log.level", &error))?;
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = if config.json {
        lines.json().try_init()
    } else {
        lines.try_init()
    };
    started.map_err(|error| StartError::config("logging", &error))
}
