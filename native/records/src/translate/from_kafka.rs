//! A Kafka record as a RocketMQ message, and the way back from such a message.

use super::{
    Field, HEADERS_PROPERTY, Headers, KEY_PROPERTY, LEFT_OUT_PROPERTY, Message, NOBODY,
    RESERVED_HEADERS, RESERVED_PROPERTIES, Record, VALUE_PROPERTY, percent,
};
use crate::message::PROPERTIES_MAX;
use crate::properties::{self, KEYS, Properties, TAGS, is_value, put};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::HashMap;

/// Kept free for [`LEFT_OUT_PROPERTY`] once something has to be left out.
const LEFT_OUT_ROOM: usize = 1024;
const NULL: &[u8] = b"null";
const LEFT_OUT: &[u8] = b"left-out";

impl Record<'_> {
    /// What a RocketMQ reader sees of it.
    pub(super) fn to_message(&self, body_max: u64) -> Message<'_> {
        if let Some(message) = self.as_copied_message()
            && message.to_record(body_max).same(self)
        {
            return message;
        }
        Message {
            flag: 0,
            sys_flag: 0,
            born_time: self.timestamp,
            born_host: NOBODY,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: Cow::Borrowed(self.value.as_deref().unwrap_or_default()),
            text: Cow::Owned(Plan::new(self).write()),
        }
    }
}

/// How a record's key stands in the text.
#[derive(Clone, Copy, PartialEq)]
enum Key {
    /// No key, no `KEYS`: nothing to say.
    Absent,
    /// `KEYS` in front is the key.
    Keys,
    /// No key, although there is a header `KEYS`.
    Null,
    /// Percent-encoded.
    Aside,
    /// It did not fit.
    LeftOut,
}

/// How a header stands in the text.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Property,
    Aside,
    LeftOut,
}

/// What goes where.
struct Plan<'r, 'd> {
    record: &'r Record<'d>,
    key: Key,
    places: SmallVec<[Place; 16]>,
}

impl<'r, 'd> Plan<'r, 'd> {
    fn new(record: &'r Record<'d>) -> Self {
        let places: SmallVec<[Place; 16]> = record
            .headers
            .iter()
            .zip(last_of_name(&record.headers))
            .map(|((name, value), last)| {
                let fits = last && value.as_deref().is_some_and(|v| is_property(name, v));
                if fits { Place::Property } else { Place::Aside }
            })
            .collect();
        let has_keys = places
            .iter()
            .zip(&record.headers)
            .any(|(place, (name, _))| *place == Place::Property && **name == *KEYS.as_bytes());
        let key = match &record.key {
            None if has_keys => Key::Null,
            None => Key::Absent,
            Some(key) if !has_keys && is_plain_key(key) => Key::Keys,
            Some(_) => Key::Aside,
        };
        let mut plan = Self {
            record,
            key,
            places,
        };
        if plan.size() > PROPERTIES_MAX || record.more_headers > 0 {
            plan.cut();
        }
        plan
    }

    fn key_bytes(&self) -> &[u8] {
        self.record.key.as_deref().unwrap_or_default()
    }

    fn size_of_key(&self, key: Key) -> usize {
        let property = KEY_PROPERTY.len() + 2;
        match key {
            Key::Absent => 0,
            Key::Keys => KEYS.len() + 2 + self.key_bytes().len(),
            Key::Null => property + NULL.len(),
            Key::Aside => property + 1 + percent::len(self.key_bytes()),
            Key::LeftOut => property + LEFT_OUT.len(),
        }
    }

    fn size_of_header(&self, at: usize, place: Place) -> usize {
        let (name, value) = &self.record.headers[at];
        match place {
            Place::LeftOut => 0,
            Place::Property => name.len() + 2 + value.as_ref().map_or(0, |v| v.len()),
            Place::Aside => {
                let digits = at.checked_ilog10().map_or(1, |n| n as usize + 1);
                let value = value.as_ref().map_or(0, |v| 1 + percent::len(v));
                digits + 2 + percent::len(name) + value
            }
        }
    }

    fn size_of_value(&self) -> usize {
        match self.record.value {
            Some(_) => 0,
            None => VALUE_PROPERTY.len() + 2 + NULL.len(),
        }
    }

    /// At least the bytes that will be written, without [`LEFT_OUT_PROPERTY`].
    fn size(&self) -> usize {
        let headers = self.places.iter().enumerate();
        let headers: usize = headers
            .map(|(at, place)| self.size_of_header(at, *place))
            .sum();
        self.size_of_key(self.key) + self.size_of_value() + HEADERS_PROPERTY.len() + 2 + headers
    }

    /// Leaves out what does not fit: the tag stays, then the key, then headers that act as properties,
    /// then others in order.
    fn cut(&mut self) {
        let mut left = PROPERTIES_MAX
            - LEFT_OUT_ROOM
            - HEADERS_PROPERTY.len()
            - 2
            - self.size_of_value()
            - self.size_of_key(Key::LeftOut);
        let acting = |at: usize| properties::acts_from_kafka(&self.record.headers[at].0);
        let is_tag = |at: usize| *self.record.headers[at].0 == *TAGS.as_bytes();
        let count = self.places.len();
        let mut places: SmallVec<[Place; 16]> = smallvec::smallvec![Place::LeftOut; count];
        let mut take = |left: &mut usize, at: usize| {
            let size = self.size_of_header(at, self.places[at]);
            if size <= *left {
                *left -= size;
                places[at] = self.places[at];
            }
        };
        (0..count)
            .filter(|&at| is_tag(at))
            .for_each(|at| take(&mut left, at));
        let key = self.size_of_key(self.key);
        let key_fits = key <= left;
        if key_fits {
            left -= key;
        }
        let mut rest = |wanted: bool, left: &mut usize| {
            for at in (0..count).filter(|&at| !is_tag(at) && acting(at) == wanted) {
                take(left, at);
            }
        };
        rest(true, &mut left);
        rest(false, &mut left);
        self.places = places;
        if !key_fits {
            self.key = Key::LeftOut;
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut text = Vec::with_capacity(self.size().min(PROPERTIES_MAX));
        if self.key == Key::Keys {
            put(&mut text, KEYS.as_bytes(), self.key_bytes());
        }
        let of = |wanted: Place| {
            let all = self.places.iter().zip(&self.record.headers).enumerate();
            all.filter(move |(_, (place, _))| **place == wanted)
                .map(|(at, (_, (name, value)))| (at, &**name, value.as_deref()))
        };
        for (_, name, value) in of(Place::Property) {
            put(&mut text, name, value.unwrap_or_default());
        }
        match self.key {
            Key::Absent | Key::Keys => (),
            Key::Null => put(&mut text, KEY_PROPERTY.as_bytes(), NULL),
            Key::LeftOut => put(&mut text, KEY_PROPERTY.as_bytes(), LEFT_OUT),
            Key::Aside => {
                start(&mut text, KEY_PROPERTY);
                text.push(b'=');
                percent::encode(self.key_bytes(), &mut text);
                text.push(properties::PAIR_END);
            }
        }
        if self.record.value.is_none() {
            put(&mut text, VALUE_PROPERTY.as_bytes(), NULL);
        }
        let mut aside = of(Place::Aside).peekable();
        if aside.peek().is_some() {
            start(&mut text, HEADERS_PROPERTY);
            for (at, name, value) in aside {
                put_aside(&mut text, at, name, value);
            }
            text.pop(); // the last comma
            text.push(properties::PAIR_END);
        }
        let left_out = of(Place::LeftOut).count() + self.record.more_headers;
        if left_out > 0 {
            let end = text.len() + LEFT_OUT_ROOM - 1;
            start(&mut text, LEFT_OUT_PROPERTY);
            text.extend_from_slice(left_out.to_string().as_bytes());
            text.push(b':');
            let mut names = of(Place::LeftOut).map(|(_, name, _)| name).peekable();
            while let Some(name) = names.next_if(|name| text.len() + percent::len(name) < end) {
                percent::encode(name, &mut text);
                if names.peek().is_some() {
                    text.push(b',');
                }
            }
            text.push(properties::PAIR_END);
        }
        text
    }
}

fn start(text: &mut Vec<u8>, name: &str) {
    text.extend_from_slice(name.as_bytes());
    text.push(properties::NAME_VALUE);
}

fn put_aside(text: &mut Vec<u8>, at: usize, name: &[u8], value: Option<&[u8]>) {
    text.extend_from_slice(at.to_string().as_bytes());
    text.push(b':');
    percent::encode(name, text);
    if let Some(value) = value {
        text.push(b'=');
        percent::encode(value, text);
    }
    text.push(b',');
}

/// Which headers are the last of their name.
fn last_of_name(headers: &[(Field<'_>, Option<Field<'_>>)]) -> SmallVec<[bool; 16]> {
    if headers.len() <= 16 {
        let later = |at: usize| {
            headers[at + 1..]
                .iter()
                .any(|(name, _)| *name == headers[at].0)
        };
        return (0..headers.len()).map(|at| !later(at)).collect();
    }
    let names = headers.iter().enumerate();
    let last: HashMap<&[u8], usize> = names.map(|(at, (name, _))| (&**name, at)).collect();
    let names = headers.iter().enumerate();
    names
        .map(|(at, (name, _))| last.get(&**name) == Some(&at))
        .collect()
}

/// Whether a header can stand as a property.
fn is_property(name: &[u8], value: &[u8]) -> bool {
    let reserved = name.starts_with(RESERVED_PROPERTIES.as_bytes())
        || name.starts_with(RESERVED_HEADERS.as_bytes());
    let other_meaning = properties::is_system(name) && !properties::acts_from_kafka(name);
    is_value(name)
        && is_value(value)
        && !reserved
        && !other_meaning
        && (name != TAGS.as_bytes() || properties::tag(value).is_some())
}

/// Whether a key is one word that people can read: `KEYS` is a list of words separated by blanks.
fn is_plain_key(key: &[u8]) -> bool {
    let text = std::str::from_utf8(key).unwrap_or_default();
    !text.is_empty() && !text.chars().any(|c| c.is_whitespace() || c.is_control())
}

impl Message<'_> {
    /// The Kafka record it was made from, if it says so and nothing has been changed since.
    pub(super) fn as_translated_record(&self) -> Option<Record<'_>> {
        let plain = self.flag == 0
            && self.sys_flag == 0
            && self.reconsume_times == 0
            && self.prepared_transaction_offset == 0
            && self.born_host == NOBODY;
        if !plain {
            return None;
        }
        let mut first_keys = None;
        let mut key = None;
        let mut value = Some(self.body.as_ref());
        let mut aside: Headers<'_> = Headers::new();
        let mut places = Vec::new();
        let mut ordinary: Headers<'_> = Headers::new();
        for (at, (name, text)) in Properties::new(&self.text).pairs().enumerate() {
            if name == KEY_PROPERTY.as_bytes() {
                key = Some(text);
            } else if name == VALUE_PROPERTY.as_bytes() {
                value = None;
            } else if name == HEADERS_PROPERTY.as_bytes() {
                for entry in text.split(|&b| b == b',') {
                    let (place, header) = parse_aside(entry)?;
                    places.push(place);
                    aside.push(header);
                }
            } else if at == 0 && name == KEYS.as_bytes() {
                first_keys = Some(text);
            } else {
                ordinary.push((Cow::Borrowed(name), Some(Cow::Borrowed(text))));
            }
        }
        let key = match (key, first_keys) {
            (None, keys) => keys.map(Cow::Borrowed),
            (Some(text), keys) => {
                if let Some(keys) = keys {
                    let header = (Cow::Borrowed(KEYS.as_bytes()), Some(Cow::Borrowed(keys)));
                    ordinary.insert(0, header);
                }
                match text.strip_prefix(b"=") {
                    Some(encoded) => Some(Cow::Owned(percent::decode(encoded)?)),
                    None => None,
                }
            }
        };
        Some(Record {
            timestamp: self.born_time,
            key,
            value: value.map(Cow::Borrowed),
            headers: merge(ordinary, aside, &places)?,
            more_headers: 0,
        })
    }
}

/// Puts headers that were kept aside back to their places.
fn merge<'a>(ordinary: Headers<'a>, aside: Headers<'a>, places: &[usize]) -> Option<Headers<'a>> {
    if aside.is_empty() {
        return Some(ordinary);
    }
    let total = ordinary.len() + aside.len();
    let mut ordinary = ordinary.into_iter();
    let mut aside = places.iter().zip(aside).peekable();
    let merged: Headers<'a> = (0..total)
        .map_while(|at| match aside.next_if(|(place, _)| **place == at) {
            Some((_, header)) => Some(header),
            None => ordinary.next(),
        })
        .collect();
    (merged.len() == total).then_some(merged)
}

fn parse_aside(entry: &[u8]) -> Option<(usize, (Field<'static>, Option<Field<'static>>))> {
    let colon = entry.iter().position(|&b| b == b':')?;
    let place = std::str::from_utf8(&entry[..colon]).ok()?.parse().ok()?;
    let rest = &entry[colon + 1..];
    let (name, value) = match rest.iter().position(|&b| b == b'=') {
        None => (rest, None),
        Some(at) => (&rest[..at], Some(percent::decode(&rest[at + 1..])?)),
    };
    Some((
        place,
        (Cow::Owned(percent::decode(name)?), value.map(Cow::Owned)),
    ))
}
