//! The ordered set of log files: find by offset, add at the end, drop from the front.
//!
//! Promises: files are contiguous, so finding one is a division. Readers keep a file alive while they
//! hold it. Leaves out when a file is made or dropped: housekeeping does both.

use crate::segment::Segment;
use crate::types::{LogOffset, size};
use parking_lot::RwLock;
use std::collections::VecDeque;
use std::sync::Arc;

/// The log's files.
#[derive(Debug)]
pub(crate) struct Segments {
    file_bytes: u64,
    list: RwLock<VecDeque<Arc<Segment>>>,
}

impl Segments {
    /// A set of contiguous files.
    pub(crate) fn new(file_bytes: u64, list: VecDeque<Arc<Segment>>) -> Self {
        Self {
            file_bytes,
            list: RwLock::new(list),
        }
    }

    /// Bytes of every file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// The file that holds `at`.
    pub(crate) fn find(&self, at: LogOffset) -> Option<Arc<Segment>> {
        let list = self.list.read();
        let first = list.front()?.start();
        let index = at.0.checked_sub(first.0)? / self.file_bytes;
        list.get(size(index)).cloned()
    }

    /// Log offset of the first byte kept.
    pub(crate) fn head(&self) -> Option<LogOffset> {
        self.list.read().front().map(|segment| segment.start())
    }

    /// Adds the next file.
    pub(crate) fn push(&self, segment: Arc<Segment>) {
        self.list.write().push_back(segment);
    }

    /// The newest file.
    pub(crate) fn newest(&self) -> Option<Arc<Segment>> {
        self.list.read().back().cloned()
    }

    /// Takes the files that end at or below `at` off the front.
    pub(crate) fn drop_below(&self, at: LogOffset) -> Vec<Arc<Segment>> {
        let mut list = self.list.write();
        let mut gone = Vec::new();
        while list.len() > 1
            && let Some(first) = list.front()
            && first.end() <= at
        {
            gone.extend(list.pop_front());
        }
        gone
    }

    /// Takes the files that start above `at` off the end. At opening only.
    pub(crate) fn drop_after(&self, at: LogOffset) -> Vec<Arc<Segment>> {
        let mut list = self.list.write();
        let mut gone = Vec::new();
        while list.back().is_some_and(|last| last.start() > at) {
            gone.extend(list.pop_back());
        }
        gone
    }

    /// All files, oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<Segment>> {
        self.list.read().iter().cloned().collect()
    }
}
