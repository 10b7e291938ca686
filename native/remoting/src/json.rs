//! RocketMQ's JSON dialect (fastjson): integer keys stand bare, `{0:"a"}`, and object keys stand as
//! objects, `{{"topic":"t"}:1}`. Read here from either form, written in the dialect or as standard
//! JSON.
//!
//! Reading is one pass that quotes such keys, then serde_json. References (`{"$ref":"$.x"}`) are
//! refused: nobody sends them in what we read.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use std::borrow::Cow;
use std::io::{self, Write};
use thiserror::Error;

/// A body is not what it should be.
#[derive(Debug, Error)]
pub enum JsonError {
    /// It is not JSON even in the dialect.
    #[error("body: {reason} at byte {at}")]
    Dialect {
        /// What is wrong.
        reason: &'static str,
        /// Where, in bytes.
        at: usize,
    },
    /// It is JSON, but not the right one.
    #[error("body: {0}")]
    Content(#[from] serde_json::Error),
}

/// Deepest nesting, as serde_json's.
const DEPTH_MAX: usize = 120;

/// Reads a body.
///
/// # Errors
/// It is not of that shape.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, JsonError> {
    let standard = standardize(body)?;
    Ok(serde_json::from_slice(&standard)?)
}

/// Where the scanner stands in a container.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In an object, before a key.
    Key,
    /// In an object, before or after a value.
    Value,
    /// In an array.
    Item,
}

/// The same body with every key quoted; borrowed when it was so already.
///
/// # Errors
/// It has no balanced marks, is nested too deeply, or holds a reference.
pub fn standardize(body: &[u8]) -> Result<Cow<'_, [u8]>, JsonError> {
    let wrong = |reason, at| Err(JsonError::Dialect { reason, at });
    let mut out: Vec<u8> = Vec::new();
    let mut copied = 0;
    let mut places: Vec<Place> = Vec::new();
    let mut at = 0;
    while let Some(&byte) = body.get(at) {
        match byte {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'"' => {
                let end = string_end(body, at)?;
                if places.last() == Some(&Place::Key) && &body[at..end] == b"\"$ref\"" {
                    return wrong("a reference ($ref), which is not supported", at);
                }
                at = end;
            }
            b'{' if places.last() == Some(&Place::Key) => {
                let end = object_end(body, at)?;
                out.extend_from_slice(&body[copied..at]);
                quote(&body[at..end], &mut out);
                (at, copied) = (end, end);
            }
            b'{' | b'[' => {
                if places.len() >= DEPTH_MAX {
                    return wrong("nested too deeply", at);
                }
                places.push(if byte == b'{' {
                    Place::Key
                } else {
                    Place::Item
                });
                at += 1;
            }
            b'}' | b']' => {
                let inside = places.pop();
                if inside.is_none() || (inside == Some(Place::Item)) != (byte == b']') {
                    return wrong("an end without a start", at);
                }
                at += 1;
            }
            b':' => {
                if let Some(place @ Place::Key) = places.last_mut() {
                    *place = Place::Value;
                }
                at += 1;
            }
            b',' => {
                if let Some(place @ Place::Value) = places.last_mut() {
                    *place = Place::Key;
                }
                at += 1;
            }
            _ => {
                let end = bare_end(body, at);
                if places.last() == Some(&Place::Key) {
                    out.extend_from_slice(&body[copied..at]);
                    quote(&body[at..end], &mut out);
                    copied = end;
                }
                at = end;
            }
        }
    }
    if copied == 0 {
        return Ok(Cow::Borrowed(body));
    }
    out.extend_from_slice(&body[copied..]);
    Ok(Cow::Owned(out))
}

/// The place behind a string that starts at `at`.
fn string_end(body: &[u8], at: usize) -> Result<usize, JsonError> {
    let mut end = at + 1;
    loop {
        match body.get(end) {
            Some(b'"') => return Ok(end + 1),
            Some(b'\\') => end += 2,
            Some(_) => end += 1,
            None => {
                return Err(JsonError::Dialect {
                    reason: "a string without end",
                    at,
                });
            }
        }
    }
}

/// The place behind an object that starts at `at`.
fn object_end(body: &[u8], at: usize) -> Result<usize, JsonError> {
    let mut open = 0usize;
    let mut end = at;
    loop {
        match body.get(end) {
            Some(b'"') => {
                end = string_end(body, end)?;
                continue;
            }
            Some(b'{') => open += 1,
            Some(b'}') => {
                open -= 1;
                if open == 0 {
                    return Ok(end + 1);
                }
            }
            Some(_) => {}
            None => {
                return Err(JsonError::Dialect {
                    reason: "an object without end",
                    at,
                });
            }
        }
        end += 1;
    }
}

/// The place behind a number or word that starts at `at`.
fn bare_end(body: &[u8], at: usize) -> usize {
    let mark = |byte: &u8| {
        matches!(
            byte,
            b' ' | b'\t' | b'\r' | b'\n' | b'"' | b'{' | b'}' | b'[' | b']' | b':' | b','
        )
    };
    body[at..]
        .iter()
        .position(mark)
        .map_or(body.len(), |len| at + len.max(1))
}

fn quote(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..0x20 => {
                let _ = write!(out, "\\u{byte:04x}");
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Writes a body in the dialect: number keys bare, keys that are objects (their text starts with a
/// brace) as objects. Compact; keys in the order of the type.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Bytes {
    serialize(value, Dialect::default())
}

/// Writes a body as standard JSON with everything beyond ASCII escaped.
pub fn write_standard<T: Serialize + ?Sized>(value: &T) -> Bytes {
    serialize(value, Ascii)
}

/// Our own types always serialize; what would not is logged and sent as an empty body.
fn serialize<T: Serialize + ?Sized>(value: &T, formatter: impl Formatter) -> Bytes {
    let mut out = Vec::with_capacity(256);
    let mut serializer = Serializer::with_formatter(&mut out, formatter);
    if let Err(error) = value.serialize(&mut serializer) {
        tracing::error!(%error, "a body could not be written");
        return Bytes::new();
    }
    Bytes::from(out)
}

/// Where a key is, while it is written.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum KeyState {
    /// Not in a key.
    #[default]
    Outside,
    /// In a key that has not shown what it is.
    Start,
    /// In a key that stands bare.
    Bare,
    /// In a key that stands in quotes.
    Quoted,
}

/// serde_json hands a key over as: begin, opening quote, text or number, closing quote, end. The
/// opening quote is held back until the text shows whether it is wanted.
#[derive(Default)]
struct Dialect {
    key: KeyState,
}

impl Dialect {
    fn settle<W: ?Sized + Write>(&mut self, writer: &mut W, bare: bool) -> io::Result<()> {
        if self.key == KeyState::Start {
            self.key = if bare {
                KeyState::Bare
            } else {
                KeyState::Quoted
            };
            if !bare {
                writer.write_all(b"\"")?;
            }
        }
        Ok(())
    }
}

macro_rules! bare_numbers {
    ($($method:ident $kind:ty;)*) => {$(
        fn $method<W: ?Sized + Write>(&mut self, writer: &mut W, value: $kind) -> io::Result<()> {
            self.settle(writer, true)?;
            CompactFormatter.$method(writer, value)
        }
    )*};
}

impl Formatter for Dialect {
    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.key = KeyState::Start;
        if first {
            Ok(())
        } else {
            writer.write_all(b",")
        }
    }

    fn end_object_key<W: ?Sized + Write>(&mut self, _writer: &mut W) -> io::Result<()> {
        self.key = KeyState::Outside;
        Ok(())
    }

    fn begin_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        if self.key == KeyState::Start {
            Ok(())
        } else {
            writer.write_all(b"\"")
        }
    }

    fn end_string<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.settle(writer, false)?;
        if self.key == KeyState::Bare {
            Ok(())
        } else {
            writer.write_all(b"\"")
        }
    }

    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        self.settle(writer, fragment.starts_with('{'))?;
        writer.write_all(fragment.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.settle(writer, false)?;
        match (self.key, &escape) {
            (KeyState::Bare, CharEscape::Quote) => writer.write_all(b"\""),
            (KeyState::Bare, CharEscape::ReverseSolidus) => writer.write_all(b"\\"),
            _ => CompactFormatter.write_char_escape(writer, escape),
        }
    }

    bare_numbers! {
        write_i8 i8; write_i16 i16; write_i32 i32; write_i64 i64;
        write_u8 u8; write_u16 u16; write_u32 u32; write_u64 u64;
    }
}

/// Standard JSON, everything beyond ASCII as `\uXXXX`.
struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if fragment.is_ascii() {
            return writer.write_all(fragment.as_bytes());
        }
        for symbol in fragment.chars() {
            let mut place = [0; 2];
            if symbol.is_ascii() {
                write!(writer, "{symbol}")?;
            } else {
                for half in symbol.encode_utf16(&mut place) {
                    write!(writer, "\\u{half:04x}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bodies::{MessageQueue, QueueKey};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn standard(text: &str) -> String {
        String::from_utf8(standardize(text.as_bytes()).unwrap().into_owned()).unwrap()
    }

    #[test]
    fn quotes_bare_keys_outside_strings_only() {
        assert_eq!(
            standard(r#"{0:"a:1,b",-3 : {7:[1,{8:true}]}}"#),
            r#"{"0":"a:1,b","-3" : {"7":[1,{"8":true}]}}"#
        );
        assert_eq!(standard(r#"{"a":"{0:1}"}"#), r#"{"a":"{0:1}"}"#);
        assert_eq!(
            standard(r#"{{"brokerName":"b\"}","queueId":0}:{1:2},{"x":1}:3}"#),
            r#"{"{\"brokerName\":\"b\\\"}\",\"queueId\":0}":{"1":2},"{\"x\":1}":3}"#
        );
    }

    #[test]
    fn refuses_references_and_unbalanced_marks() {
        for text in [
            r#"{"a":{"$ref":"$.b"}}"#,
            "}",
            "[}",
            r#"{"a"#,
            "{{",
            &"[".repeat(1_000_000),
        ] {
            assert!(standardize(text.as_bytes()).is_err(), "{:.40}", text);
        }
    }

    #[test]
    fn writes_bare_keys_and_reads_them_back() {
        let queue = |id| {
            QueueKey(MessageQueue {
                broker_name: "b\"x".into(),
                queue_id: id,
                topic: "t".into(),
            })
        };
        let table: BTreeMap<QueueKey, BTreeMap<i32, String>> = [
            (
                queue(0),
                [(0, "x:\"1".to_owned()), (-1, String::new())].into(),
            ),
            (queue(1), BTreeMap::new()),
        ]
        .into();
        let text = write(&table);
        assert_eq!(
            std::str::from_utf8(&text).unwrap(),
            r#"{{"brokerName":"b\"x","queueId":0,"topic":"t"}:{-1:"",0:"x:\"1"},{"brokerName":"b\"x","queueId":1,"topic":"t"}:{}}"#
        );
        assert_eq!(
            read::<BTreeMap<QueueKey, BTreeMap<i32, String>>>(&text).unwrap(),
            table
        );
        let standard: BTreeMap<&str, BTreeMap<i32, &str>> = [("", [(0, "é😀")].into())].into();
        assert_eq!(
            &write_standard(&standard)[..],
            br#"{"":{"0":"\u00e9\ud83d\ude00"}}"#
        );
        assert_eq!(&write(&standard)[..], "{\"\":{0:\"é😀\"}}".as_bytes());
    }

    proptest! {
        #[test]
        fn never_panics_and_leaves_standard_json_alone(text in r#"[{}\[\]",:\\ 0a$ref-]{0,60}"#) {
            if let Ok(out) = standardize(text.as_bytes())
                && serde_json::from_str::<serde_json::Value>(&text).is_ok()
            {
                prop_assert_eq!(&out[..], text.as_bytes());
            }
            let _ = read::<serde_json::Value>(text.as_bytes());
        }
    }
}
