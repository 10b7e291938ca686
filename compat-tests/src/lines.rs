//! Records as lines of tab-separated fields: bytes are base64, null is "-", headers and properties
//! are `name=base64` joined by ",".

use anyhow::{Context as _, Result, bail};
use std::collections::BTreeMap;
use std::path::Path;

/// A Kafka record going to or coming from a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct KafkaRecord {
    /// Key.
    pub key: Option<Vec<u8>>,
    /// Value.
    pub value: Option<Vec<u8>>,
    /// Headers, in order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// A RocketMQ message going to or coming from a client.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NativeMessage {
    /// TAGS.
    pub tags: Option<String>,
    /// KEYS.
    pub keys: Option<String>,
    /// Body, decompressed.
    pub body: Vec<u8>,
    /// Other properties; what the broker and client add is in here too when read.
    pub properties: BTreeMap<String, String>,
}

/// Something read, and where from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// Partition or queue id.
    pub queue: u32,
    /// Offset.
    pub offset: u64,
    /// The record.
    pub record: T,
    /// How often it was sent back (native only).
    pub reconsumed: u32,
    /// Its time in ms (CreateTime, bornTimestamp); −1 where the client does not tell.
    pub time: i64,
}

/// What a send came to: (queue, offset), or the client's error. `queue` is `None` where the client
/// does not tell it.
pub type Sent = Result<(Option<u32>, u64), String>;

/// Base64 as the clients write it.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk
            .iter()
            .fold(0_u32, |word, byte| word << 8 | u32::from(*byte))
            << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            if digit <= chunk.len() {
                out.push(char::from(DIGITS[(word >> (18 - 6 * digit)) as usize & 63]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

/// The inverse of [`encode`].
///
/// # Errors
/// Not base64.
pub fn decode(text: &str) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut word, mut bits) = (0_u32, 0);
    for byte in text.bytes().filter(|byte| *byte != b'=') {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => bail!("{byte} is no base64 digit"),
        };
        word = word << 6 | u32::from(digit);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits & 0xFF) as u8);
        }
    }
    Ok(out)
}

fn nullable(text: &str) -> Result<Option<Vec<u8>>> {
    if text == "-" {
        Ok(None)
    } else {
        decode(text).map(Some)
    }
}

fn string(text: &str) -> Result<Option<String>> {
    Ok(nullable(text)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

fn coded(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "-".to_owned(), encode)
}

/// A record as a line.
pub trait Line: Sized {
    /// The line that a client is given, without its end; `queue` chooses the queue, or leaves it to
    /// the client.
    fn line(&self, queue: Option<u32>) -> String;

    /// Takes apart a line that a client wrote about what it consumed.
    ///
    /// # Errors
    /// Not in the format.
    fn parse(line: &str) -> Result<At<Self>>;
}

/// Writes records for a client; `queue` chooses one per record, or leaves it to the client.
///
/// # Errors
/// The file cannot be written.
pub fn write<R: Line>(
    path: &Path,
    records: &[R],
    queue: impl Fn(usize) -> Option<u32>,
) -> Result<()> {
    let lines = records.iter().enumerate();
    let lines: Vec<String> = lines
        .map(|(place, record)| record.line(queue(place)) + "\n")
        .collect();
    std::fs::write(path, lines.concat()).with_context(|| path.display().to_string())
}

/// Reads what a client consumed. A last line without its end is still being written, and left out.
///
/// # Errors
/// The file is not there or not in the format.
pub fn read<R: Line>(path: &Path) -> Result<Vec<At<R>>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let whole = text.rfind('\n').and_then(|end| text.get(..end));
    whole.map_or_else(
        || Ok(Vec::new()),
        |text| text.lines().map(R::parse).collect(),
    )
}

/// Reads a client's send results, in input order.
///
/// # Errors
/// The file is not there or not in the format.
pub fn read_sent(path: &Path) -> Result<Vec<Sent>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            match fields.as_slice() {
                ["!", error @ ..] => Ok(Err(error.join(" "))),
                ["null" | "-"] => Ok(Err("no answer".to_owned())),
                [queue, offset, ..] => Ok(Ok((queue.parse().ok(), offset.parse()?))),
                _ => bail!("send result {line:?}"),
            }
        })
        .collect()
}

/// Reads back the input lines of a Kafka client.
///
/// # Errors
/// The file is not there or not in the format.
pub fn read_input_kafka(path: &Path) -> Result<Vec<KafkaRecord>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| {
            Ok(KafkaRecord::parse(&format!(
                "0\t0{}\t0",
                line.strip_prefix('-').unwrap_or(line)
            ))?
            .record)
        })
        .collect()
}

/// Reads back the input lines of a RocketMQ client.
///
/// # Errors
/// The file is not there or not in the format.
pub fn read_input_native(path: &Path) -> Result<Vec<NativeMessage>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .map(|line| {
            let rest = line.split_once('\t').map_or("", |(_, rest)| rest);
            Ok(NativeMessage::parse(&format!("0\t0\t{rest}\t-\t0\t0"))?.record)
        })
        .collect()
}

fn queue_or_none(queue: Option<u32>) -> String {
    queue.map_or_else(|| "-".to_owned(), |queue| queue.to_string())
}

impl Line for KafkaRecord {
    fn line(&self, queue: Option<u32>) -> String {
        let headers: Vec<String> = self
            .headers
            .iter()
            .map(|(name, value)| format!("{name}={}", coded(value.as_deref())))
            .collect();
        format!(
            "{}\t{}\t{}\t{}",
            queue_or_none(queue),
            coded(self.key.as_deref()),
            coded(self.value.as_deref()),
            headers.join(",")
        )
    }

    fn parse(line: &str) -> Result<At<Self>> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [partition, offset, key, value, headers, time] = fields.as_slice() else {
            bail!("consumed line {line:?}");
        };
        let mut read = Vec::new();
        for header in headers.split(',').filter(|header| !header.is_empty()) {
            let (name, value) = header.split_once('=').context("a header without =")?;
            read.push((name.to_owned(), nullable(value)?));
        }
        Ok(At {
            queue: partition.parse()?,
            offset: offset.parse()?,
            record: Self {
                key: nullable(key)?,
                value: nullable(value)?,
                headers: read,
            },
            reconsumed: 0,
            time: time.parse()?,
        })
    }
}

impl Line for NativeMessage {
    fn line(&self, queue: Option<u32>) -> String {
        let properties: Vec<String> = self
            .properties
            .iter()
            .map(|(name, value)| format!("{name}={}", encode(value.as_bytes())))
            .collect();
        format!(
            "{}\t{}\t{}\t{}\t{}",
            queue_or_none(queue),
            coded(self.tags.as_deref().map(str::as_bytes)),
            coded(self.keys.as_deref().map(str::as_bytes)),
            encode(&self.body),
            properties.join(",")
        )
    }

    fn parse(line: &str) -> Result<At<Self>> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [
            queue,
            offset,
            tags,
            keys,
            body,
            properties,
            _id,
            reconsumed,
            time,
        ] = fields.as_slice()
        else {
            bail!("consumed line {line:?}");
        };
        let mut read = BTreeMap::new();
        for property in properties
            .split(',')
            .filter(|property| !property.is_empty())
        {
            let (name, value) = property.split_once('=').context("a property without =")?;
            read.insert(name.to_owned(), string(value)?.unwrap_or_default());
        }
        Ok(At {
            queue: queue.parse()?,
            offset: offset.parse()?,
            record: Self {
                tags: string(tags)?,
                keys: string(keys)?,
                body: nullable(body)?.unwrap_or_default(),
                properties: read,
            },
            reconsumed: reconsumed.parse()?,
            time: time.parse()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_goes_there_and_back() {
        for length in 0..40_u8 {
            let bytes: Vec<u8> = (0..length).map(|byte| byte.wrapping_mul(37)).collect();
            assert_eq!(decode(&encode(&bytes)).expect("decodes"), bytes);
        }
        assert_eq!(encode(b"foob"), "Zm9vYg==");
    }
}
