//! Where the walk takes a batch's records from: plain bytes, or compressed ones that are unpacked into
//! one small buffer again and again. Neither believes a length before the bytes are there.

use super::{BatchError, corrupt};
use crate::compression::Unpacker;
use crate::cursor::{Cursor, unzigzag32, unzigzag64};

/// Where the records' bytes come from.
pub(super) trait Source {
    /// Bytes taken so far.
    fn taken(&self) -> u64;
    fn at_end(&mut self) -> Result<bool, BatchError>;
    fn byte(&mut self) -> Result<u8, BatchError>;
    fn skip(&mut self, n: u64) -> Result<(), BatchError>;
    /// The next `n` bytes, at most [`crate::properties::TAG_MAX`].
    fn small(&mut self, n: usize) -> Result<&[u8], BatchError>;
    /// Refuses a length that cannot be there, where that is known.
    fn must_hold(&self, n: u64) -> Result<(), BatchError>;
    fn varint(&mut self) -> Result<i32, BatchError>;
    fn varlong(&mut self) -> Result<i64, BatchError>;
}

/// Plain records in memory.
pub(super) struct Slice<'a> {
    cursor: Cursor<'a>,
    size: usize,
}

impl<'a> Slice<'a> {
    pub(super) fn new(records: &'a [u8]) -> Self {
        Self {
            cursor: Cursor::new(records),
            size: records.len(),
        }
    }
}

impl Source for Slice<'_> {
    #[inline]
    fn taken(&self) -> u64 {
        (self.size - self.cursor.rest().len()) as u64
    }
    #[inline]
    fn at_end(&mut self) -> Result<bool, BatchError> {
        Ok(self.cursor.rest().is_empty())
    }
    #[inline]
    fn byte(&mut self) -> Result<u8, BatchError> {
        self.cursor.u8().ok_or_else(|| corrupt("records end early"))
    }
    #[inline]
    fn skip(&mut self, n: u64) -> Result<(), BatchError> {
        let n = usize::try_from(n).map_err(|_| corrupt("length past the end"))?;
        self.small(n).map(|_| ())
    }
    #[inline]
    fn small(&mut self, n: usize) -> Result<&[u8], BatchError> {
        self.cursor
            .take(n)
            .ok_or_else(|| corrupt("length past the end"))
    }
    #[inline]
    fn must_hold(&self, n: u64) -> Result<(), BatchError> {
        if n > self.cursor.rest().len() as u64 {
            return Err(corrupt("record length past the end"));
        }
        Ok(())
    }
    #[inline]
    fn varint(&mut self) -> Result<i32, BatchError> {
        self.cursor.varint().ok_or_else(|| corrupt("broken varint"))
    }
    #[inline]
    fn varlong(&mut self) -> Result<i64, BatchError> {
        self.cursor
            .varlong()
            .ok_or_else(|| corrupt("broken varint"))
    }
}

/// Compressed records, unpacked into one small buffer again and again.
pub(super) struct Stream<'a> {
    unpacker: Unpacker<'a>,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    taken: u64,
}

impl<'a> Stream<'a> {
    pub(super) fn new(unpacker: Unpacker<'a>) -> Self {
        const PIECE: usize = 16 * 1024;
        Self {
            unpacker,
            buffer: vec![0; PIECE].into_boxed_slice(),
            at: 0,
            end: 0,
            taken: 0,
        }
    }

    /// Makes `n` bytes (at most [`crate::properties::TAG_MAX`]) lie in the buffer; false when the input ends before.
    fn fill(&mut self, n: usize) -> Result<bool, BatchError> {
        while self.end - self.at < n {
            if self.at > 0 {
                self.buffer.copy_within(self.at..self.end, 0);
                self.end -= self.at;
                self.at = 0;
            }
            match self.unpacker.read(&mut self.buffer[self.end..])? {
                0 => return Ok(false),
                more => self.end += more,
            }
        }
        Ok(true)
    }

    fn raw(&mut self, bytes_max: usize) -> Result<u64, BatchError> {
        let mut value = 0u64;
        for i in 0..bytes_max {
            let byte = self.byte()?;
            let room = if bytes_max == 5 { 0x0F } else { 1 };
            if i == bytes_max - 1 && byte > room {
                break;
            }
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(corrupt("broken varint"))
    }
}

impl Source for Stream<'_> {
    fn taken(&self) -> u64 {
        self.taken
    }
    fn at_end(&mut self) -> Result<bool, BatchError> {
        Ok(!self.fill(1)?)
    }
    #[inline]
    fn byte(&mut self) -> Result<u8, BatchError> {
        if self.at == self.end && !self.fill(1)? {
            return Err(corrupt("records end early"));
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        self.taken += 1;
        Ok(byte)
    }
    fn skip(&mut self, n: u64) -> Result<(), BatchError> {
        let mut left = n;
        while left > 0 {
            if !self.fill(1)? {
                return Err(corrupt("records end early"));
            }
            let here = (self.end - self.at).min(usize::try_from(left).unwrap_or(usize::MAX));
            self.at += here;
            left -= here as u64;
        }
        self.taken += n;
        Ok(())
    }
    fn small(&mut self, n: usize) -> Result<&[u8], BatchError> {
        if !self.fill(n)? {
            return Err(corrupt("records end early"));
        }
        let small = &self.buffer[self.at..self.at + n];
        self.at += n;
        self.taken += n as u64;
        Ok(small)
    }
    fn must_hold(&self, _: u64) -> Result<(), BatchError> {
        Ok(())
    }
    fn varint(&mut self) -> Result<i32, BatchError> {
        let raw = u32::try_from(self.raw(5)?).map_err(|_| corrupt("broken varint"))?;
        Ok(unzigzag32(raw))
    }
    fn varlong(&mut self) -> Result<i64, BatchError> {
        Ok(unzigzag64(self.raw(10)?))
    }
}
