//! Refuses requests that claim more than they bring, before a decoder believes them.
//!
//! kafka-protocol's decoders reserve room for as many array elements as the wire claims: a frame of
//! ten bytes can ask for terabytes, which aborts the process. This walk follows the request's schema
//! over the bytes that are there: each count, length and known tagged field must fit, and elements
//! and tagged fields together must stay below a limit, because thousands of empty ones cost far more
//! decoded than on the wire. It allocates nothing and copies nothing.

mod schema;
#[cfg(test)]
mod tests;

use crate::error::Close;

/// Open end of a field's versions.
const MAX: i16 = i16::MAX;

/// A field's layout on the wire.
#[derive(Clone, Copy, Debug)]
enum Kind {
    F1,
    F2,
    F4,
    F8,
    F16,
    /// Length-prefixed text: i16, in flexible versions a varint of length + 1.
    Str,
    /// Length-prefixed bytes: i32, in flexible versions a varint of length + 1.
    Blob,
    /// Count-prefixed: i32, in flexible versions a varint of count + 1.
    Array(&'static Kind),
    Struct(&'static Fields),
    /// A nullable structure: behind a byte that is 1 where there is one.
    Maybe(&'static Fields),
}

/// A field or, with a tag, a tagged field of flexible versions.
#[derive(Clone, Copy, Debug)]
struct Field {
    name: &'static str,
    from: i16,
    to: i16,
    tag: Option<u32>,
    kind: Kind,
}

/// The fields of a structure, in wire order.
#[derive(Clone, Copy, Debug)]
struct Fields(&'static [Field]);

/// One API's request.
#[derive(Clone, Copy, Debug)]
struct Schema {
    flexible_from: i16,
    fields: &'static Fields,
}

const fn f(name: &'static str, from: i16, to: i16, kind: Kind) -> Field {
    Field {
        name,
        from,
        to,
        tag: None,
        kind,
    }
}

const fn t(tag: u32, from: i16, kind: Kind) -> Field {
    Field {
        name: "tagged field",
        from,
        to: MAX,
        tag: Some(tag),
        kind,
    }
}

/// The first version of an API with compact lengths and tagged fields; its request header is v2.
pub(crate) fn flexible_from(key: i16) -> i16 {
    schema::of(key).map_or(i16::MAX, |schema| schema.flexible_from)
}

/// Checks a request's body (what follows the header). Returns how many bytes the body takes; more
/// may follow.
///
/// # Errors
/// A count, length or tagged field that the bytes do not bear out, or too many elements.
pub(crate) fn check(
    key: i16,
    version: i16,
    body: &[u8],
    elements_max: u32,
) -> Result<usize, Close> {
    let Some(schema) = schema::of(key) else {
        return Err(Close::because(format!("no request of kind {key} is known")));
    };
    let mut walk = Walk {
        rest: body,
        version,
        flexible: version >= schema.flexible_from,
        elements: elements_max,
    };
    walk.fields(schema.fields)?;
    Ok(body.len() - walk.rest.len())
}

/// Skips the tagged fields of a request header and returns what they take.
pub(crate) fn header_tags(bytes: &[u8], elements_max: u32) -> Result<usize, Close> {
    let mut walk = Walk {
        rest: bytes,
        version: 0,
        flexible: true,
        elements: elements_max,
    };
    walk.tags(&Fields(&[]))?;
    Ok(bytes.len() - walk.rest.len())
}

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
    elements: u32,
}

impl Walk<'_> {
    fn skip(&mut self, bytes: usize, name: &str) -> Result<(), Close> {
        if bytes > self.rest.len() {
            return Err(Close::because(format!(
                "{name} claims {bytes} bytes where {} are left",
                self.rest.len()
            )));
        }
        self.rest = &self.rest[bytes..];
        Ok(())
    }

    fn take<const N: usize>(&mut self, name: &str) -> Result<[u8; N], Close> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(Close::because(format!("the request ends inside {name}"))),
        }
    }

    /// An unsigned varint of at most five bytes, as the decoder reads it.
    fn varint(&mut self, name: &str) -> Result<u32, Close> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.take::<1>(name)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Ok(value)
    }

    /// A length or count; `None` is null. `wide`: i32 in the old form, else i16.
    fn length(&mut self, name: &str, wide: bool) -> Result<Option<usize>, Close> {
        if self.flexible {
            let value = self.varint(name)?;
            return Ok(value.checked_sub(1).map(|length| length as usize));
        }
        let value = if wide {
            i32::from_be_bytes(self.take(name)?)
        } else {
            i32::from(i16::from_be_bytes(self.take(name)?))
        };
        match usize::try_from(value) {
            Ok(length) => Ok(Some(length)),
            Err(_) if value == -1 => Ok(None),
            Err(_) => Err(Close::because(format!("{name} has length {value}"))),
        }
    }

    fn spend(&mut self, elements: usize, name: &str) -> Result<(), Close> {
        match u32::try_from(elements)
            .ok()
            .and_then(|count| self.elements.checked_sub(count))
        {
            Some(left) => {
                self.elements = left;
                Ok(())
            }
            None => Err(Close::because(format!(
                "{name} brings the request above kafka.request_elements_max"
            ))),
        }
    }

    fn kind(&mut self, kind: &Kind, name: &str) -> Result<(), Close> {
        match kind {
            Kind::F1 => self.skip(1, name),
            Kind::F2 => self.skip(2, name),
            Kind::F4 => self.skip(4, name),
            Kind::F8 => self.skip(8, name),
            Kind::F16 => self.skip(16, name),
            Kind::Str => match self.length(name, false)? {
                Some(length) => self.skip(length, name),
                None => Ok(()),
            },
            Kind::Blob => match self.length(name, true)? {
                Some(length) => self.skip(length, name),
                None => Ok(()),
            },
            Kind::Array(element) => {
                let Some(count) = self.length(name, true)? else {
                    return Ok(());
                };
                // Every element takes a byte at least.
                if count > self.rest.len() {
                    return Err(Close::because(format!(
                        "{name} claims {count} elements where {} bytes are left",
                        self.rest.len()
                    )));
                }
                self.spend(count, name)?;
                for _ in 0..count {
                    self.kind(element, name)?;
                }
                Ok(())
            }
            Kind::Struct(fields) => self.fields(fields),
            Kind::Maybe(fields) => match self.take::<1>(name)? {
                // As the decoder reads it.
                [1] => self.fields(fields),
                _ => Ok(()),
            },
        }
    }

    fn fields(&mut self, fields: &Fields) -> Result<(), Close> {
        for field in fields.0 {
            if field.tag.is_none() && (field.from..=field.to).contains(&self.version) {
                self.kind(&field.kind, field.name)?;
            }
        }
        if self.flexible {
            self.tags(fields)
        } else {
            Ok(())
        }
    }

    fn tags(&mut self, fields: &Fields) -> Result<(), Close> {
        let count = self.varint("tagged fields")? as usize;
        self.spend(count, "a count of tagged fields")?;
        for _ in 0..count {
            let tag = self.varint("a tag")?;
            let size = self.varint("a tagged field's size")? as usize;
            let known = fields.0.iter().find(|field| field.tag == Some(tag));
            let Some(field) = known else {
                self.skip(size, "a tagged field")?;
                continue;
            };
            // The decoder reads a known field by its type, whatever size is claimed.
            let before = self.rest.len();
            self.kind(&field.kind, field.name)?;
            if before - self.rest.len() != size {
                return Err(Close::because(format!(
                    "tagged field {tag} of {size} bytes takes {}",
                    before - self.rest.len()
                )));
            }
        }
        Ok(())
    }
}
