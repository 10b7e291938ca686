//! Records of Kafka's internal topics: `__consumer_offsets` and `__transaction_state`.
//!
//! Promises: written as Apache Kafka up to 4.1 writes them (offset key v1, offset value v3, or v1 when
//! an expire timestamp is given; group key v2, value v3; transaction key and value v0), so that tools
//! which read these topics understand them; reads every version since 0.8.2, unknown tagged fields
//! passed over. A record without value deletes its key (tombstone). Never panics.
//! Leaves out: keys of the KIP-848, share and streams groups, reported as [`OffsetsKey::Other`].
//!
//! Source of the layouts: Apache Kafka's `OffsetCommitKey/Value`, `GroupMetadataKey/Value`,
//! `TransactionLogKey/Value` schemas.

mod codec;
mod transactions;

pub use transactions::{
    TransactionStatus, TransactionV2, TransactionValue, decode_transaction_key,
    encode_transaction_key,
};

use codec::{In, Out};
use thiserror::Error;

/// What is wrong with such a record.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InternalError {
    /// Bytes that do not make one.
    #[error("corrupt {0}")]
    Corrupt(&'static str),
    /// A version of the schema that is not known.
    #[error("{what} of version {version} is not known")]
    Version {
        /// Which schema.
        what: &'static str,
        /// Its version.
        version: i16,
    },
    /// A part is longer than the schema can say.
    #[error("{0} is too long")]
    TooLong(&'static str),
}

fn version(what: &'static str, input: &mut In<'_>) -> Result<i16, InternalError> {
    input.i16().ok_or(InternalError::Corrupt(what))
}

/// A key of `__consumer_offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OffsetsKey {
    /// A committed offset.
    Offset(OffsetKey),
    /// A classic group's metadata; the group's name.
    Group(String),
    /// Of a kind that is not read here; its version.
    Other(i16),
}

impl OffsetsKey {
    /// Decodes versions 0 to 2.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalError> {
        const WHAT: &str = "key of __consumer_offsets";
        let mut input = In::new(bytes, false);
        let version = version(WHAT, &mut input)?;
        let key = match version {
            0 | 1 => OffsetKey::fields(&mut input).map(Self::Offset),
            2 => input.string().map(Self::Group),
            other => return Ok(Self::Other(other)),
        };
        finish(WHAT, key, &input)
    }
}

fn finish<T>(what: &'static str, value: Option<T>, input: &In<'_>) -> Result<T, InternalError> {
    value
        .filter(|_| input.is_empty())
        .ok_or(InternalError::Corrupt(what))
}

/// What an offset was committed for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OffsetKey {
    /// The group.
    pub group: String,
    /// The topic, by Kafka's name where it has one.
    pub topic: String,
    /// The partition.
    pub partition: i32,
}

impl OffsetKey {
    /// Encodes as version 1.
    ///
    /// # Errors
    /// `TooLong` above 32,767 bytes of a name.
    pub fn encode(&self) -> Result<Vec<u8>, InternalError> {
        let mut out = Out::new(1, self.group.len() + self.topic.len() + 10);
        out.string("group", &self.group)?;
        out.string("topic", &self.topic)?;
        out.i32(self.partition);
        Ok(out.bytes)
    }

    fn fields(input: &mut In<'_>) -> Option<Self> {
        Some(Self {
            group: input.string()?,
            topic: input.string()?,
            partition: input.i32()?,
        })
    }
}

/// The key of a classic group's metadata, version 2.
///
/// # Errors
/// `TooLong` above 32,767 bytes.
pub fn encode_group_key(group: &str) -> Result<Vec<u8>, InternalError> {
    let mut out = Out::new(2, group.len() + 4);
    out.string("group", group)?;
    Ok(out.bytes)
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OffsetValue {
    /// The next offset to read.
    pub offset: i64,
    /// Leader epoch of the last record read, or −1.
    pub leader_epoch: i32,
    /// The committer's own words.
    pub metadata: String,
    /// When it was committed, in ms.
    pub commit_time: i64,
    /// When it expires, in ms, where an old client asked for it.
    pub expire_time: Option<i64>,
    /// The topic's id, where it is known (version 4). Not written.
    pub topic_id: Option<[u8; 16]>,
}

impl OffsetValue {
    /// Encodes as version 3, or 1 with an expire time (which loses the leader epoch, as Kafka does).
    ///
    /// # Errors
    /// `TooLong` above 32,767 bytes of metadata.
    pub fn encode(&self) -> Result<Vec<u8>, InternalError> {
        let room = self.metadata.len() + 32;
        let mut out;
        if let Some(expire) = self.expire_time {
            out = Out::new(1, room);
            out.i64(self.offset);
            out.string("metadata", &self.metadata)?;
            out.i64(self.commit_time);
            out.i64(expire);
        } else {
            out = Out::new(3, room);
            out.i64(self.offset);
            out.i32(self.leader_epoch);
            out.string("metadata", &self.metadata)?;
            out.i64(self.commit_time);
        }
        Ok(out.bytes)
    }

    /// Decodes versions 0 to 4.
    ///
    /// # Errors
    /// `Corrupt`, `Version`.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalError> {
        const WHAT: &str = "offset value";
        let mut input = In::new(bytes, false);
        let version = version(WHAT, &mut input)?;
        if !(0..=4).contains(&version) {
            return Err(InternalError::Version {
                what: WHAT,
                version,
            });
        }
        input.flexible = version == 4;
        finish(WHAT, Self::fields(&mut input, version), &input)
    }

    fn fields(input: &mut In<'_>, version: i16) -> Option<Self> {
        let mut value = Self {
            offset: input.i64()?,
            leader_epoch: if version >= 3 { input.i32()? } else { -1 },
            metadata: input.string()?,
            commit_time: input.i64()?,
            expire_time: None,
            topic_id: None,
        };
        if version == 1 {
            value.expire_time = Some(input.i64()?).filter(|&time| time != -1);
        }
        input.tags(|tag, mut field| {
            if tag == 0 {
                value.topic_id = Some(field.array()?).filter(|id| *id != [0; 16]);
            }
            Some(())
        })?;
        Some(value)
    }
}

/// A classic group, as of its last rebalance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupValue {
    /// `consumer`, `connect`, …
    pub protocol_type: String,
    /// Generation.
    pub generation: i32,
    /// The protocol chosen.
    pub protocol: Option<String>,
    /// The leader's member id.
    pub leader: Option<String>,
    /// When the state was entered, in ms, or −1.
    pub state_time: i64,
    /// Members.
    pub members: Vec<GroupMember>,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Member id.
    pub id: String,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<String>,
    /// Client id.
    pub client_id: String,
    /// Its address, with a slash in front.
    pub client_host: String,
    /// Rebalance timeout in ms.
    pub rebalance_timeout: i32,
    /// Session timeout in ms.
    pub session_timeout: i32,
    /// Its subscription, in its own words.
    pub subscription: Vec<u8>,
    /// Its assignment, in its own words.
    pub assignment: Vec<u8>,
}

/// Least bytes of a member in any version; bounds claimed counts.
const MEMBER_MIN: usize = 8;

impl GroupValue {
    /// Encodes as version 3.
    ///
    /// # Errors
    /// `TooLong`.
    pub fn encode(&self) -> Result<Vec<u8>, InternalError> {
        let mut out = Out::new(3, 64 + self.members.len() * 256);
        out.string("protocol type", &self.protocol_type)?;
        out.i32(self.generation);
        out.nullable_string("protocol", self.protocol.as_deref())?;
        out.nullable_string("leader", self.leader.as_deref())?;
        out.i64(self.state_time);
        out.count("members", self.members.len())?;
        for member in &self.members {
            out.string("member id", &member.id)?;
            out.nullable_string("instance id", member.instance_id.as_deref())?;
            out.string("client id", &member.client_id)?;
            out.string("client host", &member.client_host)?;
            out.i32(member.rebalance_timeout);
            out.i32(member.session_timeout);
            out.blob("subscription", &member.subscription)?;
            out.blob("assignment", &member.assignment)?;
        }
        Ok(out.bytes)
    }

    /// Decodes versions 0 to 4.
    ///
    /// # Errors
    /// `Corrupt`, `Version`.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalError> {
        const WHAT: &str = "group value";
        let mut input = In::new(bytes, false);
        let version = version(WHAT, &mut input)?;
        if !(0..=4).contains(&version) {
            return Err(InternalError::Version {
                what: WHAT,
                version,
            });
        }
        input.flexible = version == 4;
        finish(WHAT, Self::fields(&mut input, version), &input)
    }

    fn fields(input: &mut In<'_>, version: i16) -> Option<Self> {
        let mut value = Self {
            protocol_type: input.string()?,
            generation: input.i32()?,
            protocol: input.nullable_string()?,
            leader: input.nullable_string()?,
            state_time: if version >= 2 { input.i64()? } else { -1 },
            members: Vec::new(),
        };
        for _ in 0..input.count(MEMBER_MIN)? {
            let id = input.string()?;
            let instance_id = if version >= 3 {
                input.nullable_string()?
            } else {
                None
            };
            let client_id = input.string()?;
            let client_host = input.string()?;
            let rebalance_timeout = if version >= 1 {
                Some(input.i32()?)
            } else {
                None
            };
            let session_timeout = input.i32()?;
            value.members.push(GroupMember {
                id,
                instance_id,
                client_id,
                client_host,
                rebalance_timeout: rebalance_timeout.unwrap_or(session_timeout),
                session_timeout,
                subscription: input.blob()?.to_vec(),
                assignment: input.blob()?.to_vec(),
            });
            input.tags(|_, _| Some(()))?;
        }
        input.tags(|_, _| Some(()))?;
        Some(value)
    }
}

#[cfg(test)]
mod tests;
