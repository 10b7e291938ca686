//! The JSON header (type 0): one object in any key order, read by a scanner that neither recurses
//! nor builds a tree.
//!
//! Its quirks: C++ and Python send numbers and booleans as field values; some clients send an empty
//! remark; `extFields` may be null or missing; unknown keys are skipped, however deep.

use crate::command::{Fields, Piece};
use crate::escape::{quote, special, unescape};
use crate::{Command, FrameError, Language};
use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use std::borrow::Cow;

/// Deepest nesting of what is skipped.
const DEPTH_MAX: usize = 64;

struct Scanner<'a> {
    header: &'a str,
    at: usize,
}

/// A string of the input: its range without quotes, and whether it has escapes.
struct Quoted {
    start: usize,
    end: usize,
    escaped: bool,
}

type Result<T> = std::result::Result<T, FrameError>;

impl<'a> Scanner<'a> {
    fn wrong<T>(&self, reason: &'static str) -> Result<T> {
        Err(FrameError::Header {
            reason,
            at: self.at,
        })
    }

    fn bytes(&self) -> &'a [u8] {
        self.header.as_bytes()
    }

    /// The text from `start` to `end`.
    fn part(&self, start: usize, end: usize) -> &'a str {
        self.header.get(start..end).unwrap_or_default()
    }

    /// The next byte that is not white space, not taken.
    fn peek(&mut self) -> Result<u8> {
        while let Some(&byte) = self.bytes().get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Ok(byte);
            }
            self.at += 1;
        }
        self.wrong("cut short")
    }

    fn expect(&mut self, wanted: u8, reason: &'static str) -> Result<()> {
        if self.peek()? != wanted {
            return self.wrong(reason);
        }
        self.at += 1;
        Ok(())
    }

    /// After an element: true when another follows, false at the closing mark (taken).
    fn more(&mut self, close: u8) -> Result<bool> {
        match self.peek()? {
            b',' => {
                self.at += 1;
                Ok(true)
            }
            byte if byte == close => {
                self.at += 1;
                Ok(false)
            }
            _ => self.wrong("neither a comma nor an end"),
        }
    }

    /// At an opening mark: takes it and, when the container is empty, its end too.
    fn open_empty(&mut self, close: u8) -> Result<bool> {
        self.at += 1;
        if self.peek()? == close {
            self.at += 1;
            return Ok(true);
        }
        Ok(false)
    }

    fn string(&mut self) -> Result<Quoted> {
        self.expect(b'"', "a string should start here")?;
        self.quoted()
    }

    /// The rest of a string whose opening quote was taken.
    #[inline]
    fn quoted(&mut self) -> Result<Quoted> {
        let start = self.at;
        let mut escaped = false;
        let end = loop {
            let rest = self.bytes().get(self.at..).unwrap_or_default();
            let Some(clean) = special(rest, false) else {
                return self.wrong("a string without end");
            };
            self.at += clean;
            if rest[clean] == b'"' {
                break self.at;
            }
            escaped = true;
            self.at += 2;
        };
        self.at += 1;
        Ok(Quoted {
            start,
            end,
            escaped,
        })
    }

    /// A number, boolean or null: everything up to the next mark.
    fn bare(&mut self) -> Result<&'a str> {
        self.peek()?;
        let start = self.at;
        while let Some(byte) = self.bytes().get(self.at) {
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
            text => Ok(text),
        }
    }

    /// Skips one value of any kind without recursion.
    fn skip(&mut self) -> Result<()> {
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
                return Ok(());
            }
        }
    }

    /// A whole number, also when it stands in quotes. Null is 0.
    fn int(&mut self) -> Result<i32> {
        let text = match self.peek()? {
            b'"' => {
                let quoted = self.string()?;
                self.part(quoted.start, quoted.end)
            }
            _ => self.bare()?,
        };
        if text == "null" {
            return Ok(0);
        }
        match text.parse::<i32>() {
            Ok(number) => Ok(number),
            Err(_) => self.wrong("not a 32-bit number"),
        }
    }

    /// A string's text, unescaped; anything else as it stands; null is `None`.
    fn text(&mut self) -> Result<Option<Cow<'a, str>>> {
        if self.peek()? == b'"' {
            let quoted = self.string()?;
            let raw = self.part(quoted.start, quoted.end);
            if quoted.escaped {
                let mut out = String::new();
                unescape(raw, &mut out);
                return Ok(Some(Cow::Owned(out)));
            }
            return Ok(Some(Cow::Borrowed(raw)));
        }
        let start = self.at;
        self.skip()?;
        let text = self.part(start, self.at);
        Ok((text != "null").then_some(Cow::Borrowed(text)))
    }

    /// The same as a piece of `fields`.
    fn piece(&mut self, fields: &mut Fields) -> Result<Option<Piece>> {
        if self.peek()? == b'"' {
            self.at += 1;
            return self.quoted_piece(fields);
        }
        let start = self.at;
        self.skip()?;
        if self.part(start, self.at) == "null" {
            return Ok(None);
        }
        Ok(Fields::head_piece(start, self.at))
    }

    /// The rest of a string as a piece of `fields`.
    #[inline]
    fn quoted_piece(&mut self, fields: &mut Fields) -> Result<Option<Piece>> {
        let quoted = self.quoted()?;
        if quoted.escaped {
            let from = fields.own().len();
            unescape(self.part(quoted.start, quoted.end), fields.own());
            return Ok(fields.own_from(from));
        }
        Ok(Fields::head_piece(quoted.start, quoted.end))
    }

    fn fields(&mut self, fields: &mut Fields) -> Result<()> {
        if self.peek()? != b'{' {
            return if self.bare()? == "null" {
                Ok(())
            } else {
                self.wrong("extFields is no object")
            };
        }
        if self.open_empty(b'}')? {
            return Ok(());
        }
        loop {
            self.expect(b'"', "a field's name should start here")?;
            let key = self.quoted_piece(fields)?;
            self.expect(b':', "a colon should stand here")?;
            let value = self.piece(fields)?;
            if let (Some(key), Some(value)) = (key, value)
                && !fields.push(key, value)
            {
                return self.wrong("too many fields");
            }
            if !self.more(b'}')? {
                return Ok(());
            }
        }
    }
}

pub(super) fn decode(header: Bytes) -> Result<Command> {
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
    let mut scanner = Scanner {
        header: &header,
        at: 0,
    };
    let mut has_code = false;
    if scanner.peek()? != b'{' {
        return scanner.wrong("not a JSON object");
    }
    if scanner.open_empty(b'}')? {
        return scanner.wrong("no code");
    }
    loop {
        let key = scanner.string()?;
        scanner.expect(b':', "a colon should stand here")?;
        match scanner.part(key.start, key.end) {
            "code" => {
                command.code = scanner.int()?;
                has_code = true;
            }
            "flag" => command.flag = scanner.int()?,
            "opaque" => command.opaque = scanner.int()?,
            "version" => command.version = scanner.int()?,
            "language" => command.language = language(scanner.text()?.as_deref()),
            "remark" => {
                let remark = scanner.text()?.filter(|text| !text.is_empty());
                command.remark = remark.map(|text| Cow::Owned(text.into_owned()));
            }
            "extFields" => scanner.fields(&mut command.fields)?,
            _ => scanner.skip()?,
        }
        if !scanner.more(b'}')? {
            break;
        }
    }
    if !has_code {
        return scanner.wrong("no code");
    }
    Ok(command)
}

/// By name as all clients send it, or by number.
fn language(text: Option<&str>) -> Language {
    let text = text.unwrap_or_default();
    text.parse()
        .map_or_else(|_| Language::from_name(text), Language::from_number)
}

/// Keys in alphabetical order, as fastjson writes them; field values always as strings (C++ ignores
/// any other kind); `extFields` always there (Java reads some answers' map without a look).
pub(super) fn encode(command: &Command, out: &mut BytesMut) {
    out.put_slice(b"{\"code\":");
    int(command.code, out);
    out.put_slice(b",\"extFields\":{");
    for (at, (key, value)) in command.fields.iter().enumerate() {
        if at > 0 {
            out.put_u8(b',');
        }
        quote(key, out);
        out.put_u8(b':');
        quote(value, out);
    }
    out.put_slice(b"},\"flag\":");
    int(command.flag, out);
    out.put_slice(b",\"language\":\"");
    out.put_slice(command.language.name().as_bytes());
    out.put_slice(b"\",\"opaque\":");
    int(command.opaque, out);
    if let Some(remark) = &command.remark {
        out.put_slice(b",\"remark\":");
        quote(remark, out);
    }
    out.put_slice(b",\"serializeTypeCurrentRPC\":\"JSON\",\"version\":");
    int(command.version, out);
    out.put_u8(b'}');
}

fn int(number: i32, out: &mut BytesMut) {
    out.put_slice(itoa::Buffer::new().format(number).as_bytes());
}
