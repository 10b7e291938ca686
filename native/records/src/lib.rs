//! The two payload layouts of the log and the lossless translation between them. Pure: no I/O, no
//! clock.

pub mod batch;
pub mod compression;
mod cursor;
pub mod internal;
pub mod message;
pub mod names;
pub mod properties;
pub mod translate;
