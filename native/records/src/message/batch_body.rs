//! The body of SEND_BATCH_MESSAGE: many messages for one queue in one request.

use super::{MessageError, corrupt};
use crate::cursor::Cursor;

/// One item of a SEND_BATCH_MESSAGE body. Everything else comes from the request's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchItem<'a> {
    /// The application's flag.
    pub flag: i32,
    /// The body; never compressed by known clients.
    pub body: &'a [u8],
    /// Property text.
    pub properties: &'a [u8],
}

/// The items of a SEND_BATCH_MESSAGE body (`MessageDecoder.encodeMessages`). Ends after the first
/// broken one.
#[must_use]
pub fn batch_items(body: &[u8]) -> BatchItems<'_> {
    BatchItems { rest: body }
}

/// See [`batch_items`].
#[derive(Clone, Debug)]
pub struct BatchItems<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for BatchItems<'a> {
    type Item = Result<BatchItem<'a>, MessageError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let mut cursor = Cursor::new(self.rest);
        let item = batch_item(&mut cursor);
        self.rest = if item.is_some() { cursor.rest() } else { &[] };
        Some(item.ok_or_else(|| corrupt("batch item does not fit its length")))
    }
}

fn batch_item<'a>(cursor: &mut Cursor<'a>) -> Option<BatchItem<'a>> {
    let total = usize::try_from(cursor.i32()?).ok()?;
    let mut c = Cursor::new(cursor.take(total.checked_sub(4)?)?);
    c.take(8)?; // magic and CRC: zero, ignored
    let flag = c.i32()?;
    let length = usize::try_from(c.i32()?).ok()?;
    let body = c.take(length)?;
    let length = usize::try_from(c.i16()?).ok()?;
    let properties = c.take(length)?;
    c.rest().is_empty().then_some(BatchItem {
        flag,
        body,
        properties,
    })
}
