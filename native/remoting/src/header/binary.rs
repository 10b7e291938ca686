//! The binary header (type 1), Java's `RocketMQSerializable`: 21 fixed bytes, remark, fields.
//!
//! Its quirks: the code has 16 bits, so the POP family arrives cut off and is mapped back; an empty
//! value means the field is absent; names may repeat.

use crate::{Command, FrameError, Language, command::Fields};
use bytes::{BufMut, Bytes};
use std::borrow::Cow;

/// What sixteen bits leave of a POP request code is the code minus this.
const CUT_OFF: i32 = 196_608;

/// The POP family: 200050 to 200056 and 200151.
fn widen(code: i16, response: bool) -> i32 {
    match code {
        3442..=3448 | 3543 if !response => i32::from(code) + CUT_OFF,
        _ => i32::from(code),
    }
}

/// Codes beyond sixteen bits are cut as Java cuts them.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the wire has sixteen bits, Java cuts the same way"
)]
fn narrow(number: i32) -> i16 {
    number as i16
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], FrameError> {
        let found = self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.first_chunk::<N>());
        let found = *found.ok_or(FrameError::Header {
            reason: "cut short",
            at: self.at,
        })?;
        self.at += N;
        Ok(found)
    }

    /// A length of 4 bytes and the range that follows.
    fn range(&mut self) -> Result<(usize, usize), FrameError> {
        let at = self.at;
        let len = i32::from_be_bytes(self.array()?);
        self.take(usize::try_from(len).ok(), at)
    }

    /// A length of 2 bytes and the range that follows.
    fn short_range(&mut self) -> Result<(usize, usize), FrameError> {
        let at = self.at;
        let len = i16::from_be_bytes(self.array()?);
        self.take(usize::try_from(len).ok(), at)
    }

    fn take(&mut self, len: Option<usize>, at: usize) -> Result<(usize, usize), FrameError> {
        let start = self.at;
        let end = len
            .and_then(|len| start.checked_add(len))
            .filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(FrameError::Header {
            reason: "a length beyond the header",
            at,
        })?;
        self.at = end;
        Ok((start, end))
    }
}

fn text(bytes: &[u8], (start, end): (usize, usize)) -> Result<&str, FrameError> {
    std::str::from_utf8(&bytes[start..end]).map_err(|_| FrameError::Header {
        reason: "not UTF-8",
        at: start,
    })
}

pub(super) fn decode(header: &Bytes) -> Result<Command, FrameError> {
    let mut reader = Reader {
        bytes: header,
        at: 0,
    };
    let code = i16::from_be_bytes(reader.array()?);
    let [language] = reader.array()?;
    let version = i16::from_be_bytes(reader.array()?);
    let opaque = i32::from_be_bytes(reader.array()?);
    let flag = i32::from_be_bytes(reader.array()?);
    let remark = reader.range()?;
    let remark = text(header, remark)?;
    let remark = (!remark.is_empty()).then(|| Cow::Owned(remark.to_owned()));
    // Some peers end the header after the remark when there are no fields.
    let (start, end) = if reader.at == header.len() {
        (reader.at, reader.at)
    } else {
        reader.range()?
    };
    let mut fields = Fields::new();
    let mut reader = Reader {
        bytes: &header[..end],
        at: start,
    };
    while reader.at < end {
        let key = reader.short_range()?;
        let value = reader.range()?;
        let (name, value) = (text(header, key)?, text(header, value)?);
        if !value.is_empty() && !fields.push_text(name, value) {
            return Err(FrameError::Header {
                reason: "too many fields",
                at: key.0,
            });
        }
    }
    Ok(Command {
        code: widen(code, flag & 1 != 0),
        language: Language::from_number(language),
        version: i32::from(version),
        opaque,
        flag,
        remark,
        fields,
        ..Command::default()
    })
}

pub(super) fn encode(command: &Command, out: &mut Vec<u8>) {
    out.put_i16(narrow(command.code));
    out.put_u8(command.language.number());
    out.put_i16(narrow(command.version));
    out.put_i32(command.opaque);
    out.put_i32(command.flag);
    let remark = command.remark.as_deref().unwrap_or_default();
    put_long(out, remark);
    let start = out.len();
    out.put_u32(0);
    for (key, value) in command.fields.iter() {
        let Ok(key_len) = i16::try_from(key.len()) else {
            continue;
        };
        if value.is_empty() {
            continue;
        }
        out.put_i16(key_len);
        out.put_slice(key.as_bytes());
        put_long(out, value);
    }
    let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(start..start + 4) {
        place.copy_from_slice(&len.to_be_bytes());
    }
}

fn put_long(out: &mut Vec<u8>, text: &str) {
    out.put_u32(u32::try_from(text.len()).unwrap_or(u32::MAX));
    out.put_slice(text.as_bytes());
}
