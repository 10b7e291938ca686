//! The last changes of topics, so that whoever is told of changes need not compare whole catalogues.

use std::collections::VecDeque;

/// Changes remembered.
const KEPT: usize = 1024;

/// What the newest versions changed, oldest first.
#[derive(Debug)]
pub(crate) struct Recent<T> {
    /// Version, and what it put; `None`: something has gone.
    changes: VecDeque<(u64, Option<T>)>,
    /// All changes above this version are here.
    complete_from: u64,
}

impl<T: Clone> Recent<T> {
    /// Nothing is known of what led to `version`.
    pub(crate) fn starting(version: u64) -> Self {
        Self {
            changes: VecDeque::new(),
            complete_from: version,
        }
    }

    /// Version `version` put this, or removed something.
    pub(crate) fn note(&mut self, version: u64, put: Option<T>) {
        if self.changes.len() == KEPT
            && let Some((gone, _)) = self.changes.pop_front()
        {
            self.complete_from = gone;
        }
        self.changes.push_back((version, put));
    }

    /// What was put after `version`, oldest first; `None` when that is no longer known, or something
    /// has gone.
    pub(crate) fn since(&self, version: u64) -> Option<Vec<T>> {
        if version < self.complete_from {
            return None;
        }
        let start = self.changes.partition_point(|(at, _)| *at <= version);
        self.changes
            .range(start..)
            .map(|(_, put)| put.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_known_until_they_are_too_old_or_something_has_gone() {
        let mut recent = Recent::starting(5);
        assert_eq!(recent.since(4), None);
        assert_eq!(recent.since(5), Some(vec![]));
        recent.note(6, Some('a'));
        recent.note(8, Some('b')); // 7 was no topic's
        assert_eq!(recent.since(5), Some(vec!['a', 'b']));
        assert_eq!(recent.since(7), Some(vec!['b']));
        assert_eq!(recent.since(8), Some(vec![]));
        recent.note(9, None);
        assert_eq!(recent.since(8), None);
        assert_eq!(recent.since(9), Some(vec![]));
        for version in 0..KEPT as u64 {
            recent.note(10 + version, Some('c'));
        }
        assert_eq!(recent.since(8), None);
        assert_eq!(recent.since(9).map(|all| all.len()), Some(KEPT));
        recent.note(5000, Some('d'));
        assert_eq!(recent.since(9), None);
        assert_eq!(recent.since(10).map(|all| all.len()), Some(KEPT));
    }
}
