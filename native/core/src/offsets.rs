//! Committed offsets: one table (group, topic, queue) for both protocols, kept in Kafka's
//! `__consumer_offsets` record format.

use crate::catalog::Topic;
use bytes::Bytes;
use std::sync::Arc;
use thiserror::Error;
use twinmq_store::Timestamp;

/// A group's progress in one queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Offset of the next record to consume.
    pub offset: i64,
    /// Kafka's committed leader epoch; −1 unknown.
    pub leader_epoch: i32,
    /// The committer's own text.
    pub metadata: String,
    /// When it was committed.
    pub commit_time: Timestamp,
    /// Explicit expiry (OffsetCommit v2 to v4); `None` = by the group's rules.
    pub expires: Option<Timestamp>,
}

/// Why a commit failed.
#[derive(Clone, Debug, Error)]
pub enum OffsetsError {
    /// The log did not take it.
    #[error(transparent)]
    Append(#[from] twinmq_store::AppendError),
    /// The log took it but could not make it durable.
    #[error(transparent)]
    Wait(#[from] twinmq_store::WaitError),
}

/// The table. Groups are named in Kafka's spelling.
#[derive(Debug)]
pub struct Offsets {}

impl Offsets {
    /// One group's progress in one queue.
    #[must_use]
    pub fn get(&self, group: &str, topic: &Topic, queue: u32) -> Option<Committed> {
        let _ = (group, topic, queue);
        unimplemented!()
    }
    /// All of a group: (topic key, queue, progress).
    #[must_use]
    pub fn of_group(&self, group: &str) -> Vec<(Arc<str>, u32, Committed)> {
        let _ = group;
        unimplemented!()
    }
    /// Every group that has offsets or a stored group record.
    #[must_use]
    pub fn groups(&self) -> Vec<Arc<str>> {
        unimplemented!()
    }
    /// Commits and waits until it is readable in the log. Entries are (topic, queue, progress).
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn commit(
        &self,
        group: &str,
        entries: &[(Arc<Topic>, u32, Committed)],
    ) -> Result<(), OffsetsError> {
        let _ = (group, entries);
        unimplemented!()
    }
    /// Commits that nobody waits for: in the table at once, in the log within `commit_linger_ms`.
    pub fn commit_later(&self, group: &str, topic: &Arc<Topic>, queue: u32, offset: i64) {
        let _ = (group, topic, queue, offset);
        unimplemented!()
    }
    /// Removes offsets of some queues of a group (OffsetDelete), waits until that is readable.
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn remove(
        &self,
        group: &str,
        entries: &[(Arc<Topic>, u32)],
    ) -> Result<(), OffsetsError> {
        let _ = (group, entries);
        unimplemented!()
    }
    /// Removes a group's offsets and its stored group record.
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn remove_group(&self, group: &str) -> Result<(), OffsetsError> {
        let _ = group;
        unimplemented!()
    }
    /// Stores a Kafka classic group's record (GroupMetadata value bytes, version first; `None` = tombstone).
    ///
    /// # Errors
    /// See [`OffsetsError`].
    pub async fn put_group_record(
        &self,
        group: &str,
        value: Option<Bytes>,
    ) -> Result<(), OffsetsError> {
        let _ = (group, value);
        unimplemented!()
    }
    /// All stored group records: what the coordinator starts with.
    #[must_use]
    pub fn group_records(&self) -> Vec<(Arc<str>, Bytes)> {
        unimplemented!()
    }
}
