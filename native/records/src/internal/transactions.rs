//! Records of `__transaction_state`.

use super::codec::{In, Out};
use super::{InternalError, finish, version};

/// The key of a transactional id in `__transaction_state`, version 0.
///
/// # Errors
/// `TooLong` above 32,767 bytes.
pub fn encode_transaction_key(transactional_id: &str) -> Result<Vec<u8>, InternalError> {
    let mut out = Out::new(0, transactional_id.len() + 4);
    out.string("transactional id", transactional_id)?;
    Ok(out.bytes)
}

/// Decodes a key of `__transaction_state`: the transactional id.
///
/// # Errors
/// `Corrupt`, `Version`.
pub fn decode_transaction_key(bytes: &[u8]) -> Result<String, InternalError> {
    const WHAT: &str = "transaction key";
    let mut input = In::new(bytes, false);
    match version(WHAT, &mut input)? {
        0 => {
            let id = input.string();
            finish(WHAT, id, &input)
        }
        version => Err(InternalError::Version {
            what: WHAT,
            version,
        }),
    }
}

/// The state of a transactional id (`TransactionState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum TransactionStatus {
    /// No transaction yet.
    Empty = 0,
    /// Open.
    Ongoing = 1,
    /// Commit is decided, markers are on their way.
    PrepareCommit = 2,
    /// Abort is decided, markers are on their way.
    PrepareAbort = 3,
    /// Committed.
    CompleteCommit = 4,
    /// Aborted.
    CompleteAbort = 5,
    /// About to be forgotten.
    Dead = 6,
    /// Being aborted because its producer is fenced.
    PrepareEpochFence = 7,
}

impl TransactionStatus {
    fn from_wire(n: i8) -> Option<Self> {
        Some(match n {
            0 => Self::Empty,
            1 => Self::Ongoing,
            2 => Self::PrepareCommit,
            3 => Self::PrepareAbort,
            4 => Self::CompleteCommit,
            5 => Self::CompleteAbort,
            6 => Self::Dead,
            7 => Self::PrepareEpochFence,
            _ => return None,
        })
    }
}

/// What is known of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionValue {
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Transaction timeout in ms.
    pub timeout: i32,
    /// State.
    pub status: TransactionStatus,
    /// Partitions in the transaction, by topic; `None` when there is none in an empty one.
    pub partitions: Option<Vec<(String, Vec<i32>)>>,
    /// When this was written, in ms.
    pub last_update: i64,
    /// When the transaction started, in ms, or −1.
    pub start: i64,
    /// KIP-890's fields, read from version 1. Not written.
    pub v2: TransactionV2,
}

/// The tagged fields of version 1 (KIP-890).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionV2 {
    /// Producer id before, or −1.
    pub previous_producer_id: i64,
    /// Producer id after, or −1.
    pub next_producer_id: i64,
    /// The client's transaction version.
    pub client_version: i16,
    /// Producer epoch after, or −1.
    pub next_producer_epoch: i16,
}

impl Default for TransactionV2 {
    fn default() -> Self {
        Self {
            previous_producer_id: -1,
            next_producer_id: -1,
            client_version: 0,
            next_producer_epoch: -1,
        }
    }
}

/// Least bytes of a topic and of a partition in any version; bound claimed counts.
const TOPIC_MIN: usize = 2;
const PARTITION_MIN: usize = 4;

impl TransactionValue {
    /// Encodes as version 0.
    ///
    /// # Errors
    /// `TooLong`.
    pub fn encode(&self) -> Result<Vec<u8>, InternalError> {
        let mut out = Out::new(0, 64);
        out.i64(self.producer_id);
        out.i16(self.producer_epoch);
        out.i32(self.timeout);
        out.bytes.push((self.status as i8).cast_unsigned());
        match &self.partitions {
            None => out.i32(-1),
            Some(topics) => {
                out.count("topics", topics.len())?;
                for (topic, partitions) in topics {
                    out.string("topic", topic)?;
                    out.count("partitions", partitions.len())?;
                    for &partition in partitions {
                        out.i32(partition);
                    }
                }
            }
        }
        out.i64(self.last_update);
        out.i64(self.start);
        Ok(out.bytes)
    }

    /// Decodes versions 0 and 1.
    ///
    /// # Errors
    /// `Corrupt`, `Version`.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalError> {
        const WHAT: &str = "transaction value";
        let mut input = In::new(bytes, false);
        let version = version(WHAT, &mut input)?;
        if !(0..=1).contains(&version) {
            return Err(InternalError::Version {
                what: WHAT,
                version,
            });
        }
        input.flexible = version == 1;
        finish(WHAT, Self::fields(&mut input), &input)
    }

    fn fields(input: &mut In<'_>) -> Option<Self> {
        let mut value = Self {
            producer_id: input.i64()?,
            producer_epoch: input.i16()?,
            timeout: input.i32()?,
            status: TransactionStatus::from_wire(input.u8()?.cast_signed())?,
            partitions: None,
            last_update: -1,
            start: -1,
            v2: TransactionV2::default(),
        };
        if let Some(count) = input.nullable_count(TOPIC_MIN)? {
            let mut topics = Vec::new();
            for _ in 0..count {
                let topic = input.string()?;
                let mut partitions = Vec::new();
                for _ in 0..input.count(PARTITION_MIN)? {
                    partitions.push(input.i32()?);
                }
                input.tags(|_, _| Some(()))?;
                topics.push((topic, partitions));
            }
            value.partitions = Some(topics);
        }
        value.last_update = input.i64()?;
        value.start = input.i64()?;
        input.tags(|tag, mut field| {
            match tag {
                0 => value.v2.previous_producer_id = field.i64()?,
                1 => value.v2.next_producer_id = field.i64()?,
                2 => value.v2.client_version = field.i16()?,
                3 => value.v2.next_producer_epoch = field.i16()?,
                _ => (),
            }
            Some(())
        })?;
        Some(value)
    }
}
