//! `twinmq store verify|dump`: a stopped broker's log, looked at without opening it for writing.

use crate::cli::StoreCommand;
use crate::error::StartError;
use std::process::ExitCode;

/// Runs the command; the exit code is 0 when everything is sound.
///
/// # Errors
/// The directory cannot be read.
pub(crate) fn run(command: &StoreCommand) -> Result<ExitCode, StartError> {
    let _ = command;
    Err(StartError::config("store", &"not built"))
}
