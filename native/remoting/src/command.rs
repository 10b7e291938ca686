//! One frame decoded: code, flags, opaque, header fields, body. Both sides of the wire use it.
//!
//! Field texts are ranges of the header they came in, so decoding a request allocates nothing but
//! what had to be unescaped. A command therefore pins the read buffer it was cut from: anything that
//! is kept longer than the request is answered must be taken with [`Command::detached`].

use bytes::Bytes;
use bytestring::ByteString;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// The version that everything we send claims: the ordinal of V5_3_3 in RocketMQ's `MQVersion`.
pub const VERSION: i32 = 479;

const RESPONSE: i32 = 1;
const ONEWAY: i32 = 2;

/// How a header is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// Type 0: a JSON object. Every client reads it.
    #[default]
    Json,
    /// Type 1: RocketMQ's binary header. Only sent to peers that have sent it.
    Binary,
}

/// A client's language, RocketMQ's `LanguageCode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Language(u8);

const LANGUAGES: [&str; 14] = [
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
];

impl Language {
    /// Java; what we claim ourselves, because every client of any age knows it.
    pub const JAVA: Self = Self(0);
    /// C++, and Python over the same native library.
    pub const CPP: Self = Self(1);
    /// Unknown to us.
    pub const OTHER: Self = Self(7);
    /// Go.
    pub const GO: Self = Self(9);

    /// The language of a name; unknown ones are `OTHER`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        LANGUAGES
            .iter()
            .position(|known| *known == name)
            .and_then(|at| u8::try_from(at).ok())
            .map_or(Self::OTHER, Self)
    }

    /// The language of a number; unknown ones are `OTHER`.
    #[must_use]
    pub fn from_number(number: u8) -> Self {
        if usize::from(number) < LANGUAGES.len() {
            Self(number)
        } else {
            Self::OTHER
        }
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> u8 {
        self.0
    }

    /// Its name, as RocketMQ's tools print it.
    #[must_use]
    pub fn name(self) -> &'static str {
        LANGUAGES
            .get(usize::from(self.0))
            .copied()
            .unwrap_or("OTHER")
    }
}

impl Default for Language {
    fn default() -> Self {
        Self::JAVA
    }
}

/// Most header fields of one command; more is no header.
pub const FIELDS_MAX: usize = 1024;

const OWN: u32 = 1 << 31;
/// First room for texts of our own, in bytes: an answer's fields fit.
const OWN_START: usize = 256;

/// A piece of text: in the header it came in, or, with the top bit of `at`, in `own`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    at: u32,
    len: u32,
}

/// The header fields (`extFields`): texts in the order of the wire, unknown ones kept. Names may
/// repeat (RocketMQ's hooks write some twice); the last one wins.
#[derive(Clone, Default)]
pub struct Fields {
    head: ByteString,
    own: String,
    pairs: SmallVec<[(Piece, Piece); 16]>,
}

impl Fields {
    /// No fields.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// No fields yet, cut out of this header.
    pub(crate) fn over(head: ByteString) -> Self {
        Self {
            head,
            own: String::new(),
            pairs: SmallVec::new(),
        }
    }

    /// The last value of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .pairs
            .iter()
            .rev()
            .find(|(key, _)| self.text(*key) == name)?;
        Some(self.text(found.1))
    }

    /// All pairs in the order of the wire.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs
            .iter()
            .map(|(key, value)| (self.text(*key), self.text(*value)))
    }

    /// How many pairs there are, repeats counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Sets a value, in place of any earlier of that name.
    pub fn set(&mut self, name: &str, value: &str) {
        self.put_with(name, |own| own.push_str(value));
    }

    /// Sets a value by its text form, in place of any earlier of that name.
    pub fn put(&mut self, name: &str, value: impl fmt::Display) {
        self.put_with(name, |own| {
            // Writing to a string cannot fail; a Display that fails leaves what it wrote.
            let _ = fmt::Write::write_fmt(own, format_args!("{value}"));
        });
    }

    /// Sets a whole number, in place of any earlier value of that name.
    pub fn put_int(&mut self, name: &str, value: impl itoa::Integer) {
        self.set(name, itoa::Buffer::new().format(value));
    }

    fn put_with(&mut self, name: &str, write: impl FnOnce(&mut String)) {
        if self.pairs.iter().any(|(key, _)| self.text(*key) == name) {
            self.remove(name);
        }
        if self.own.capacity() == 0 {
            self.own.reserve(OWN_START);
        }
        let start = self.own.len();
        self.own.push_str(name);
        let middle = self.own.len();
        write(&mut self.own);
        let end = self.own.len();
        if let (Some(key), Some(value)) = (own_piece(start, middle), own_piece(middle, end)) {
            self.pairs.push((key, value));
        }
    }

    /// Adds a value behind the others without a look at their names: what answers are made of.
    pub fn append(&mut self, name: &str, value: &str) {
        if self.own.capacity() == 0 {
            self.own.reserve(OWN_START);
        }
        let added = self.push_text(name, value);
        debug_assert!(added, "no answer has so many fields");
    }

    /// Adds a whole number behind the others without a look at their names.
    pub fn append_int(&mut self, name: &str, value: impl itoa::Integer) {
        self.append(name, itoa::Buffer::new().format(value));
    }

    /// Removes every value of that name.
    pub fn remove(&mut self, name: &str) {
        let (head, own) = (&self.head, &self.own);
        self.pairs
            .retain(|(key, _)| piece_text(head, own, *key) != name);
    }

    /// A piece of the header, as it stands there.
    #[inline]
    pub(crate) fn head_piece(start: usize, end: usize) -> Option<Piece> {
        let at = u32::try_from(start).ok().filter(|at| at & OWN == 0)?;
        Some(Piece {
            at,
            len: u32::try_from(end.checked_sub(start)?).ok()?,
        })
    }

    /// Where text that differs from the header's (it had escapes) is written.
    pub(crate) fn own(&mut self) -> &mut String {
        &mut self.own
    }

    /// The piece of `own` from `start` to its end.
    pub(crate) fn own_from(&self, start: usize) -> Option<Piece> {
        own_piece(start, self.own.len())
    }

    /// Adds a pair; false when there are too many.
    #[inline]
    pub(crate) fn push(&mut self, key: Piece, value: Piece) -> bool {
        if self.pairs.len() >= FIELDS_MAX {
            return false;
        }
        self.pairs.push((key, value));
        true
    }

    fn text(&self, piece: Piece) -> &str {
        piece_text(&self.head, &self.own, piece)
    }

    /// Adds a copy of a pair; false when there are too many.
    pub(crate) fn push_text(&mut self, key: &str, value: &str) -> bool {
        let start = self.own.len();
        self.own.push_str(key);
        let middle = self.own.len();
        self.own.push_str(value);
        let pieces = (own_piece(start, middle), self.own_from(middle));
        matches!(pieces, (Some(key), Some(value)) if self.push(key, value))
    }

    /// A copy that pins no read buffer.
    #[must_use]
    pub fn detached(&self) -> Self {
        let mut out = Self::new();
        for (key, value) in self.iter() {
            out.push_text(key, value);
        }
        out.own.shrink_to_fit();
        out
    }
}

fn own_piece(start: usize, end: usize) -> Option<Piece> {
    let at = u32::try_from(start).ok().filter(|at| at & OWN == 0)?;
    Some(Piece {
        at: at | OWN,
        len: u32::try_from(end.checked_sub(start)?).ok()?,
    })
}

fn piece_text<'a>(head: &'a str, own: &'a str, piece: Piece) -> &'a str {
    let from = if piece.at & OWN == 0 { head } else { own };
    let start = (piece.at & !OWN) as usize;
    from.get(start..start + piece.len as usize)
        .unwrap_or_default()
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl PartialEq for Fields {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().eq(other.iter())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Fields {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(pairs: I) -> Self {
        let mut fields = Self::new();
        for (name, value) in pairs {
            fields.set(name, value);
        }
        fields
    }
}

/// A request or a response.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Command {
    /// Request code, or response code when bit 0 of `flag` is set. See [`crate::code`].
    pub code: i32,
    /// The sender's language.
    pub language: Language,
    /// The sender's version, an ordinal of RocketMQ's `MQVersion`.
    pub version: i32,
    /// What a response is matched by; the two directions count apart.
    pub opaque: i32,
    /// Bit 0: response; bit 1: one-way.
    pub flag: i32,
    /// Free text of a response.
    pub remark: Option<Cow<'static, str>>,
    /// The header fields (`extFields`).
    pub fields: Fields,
    /// The body; an empty one and none are the same on the wire.
    pub body: Bytes,
    /// Further pieces of the body, sent after `body`. Always empty in what was received.
    pub chunks: Vec<Bytes>,
    /// How the header came, or goes.
    pub encoding: Encoding,
}

impl Command {
    /// A request that wants an answer. Its opaque is given when it is sent.
    #[must_use]
    pub fn request(code: i32) -> Self {
        Self {
            code,
            version: VERSION,
            ..Self::default()
        }
    }

    /// A one-way request.
    #[must_use]
    pub fn notice(code: i32) -> Self {
        Self {
            code,
            version: VERSION,
            flag: ONEWAY,
            ..Self::default()
        }
    }

    /// The answer to a request, in the encoding it came in.
    #[must_use]
    pub fn response_to(request: &Self, code: i32) -> Self {
        Self {
            code,
            version: VERSION,
            opaque: request.opaque,
            flag: RESPONSE,
            encoding: request.encoding,
            ..Self::default()
        }
    }

    /// The same with a remark.
    #[must_use]
    pub fn with_remark(mut self, remark: impl Into<Cow<'static, str>>) -> Self {
        self.remark = Some(remark.into());
        self
    }

    /// The same with a body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// The same with a body in pieces.
    #[must_use]
    pub fn with_chunks(mut self, chunks: Vec<Bytes>) -> Self {
        self.chunks = chunks;
        self
    }

    /// The same with one more header field.
    #[must_use]
    pub fn with_field(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.fields.put(name, value);
        self
    }

    /// Whether it answers a request.
    #[must_use]
    pub fn is_response(&self) -> bool {
        self.flag & RESPONSE != 0
    }

    /// Whether it must not be answered, not even with an error.
    #[must_use]
    pub fn is_oneway(&self) -> bool {
        self.flag & ONEWAY != 0
    }

    /// Bytes of the whole body.
    #[must_use]
    pub fn body_len(&self) -> usize {
        self.body.len() + self.chunks.iter().map(Bytes::len).sum::<usize>()
    }

    /// A copy that pins no read buffer, for whatever is kept.
    #[must_use]
    pub fn detached(&self) -> Self {
        Self {
            fields: self.fields.detached(),
            body: Bytes::copy_from_slice(&self.body),
            chunks: self
                .chunks
                .iter()
                .map(|chunk| Bytes::copy_from_slice(chunk))
                .collect(),
            remark: self.remark.clone(),
            ..*self
        }
    }
}
