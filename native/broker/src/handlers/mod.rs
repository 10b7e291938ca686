//! One family of requests per file. A handler gets the parts it needs, the peer and the request; it
//! returns what becomes of it, or a [`Refusal`](crate::error::Refusal).

pub(crate) mod admin;
pub(crate) mod client;
pub(crate) mod forward;
pub(crate) mod group;
pub(crate) mod lock;
pub(crate) mod offset;
pub(crate) mod pull;
pub(crate) mod query;
pub(crate) mod reply;
pub(crate) mod send;
pub(crate) mod topic;
mod window;
