//! A RocketMQ message as a Kafka record, and the way back from such a record.

use super::{
    Field, HOST_BITS, Headers, KEY_PROPERTY, MESSAGE_HEADER, Message, NOBODY, Record, TEXT_HEADER,
    VALUE_PROPERTY, percent,
};
use crate::compression::{BodyCodec, decompress_body};
use crate::message::{PROPERTIES_MAX, SYS_CODEC, SYS_COMPRESSED};
use crate::properties::{KEYS, NAME_VALUE, PAIR_END, Properties, put};
use std::borrow::Cow;
use std::fmt::Write;
use std::net::SocketAddr;

const RAW_TEXT: &str = "text=raw";
const PACKED_BODY: &str = "body=packed";

impl Message<'_> {
    /// What a Kafka reader sees of it. Whether the body is compressed makes no difference.
    pub(super) fn to_record(&self, body_max: u64) -> Record<'_> {
        let (body, sys_flag, packed) = self.unpacked(body_max);
        if self.born_host == NOBODY {
            let unpacked = Message {
                sys_flag,
                body: Cow::Borrowed(&*body),
                text: Cow::Borrowed(&*self.text),
                ..*self
            };
            if let Some(record) = unpacked.as_translated_record()
                && record.to_message(body_max) == unpacked
            {
                return record.into_owned();
            }
        }
        self.framed(body, sys_flag, packed)
    }

    fn framed<'m>(&'m self, body: Field<'m>, sys_flag: i32, packed: bool) -> Record<'m> {
        let mut headers = Headers::new();
        let mut key = None;
        let mut exact_key = None;
        let mut null = false;
        // What is left of the text if it is just these pairs, each with its separators.
        let mut rest = Some(&*self.text);
        for (name, value) in Properties::new(&self.text).pairs() {
            if is_reserved(name) {
                rest = None; // only the raw text has it
                continue;
            }
            rest = rest.and_then(|rest| after_pair(rest, name, value));
            if name == KEYS.as_bytes() {
                key = Some(Cow::Borrowed(value));
            } else if name == KEY_PROPERTY.as_bytes() {
                exact_key = value.strip_prefix(b"=").and_then(percent::decode);
            } else if name == VALUE_PROPERTY.as_bytes() {
                null = body.is_empty() && value == b"null";
            }
            headers.push((Cow::Borrowed(name), Some(Cow::Borrowed(value))));
        }
        let raw = rest != Some(&[]);
        if raw {
            let text = Cow::Borrowed(&*self.text);
            headers.push((Cow::Borrowed(TEXT_HEADER.as_bytes()), Some(text)));
        }
        let mark = self.mark(sys_flag, raw, packed);
        headers.push((
            Cow::Borrowed(MESSAGE_HEADER.as_bytes()),
            Some(Cow::Owned(mark.into_bytes())),
        ));
        Record {
            timestamp: self.born_time,
            key: exact_key.map(Cow::Owned).or(key),
            value: (!null).then_some(body),
            headers,
            more_headers: 0,
        }
    }

    /// The body as a Kafka reader can use it, the sysFlag that goes with it, and whether it is
    /// still compressed.
    fn unpacked(&self, body_max: u64) -> (Field<'_>, i32, bool) {
        let as_it_is = Cow::Borrowed(&*self.body);
        let codec = match BodyCodec::from_sys_flag(self.sys_flag) {
            Ok(None) => return (as_it_is, self.sys_flag, false),
            Ok(Some(codec)) => codec,
            Err(_) => return (as_it_is, self.sys_flag, true),
        };
        match decompress_body(codec, &self.body, body_max) {
            Ok(body) => {
                let sys_flag = self.sys_flag & !(SYS_COMPRESSED | SYS_CODEC);
                (Cow::Owned(body), sys_flag, false)
            }
            Err(_) => (as_it_is, self.sys_flag, true),
        }
    }

    fn mark(&self, sys_flag: i32, raw: bool, packed: bool) -> String {
        let mut mark = String::with_capacity(64);
        // Writing to a string does not fail.
        let _ = write!(mark, "born={}", self.born_host);
        let numbers = [
            ("flag", i64::from(self.flag)),
            ("sys", i64::from(sys_flag)),
            ("reconsume", i64::from(self.reconsume_times)),
            ("prepared", self.prepared_transaction_offset),
        ];
        for (name, n) in numbers.into_iter().filter(|(_, n)| *n != 0) {
            let _ = write!(mark, " {name}={n}");
        }
        for (word, said) in [(RAW_TEXT, raw), (PACKED_BODY, packed)] {
            if said {
                mark.push(' ');
                mark.push_str(word);
            }
        }
        mark
    }
}

fn after_pair<'t>(text: &'t [u8], name: &[u8], value: &[u8]) -> Option<&'t [u8]> {
    let after = text.strip_prefix(name)?.strip_prefix(&[NAME_VALUE])?;
    after.strip_prefix(value)?.strip_prefix(&[PAIR_END])
}

fn is_reserved(name: &[u8]) -> bool {
    name == MESSAGE_HEADER.as_bytes() || name == TEXT_HEADER.as_bytes()
}

impl Record<'_> {
    /// The RocketMQ message it is a copy of, if its last header says so.
    pub(super) fn as_copied_message(&self) -> Option<Message<'_>> {
        let ((name, mark), headers) = self.headers.split_last()?;
        if **name != *MESSAGE_HEADER.as_bytes() || self.more_headers > 0 {
            return None;
        }
        let mut message = Message {
            flag: 0,
            sys_flag: 0,
            born_time: self.timestamp,
            born_host: NOBODY,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: Cow::Borrowed(self.value.as_deref().unwrap_or_default()),
            text: Cow::Borrowed(&[]),
        };
        let raw = message.read_mark(std::str::from_utf8(mark.as_deref()?).ok()?)?;
        message.text = if raw {
            let ((name, text), _) = headers.split_last()?;
            let text = text
                .as_deref()
                .filter(|text| text.len() <= PROPERTIES_MAX)?;
            (**name == *TEXT_HEADER.as_bytes()).then_some(Cow::Borrowed(text))?
        } else {
            Cow::Owned(joined(headers)?)
        };
        Some(message)
    }
}

/// The text whose properties are these headers.
fn joined(headers: &[(Field<'_>, Option<Field<'_>>)]) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    for (name, value) in headers {
        let value = value.as_deref()?;
        let broken = name.contains(&NAME_VALUE) || name.contains(&PAIR_END);
        if broken || name.is_empty() || value.is_empty() || value.contains(&PAIR_END) {
            return None;
        }
        if text.len() + name.len() + value.len() + 2 > PROPERTIES_MAX {
            return None;
        }
        put(&mut text, name, value);
    }
    Some(text)
}

impl Message<'_> {
    /// Reads a mark; whether the property text stands raw.
    fn read_mark(&mut self, mark: &str) -> Option<bool> {
        let mut raw = false;
        for word in mark.split(' ') {
            match word.split_once('=')? {
                ("born", host) => self.born_host = host.parse::<SocketAddr>().ok()?,
                ("flag", n) => self.flag = n.parse().ok()?,
                ("sys", n) => self.sys_flag = n.parse::<i32>().ok()? & !HOST_BITS,
                ("reconsume", n) => self.reconsume_times = n.parse().ok()?,
                ("prepared", n) => self.prepared_transaction_offset = n.parse().ok()?,
                _ if word == RAW_TEXT => raw = true,
                _ if word == PACKED_BODY => (),
                _ => return None,
            }
        }
        Some(raw)
    }
}
