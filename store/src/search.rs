//! Search by time: the other doors into a queue than its offsets.
//!
//! Promises: store times never fall in a queue, so searching them is binary; record times may, so
//! those are read in order. Leaves out what a record time means.

use crate::entry::Stored;
use crate::error::ReadError;
use crate::index::Row;
use crate::index::runs;
use crate::reader::{Reader, Sight};
use crate::store::{Aborted, Boundary, Ends, Upto};
use crate::types::{LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};

impl Reader {
    /// See `Store::offset_at`.
    pub(crate) async fn offset_at(
        &self,
        queue: QueueNumber,
        time: Timestamp,
        boundary: Boundary,
        upto: Upto,
    ) -> Result<QueueOffset, ReadError> {
        let sight = self.sight(queue, upto);
        let time = match boundary {
            Boundary::Lower => time,
            Boundary::Upper => Timestamp(time.0.saturating_add(1)),
        };
        let found = self.stored_from(queue, &sight, time).await?;
        let offset = found.map_or(sight.limit, |row| row.base);
        let offset = match boundary {
            Boundary::Lower => offset,
            Boundary::Upper => QueueOffset(offset.0.saturating_sub(1)),
        };
        Ok(offset.min(sight.limit).max(sight.ends.first))
    }

    /// The first row in sight that was stored at or after `time`.
    async fn stored_from(
        &self,
        queue: QueueNumber,
        sight: &Sight,
        time: Timestamp,
    ) -> Result<Option<Row>, ReadError> {
        let Some(shared) = self.queues.get(queue) else {
            return Ok(None);
        };
        let seen = |row: &Row| row.at < sight.mark && row.base < sight.limit;
        let first = sight.ends.first;
        let after = |row: &Row| row.store_time >= time && row.next() > first;
        let blocks = match shared.rows.find(1, |block| !after(&block.row(queue, 0))) {
            Some(blocks) => blocks,
            None => {
                if first < shared.sealed_end() {
                    let ask =
                        move |list: &_, access| runs::stored_from(list, access, queue, first, time);
                    if let Some(row) = self.sealed(ask).await? {
                        return Ok(Some(row).filter(seen));
                    }
                }
                shared.rows.all()
            }
        };
        for block in &blocks {
            let len = block.len();
            let n = block.search(len, |n| !after(&block.row(queue, n)));
            if n < len {
                let row = block.row(queue, n);
                return Ok(Some(row).filter(seen));
            }
        }
        Ok(None)
    }

    /// See `Store::first_reaching`.
    pub(crate) async fn first_reaching(
        &self,
        queue: QueueNumber,
        time: Timestamp,
        upto: Upto,
    ) -> Result<Option<Stored>, ReadError> {
        let sight = self.sight(queue, upto);
        let mut found = None;
        let first = sight.ends.first;
        let sealed = self.whole_sealed(queue, &sight);
        if sealed > first {
            let ask = move |list: &_, access| runs::reaching(list, access, queue, first, time);
            found = self.sealed(ask).await?;
            if found.is_some() {
                return self.one(found).await;
            }
        }
        self.every_row(queue, &sight, sealed.max(first), |row| {
            found = (row.record_time >= time).then_some(*row);
            found.is_none()
        })
        .await?;
        self.one(found).await
    }

    /// See `Store::latest_record`.
    pub(crate) async fn latest_record(
        &self,
        queue: QueueNumber,
        upto: Upto,
    ) -> Result<Option<Stored>, ReadError> {
        let sight = self.sight(queue, upto);
        let mut found: Option<Row> = None;
        let first = sight.ends.first;
        let sealed = self.whole_sealed(queue, &sight);
        if sealed > first {
            let ask = move |list: &_, access| runs::latest(list, access, queue, first);
            found = self.sealed(ask).await?;
        }
        self.every_row(queue, &sight, sealed.max(first), |row| {
            if found.is_none_or(|best| row.record_time > best.record_time) {
                found = Some(*row);
            }
            true
        })
        .await?;
        self.one(found).await
    }

    /// The queue's end in the runs where the reader sees all of that; else 0.
    fn whole_sealed(&self, queue: QueueNumber, sight: &Sight) -> QueueOffset {
        let sealed = self.queues.get(queue).map(|shared| shared.sealed_end());
        sealed.filter(|end| *end <= sight.limit).unwrap_or_default()
    }

    async fn one(&self, row: Option<Row>) -> Result<Option<Stored>, ReadError> {
        match row {
            None => Ok(None),
            Some(row) => Ok(self.entries(&[row], true).await?.pop()),
        }
    }

    /// Shows all rows in sight from `from` on in order, while `take` wants more.
    async fn every_row(
        &self,
        queue: QueueNumber,
        sight: &Sight,
        from: QueueOffset,
        mut take: impl FnMut(&Row) -> bool,
    ) -> Result<(), ReadError> {
        let mut next = from;
        let mut more = true;
        while more && next < sight.limit {
            let before = next;
            self.rows(queue, next, u32::MAX, sight, |row| {
                next = row.next();
                more = take(row);
                more
            })
            .await?;
            if next == before {
                break;
            }
        }
        Ok(())
    }

    /// See `Store::end_of_reign`. `reigns` are all known ones, rising.
    pub(crate) async fn end_of_reign(
        &self,
        reigns: &[(Reign, LogOffset)],
        queue: QueueNumber,
        reign: Reign,
    ) -> Result<Option<(Reign, QueueOffset)>, ReadError> {
        let sight = self.sight(queue, Upto::default());
        let Some((current, _)) = reigns.last() else {
            return Ok(None);
        };
        if reign > *current || sight.ends == Ends::default() {
            return Ok(None);
        }
        let higher = reigns.partition_point(|(known, _)| *known <= reign);
        let Some((_, next)) = reigns.get(higher) else {
            return Ok(Some((*current, sight.ends.end)));
        };
        Ok(Some(match self.last_before(queue, *next).await? {
            Some(row) => {
                let seen = reigns.iter().rev().find(|(_, at)| *at <= row.at);
                (seen.map_or(reign, |(seen, _)| *seen), row.next())
            }
            // Older than anything kept: Kafka answers with the asked epoch and the first offset.
            None => (reign, sight.ends.first),
        }))
    }

    /// The queue's last row below a place in the log.
    async fn last_before(
        &self,
        queue: QueueNumber,
        at: LogOffset,
    ) -> Result<Option<Row>, ReadError> {
        let shared = self.queues.get(queue);
        if let Some(row) = shared.and_then(|shared| shared.rows.last_at(queue, at)) {
            return Ok(Some(row));
        }
        let ask = move |list: &_, access| runs::last_below(list, access, queue, at);
        self.sealed(ask).await
    }

    /// See `Store::store_time`.
    pub(crate) async fn store_time(
        &self,
        queue: QueueNumber,
        offset: QueueOffset,
    ) -> Result<Option<Timestamp>, ReadError> {
        let sight = self.sight(queue, Upto::default());
        if offset < sight.ends.first {
            return Ok(None);
        }
        let mut found = None;
        self.rows(queue, offset, 1, &sight, |row| {
            found = (row.base <= offset && offset < row.next()).then_some(row.store_time);
            false
        })
        .await?;
        Ok(found)
    }

    /// See `Store::aborted`.
    pub(crate) async fn aborted(
        &self,
        queue: QueueNumber,
        from: QueueOffset,
        to: QueueOffset,
    ) -> Result<Vec<Aborted>, ReadError> {
        let Some(shared) = self.queues.get(queue) else {
            return Ok(Vec::new());
        };
        let overlaps = |aborted: &Aborted| aborted.first < to && aborted.last >= from;
        // Memory first: what goes from there meanwhile is in a run.
        let recent = shared.aborted().into_iter().map(|(_, aborted)| aborted);
        let mut all: Vec<Aborted> = recent.filter(overlaps).collect();
        if from < shared.sealed_end() {
            let ask = move |list: &_, access| runs::aborted(list, access, queue, from, to);
            for aborted in self.sealed(ask).await? {
                if overlaps(&aborted) && !all.contains(&aborted) {
                    all.push(aborted);
                }
            }
            all.sort_by_key(|aborted| aborted.last);
        }
        Ok(all)
    }
}
