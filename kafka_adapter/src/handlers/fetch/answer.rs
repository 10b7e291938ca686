//! The Fetch answer, written by hand: fields into a small buffer, record chunks as they are.
//!
//! Layout: Apache Kafka's FetchResponse.json, v4 to v17. Large chunks are handed on as slices of the
//! log, so that a vectored write sends them without a copy; small ones are cheaper copied.

use super::read::Read;
use crate::error::Close;
use crate::output::Answer;
use crate::session::TopicRef;
use crate::table;
use bytes::{BufMut, Bytes, BytesMut};
use smallvec::SmallVec;

/// Chunks from this size on are sent as they are.
const STRAIGHT_MIN: usize = 16 << 10;

/// One partition of the answer.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) topic: TopicRef,
    pub(super) partition: i32,
    pub(super) read: Read,
}

/// Encodes the whole frame.
pub(super) fn encode(
    version: i16,
    correlation: i32,
    error: i16,
    session: i32,
    told: &[Told],
) -> Result<Answer, Close> {
    let copied: usize = told
        .iter()
        .flat_map(|told| &told.read.chunks)
        .map(Bytes::len)
        .filter(|bytes| *bytes < STRAIGHT_MIN)
        .sum();
    let mut out = Writer {
        run: BytesMut::with_capacity(128 + told.len() * 96 + copied),
        pieces: SmallVec::new(),
        handed: 0,
        flexible: version >= 12,
    };
    out.run.put_i32(0);
    out.run.put_i32(correlation);
    out.tags();
    out.run.put_i32(0); // throttle_time_ms
    if version >= 7 {
        out.run.put_i16(error);
        out.run.put_i32(session);
    }
    // As Kafka does: neighbours of the same topic are one group.
    let groups: Vec<&[Told]> = told.chunk_by(|a, b| a.topic == b.topic).collect();
    out.count(groups.len());
    for group in groups {
        if let Some(first) = group.first() {
            match &first.topic {
                TopicRef::Name(name) => out.text(name),
                TopicRef::Id(id) => out.run.put_slice(id.as_bytes()),
            }
        }
        out.count(group.len());
        for told in group {
            out.partition(told, version);
        }
        out.tags();
    }
    out.tags();
    out.finish()
}

struct Writer {
    /// Bytes that are copied together.
    run: BytesMut,
    pieces: SmallVec<[Bytes; 1]>,
    /// Bytes in `pieces`.
    handed: usize,
    flexible: bool,
}

impl Writer {
    fn tags(&mut self) {
        if self.flexible {
            self.run.put_u8(0);
        }
    }

    fn varint(&mut self, mut value: usize) {
        while value >= 0x80 {
            #[expect(clippy::cast_possible_truncation, reason = "masked to seven bits")]
            self.run.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below 0x80")]
        self.run.put_u8(value as u8);
    }

    /// An array's count or a byte field's length.
    fn count(&mut self, count: usize) {
        if self.flexible {
            self.varint(count + 1);
        } else {
            self.run.put_i32(i32::try_from(count).unwrap_or(i32::MAX));
        }
    }

    fn text(&mut self, text: &str) {
        if self.flexible {
            self.varint(text.len() + 1);
        } else {
            self.run
                .put_i16(i16::try_from(text.len()).unwrap_or(i16::MAX));
        }
        self.run.put_slice(text.as_bytes());
    }

    fn partition(&mut self, told: &Told, version: i16) {
        let read = &told.read;
        self.run.put_i32(told.partition);
        self.run.put_i16(read.error);
        self.run.put_i64(read.high_watermark);
        self.run.put_i64(read.stable);
        if version >= 5 {
            self.run.put_i64(read.log_start);
        }
        match &read.aborted {
            None if self.flexible => self.run.put_u8(0),
            None => self.run.put_i32(-1),
            Some(aborted) => {
                self.count(aborted.len());
                for transaction in aborted {
                    self.run.put_u64(transaction.producer);
                    self.run.put_u64(transaction.first.0);
                    self.tags();
                }
            }
        }
        if version >= 11 {
            self.run.put_i32(-1); // preferred_read_replica
        }
        self.count(read.bytes);
        for chunk in &read.chunks {
            if chunk.len() < STRAIGHT_MIN {
                self.run.put_slice(chunk);
            } else {
                self.hand_on_run();
                self.handed += chunk.len();
                self.pieces.push(chunk.clone());
            }
        }
        if !self.flexible {
            return;
        }
        match read.diverging {
            None => self.run.put_u8(0),
            Some((epoch, end)) => {
                // One tagged field: tag 0 DivergingEpoch, 13 bytes, itself without tags.
                self.run.put_slice(&[1, 0, 13]);
                self.run.put_i32(epoch);
                self.run.put_i64(end);
                self.run.put_u8(0);
            }
        }
    }

    fn hand_on_run(&mut self) {
        if !self.run.is_empty() {
            self.handed += self.run.len();
            self.pieces.push(self.run.split().freeze());
        }
    }

    fn finish(mut self) -> Result<Answer, Close> {
        if self.pieces.is_empty() {
            table::finish(&mut self.run, 0)?;
        } else {
            self.hand_on_run();
            // The first piece is always this writer's own: it opened with the length prefix.
            let first = std::mem::take(&mut self.pieces[0]);
            let more = self.handed - first.len();
            let mut first = first
                .try_into_mut()
                .unwrap_or_else(|shared| BytesMut::from(&shared[..]));
            table::finish(&mut first, more)?;
            self.pieces[0] = first.freeze();
            return Ok(Answer {
                pieces: self.pieces,
            });
        }
        Ok(Answer::single(self.run))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::FetchResponse;
    use kafka_protocol::protocol::Decodable;
    use std::sync::Arc;
    use twinmq_store::{Aborted, QueueOffset};

    fn read(chunks: Vec<Bytes>, aborted: Option<Vec<Aborted>>) -> Read {
        Read {
            error: 0,
            high_watermark: 10,
            stable: 9,
            log_start: 1,
            aborted,
            diverging: None,
            bytes: chunks.iter().map(Bytes::len).sum(),
            chunks,
        }
    }

    /// kafka-protocol's decoder is the other party, in every version.
    #[test]
    fn every_version_reads_back() {
        for version in 4..=17_i16 {
            let topic = |n: u8| {
                if version >= 13 {
                    TopicRef::Id(uuid::Uuid::from_bytes([n; 16]))
                } else {
                    TopicRef::Name(Arc::from(format!("topic-{n}")))
                }
            };
            let small = Bytes::from_static(b"small");
            let large = Bytes::from(vec![7; STRAIGHT_MIN]);
            let aborted = Aborted {
                producer: 5,
                first: QueueOffset(3),
                last: QueueOffset(8),
            };
            let mut told = vec![
                Told {
                    topic: topic(1),
                    partition: 0,
                    read: read(vec![], None),
                },
                Told {
                    topic: topic(1),
                    partition: 1,
                    read: read(
                        vec![small.clone(), large.clone(), small.clone()],
                        Some(vec![aborted]),
                    ),
                },
                Told {
                    topic: topic(2),
                    partition: 7,
                    read: read(vec![large.clone(), large], Some(vec![])),
                },
            ];
            told[0].read.diverging = Some((4, 2));
            let answer = encode(version, 77, 0, 12, &told).unwrap();
            let mut frame = BytesMut::new();
            answer
                .pieces
                .iter()
                .for_each(|piece| frame.extend_from_slice(piece));
            let mut frame = frame.freeze();
            let length = i32::from_be_bytes(frame.split_to(4)[..].try_into().unwrap());
            assert_eq!(
                usize::try_from(length).unwrap(),
                frame.len(),
                "version {version}"
            );
            assert_eq!(&frame.split_to(4)[..], [0, 0, 0, 77]);
            if version >= 12 {
                assert_eq!(frame.split_to(1)[0], 0);
            }
            let decoded = FetchResponse::decode(&mut frame, version).unwrap();
            assert!(frame.is_empty(), "version {version}");
            assert_eq!(decoded.session_id, if version >= 7 { 12 } else { 0 });
            assert_eq!(decoded.responses.len(), 2);
            let partitions = &decoded.responses[0].partitions;
            assert_eq!(partitions.len(), 2);
            assert_eq!(partitions[0].records.as_ref().unwrap().len(), 0);
            assert_eq!(partitions[0].aborted_transactions, None);
            if version >= 12 {
                assert_eq!(partitions[0].diverging_epoch.epoch, 4);
                assert_eq!(partitions[0].diverging_epoch.end_offset, 2);
            }
            assert_eq!(
                partitions[1].records.as_ref().unwrap().len(),
                STRAIGHT_MIN + 10
            );
            let listed = partitions[1].aborted_transactions.as_ref().unwrap();
            assert_eq!((*listed[0].producer_id, listed[0].first_offset), (5, 3));
            assert_eq!(partitions[1].high_watermark, 10);
            assert_eq!(partitions[1].last_stable_offset, 9);
            let other = &decoded.responses[1].partitions[0];
            assert_eq!(other.partition_index, 7);
            assert_eq!(other.records.as_ref().unwrap().len(), 2 * STRAIGHT_MIN);
        }
    }
}
