//! Reads big-endian fields from the front of a slice. Never reads past its end; never panics.

/// A position in a slice; each reader takes bytes from the front or returns `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(head)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[b]| b)
    }

    #[inline]
    pub(crate) fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    #[inline]
    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// An unsigned LEB128 number of at most 5 bytes that fits 32 bits.
    #[inline]
    pub(crate) fn uvarint(&mut self) -> Option<u32> {
        let (&first, rest) = self.rest.split_first()?;
        if first < 0x80 {
            self.rest = rest;
            return Some(u32::from(first));
        }
        let mut value = 0u32;
        for i in 0..5 {
            let byte = self.u8()?;
            if i == 4 && byte > 0x0F {
                return None;
            }
            value |= u32::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    /// A zig-zag varint (Kafka's `varint`).
    #[inline]
    pub(crate) fn varint(&mut self) -> Option<i32> {
        self.uvarint().map(unzigzag32)
    }

    /// A zig-zag varlong (Kafka's `varlong`), at most 10 bytes.
    #[inline]
    pub(crate) fn varlong(&mut self) -> Option<i64> {
        let mut value = 0u64;
        for i in 0..10 {
            let byte = self.u8()?;
            if i == 9 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7F) << (7 * i);
            if byte < 0x80 {
                return Some(unzigzag64(value));
            }
        }
        None
    }

    /// Bytes behind a varint length; −1 is null. `None` outside means broken.
    #[inline]
    pub(crate) fn nullable(&mut self) -> Option<Option<&'a [u8]>> {
        match self.varint()? {
            -1 => Some(None),
            n => self.take(usize::try_from(n).ok()?).map(Some),
        }
    }
}

#[inline]
pub(crate) fn unzigzag32(n: u32) -> i32 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

#[inline]
pub(crate) fn unzigzag64(n: u64) -> i64 {
    (n >> 1).cast_signed() ^ -(n & 1).cast_signed()
}

/// Appends an unsigned LEB128 number.
pub(crate) fn put_uvarlong(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push(n.to_le_bytes()[0] | 0x80);
        n >>= 7;
    }
    out.push(n.to_le_bytes()[0]);
}

/// Appends a zig-zag varint or varlong (their bytes are the same for the same number).
pub(crate) fn put_varlong(out: &mut Vec<u8>, n: i64) {
    put_uvarlong(out, zigzag(n));
}

/// Bytes that [`put_varlong`] would write.
pub(crate) fn varlong_len(n: i64) -> usize {
    let bits = 64 - zigzag(n).leading_zeros() as usize;
    bits.div_ceil(7).max(1)
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn varlong_round_trip(n: i64) {
            let mut out = Vec::new();
            put_varlong(&mut out, n);
            prop_assert_eq!(out.len(), varlong_len(n));
            let mut cursor = Cursor::new(&out);
            prop_assert_eq!(cursor.varlong(), Some(n));
            prop_assert!(cursor.rest().is_empty());
        }

        #[test]
        fn varint_round_trip(n: i32) {
            let mut out = Vec::new();
            put_varlong(&mut out, i64::from(n));
            prop_assert_eq!(Cursor::new(&out).varint(), Some(n));
        }
    }

    #[test]
    fn overlong_numbers_are_refused() {
        assert_eq!(Cursor::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0x1F]).varint(), None);
        assert_eq!(Cursor::new(&[0x80; 11]).varlong(), None);
        assert_eq!(Cursor::new(&[0x80]).varint(), None);
    }
}
