//! Bytes of snapshots: big-endian numbers, and text with a length before it.

/// Reads what [`Put`] wrote; every read is checked.
#[derive(Debug)]
pub(crate) struct Take<'a>(&'a [u8]);

/// The bytes end before what they claim to hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Short;

impl std::fmt::Display for Short {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ends too early")
    }
}

impl<'a> Take<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Short> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Short)?;
        self.0 = rest;
        Ok(taken)
    }
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        self.bytes(N)?.try_into().map_err(|_| Short)
    }
    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        Ok(u8::from_be_bytes(self.array()?))
    }
    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_be_bytes(self.array()?))
    }
    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_be_bytes(self.array()?))
    }
    pub(crate) fn i32(&mut self) -> Result<i32, Short> {
        Ok(i32::from_be_bytes(self.array()?))
    }
    pub(crate) fn i64(&mut self) -> Result<i64, Short> {
        Ok(i64::from_be_bytes(self.array()?))
    }
    pub(crate) fn blob(&mut self) -> Result<&'a [u8], Short> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).map_err(|_| Short)?)
    }
    pub(crate) fn text(&mut self) -> Result<&'a str, Short> {
        std::str::from_utf8(self.blob()?).map_err(|_| Short)
    }
}

/// Appends to a vector what [`Take`] reads.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);
    fn put_blob(&mut self, bytes: &[u8]) {
        // Nothing kept in a state machine comes near 4 GiB: frames are limited far below.
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.put(&length.to_be_bytes());
        self.put(bytes);
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_back_and_every_cut_is_noticed() {
        let mut bytes = Vec::new();
        bytes.put(&[7]);
        bytes.put(&9_u64.to_be_bytes());
        bytes.put_blob("grüße".as_bytes());
        let read = |bytes: &[u8]| -> Result<(u8, u64, String), Short> {
            let mut take = Take::new(bytes);
            Ok((take.u8()?, take.u64()?, take.text()?.to_owned()))
        };
        assert_eq!(read(&bytes), Ok((7, 9, "grüße".to_owned())));
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Err(Short), "{cut}");
        }
    }
}
