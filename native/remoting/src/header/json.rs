//! The JSON header (type 0): one object in any key order, read by a scanner that neither recurses
//! nor builds a tree.
//!
//! Its quirks: C++ and Python send numbers and booleans as field values; some clients send an empty
//! remark; `extFields` may be null or missing; unknown keys are skipped, however deep.

use crate::command::{Fields, Piece};
use crate::escape::{Marks, quote, unescape};
use crate::{Command, FrameError, Language};
use bytes::Bytes;
use bytestring::ByteString;
use std::borrow::Cow;

/// Deepest nesting of what is skipped.
const DEPTH_MAX: usize = 64;

/// Every step gives `None` once something is wrong; what, is kept.
struct Scanner<'a> {
    header: &'a str,
    at: usize,
    marks: Marks<'a>,
    wrong: &'static str,
}

impl<'a> Scanner<'a> {
    fn new(header: &'a str) -> Self {
        Self {
            header,
            at: 0,
            marks: Marks::of(header.as_bytes()),
            wrong: "",
        }
    }

    #[cold]
    fn wrong<T>(&mut self, reason: &'static str) -> Option<T> {
        self.wrong = reason;
        None
    }

    fn byte(&self, at: usize) -> Option<u8> {
        self.header.as_bytes().get(at).copied()
    }

    /// The text from `start` to `end`.
    fn part(&self, start: usize, end: usize) -> &'a str {
        self.header.get(start..end).unwrap_or_default()
    }

    /// The next byte that is not white space, not taken.
    #[inline(always)]
    fn peek(&mut self) -> Option<u8> {
        match self.byte(self.at) {
            Some(byte) if byte > b' ' => Some(byte),
            _ => self.peek_far(),
        }
    }

    #[cold]
    fn peek_far(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.at += 1;
        }
        self.wrong("cut short")
    }

    #[inline(always)]
    fn expect(&mut self, wanted: u8, reason: &'static str) -> Option<()> {
        if self.peek()? != wanted {
            return self.wrong(reason);
        }
        self.at += 1;
        Some(())
    }

    /// After an element: true when another follows, false at the closing mark (taken).
    #[inline(always)]
    fn more(&mut self, close: u8) -> Option<bool> {
        let byte = self.peek()?;
        if byte != b',' && byte != close {
            return self.wrong("neither a comma nor an end");
        }
        self.at += 1;
        Some(byte == b',')
    }

    /// At an opening mark: takes it and, when the container is empty, its end too.
    fn open_empty(&mut self, close: u8) -> Option<bool> {
        self.at += 1;
        let empty = self.peek()? == close;
        self.at += usize::from(empty);
        Some(empty)
    }

    /// A string: where its text ends, and whether that has escapes. The text starts behind the quote
    /// that is the next byte.
    #[inline(always)]
    fn string(&mut self) -> Option<(usize, bool)> {
        self.at += 1;
        if let Some(end) = self.marks.near(self.at)
            && self.byte(end) == Some(b'"')
        {
            self.at = end + 1;
            return Some((end, false));
        }
        self.long_string()
    }

    /// The same of a string that reaches into the next block, or that has escapes.
    #[inline(never)]
    fn long_string(&mut self) -> Option<(usize, bool)> {
        let mut escaped = false;
        loop {
            let Some(at) = self.marks.next(self.at) else {
                return self.wrong("a string without end");
            };
            if self.byte(at) == Some(b'"') {
                self.at = at + 1;
                return Some((at, escaped));
            }
            escaped = true;
            self.at = at + 2;
        }
    }

    /// A number, boolean or null: everything up to the next mark.
    fn bare(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        while let Some(byte) = self.byte(self.at) {
            if matches!(
                byte,
                b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n' | b':' | b'"' | b'{' | b'['
            ) {
                break;
            }
            self.at += 1;
        }
        match self.part(start, self.at) {
            "" => self.wrong("a value should start here"),
            text => Some(text),
        }
    }

    /// Skips one value of any kind without recursion.
    fn skip(&mut self) -> Option<()> {
        let mut open: usize = 0;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => {
                    open += 1;
                    self.at += 1;
                    if open > DEPTH_MAX {
                        return self.wrong("nested too deeply");
                    }
                    continue;
                }
                b'}' | b']' if open > 0 => {
                    open -= 1;
                    self.at += 1;
                }
                b',' | b':' if open > 0 => {
                    self.at += 1;
                    continue;
                }
                _ => {
                    self.bare()?;
                }
            }
            if open == 0 {
                return Some(());
            }
        }
    }

    /// A whole number, also when it stands in quotes. Null is 0.
    fn int(&mut self) -> Option<i32> {
        let text = match self.peek()? {
            b'"' => {
                let start = self.at + 1;
                let (end, _) = self.string()?;
                self.part(start, end)
            }
            _ => self.bare()?,
        };
        if text == "null" {
            return Some(0);
        }
        match text.parse() {
            Ok(number) => Some(number),
            Err(_) => self.wrong("not a 32-bit number"),
        }
    }

    /// A string's text, unescaped; anything else as it stands; null is empty.
    fn text(&mut self) -> Option<Cow<'a, str>> {
        if self.peek()? == b'"' {
            let start = self.at + 1;
            let (end, escaped) = self.string()?;
            let raw = self.part(start, end);
            if escaped {
                let mut out = String::new();
                unescape(raw, &mut out);
                return Some(Cow::Owned(out));
            }
            return Some(Cow::Borrowed(raw));
        }
        let start = self.at;
        self.skip()?;
        let text = self.part(start, self.at);
        Some(Cow::Borrowed(if text == "null" { "" } else { text }))
    }

    /// A string as a piece of `fields`.
    #[inline(always)]
    fn piece(&mut self, fields: &mut Fields) -> Option<Piece> {
        let start = self.at + 1;
        let (end, escaped) = self.string()?;
        if escaped {
            let from = fields.own().len();
            unescape(self.part(start, end), fields.own());
            return fields.own_from(from);
        }
        Fields::head_piece(start, end)
    }

    fn fields(&mut self, fields: &mut Fields) -> Option<()> {
        if self.peek()? != b'{' {
            return match self.bare()? {
                "null" => Some(()),
                _ => self.wrong("extFields is no object"),
            };
        }
        if self.open_empty(b'}')? {
            return Some(());
        }
        loop {
            if self.peek()? != b'"' {
                return self.wrong("a field's name should start here");
            }
            let key = self.piece(fields)?;
            self.expect(b':', "a colon should stand here")?;
            let value = if self.peek()? == b'"' {
                Some(self.piece(fields)?)
            } else {
                let start = self.at;
                self.skip()?;
                let null = self.part(start, self.at) == "null";
                Fields::head_piece(start, self.at).filter(|_| !null)
            };
            if let Some(value) = value
                && !fields.push(key, value)
            {
                return self.wrong("too many fields");
            }
            if !self.more(b'}')? {
                return Some(());
            }
        }
    }

    fn command(&mut self, command: &mut Command) -> Option<()> {
        let mut has_code = false;
        if self.peek()? != b'{' {
            return self.wrong("not a JSON object");
        }
        if self.open_empty(b'}')? {
            return self.wrong("no code");
        }
        loop {
            if self.peek()? != b'"' {
                return self.wrong("a string should start here");
            }
            let start = self.at + 1;
            let (end, _) = self.string()?;
            self.expect(b':', "a colon should stand here")?;
            match self.part(start, end) {
                "code" => {
                    command.code = self.int()?;
                    has_code = true;
                }
                "flag" => command.flag = self.int()?,
                "opaque" => command.opaque = self.int()?,
                "version" => command.version = self.int()?,
                "language" => command.language = language(&self.text()?),
                "remark" => {
                    let remark = self.text()?;
                    command.remark = (!remark.is_empty()).then(|| Cow::Owned(remark.into_owned()));
                }
                "extFields" => self.fields(&mut command.fields)?,
                _ => self.skip()?,
            }
            if !self.more(b'}')? {
                break;
            }
        }
        if !has_code {
            return self.wrong("no code");
        }
        Some(())
    }
}

pub(super) fn decode(header: Bytes) -> Result<Command, FrameError> {
    let Ok(header) = ByteString::try_from(header) else {
        return Err(FrameError::Header {
            reason: "not UTF-8",
            at: 0,
        });
    };
    let mut command = Command {
        fields: Fields::over(header.clone()),
        ..Command::default()
    };
    let mut scanner = Scanner::new(&header);
    match scanner.command(&mut command) {
        Some(()) => Ok(command),
        None => Err(FrameError::Header {
            reason: scanner.wrong,
            at: scanner.at,
        }),
    }
}

/// By name as all clients send it, or by number.
fn language(text: &str) -> Language {
    text.parse()
        .map_or_else(|_| Language::from_name(text), Language::from_number)
}

/// Keys in alphabetical order, as fastjson writes them; field values always as strings (C++ ignores
/// any other kind); `extFields` always there (Java reads some answers' map without a look).
pub(super) fn encode(command: &Command, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"code\":");
    int(command.code, out);
    out.extend_from_slice(b",\"extFields\":{");
    for (at, (key, value)) in command.fields.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        quote(key, out);
        out.push(b':');
        quote(value, out);
    }
    out.extend_from_slice(b"},\"flag\":");
    int(command.flag, out);
    out.extend_from_slice(b",\"language\":\"");
    out.extend_from_slice(command.language.name().as_bytes());
    out.extend_from_slice(b"\",\"opaque\":");
    int(command.opaque, out);
    if let Some(remark) = &command.remark {
        out.extend_from_slice(b",\"remark\":");
        quote(remark, out);
    }
    out.extend_from_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    int(command.version, out);
    out.push(b'}');
}

fn int(number: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
