//! The escapes of JSON strings, both ways.

use memchr::memchr;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;
/// Bytes that [`Marks`] looks at in one step.
const BLOCK: usize = 64;

/// Marks, in the high bits, the bytes of `word` that equal `byte`.
fn equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(byte));
    !((differs & !HIGHS).wrapping_add(!HIGHS) | differs) & HIGHS
}

/// Finds the quotes and backslashes of a text, 64 bytes in one step: this is where a header's time goes.
pub(crate) struct Marks<'a> {
    bytes: &'a [u8],
    /// The block that `mask` is of.
    start: usize,
    /// A bit for each mark of the block.
    mask: u64,
}

impl<'a> Marks<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            start: 0,
            mask: marks(bytes, 0),
        }
    }

    /// The first mark at `from` or behind it, if it is in the block that was looked at last.
    #[inline]
    pub(crate) fn near(&self, from: usize) -> Option<usize> {
        let mask = self.mask >> (from % BLOCK);
        (mask != 0 && from - from % BLOCK == self.start)
            .then(|| from + mask.trailing_zeros() as usize)
    }

    /// The first mark at `from` or behind it.
    pub(crate) fn next(&mut self, from: usize) -> Option<usize> {
        let block = from - from % BLOCK;
        if block != self.start {
            self.start = block;
            self.mask = marks(self.bytes, block);
        }
        let mut mask = self.mask & (u64::MAX << (from % BLOCK));
        while mask == 0 {
            if self.start + BLOCK >= self.bytes.len() {
                return None;
            }
            self.start += BLOCK;
            self.mask = marks(self.bytes, self.start);
            mask = self.mask;
        }
        Some(self.start + mask.trailing_zeros() as usize)
    }
}

/// A bit for each quote or backslash of the block at `start`.
fn marks(bytes: &[u8], start: usize) -> u64 {
    /// Gathers the high bits of a word's bytes.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let rest = bytes.get(start..).unwrap_or_default();
    let mut padded = [0; BLOCK];
    let block = rest.first_chunk::<BLOCK>().unwrap_or_else(|| {
        padded[..rest.len()].copy_from_slice(rest);
        &padded
    });
    let mut mask = 0;
    for word in block.as_chunks::<8>().0.iter().rev() {
        let word = u64::from_le_bytes(*word);
        let found = equal(word, b'"') | equal(word, b'\\');
        mask = mask << 8 | (found >> 7).wrapping_mul(GATHER) >> 56;
    }
    mask
}

/// Whether no byte of a word is a quote, a backslash or below 0x20.
fn clean(word: [u8; 8]) -> bool {
    let word = u64::from_le_bytes(word);
    // A byte above one below 0x20 may be marked wrongly; that one is marked anyway.
    let controls = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
    equal(word, b'"') | equal(word, b'\\') | controls == 0
}

/// Whether a text may stand in a JSON string as it is.
fn stands(bytes: &[u8]) -> bool {
    match bytes.last_chunk::<8>() {
        Some(last) => bytes.as_chunks::<8>().0.iter().all(|word| clean(*word)) && clean(*last),
        None => !bytes.iter().any(|byte| special(*byte)),
    }
}

fn special(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | 0..0x20)
}

/// Undoes JSON's escapes. Half surrogates become U+FFFD, unknown escapes stand for themselves.
pub(crate) fn unescape(raw: &str, out: &mut String) {
    out.reserve(raw.len());
    let mut rest = raw;
    while let Some(clean) = memchr(b'\\', rest.as_bytes()) {
        let (before, escape) = rest.split_at(clean);
        out.push_str(before);
        rest = &escape[1..];
        if let [b'u', b'0', b'0', high @ b'0'..=b'7', low, ..] = rest.as_bytes()
            && let Some(low) = char::from(*low).to_digit(16)
        {
            // The separators of properties come so, a dozen in a message.
            let symbol = u32::from(high - b'0') << 4 | low;
            out.push(char::from_u32(symbol).unwrap_or_default());
            rest = &rest[5..];
            continue;
        }
        let mut symbols = rest.chars();
        match symbols.next() {
            None => return,
            Some('n') => out.push('\n'),
            Some('t') => out.push('\t'),
            Some('r') => out.push('\r'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let (symbol, taken) = unicode(symbols.as_str());
                out.push(symbol);
                rest = symbols.as_str().get(taken..).unwrap_or_default();
                continue;
            }
            Some(other) => out.push(other),
        }
        rest = symbols.as_str();
    }
    out.push_str(rest);
}

/// Four hexadecimal digits, and the second half of a pair when there is one; and how many bytes they take.
fn unicode(raw: &str) -> (char, usize) {
    let raw = raw.as_bytes();
    let hex = |at: usize| {
        let digits = raw.get(at..at + 4)?;
        digits.iter().try_fold(0u32, |sum, digit| {
            Some(sum << 4 | char::from(*digit).to_digit(16)?)
        })
    };
    let Some(first) = hex(0) else {
        return (char::REPLACEMENT_CHARACTER, 0);
    };
    if (0xD800..0xDC00).contains(&first)
        && raw.get(4..6) == Some(b"\\u")
        && let Some(second @ 0xDC00..0xE000) = hex(6)
    {
        let joined = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        return (
            char::from_u32(joined).unwrap_or(char::REPLACEMENT_CHARACTER),
            10,
        );
    }
    let symbol = char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
    (symbol, 4)
}

/// Writes a text in quotes; what JSON wants escaped is.
pub(crate) fn quote(text: &str, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(text.len() + 2);
    out.push(b'"');
    if stands(text.as_bytes()) {
        out.extend_from_slice(text.as_bytes());
    } else {
        for byte in text.bytes() {
            match byte {
                b'"' => out.extend_from_slice(b"\\\""),
                b'\\' => out.extend_from_slice(b"\\\\"),
                b'\n' => out.extend_from_slice(b"\\n"),
                b'\r' => out.extend_from_slice(b"\\r"),
                b'\t' => out.extend_from_slice(b"\\t"),
                0..0x20 => {
                    let (high, low) = (usize::from(byte >> 4), usize::from(byte & 15));
                    out.extend_from_slice(&[b'\\', b'u', b'0', b'0', DIGITS[high], DIGITS[low]]);
                }
                _ => out.push(byte),
            }
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_find_what_bytes_find(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'\\'), Just(0x1f), Just(0x20), Just(0x80)], 0..200), from in 0..220usize) {
            prop_assert_eq!(stands(&bytes), !bytes.iter().any(|byte| special(*byte)));
            let mark = |from: usize| {
                let mut rest = bytes.iter().enumerate().skip(from);
                let found = rest.find(|(_, byte)| matches!(byte, b'"' | b'\\'));
                found.map(|(at, _)| at)
            };
            let mut marks = Marks::of(&bytes);
            for from in [from, 0, from / 2, from + 1] {
                prop_assert_eq!(marks.next(from), mark(from));
            }
        }

        #[test]
        fn what_is_quoted_reads_back_here_and_in_serde(text in any::<String>()) {
            let mut out = Vec::new();
            quote(&text, &mut out);
            prop_assert_eq!(&serde_json::from_slice::<String>(&out).unwrap(), &text);
            let mut back = String::new();
            unescape(std::str::from_utf8(&out[1..out.len() - 1]).unwrap(), &mut back);
            prop_assert_eq!(back, text);
        }

        #[test]
        fn any_text_unescapes_to_no_more_than_three_for_two(raw in "[\\\\u0-9a-fD\u{e9}\u{20ac}]{0,50}") {
            let mut out = String::new();
            unescape(&raw, &mut out);
            prop_assert!(out.len() <= raw.len() * 3 / 2);
        }
    }
}
