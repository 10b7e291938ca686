//! A broker's registration (103): `RegisterBrokerBody` as JSON, and the compressed form, a zlib stream
//! of parts with lengths that is unpacked within a limit.

use super::or_default;
use super::topic::{TopicConfig, TopicTable};
use crate::json::{self, JsonError};
use bytes::Bytes;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use thiserror::Error;

/// The first version (V3_0_11) that sends this body.
pub const BODY_SINCE: i32 = 37;
/// The first version (V5_0_0) whose compressed form ends with mappings.
pub const MAPPINGS_SINCE: i32 = 413;

/// What a broker tells a name server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBrokerBody {
    /// Historic.
    #[serde(deserialize_with = "or_default")]
    pub filter_server_list: Vec<String>,
    /// Its topics.
    #[serde(deserialize_with = "or_default")]
    pub topic_config_serialize_wrapper: TopicTable,
}

/// A registration's body does not parse.
#[derive(Debug, Error)]
pub enum RegistrationError {
    /// JSON, whole or in a part.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The compressed stream is broken.
    #[error("registration: the zlib stream is broken: {0}")]
    Stream(#[from] std::io::Error),
    /// It unpacks to more than is allowed.
    #[error("registration: unpacks to more than {0} bytes")]
    TooLong(usize),
    /// A part is cut short or is not what it should be.
    #[error("registration: {0}")]
    Part(&'static str),
}

impl RegisterBrokerBody {
    /// Reads either form. `unpacked_max` bounds what a compressed one may grow to, in bytes.
    ///
    /// # Errors
    /// It does not parse.
    pub fn decode(
        body: &[u8],
        compressed: bool,
        unpacked_max: usize,
    ) -> Result<Self, RegistrationError> {
        if !compressed {
            return Ok(json::read(body)?);
        }
        let mut bytes = Vec::new();
        let limit = u64::try_from(unpacked_max)
            .unwrap_or(u64::MAX)
            .saturating_add(1);
        ZlibDecoder::new(body).take(limit).read_to_end(&mut bytes)?;
        if bytes.len() > unpacked_max {
            return Err(RegistrationError::TooLong(unpacked_max));
        }
        let mut parts = Parts { bytes: &bytes };
        let mut out = Self::default();
        let wrapper = &mut out.topic_config_serialize_wrapper;
        wrapper.data_version = json::read(parts.part()?)?;
        for _ in 0..parts.count()? {
            let topic = topic_line(parts.part()?)?;
            wrapper
                .topic_config_table
                .insert(topic.topic_name.clone(), topic);
        }
        out.filter_server_list =
            json::read::<Option<Vec<String>>>(parts.part()?)?.unwrap_or_default();
        // The mappings of static topics follow from 5.0 on; they are not served.
        Ok(out)
    }

    /// Writes the JSON form.
    #[must_use]
    pub fn json(&self) -> Bytes {
        json::write(self)
    }

    /// Writes the compressed form, with the (empty) mappings of 5.0.
    ///
    /// # Errors
    /// Never in practice: memory takes all bytes.
    pub fn packed(&self) -> std::io::Result<Bytes> {
        let mut out = ZlibEncoder::new(Vec::new(), Compression::best());
        let wrapper = &self.topic_config_serialize_wrapper;
        put(&mut out, &json::write(&wrapper.data_version))?;
        put_count(&mut out, wrapper.topic_config_table.len())?;
        for topic in wrapper.topic_config_table.values() {
            let attributes = json::write(&topic.attributes);
            let line = format!(
                "{} {} {} {} {} {}",
                topic.topic_name,
                topic.read_queue_nums,
                topic.write_queue_nums,
                topic.perm,
                topic.topic_filter_type,
                String::from_utf8_lossy(&attributes)
            );
            put(&mut out, line.as_bytes())?;
        }
        put(&mut out, &json::write(&self.filter_server_list))?;
        put_count(&mut out, 0)?;
        Ok(out.finish()?.into())
    }
}

fn put(out: &mut impl Write, part: &[u8]) -> std::io::Result<()> {
    put_count(out, part.len())?;
    out.write_all(part)
}

fn put_count(out: &mut impl Write, count: usize) -> std::io::Result<()> {
    let count = i32::try_from(count).map_err(std::io::Error::other)?;
    out.write_all(&count.to_be_bytes())
}

struct Parts<'a> {
    bytes: &'a [u8],
}

impl<'a> Parts<'a> {
    fn count(&mut self) -> Result<usize, RegistrationError> {
        let (count, rest) = self
            .bytes
            .split_first_chunk()
            .ok_or(RegistrationError::Part("cut short"))?;
        self.bytes = rest;
        usize::try_from(i32::from_be_bytes(*count))
            .map_err(|_| RegistrationError::Part("a negative count"))
    }

    fn part(&mut self) -> Result<&'a [u8], RegistrationError> {
        let len = self.count()?;
        let parts = self.bytes.split_at_checked(len);
        let (part, rest) = parts.ok_or(RegistrationError::Part("a part beyond the end"))?;
        self.bytes = rest;
        Ok(part)
    }
}

/// `name read write perm filter attributes`; 4.x writes no attributes.
fn topic_line(line: &[u8]) -> Result<TopicConfig, RegistrationError> {
    let bad =
        RegistrationError::Part("a topic that is no line of name, queues, permission and filter");
    let Ok(line) = std::str::from_utf8(line) else {
        return Err(bad);
    };
    let mut words = line.splitn(6, ' ');
    let mut word = || words.next().filter(|word| !word.is_empty());
    let (Some(name), Some(read), Some(write), Some(perm), Some(filter)) =
        (word(), word(), word(), word(), word())
    else {
        return Err(bad);
    };
    let (Ok(read), Ok(write), Ok(perm)) = (read.parse(), write.parse(), perm.parse()) else {
        return Err(bad);
    };
    let attributes: BTreeMap<String, String> = match word() {
        Some(text) if text != "null" => json::read(text.as_bytes())?,
        _ => BTreeMap::new(),
    };
    Ok(TopicConfig {
        attributes,
        perm,
        read_queue_nums: read,
        topic_filter_type: filter.to_owned(),
        topic_name: name.to_owned(),
        write_queue_nums: write,
        ..TopicConfig::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::DataVersion;
    use proptest::prelude::*;

    fn body() -> RegisterBrokerBody {
        let topic = |name: &str| TopicConfig {
            topic_name: name.into(),
            attributes: [("+message.type".into(), "FIFO x".into())].into(),
            ..TopicConfig::default()
        };
        let table = [("t", topic("t")), ("%RETRY%g", topic("%RETRY%g"))];
        RegisterBrokerBody {
            filter_server_list: vec![],
            topic_config_serialize_wrapper: TopicTable {
                data_version: DataVersion {
                    counter: 3,
                    state_version: 0,
                    timestamp: 1_700_000_000_000,
                },
                topic_config_table: table.map(|(name, topic)| (name.to_owned(), topic)).into(),
                ..TopicTable::default()
            },
        }
    }

    #[test]
    fn both_forms_read_back() {
        assert_eq!(
            RegisterBrokerBody::decode(&body().json(), false, 0).unwrap(),
            body()
        );
        let packed = body().packed().unwrap();
        assert_eq!(
            RegisterBrokerBody::decode(&packed, true, 1 << 20).unwrap(),
            body()
        );
        let short = RegisterBrokerBody::decode(&packed, true, 50);
        assert!(
            matches!(short, Err(RegistrationError::TooLong(50))),
            "{short:?}"
        );
    }

    #[test]
    fn topics_of_4x_have_no_attributes() {
        let topic = topic_line(b"t 8 4 6 SINGLE_TAG").unwrap();
        assert_eq!(
            (topic.read_queue_nums, topic.write_queue_nums, topic.perm),
            (8, 4, 6)
        );
        assert!(topic_line(b"t 8 4").is_err());
        assert!(topic_line(b"t x 4 6 SINGLE_TAG").is_err());
    }

    proptest! {
        #[test]
        fn random_parts_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(&bytes).unwrap();
            let _ = RegisterBrokerBody::decode(&packed.finish().unwrap(), true, 1000);
            let _ = RegisterBrokerBody::decode(&bytes, true, 1000);
        }
    }
}
