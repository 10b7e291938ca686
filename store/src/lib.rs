//! One commitlog for every queue, its index, its recovery and its retention.
//!
//! The store knows no payload and no broker rule. A [`Draft`] comes with its checksum and the places
//! that only the lane can fill; [`Store::append`] gives it its log offset, queue offset and time;
//! [`Store::read`] gives back the same bytes. FORMAT.md tells the disk byte by byte.

mod ahead;
mod allowance;
mod arrivals;
mod bell;
mod chain;
mod clock;
mod cold;
mod config;
mod cut;
pub mod disk;
mod entry;
mod error;
mod firsts;
mod flusher;
mod housekeeping;
mod index;
mod lane;
mod ledger;
mod ledger_image;
mod marks;
mod memory;
mod metrics;
mod pages;
mod queues;
mod reader;
mod rebuild;
mod recovery;
mod retain;
mod retention;
mod room;
mod rooms;
mod run;
mod scan;
mod search;
mod segment;
mod segments;
mod snapshot;
mod store;
mod threads;
mod types;
pub mod verify;

pub use clock::{Clock, WallClock};
pub use config::{Flush, StoreConfig};
pub use entry::{Header, Stored};
pub use error::{AppendError, OpenError, ReadError, WaitError};
pub use index::Row;
pub use metrics::StoreMetrics;
pub use run::{Ack, Draft, Fill, Flags, Kind, Place, Producer, Receipt};
pub use store::{
    Aborted, Boundary, Ends, Keep, Page, Pass, Progress, Receipts, Snapshot, Store, Upto, Watch,
    Window,
};
pub use types::{Address, LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
