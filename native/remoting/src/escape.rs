//! The escapes of JSON strings, both ways.

use bytes::{BufMut, BytesMut};

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Marks (in the high bits) the bytes of `word` that equal `byte`; the lowest mark is always right.
fn equal(word: u64, byte: u8) -> u64 {
    let differs = word ^ (ONES * u64::from(byte));
    differs.wrapping_sub(ONES) & !differs & HIGHS
}

/// The first quote or backslash, or, when `controls` count too, the first byte below 0x20. Eight
/// bytes a step: this is where a header's time goes.
pub(crate) fn special(bytes: &[u8], controls: bool) -> Option<usize> {
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let mut marks = equal(word, b'"') | equal(word, b'\\');
        if controls {
            marks |= word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        }
        if marks != 0 {
            return Some(at * 8 + (marks.trailing_zeros() / 8) as usize);
        }
    }
    let found = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\') || controls && *byte < 0x20)?;
    Some(words.len() * 8 + found)
}

/// Undoes JSON's escapes. Half surrogates become U+FFFD, unknown escapes stand for themselves.
pub(crate) fn unescape(raw: &str, out: &mut String) {
    out.reserve(raw.len());
    let mut rest = raw;
    // Most stretches are short: a plain look at each byte is the fastest.
    while let Some(clean) = rest.bytes().position(|byte| byte == b'\\') {
        let (before, escape) = rest.split_at(clean);
        out.push_str(before);
        let mut symbols = escape.chars();
        symbols.next();
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
pub(crate) fn quote(text: &str, out: &mut BytesMut) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(text.len() + 2);
    out.put_u8(b'"');
    let mut rest = text.as_bytes();
    while let Some(clean) = special(rest, true) {
        out.put_slice(&rest[..clean]);
        match rest[clean] {
            b'"' => out.put_slice(b"\\\""),
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            other => {
                out.put_slice(b"\\u00");
                out.put_u8(DIGITS[usize::from(other >> 4)]);
                out.put_u8(DIGITS[usize::from(other & 15)]);
            }
        }
        rest = &rest[clean + 1..];
    }
    out.put_slice(rest);
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn words_find_what_bytes_find(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'\\'), Just(0x1f), Just(0x20), Just(0x80)], 0..40), controls: bool) {
            let plain = bytes.iter().position(|byte| matches!(byte, b'"' | b'\\') || controls && *byte < 0x20);
            prop_assert_eq!(special(&bytes, controls), plain);
        }

        #[test]
        fn what_is_quoted_reads_back_here_and_in_serde(text in any::<String>()) {
            let mut out = BytesMut::new();
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
