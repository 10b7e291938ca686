//! The field types of Kafka's message schemas, classic and flexible (KIP-482).

use super::InternalError;
use crate::cursor::Cursor;

/// Reads fields; `None` when they do not fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct In<'a> {
    cursor: Cursor<'a>,
    /// Compact lengths and tagged fields.
    pub(super) flexible: bool,
}

impl<'a> In<'a> {
    pub(super) fn new(bytes: &'a [u8], flexible: bool) -> Self {
        Self {
            cursor: Cursor::new(bytes),
            flexible,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cursor.rest().is_empty()
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.cursor.u8()
    }

    pub(super) fn i16(&mut self) -> Option<i16> {
        self.cursor.i16()
    }

    pub(super) fn i32(&mut self) -> Option<i32> {
        self.cursor.i32()
    }

    pub(super) fn i64(&mut self) -> Option<i64> {
        self.cursor.i64()
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.cursor.array()
    }

    /// A compact length: one more than it says, 0 being null.
    fn compact(&mut self) -> Option<Option<usize>> {
        let n = self.cursor.uvarint()?;
        Some(n.checked_sub(1).map(|n| n as usize))
    }

    pub(super) fn nullable_string(&mut self) -> Option<Option<String>> {
        let length = if self.flexible {
            self.compact()?
        } else {
            length(i32::from(self.i16()?))?
        };
        let Some(length) = length else {
            return Some(None);
        };
        let text = std::str::from_utf8(self.cursor.take(length)?).ok()?;
        Some(Some(text.to_owned()))
    }

    pub(super) fn string(&mut self) -> Option<String> {
        self.nullable_string()?
    }

    pub(super) fn blob(&mut self) -> Option<&'a [u8]> {
        let length = if self.flexible {
            self.compact()?
        } else {
            length(self.i32()?)?
        };
        self.cursor.take(length?)
    }

    /// An array's count, refused when the bytes left cannot hold that many elements of `least` bytes
    /// each.
    pub(super) fn nullable_count(&mut self, least: usize) -> Option<Option<usize>> {
        let count = if self.flexible {
            self.compact()?
        } else {
            length(self.i32()?)?
        };
        if count.is_some_and(|count| count > self.cursor.rest().len() / least) {
            return None;
        }
        Some(count)
    }

    pub(super) fn count(&mut self, least: usize) -> Option<usize> {
        self.nullable_count(least)?
    }

    /// Tagged fields at the end of a flexible structure; nothing in a classic one.
    pub(super) fn tags(&mut self, mut each: impl FnMut(u32, In<'a>) -> Option<()>) -> Option<()> {
        if !self.flexible {
            return Some(());
        }
        for _ in 0..self.cursor.uvarint()? {
            let tag = self.cursor.uvarint()?;
            let size = self.cursor.uvarint()? as usize;
            each(tag, In::new(self.cursor.take(size)?, true))?;
        }
        Some(())
    }
}

/// −1 is null; anything else below 0 is broken.
fn length(n: i32) -> Option<Option<usize>> {
    match n {
        -1 => Some(None),
        n => usize::try_from(n).ok().map(Some),
    }
}

/// Writes classic fields behind a version.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) bytes: Vec<u8>,
}

impl Out {
    pub(super) fn new(version: i16, room: usize) -> Self {
        let mut out = Self {
            bytes: Vec::with_capacity(room),
        };
        out.i16(version);
        out
    }

    pub(super) fn i16(&mut self, n: i16) {
        self.bytes.extend_from_slice(&n.to_be_bytes());
    }

    pub(super) fn i32(&mut self, n: i32) {
        self.bytes.extend_from_slice(&n.to_be_bytes());
    }

    pub(super) fn i64(&mut self, n: i64) {
        self.bytes.extend_from_slice(&n.to_be_bytes());
    }

    pub(super) fn string(&mut self, what: &'static str, text: &str) -> Result<(), InternalError> {
        let length = i16::try_from(text.len()).map_err(|_| InternalError::TooLong(what))?;
        self.i16(length);
        self.bytes.extend_from_slice(text.as_bytes());
        Ok(())
    }

    pub(super) fn nullable_string(
        &mut self,
        what: &'static str,
        text: Option<&str>,
    ) -> Result<(), InternalError> {
        match text {
            Some(text) => self.string(what, text),
            None => {
                self.i16(-1);
                Ok(())
            }
        }
    }

    pub(super) fn count(&mut self, what: &'static str, n: usize) -> Result<(), InternalError> {
        self.i32(i32::try_from(n).map_err(|_| InternalError::TooLong(what))?);
        Ok(())
    }

    pub(super) fn blob(&mut self, what: &'static str, bytes: &[u8]) -> Result<(), InternalError> {
        self.count(what, bytes.len())?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}
