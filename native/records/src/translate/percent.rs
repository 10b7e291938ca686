//! Percent-encoding of bytes into property text: printable ASCII stays, but for `%`, `,`, `:`, `=`.

const HEX: &[u8; 16] = b"0123456789ABCDEF";

fn stays(byte: u8) -> bool {
    (b'!'..=b'~').contains(&byte) && !matches!(byte, b'%' | b',' | b':' | b'=')
}

/// Bytes that [`encode`] appends.
pub(super) fn len(bytes: &[u8]) -> usize {
    bytes.iter().map(|&b| if stays(b) { 1 } else { 3 }).sum()
}

pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        if stays(byte) {
            out.push(byte);
        } else {
            out.push(b'%');
            out.push(HEX[usize::from(byte >> 4)]);
            out.push(HEX[usize::from(byte & 15)]);
        }
    }
}

/// `None` for anything [`encode`] does not write.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| {
        let at = HEX.iter().position(|&h| h == b)?;
        u8::try_from(at).ok()
    };
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if stays(byte) {
            out.push(byte);
            continue;
        }
        let (&[high, low], after) = rest.split_first_chunk::<2>()?;
        if byte != b'%' {
            return None;
        }
        out.push(digit(high)? << 4 | digit(low)?);
        rest = after;
    }
    Some(out)
}
