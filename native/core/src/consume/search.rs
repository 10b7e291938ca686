//! Search by time, in either protocol's sense.

use super::{ConsumeError, Consuming, queue_of, untranslatable};
use crate::catalog::Topic;
use crate::payload;
use twinmq_store::{Boundary, Kind, QueueOffset, Reign, Stored, Timestamp};

impl Consuming {
    /// Native search by store time.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn offset_by_store_time(
        &self,
        topic: &Topic,
        queue: u32,
        time: Timestamp,
        boundary: Boundary,
    ) -> Result<QueueOffset, ConsumeError> {
        let number = queue_of(topic, queue)?;
        let upto = topic.upto(true);
        Ok(self.store.offset_at(number, time, boundary, upto).await?)
    }

    /// Kafka search: the first record whose own time reaches `time`: (offset, its time, epoch).
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn offset_by_record_time(
        &self,
        topic: &Topic,
        queue: u32,
        time: Timestamp,
        committed: bool,
    ) -> Result<Option<(QueueOffset, Timestamp, Reign)>, ConsumeError> {
        let number = queue_of(topic, queue)?;
        let upto = topic.upto(committed);
        let Some(stored) = self.store.first_reaching(number, time, upto).await? else {
            return Ok(None);
        };
        let first = self.store.ends(number, upto).first;
        self.record_in(&stored, first, |at| at >= time.0)
    }

    /// Kafka's max timestamp: the first record with the highest time.
    ///
    /// # Errors
    /// See [`ConsumeError`].
    pub async fn latest_record(
        &self,
        topic: &Topic,
        queue: u32,
    ) -> Result<Option<(QueueOffset, Timestamp, Reign)>, ConsumeError> {
        let number = queue_of(topic, queue)?;
        let upto = topic.upto(false);
        let Some(stored) = self.store.latest_record(number, upto).await? else {
            return Ok(None);
        };
        let highest = stored.header.record_time.0;
        let first = self.store.ends(number, upto).first;
        self.record_in(&stored, first, |at| at >= highest)
    }

    /// The first record of an entry, at or above the queue's first offset, whose time is wanted.
    fn record_in(
        &self,
        stored: &Stored,
        first: QueueOffset,
        wanted: impl Fn(i64) -> bool,
    ) -> Result<Option<(QueueOffset, Timestamp, Reign)>, ConsumeError> {
        let header = &stored.header;
        let mut found = None;
        if header.kind == Kind::Message {
            found = Some((header.base, header.record_time));
        } else {
            payload::record_times(&stored.payload, self.decompressed_max, |delta, time| {
                let offset = header.base.plus(u64::from(delta));
                if found.is_none() && offset >= first && wanted(time) {
                    found = Some((offset, Timestamp(time)));
                }
            })
            .map_err(|reason| untranslatable(stored, reason))?;
        }
        Ok(found.map(|(offset, time)| (offset, time, header.reign)))
    }
}
