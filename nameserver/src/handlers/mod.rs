//! Requests into calls on the table, one family per file.

pub(crate) mod brokers;
pub(crate) mod kv;
pub(crate) mod topics;

use twinmq_remoting::Command;
use twinmq_remoting::code::response;

/// Success, so far without fields or body.
fn ok(request: &Command) -> Command {
    Command::response_to(request, response::SUCCESS)
}
