//! The records of a stored batch, read in place.

use super::{BatchError, HEADER_SIZE, Header, LOG_APPEND_TIME, corrupt};
use crate::compression::{Codec, decompress};
use crate::cursor::Cursor;
use std::borrow::Cow;

/// A batch whose records lie unpacked in memory.
#[derive(Clone, Debug)]
pub struct Opened<'a> {
    header: Header,
    records: Cow<'a, [u8]>,
}

/// Opens the batch at the front of `batch`; bytes after it are not looked at. The CRC is not checked
/// ([`super::crc_is_right`]).
///
/// # Errors
/// `Corrupt`, `Magic`, `Codec`; `TooBig` when more than `decompressed_max` bytes come out.
pub fn open(batch: &[u8], decompressed_max: u64) -> Result<Opened<'_>, BatchError> {
    let header = Header::decode(batch)?;
    let records = batch
        .get(HEADER_SIZE..header.size())
        .ok_or_else(|| corrupt("length past the end"))?;
    if header.count < 0 {
        return Err(corrupt("negative count"));
    }
    let records = match header.codec()? {
        Codec::None => Cow::Borrowed(records),
        _ if header.count == 0 => Cow::Borrowed(&[][..]),
        codec => Cow::Owned(decompress(codec, records, decompressed_max)?),
    };
    Ok(Opened { header, records })
}

impl Opened<'_> {
    /// The batch's header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Its records, in order. Ends after the first broken one.
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records {
            header: self.header,
            cursor: Cursor::new(&self.records),
            left: self.header.count,
        }
    }
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Its offset minus the batch's base offset.
    pub offset_delta: u32,
    /// Its time in ms; the time of appending where the batch says so.
    pub timestamp: i64,
    /// Key.
    pub key: Option<&'a [u8]>,
    /// Value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// Headers: ordered, repeats allowed.
    pub headers: Headers<'a>,
}

/// See [`Opened::records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    header: Header,
    cursor: Cursor<'a>,
    left: i32,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left <= 0 {
            if self.left == 0 && !self.cursor.rest().is_empty() {
                self.left = -1;
                return Some(Err(corrupt("bytes after the last record")));
            }
            return None;
        }
        self.left -= 1;
        let record = record(&mut self.cursor, &self.header);
        if record.is_none() {
            self.left = -1;
        }
        Some(record.ok_or_else(|| corrupt("record does not fit its length")))
    }
}

fn record<'a>(cursor: &mut Cursor<'a>, header: &Header) -> Option<Record<'a>> {
    let length = usize::try_from(cursor.varint()?).ok()?;
    let mut c = Cursor::new(cursor.take(length)?);
    c.u8()?; // attributes: unused
    let delta = c.varlong()?;
    let offset_delta = c.varint()?;
    if offset_delta > header.last_offset_delta {
        return None;
    }
    let key = c.nullable()?;
    let value = c.nullable()?;
    let left = u32::try_from(c.varint()?).ok()?;
    let headers = Headers {
        rest: c.rest(),
        left,
    };
    for _ in 0..left {
        header_pair(&mut c)?;
    }
    c.rest().is_empty().then_some(())?;
    Some(Record {
        offset_delta: u32::try_from(offset_delta).ok()?,
        // Wraps as Java's does, so that any two times can stand in one batch.
        timestamp: if header.has(LOG_APPEND_TIME) {
            header.max_timestamp
        } else {
            header.base_timestamp.wrapping_add(delta)
        },
        key,
        value,
        headers,
    })
}

fn header_pair<'a>(c: &mut Cursor<'a>) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let length = usize::try_from(c.varint()?).ok()?;
    Some((c.take(length)?, c.nullable()?))
}

/// A record's headers: name and value, in order. Checked when the record was read.
#[derive(Clone, Debug, Default)]
pub struct Headers<'a> {
    rest: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut cursor = Cursor::new(self.rest);
        let pair = header_pair(&mut cursor);
        self.rest = cursor.rest();
        pair
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Headers<'_> {}
