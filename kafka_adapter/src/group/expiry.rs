//! Which committed offsets are forgotten by time (Kafka's `offsets.retention.minutes`). Pure.
//!
//! A group with members, with native members, or with a RocketMQ definition keeps what it needs. An
//! offset with an expiry of its own (OffsetCommit 2 to 4) follows that instead of the group's rule.

use std::collections::BTreeSet;
use std::sync::Arc;
use twinmq_core::offsets::Committed;
use twinmq_store::Timestamp;

/// From when a group's offsets age.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Aging {
    /// Never.
    Kept,
    /// No group protocol was ever used: from the commit.
    Simple,
    /// The last member left then; before that nothing aged.
    EmptySince(Timestamp),
    /// Consumers are there: offsets of topics they do not subscribe to age from the commit.
    Subscribed(BTreeSet<Arc<str>>),
}

/// Whether an offset of `topic` has outlived `retention_ms` now.
pub(crate) fn expired(
    aging: &Aging,
    topic: &str,
    committed: &Committed,
    retention_ms: i64,
    now: Timestamp,
) -> bool {
    let from = match aging {
        Aging::Kept => return false,
        Aging::Subscribed(topics) if topics.contains(topic) => return false,
        Aging::Simple | Aging::Subscribed(_) => committed.commit_time,
        Aging::EmptySince(Timestamp::UNKNOWN) => committed.commit_time,
        Aging::EmptySince(since) => *since,
    };
    match committed.expires {
        Some(at) => now >= at,
        None => now.0.saturating_sub(from.0) >= retention_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_group_ages_by_its_rule() {
        let at = |commit: i64, expires: Option<i64>| Committed {
            offset: 1,
            leader_epoch: -1,
            metadata: String::new(),
            commit_time: Timestamp(commit),
            expires: expires.map(Timestamp),
        };
        let subscribed = Aging::Subscribed(BTreeSet::from([Arc::from("t")]));
        let since = |ms| Aging::EmptySince(Timestamp(ms));
        for (case, aging, topic, committed, expected) in [
            (1, Aging::Kept, "t", at(0, Some(1)), false),
            (2, Aging::Simple, "t", at(900, None), true),
            (3, Aging::Simple, "t", at(901, None), false),
            (4, since(950), "t", at(0, None), false),
            (5, since(900), "t", at(0, None), true),
            (
                6,
                Aging::EmptySince(Timestamp::UNKNOWN),
                "t",
                at(900, None),
                true,
            ),
            (7, subscribed.clone(), "t", at(0, None), false),
            (8, subscribed.clone(), "u", at(0, None), true),
            (9, subscribed, "u", at(950, None), false),
            (10, Aging::Simple, "t", at(0, Some(1001)), false),
            (11, Aging::Simple, "t", at(999, Some(1000)), true),
        ] {
            let got = expired(&aging, topic, &committed, 100, Timestamp(1000));
            assert_eq!(got, expected, "case {case}");
        }
    }
}
