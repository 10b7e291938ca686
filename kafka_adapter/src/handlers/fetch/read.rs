//! One look at every partition of a fetch, within its byte limits.

use crate::error::Refusal;
use crate::serve::Front;
use crate::session::{Seen, TopicRef, Want};
use crate::topology;
use bytes::Bytes;
use kafka_protocol::ResponseError;
use std::sync::Arc;
use twinmq_core::catalog::Topic;
use twinmq_core::consume::{ConsumeError, Consuming};
use twinmq_store::{Aborted, QueueOffset, Reign};

/// A partition's queue, or why it has none.
pub(super) type Resolved = Result<(Arc<Topic>, u32), ResponseError>;

/// What a look at one partition found.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) error: i16,
    pub(super) high_watermark: i64,
    pub(super) stable: i64,
    pub(super) log_start: i64,
    /// For read_committed only.
    pub(super) aborted: Option<Vec<Aborted>>,
    /// Epoch and end offset (KIP-320).
    pub(super) diverging: Option<(i32, i64)>,
    pub(super) chunks: Vec<Bytes>,
    pub(super) bytes: usize,
}

impl Read {
    fn failed(error: ResponseError) -> Self {
        Self {
            error: error.code(),
            high_watermark: -1,
            stable: -1,
            log_start: -1,
            aborted: None,
            diverging: None,
            chunks: Vec::new(),
            bytes: 0,
        }
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            error: self.error,
            high_watermark: self.high_watermark,
            log_start: self.log_start,
            records: self.bytes > 0,
            diverging: self.diverging.is_some(),
        }
    }
}

/// Looks every topic up, once per run of partitions of the same topic.
pub(super) fn resolve(front: &Front, wants: &[Want]) -> Vec<Resolved> {
    let mut last: Option<(&TopicRef, Result<Arc<Topic>, ResponseError>)> = None;
    let mut resolved = Vec::with_capacity(wants.len());
    for want in wants {
        let topic = match &last {
            Some((named, topic)) if **named == want.topic => topic.clone(),
            _ => match &want.topic {
                TopicRef::Name(name) => topology::named(&front.core.catalog, name),
                TopicRef::Id(id) => topology::identified(&front.core.catalog, *id),
            },
        };
        last = Some((&want.topic, topic.clone()));
        resolved.push(topic.and_then(|topic| {
            let queue = topology::ordinal(&topic, want.partition);
            queue
                .map(|queue| (topic, queue))
                .ok_or(ResponseError::UnknownTopicOrPartition)
        }));
    }
    resolved
}

/// How the partitions of one fetch are read.
pub(super) struct Reading<'a> {
    pub(super) consuming: &'a Consuming,
    pub(super) bytes_max: u32,
    pub(super) committed: bool,
    pub(super) version: i16,
}

impl Reading<'_> {
    /// One look at each partition, in order, as far as the limits allow.
    pub(super) async fn pass(&self, wants: &[Want], resolved: &[Resolved]) -> Vec<Read> {
        let mut left = self.bytes_max;
        let mut empty = true;
        let mut reads = Vec::with_capacity(wants.len());
        for (want, found) in wants.iter().zip(resolved) {
            let read = match found {
                Err(code) => Read::failed(*code),
                Ok((topic, queue)) => self.one(want, topic, *queue, left, empty).await,
            };
            empty &= read.bytes == 0;
            left = left.saturating_sub(u32::try_from(read.bytes).unwrap_or(u32::MAX));
            reads.push(read);
        }
        reads
    }

    async fn one(&self, want: &Want, topic: &Topic, queue: u32, left: u32, empty: bool) -> Read {
        if let Err(code) = topology::check_epoch(want.current_epoch, self.consuming.reign()) {
            return Read::failed(code);
        }
        let ends = self.consuming.ends(topic, queue, false);
        let signed = |offset: QueueOffset| i64::try_from(offset.0).unwrap_or(i64::MAX);
        let mut read = Read {
            error: 0,
            high_watermark: signed(ends.end),
            stable: signed(ends.stable),
            log_start: signed(ends.first),
            aborted: self.committed.then(Vec::new),
            diverging: None,
            chunks: Vec::new(),
            bytes: 0,
        };
        let inside = u64::try_from(want.offset)
            .ok()
            .map(QueueOffset)
            .filter(|offset| (ends.first..=ends.end).contains(offset));
        if let Some(answer) = self.divergence(want, topic, queue).await {
            match answer {
                Ok(diverging) => read.diverging = Some(diverging),
                Err(code) => read.error = code.code(),
            }
            return read;
        }
        let Some(from) = inside else {
            read.error = ResponseError::OffsetOutOfRange.code();
            return read;
        };
        let bound = if self.committed {
            ends.stable
        } else {
            ends.end
        };
        let bytes_max = left.min(u32::try_from(want.bytes_max).unwrap_or(0));
        if from >= bound || (bytes_max == 0 && !empty) {
            return read;
        }
        match self
            .consuming
            .batches(topic, queue, from, bytes_max, empty, self.committed)
            .await
        {
            Ok(batches) => {
                read.high_watermark = signed(batches.ends.end);
                read.stable = signed(batches.ends.stable);
                read.log_start = signed(batches.ends.first);
                if self.version < 10 && batches.chunks.iter().any(|chunk| holds_zstd(chunk)) {
                    read.error = ResponseError::UnsupportedCompressionType.code();
                    return read;
                }
                read.aborted = self.committed.then_some(batches.aborted);
                read.bytes = batches.bytes;
                read.chunks = batches.chunks;
            }
            Err(error) => read.error = unreadable(topic, queue, want.offset, &error).code(),
        }
        read
    }

    /// KIP-320: where the client's last epoch ended, when that is before what it asks for.
    async fn divergence(
        &self,
        want: &Want,
        topic: &Topic,
        queue: u32,
    ) -> Option<Result<(i32, i64), ResponseError>> {
        let last = u32::try_from(want.last_epoch).ok()?;
        let ended = self.consuming.end_of_reign(topic, queue, Reign(last)).await;
        let (reign, end) = match ended {
            Ok(Some(ended)) => ended,
            Ok(None) => return Some(Err(ResponseError::OffsetOutOfRange)),
            Err(error) => return Some(Err(unreadable(topic, queue, want.offset, &error))),
        };
        let end = i64::try_from(end.0).unwrap_or(i64::MAX);
        let diverges = reign.0 < last || end < want.offset;
        diverges.then(|| Ok((i32::try_from(reign.0).unwrap_or(i32::MAX), end)))
    }
}

/// The code of a failed read; said in the log unless the client asked for what is not there.
fn unreadable(topic: &Topic, queue: u32, from: i64, error: &ConsumeError) -> ResponseError {
    let code = Refusal::from(error).code;
    if code != ResponseError::OffsetOutOfRange {
        tracing::warn!(topic = %topic.key(), queue, from, %error, "cannot be read");
    }
    code
}

/// Whether any of the whole batches in a chunk is compressed with zstd.
fn holds_zstd(chunk: &[u8]) -> bool {
    let mut rest = chunk;
    while let Some(header) = rest.first_chunk::<23>() {
        if header[22] & 7 == 4 {
            return true;
        }
        let length = i32::from_be_bytes([header[8], header[9], header[10], header[11]]);
        let Some(next) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.get(length + 12..))
        else {
            return false;
        };
        rest = next;
    }
    false
}
