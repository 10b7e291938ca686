//! An entry's header: as readers see it, and its bytes (FORMAT.md, "Entry").
//!
//! Promises: [`Header::decode`] refuses every header whose sum, form, kind, flags or lengths are
//! wrong, without touching the payload beyond its first `head` bytes. Leaves out what only the
//! neighbours can tell: place, order of reigns and times, bases.

use crate::run::{Draft, Fill, Flags, Kind, Place, Producer};
use crate::types::{Address, LogOffset, QueueNumber, QueueOffset, Reign, Timestamp};
use bytes::Bytes;

/// Bytes of a header without a producer; also the least that an entry takes.
pub(crate) const HEADER_BYTES: usize = 72;
/// Bytes of a header with a producer.
pub(crate) const HEADER_BYTES_PRODUCER: usize = 88;
/// Most bytes that the header sum covers: the longer header and the longest head.
pub(crate) const SUMMED_BYTES_MAX: usize = HEADER_BYTES_PRODUCER + u8::MAX as usize;
/// Entries start at multiples of this.
pub(crate) const ALIGN: u64 = 8;
/// Entries are shorter than this: index rows keep their length in eighths in 26 bits.
pub(crate) const ENTRY_BYTES_MAX: u64 = 1 << 29;

const FORM_PLAIN: u8 = 1;
const FORM_PRODUCER: u8 = 2;
const FLAGS_KNOWN: u8 = 31;

/// Everything an entry's header says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Bytes of the whole entry in the log: header, payload and padding.
    pub length: u32,
    /// Bytes of the payload.
    pub payload_length: u32,
    /// Payload layout.
    pub kind: Kind,
    /// Flags.
    pub flags: Flags,
    /// The reign it was stored in.
    pub reign: Reign,
    /// Its place in the log.
    pub log_offset: LogOffset,
    /// Its queue.
    pub queue: QueueNumber,
    /// Queue offset of its first record.
    pub base: QueueOffset,
    /// Queue offsets it covers.
    pub span: u32,
    /// When it was stored; never lower than the entry before.
    pub store_time: Timestamp,
    /// Highest record time in the payload.
    pub record_time: Timestamp,
    /// Hash of the tag that all its records share, unless [`Flags::MIXED_TAGS`].
    pub tag_hash: i32,
    /// Its idempotent producer.
    pub producer: Option<Producer>,
}

impl Header {
    /// The queue offset after its last record.
    #[must_use]
    pub fn next(&self) -> QueueOffset {
        self.base.plus(u64::from(self.span))
    }

    /// Bytes of the header itself.
    pub(crate) fn bytes(&self) -> usize {
        header_bytes(self.producer.is_some())
    }

    /// Where the next entry starts.
    pub(crate) fn end(&self) -> LogOffset {
        self.log_offset.plus(u64::from(self.length))
    }
}

/// Bytes of a header.
pub(crate) const fn header_bytes(producer: bool) -> usize {
    if producer {
        HEADER_BYTES_PRODUCER
    } else {
        HEADER_BYTES
    }
}

/// Bytes that an entry takes in the log.
pub(crate) fn entry_bytes(producer: bool, payload: usize, span: u32) -> u64 {
    (header_bytes(producer) as u64 + payload as u64)
        .max(u64::from(span))
        .next_multiple_of(ALIGN)
}

/// What a header's bytes say beyond [`Header`]: the sums.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sums {
    /// How many first payload bytes the header sum covers.
    pub(crate) head: u8,
    /// CRC-32C of the payload from `head` on.
    pub(crate) payload: u32,
}

/// What an entry carries, as the lane needs it to write one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'a> {
    /// How many first payload bytes the header sum covers.
    pub(crate) head: u8,
    /// CRC-32C of the payload from `head` on.
    pub(crate) payload_sum: u32,
    /// Where the lane writes.
    pub(crate) places: &'a [Place],
    /// The payload.
    pub(crate) payload: &'a [u8],
}

impl<'a> Body<'a> {
    /// A draft's.
    pub(crate) fn of(draft: &'a Draft) -> Self {
        Self {
            head: draft.head,
            payload_sum: draft.payload_sum,
            places: &draft.places,
            payload: &draft.payload,
        }
    }

    /// A payload that nothing is patched in.
    pub(crate) fn plain(payload: &'a [u8]) -> Self {
        let head = u8::try_from(payload.len()).unwrap_or(0);
        Self {
            head,
            payload_sum: crc32c::crc32c(&payload[usize::from(head)..]),
            places: &[],
            payload,
        }
    }
}

/// Why bytes are no entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refused {
    /// Fewer bytes than the header and its head need.
    Short {
        /// Bytes needed to decide.
        needed: usize,
    },
    /// The bytes are no header.
    Damaged(&'static str),
}

impl Header {
    /// Reads a header from the bytes of an entry, which must hold the header and the payload's
    /// first `head` bytes and may hold more.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, Sums), Refused> {
        let form = *bytes.get(15).ok_or(Refused::Short {
            needed: HEADER_BYTES,
        })?;
        let header_len = match form {
            FORM_PLAIN => HEADER_BYTES,
            FORM_PRODUCER => HEADER_BYTES_PRODUCER,
            _ => return Err(Refused::Damaged("no entry form")),
        };
        let head = bytes[14];
        let summed = header_len + usize::from(head);
        if bytes.len() < summed {
            return Err(Refused::Short { needed: summed });
        }
        if crc32c::crc32c(&bytes[4..summed]) != le_u32(bytes, 0) {
            return Err(Refused::Damaged("header sum"));
        }
        let kind = match bytes[12] {
            0 => Kind::Control,
            1 => Kind::Message,
            2 => Kind::Batch,
            _ => return Err(Refused::Damaged("unknown kind")),
        };
        let flags = Flags(bytes[13]);
        if flags.0 & !FLAGS_KNOWN != 0 {
            return Err(Refused::Damaged("unknown flags"));
        }
        let length = le_u32(bytes, 4);
        let payload_length = le_u32(bytes, 8);
        let span = le_u32(bytes, 28);
        let least = (header_len as u64 + u64::from(payload_length)).max(u64::from(span));
        if u64::from(length) < least || !u64::from(length).is_multiple_of(ALIGN) || span == 0 {
            return Err(Refused::Damaged("lengths disagree"));
        }
        if u32::from(head) > payload_length {
            return Err(Refused::Damaged("head longer than the payload"));
        }
        let producer = (form == FORM_PRODUCER).then(|| Producer {
            id: le_u64(bytes, 72),
            epoch: i16::from_le_bytes([bytes[80], bytes[81]]),
            first_sequence: le_u32(bytes, 68).cast_signed(),
        });
        let base = QueueOffset(le_u64(bytes, 32));
        let log_offset = LogOffset(le_u64(bytes, 16));
        if base.0.checked_add(u64::from(span)).is_none()
            || log_offset.0.checked_add(u64::from(length)).is_none()
        {
            return Err(Refused::Damaged("offset overflows"));
        }
        let header = Self {
            length,
            payload_length,
            kind,
            flags,
            reign: Reign(le_u32(bytes, 56)),
            log_offset,
            queue: QueueNumber(le_u32(bytes, 24)),
            base,
            span,
            store_time: Timestamp(le_u64(bytes, 40).cast_signed()),
            record_time: Timestamp(le_u64(bytes, 48).cast_signed()),
            tag_hash: le_u32(bytes, 60).cast_signed(),
            producer,
        };
        let payload = le_u32(bytes, 64);
        Ok((header, Sums { head, payload }))
    }

    /// Writes the header and the payload's patched head to the front of `out`; gives back how many
    /// bytes that is. `self` is what the lane decided for the body.
    pub(crate) fn encode(&self, body: &Body<'_>, out: &mut [u8; SUMMED_BYTES_MAX]) -> usize {
        let header_len = self.bytes();
        let head = usize::from(body.head).min(body.payload.len());
        let summed = header_len + head;
        out[4..8].copy_from_slice(&self.length.to_le_bytes());
        out[8..12].copy_from_slice(&self.payload_length.to_le_bytes());
        out[12] = self.kind as u8;
        out[13] = self.flags.0;
        out[14] = body.head;
        out[15] = FORM_PLAIN;
        out[16..24].copy_from_slice(&self.log_offset.0.to_le_bytes());
        out[24..28].copy_from_slice(&self.queue.0.to_le_bytes());
        out[28..32].copy_from_slice(&self.span.to_le_bytes());
        out[32..40].copy_from_slice(&self.base.0.to_le_bytes());
        out[40..48].copy_from_slice(&self.store_time.0.to_le_bytes());
        out[48..56].copy_from_slice(&self.record_time.0.to_le_bytes());
        out[56..60].copy_from_slice(&self.reign.0.to_le_bytes());
        out[60..64].copy_from_slice(&self.tag_hash.to_le_bytes());
        out[64..68].copy_from_slice(&body.payload_sum.to_le_bytes());
        out[68..72].fill(0);
        if let Some(producer) = self.producer {
            out[15] = FORM_PRODUCER;
            out[68..72].copy_from_slice(&producer.first_sequence.to_le_bytes());
            out[72..80].copy_from_slice(&producer.id.to_le_bytes());
            out[80..82].copy_from_slice(&producer.epoch.to_le_bytes());
            out[82..88].fill(0);
        }
        out[header_len..summed].copy_from_slice(&body.payload[..head]);
        for place in body.places {
            self.patch(
                &mut out[header_len..summed],
                usize::from(place.at),
                place.fill,
            );
        }
        let sum = crc32c::crc32c(&out[4..summed]);
        out[0..4].copy_from_slice(&sum.to_le_bytes());
        summed
    }

    fn patch(&self, head: &mut [u8], at: usize, fill: Fill) {
        let long = match fill {
            Fill::QueueOffset => self.base.0.to_be_bytes(),
            Fill::Address => self.log_offset.0.to_be_bytes(),
            Fill::StoreTime => self.store_time.0.to_be_bytes(),
            Fill::Reign => {
                let bytes = self.reign.0.to_be_bytes();
                head[at..at + 4].copy_from_slice(&bytes);
                return;
            }
        };
        head[at..at + 8].copy_from_slice(&long);
    }
}

/// Bytes that a fill takes.
pub(crate) fn fill_bytes(fill: Fill) -> usize {
    match fill {
        Fill::QueueOffset | Fill::Address | Fill::StoreTime => 8,
        Fill::Reign => 4,
    }
}

/// A little-endian u32 at `at`; the caller has checked the length.
pub(crate) fn le_u32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

/// A little-endian u64 at `at`; the caller has checked the length.
pub(crate) fn le_u64(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// An entry read back: its header and its payload, exactly as stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The header.
    pub header: Header,
    /// The payload; a slice of the log's map or of a buffer read from disk.
    pub payload: Bytes,
}

impl Stored {
    /// The address of the record at `place` (0-based) of this entry.
    #[must_use]
    pub fn address(&self, place: u32) -> Address {
        Address::new(self.header.log_offset, place)
    }

    /// Takes an entry apart, checking its header sum and, where asked, its payload sum.
    pub(crate) fn open(entry: &Bytes, payload_sum: bool) -> Result<Self, Refused> {
        let (header, sums) = Header::decode(entry)?;
        let from = header.bytes();
        let to = from + header.payload_length as usize;
        if entry.len() < to {
            return Err(Refused::Short { needed: to });
        }
        let payload = entry.slice(from..to);
        if payload_sum && crc32c::crc32c(&payload[usize::from(sums.head)..]) != sums.payload {
            return Err(Refused::Damaged("payload sum"));
        }
        Ok(Self { header, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Header::decode(&bytes);
            let _ = Stored::open(&Bytes::from(bytes), true);
        }

        #[test]
        fn damaged_headers_are_refused(at in 0usize..100, bit in 0u8..8) {
            let (draft, header) = sample();
            let mut out = [0; SUMMED_BYTES_MAX];
            let n = header.encode(&Body::of(&draft), &mut out);
            prop_assert_eq!(n, 88 + 12);
            prop_assert_eq!(Header::decode(&out[..n]).unwrap().0, header);
            out[at] ^= 1 << bit;
            prop_assert!(Header::decode(&out[..n]).is_err());
        }
    }

    fn sample() -> (Draft, Header) {
        let payload = Bytes::from_static(b"0123456789abcdefghij");
        let producer = Some(Producer {
            id: 77,
            epoch: 3,
            first_sequence: 5,
        });
        let draft = Draft {
            kind: Kind::Batch,
            flags: Flags::TRANSACTIONAL,
            queue: QueueNumber(17),
            span: 3,
            record_time: Timestamp(1000),
            tag_hash: -5,
            producer,
            head: 12,
            payload_sum: crc32c::crc32c(&payload[12..]),
            places: smallvec::smallvec![crate::run::Place {
                at: 0,
                fill: Fill::QueueOffset
            }],
            payload,
        };
        let header = Header {
            length: 112,
            payload_length: 20,
            kind: Kind::Batch,
            flags: Flags::TRANSACTIONAL.with(Flags::LAST_OF_RUN),
            reign: Reign(2),
            log_offset: LogOffset(4096),
            queue: QueueNumber(17),
            base: QueueOffset(40),
            span: 3,
            store_time: Timestamp(2000),
            record_time: Timestamp(1000),
            tag_hash: -5,
            producer,
        };
        (draft, header)
    }
}
