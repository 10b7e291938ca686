//! Retention, purely: how far first offsets move, and which log files may go.
//!
//! Promises: nothing is given up that a queue's limits still keep, but for the disk's sake, oldest
//! first, and then the first offsets move before the file goes; a queue kept without limit pins its
//! files whatever the disk says. Leaves out the clock, the index and the files: the caller brings facts.

use crate::config::StoreConfig;
use crate::store::Keep;
use crate::types::{LogOffset, QueueNumber, QueueOffset, Timestamp};
use std::ops::Range;

/// What one stretch of log holds of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Share {
    /// The queue's next offset where the stretch ends.
    pub(crate) end: QueueOffset,
    /// Bytes of the queue's entries in it.
    pub(crate) bytes: u64,
    /// Store time of the queue's newest entry in it; of none, anything.
    pub(crate) newest: Timestamp,
}

/// The store time below which a queue's entries have expired; `None` = they never do by time.
pub(crate) fn expiry(keep: Keep, now: Timestamp) -> Option<Timestamp> {
    let ms = i64::try_from(keep.ms?).unwrap_or(i64::MAX);
    Some(Timestamp(now.0.saturating_sub(ms)))
}

/// Where a queue's first offset moves to, in steps of whole stretches (`shares`, oldest first): past
/// every leading stretch whose entries have all expired, or without which the rest still holds at
/// least `keep.bytes`. Never below `first`.
pub(crate) fn first_kept(
    first: QueueOffset,
    shares: &[Share],
    keep: Keep,
    now: Timestamp,
) -> QueueOffset {
    let expiry = expiry(keep, now);
    let mut rest: u64 = shares.iter().map(|share| share.bytes).sum();
    let mut kept = first;
    for share in shares {
        rest -= share.bytes;
        let expired = share.bytes == 0 || expiry.is_some_and(|time| share.newest < time);
        let surplus = keep.bytes.is_some_and(|bytes| rest >= bytes);
        if !(expired || surplus) {
            break;
        }
        kept = kept.max(share.end);
    }
    kept
}

/// How full the disk is, by the marks of the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Pressure {
    /// Below every mark.
    None,
    /// At or above `disk_clean_percent`: expired files go at any hour.
    Clean,
    /// At or above `disk_force_percent`: the oldest file goes early.
    Force,
    /// At or above `disk_refuse_percent`: writes are refused as well.
    Refuse,
}

/// The pressure of a disk of which `used` (0 to 1) is in use.
pub(crate) fn pressure(used: f64, config: &StoreConfig) -> Pressure {
    let above = |percent: u8| used * 100.0 >= f64::from(percent);
    match () {
        () if above(config.disk_refuse_percent) => Pressure::Refuse,
        () if above(config.disk_force_percent) => Pressure::Force,
        () if above(config.disk_clean_percent) => Pressure::Clean,
        () => Pressure::None,
    }
}

/// A round of retention: what holds for all files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round<'a> {
    /// How full the disk is.
    pub(crate) pressure: Pressure,
    /// Hour of the local day.
    pub(crate) hour: u8,
    /// The configuration's `delete_when`.
    pub(crate) delete_when: &'a [u8],
    /// Only files that end at or below this may go: the lowest of the end of the sealed index, the
    /// synced mark and the oldest snapshot that a state machine would replay from.
    pub(crate) covered: LogOffset,
}

/// A live queue and the file in question.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InFile {
    /// The queue.
    pub(crate) queue: QueueNumber,
    /// Its first offset.
    pub(crate) first: QueueOffset,
    /// Its next offset where the file ends.
    pub(crate) end: QueueOffset,
    /// Its limits.
    pub(crate) keep: Keep,
}

/// What is to happen to the oldest file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It goes.
    Drop,
    /// It goes for the disk's sake, after these first offsets have moved.
    Force(Vec<(QueueNumber, QueueOffset)>),
    /// It stays.
    Keep(Reason),
}

/// Why a file stays.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Its index, a snapshot or the disk does not cover it yet.
    NotCovered,
    /// A queue's limits still keep something in it.
    Wanted {
        /// One such queue.
        queue: QueueNumber,
    },
    /// A queue kept without limit has something in it, though the disk is above the mark at which
    /// the oldest file should go: worth a warning.
    Pinned {
        /// One such queue.
        queue: QueueNumber,
    },
    /// Nothing in it is wanted, but this is not the hour.
    Hour,
}

impl Round<'_> {
    /// Judges the oldest file, given every live queue.
    pub(crate) fn judge(
        &self,
        file: &Range<LogOffset>,
        queues: impl Iterator<Item = InFile>,
    ) -> Verdict {
        if file.end > self.covered {
            return Verdict::Keep(Reason::NotCovered);
        }
        let force = self.pressure >= Pressure::Force;
        let mut moves = Vec::new();
        for queue in queues.filter(|queue| queue.first < queue.end) {
            let number = queue.queue;
            if !force {
                return Verdict::Keep(Reason::Wanted { queue: number });
            }
            if queue.keep == Keep::default() {
                return Verdict::Keep(Reason::Pinned { queue: number });
            }
            moves.push((number, queue.end));
        }
        let hour = self.delete_when.is_empty() || self.delete_when.contains(&self.hour);
        match moves.is_empty() {
            false => Verdict::Force(moves),
            true if hour || self.pressure >= Pressure::Clean => Verdict::Drop,
            true => Verdict::Keep(Reason::Hour),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn shares() -> Vec<Share> {
        let share = |end, bytes, age| Share {
            end: QueueOffset(end),
            bytes,
            newest: Timestamp(NOW.0 - age),
        };
        vec![
            share(10, 100, 5000),
            share(10, 0, 0), // nothing of this queue here
            share(30, 300, 3000),
            share(40, 50, 1000),
        ]
    }

    fn first(first: u64, ms: Option<u64>, bytes: Option<u64>) -> u64 {
        let keep = Keep { ms, bytes };
        first_kept(QueueOffset(first), &shares(), keep, NOW).0
    }

    #[test]
    fn first_offsets_move_by_time() {
        assert_eq!(first(0, None, None), 0);
        assert_eq!(first(0, Some(6000), None), 0);
        assert_eq!(first(0, Some(5000), None), 0); // just as old as allowed
        assert_eq!(first(0, Some(4999), None), 10);
        assert_eq!(first(0, Some(2000), None), 30);
        assert_eq!(first(0, Some(0), None), 40);
        assert_eq!(first(35, Some(2000), None), 35); // never back
        assert_eq!(first(0, Some(u64::MAX), None), 0);
    }

    #[test]
    fn first_offsets_move_by_bytes() {
        assert_eq!(first(0, None, Some(450)), 0);
        assert_eq!(first(0, None, Some(351)), 0);
        assert_eq!(first(0, None, Some(350)), 10);
        assert_eq!(first(0, None, Some(51)), 10);
        assert_eq!(first(0, None, Some(50)), 30);
        assert_eq!(first(0, None, Some(0)), 40);
        assert_eq!(first(0, Some(4999), Some(u64::MAX)), 10); // whichever comes first
    }

    #[test]
    fn a_queue_whose_first_stretches_are_empty_keeps_its_first() {
        let keep = Keep::default();
        let empty = [Share {
            end: QueueOffset(7),
            bytes: 0,
            newest: NOW,
        }];
        assert_eq!(
            first_kept(QueueOffset(7), &empty, keep, NOW),
            QueueOffset(7)
        );
    }

    #[test]
    fn the_marks_are_these() {
        let config = StoreConfig::default();
        let marks = [0.0, 0.749, 0.75, 0.849, 0.85, 0.899, 0.9, 1.0];
        let found = marks.map(|used| pressure(used, &config));
        use Pressure::{Clean, Force, None, Refuse};
        assert_eq!(
            found,
            [None, None, Clean, Clean, Force, Force, Refuse, Refuse]
        );
    }

    fn queue(number: u32, first: u64, end: u64, ms: Option<u64>) -> InFile {
        InFile {
            queue: QueueNumber(number),
            first: QueueOffset(first),
            end: QueueOffset(end),
            keep: Keep { ms, bytes: None },
        }
    }

    fn judge(pressure: Pressure, hour: u8, queues: &[InFile]) -> Verdict {
        let round = Round {
            pressure,
            hour,
            delete_when: &[4],
            covered: LogOffset(1000),
        };
        let file = LogOffset(0)..LogOffset(1000);
        round.judge(&file, queues.iter().copied())
    }

    #[test]
    fn a_file_goes_when_nothing_wants_it_and_the_hour_allows() {
        let done = [queue(16, 10, 10, None), queue(17, 9, 8, Some(1))];
        assert_eq!(judge(Pressure::None, 4, &done), Verdict::Drop);
        assert_eq!(judge(Pressure::None, 5, &done), Verdict::Keep(Reason::Hour));
        assert_eq!(judge(Pressure::Clean, 5, &done), Verdict::Drop);
        let wanted = [done[0], queue(18, 7, 8, Some(1))];
        let reason = Reason::Wanted {
            queue: QueueNumber(18),
        };
        assert_eq!(judge(Pressure::Clean, 4, &wanted), Verdict::Keep(reason));
    }

    #[test]
    fn a_full_disk_moves_first_offsets_but_never_those_kept_without_limit() {
        let wanted = [
            queue(16, 7, 8, Some(1)),
            queue(17, 9, 9, None),
            queue(18, 1, 5, Some(9)),
        ];
        let moves = vec![
            (QueueNumber(16), QueueOffset(8)),
            (QueueNumber(18), QueueOffset(5)),
        ];
        assert_eq!(judge(Pressure::Force, 5, &wanted), Verdict::Force(moves));
        let pinned = [wanted[0], queue(17, 8, 9, None)];
        let reason = Reason::Pinned {
            queue: QueueNumber(17),
        };
        assert_eq!(judge(Pressure::Refuse, 5, &pinned), Verdict::Keep(reason));
    }

    #[test]
    fn what_is_not_covered_stays_whatever_the_disk_says() {
        let round = Round {
            pressure: Pressure::Refuse,
            hour: 4,
            delete_when: &[],
            covered: LogOffset(999),
        };
        let file = LogOffset(0)..LogOffset(1000);
        let verdict = round.judge(&file, std::iter::empty());
        assert_eq!(verdict, Verdict::Keep(Reason::NotCovered));
    }
}
