//! Single cases of the translation; round trips of random records are in tests/round_trip.rs.

use super::*;
use crate::batch::open;
use crate::compression::{BodyCodec, compress_body};
use crate::message::{encode, iter};

const BODY_MAX: u64 = 1 << 20;

fn to<'a>() -> Destination<'a> {
    Destination {
        topic: "t",
        queue_id: 3,
        base: 100,
        address: 5000,
        store_time: 77,
        store_host: "127.0.0.1:10911".parse().unwrap(),
    }
}

type Header<'a> = (&'a str, Option<&'a [u8]>);

fn batch(key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header<'_>]) -> Bytes {
    let headers: Vec<_> = headers.iter().map(|(n, v)| (n.as_bytes(), *v)).collect();
    let mut writer = Writer::new(100, 1);
    writer.push(42, key, value, &headers).unwrap();
    writer.finish()
}

fn translated(batch: &[u8]) -> Translated {
    messages(
        &open(batch, BODY_MAX).unwrap(),
        &to(),
        0,
        usize::MAX,
        BODY_MAX,
    )
    .unwrap()
}

fn text(key: Option<&[u8]>, headers: &[Header<'_>]) -> String {
    let bytes = translated(&batch(key, Some(b"v"), headers)).bytes;
    let view = MessageView::parse(&bytes).unwrap();
    String::from_utf8(view.properties.to_vec())
        .unwrap()
        .replace('\u{1}', ":")
        .replace('\u{2}', ";")
}

#[test]
fn a_record_as_a_message() {
    let batch = batch(
        Some(b"k1"),
        Some(b"v"),
        &[("TAGS", Some(b"a")), ("trace", Some(b"1"))],
    );
    let translated = translated(&batch);
    let view = MessageView::parse(&translated.bytes).unwrap();
    assert_eq!(
        (view.queue_id, view.queue_offset, view.physic_offset),
        (3, 100, 5000)
    );
    assert_eq!((view.born_time, view.store_time, view.topic), (42, 77, "t"));
    assert_eq!((view.body, view.born_host), (&b"v"[..], NOBODY));
    assert_eq!(
        view.properties,
        b"KEYS\x01k1\x02TAGS\x01a\x02trace\x011\x02"
    );
    assert_eq!(translated.slots[0].tag_hash, 97);
    assert!(view.body_crc_is_right());
}

#[test]
fn what_properties_cannot_say_is_kept_aside() {
    assert_eq!(text(None, &[]), "");
    assert_eq!(text(Some(b"two words"), &[]), "TWINMQ_KEY:=two%20words;");
    assert_eq!(text(Some(b""), &[]), "TWINMQ_KEY:=;");
    assert_eq!(text(Some(&[0xFF, 0]), &[]), "TWINMQ_KEY:=%FF%00;");
    assert_eq!(
        text(None, &[("KEYS", Some(b"k"))]),
        "KEYS:k;TWINMQ_KEY:null;"
    );
    assert_eq!(
        text(Some(b"x"), &[("KEYS", Some(b"k"))]),
        "KEYS:k;TWINMQ_KEY:=x;"
    );
    let headers: &[Header<'_>] = &[
        ("a", Some(b"1")),
        ("a", Some(b"2")),
        ("n", None),
        ("e", Some(b"")),
        ("b", Some(&[0xC3])),
        ("WAIT", Some(b"later")),
        ("DELAY", Some(b"3")),
        ("TWINMQ_KEY", Some(b"x")),
        ("", Some(b"a,b")),
    ];
    assert_eq!(
        text(Some(b"k"), headers),
        "KEYS:k;a:2;DELAY:3;TWINMQ_HEADERS:0:a=1,2:n,3:e=,4:b=%C3,5:WAIT=later,7:TWINMQ_KEY=x,8:=a%2Cb;"
    );
}

#[test]
fn a_tombstone_and_its_way_back() {
    let tombstone = batch(Some(b"k"), None, &[]);
    let bytes = translated(&tombstone).bytes;
    let view = MessageView::parse(&bytes).unwrap();
    assert_eq!(
        (view.body, view.properties),
        (&b""[..], &b"KEYS\x01k\x02TWINMQ_VALUE\x01null\x02"[..])
    );
    assert_eq!(
        frame(iter(&bytes).map(Result::unwrap), 1, BODY_MAX).unwrap(),
        tombstone
    );
    // A RocketMQ client can write one.
    let message = native(b"KEYS\x01k\x02TWINMQ_VALUE\x01null\x02", b"", 0);
    let framed = frame(iter(&message).map(Result::unwrap), 1, BODY_MAX).unwrap();
    let opened = open(&framed, BODY_MAX).unwrap();
    let record = opened.records().next().unwrap().unwrap();
    assert_eq!((record.key, record.value), (Some(&b"k"[..]), None));
}

fn native(properties: &[u8], body: &[u8], sys_flag: i32) -> Vec<u8> {
    let message = NewMessage {
        queue_id: 3,
        flag: 0,
        sys_flag,
        born_time: 42,
        born_host: "10.0.0.1:4567".parse().unwrap(),
        store_host: to().store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body,
        topic: "t",
        properties,
    };
    let mut bytes = encode(&message, 1 << 20).unwrap().bytes.to_vec();
    bytes[20..28].copy_from_slice(&100i64.to_be_bytes());
    bytes
}

fn record_of(message: &[u8]) -> (Option<String>, Vec<u8>, Vec<String>) {
    let framed = frame(iter(message).map(Result::unwrap), 1, BODY_MAX).unwrap();
    assert!(crate::batch::crc_is_right(&framed));
    let opened = open(&framed, BODY_MAX).unwrap();
    let record = opened.records().next().unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let headers = record
        .headers
        .map(|(n, v)| format!("{}={}", text(n), text(v.unwrap())));
    (
        record.key.map(text),
        record.value.unwrap().to_vec(),
        headers.collect(),
    )
}

#[test]
fn a_message_as_a_record() {
    let (key, value, headers) = record_of(&native(b"TAGS\x01a\x02KEYS\x01k\x02", b"hello", 0));
    assert_eq!((key.as_deref(), &value[..]), (Some("k"), &b"hello"[..]));
    assert_eq!(
        headers,
        ["TAGS=a", "KEYS=k", "twinmq.message=born=10.0.0.1:4567"]
    );

    let packed = compress_body(BodyCodec::Zlib, b"hello").unwrap();
    let (_, value, headers) = record_of(&native(b"", &packed, SYS_ZLIB | 2));
    assert_eq!(value, b"hello");
    assert_eq!(headers, ["twinmq.message=born=10.0.0.1:4567 sys=2"]);

    let (_, value, headers) = record_of(&native(b"a\x01b", b"not packed", SYS_ZLIB));
    assert_eq!(value, b"not packed");
    assert_eq!(
        headers,
        [
            "a=b",
            "twinmq.properties=a\u{1}b",
            "twinmq.message=born=10.0.0.1:4567 sys=1 text=raw body=packed"
        ]
    );
}
const SYS_ZLIB: i32 = 1;

#[test]
fn what_does_not_fit_is_named() {
    let long = vec![b'x'; 20_000];
    let headers: &[Header<'_>] = &[
        ("first", Some(&long)),
        ("second", Some(&long)),
        ("TAGS", Some(b"tag")),
        ("small", Some(b"s")),
    ];
    let text = text(Some(&long[..10]), headers);
    assert!(text.len() <= crate::message::PROPERTIES_MAX);
    assert!(text.starts_with("KEYS:xxxxxxxxxx;first:xxx"));
    assert!(
        text.ends_with("x;TAGS:tag;small:s;TWINMQ_LEFT_OUT:1:second;"),
        "{}",
        &text[20_000..]
    );

    let huge = vec![b'k'; 40_000];
    let text = super::tests::text(Some(&huge), &[("TAGS", Some(b"tag"))]);
    assert_eq!(text, "TAGS:tag;TWINMQ_KEY:left-out;");
}

#[test]
fn many_headers_are_bounded() {
    let names: Vec<String> = (0..20_000).map(|i| format!("{i}")).collect();
    let headers: Vec<Header<'_>> = names.iter().map(|n| (&n[..], None)).collect();
    let text = text(None, &headers);
    assert!(text.len() <= crate::message::PROPERTIES_MAX);
    assert!(text.contains("TWINMQ_LEFT_OUT:1"));
}

#[test]
fn windows_gaps_and_control_batches() {
    let mut writer = Writer::new(100, 1);
    for _ in 0..5 {
        writer.push(1, None, Some(b"v"), &[]).unwrap();
    }
    let five = writer.finish();
    let opened = open(&five, BODY_MAX).unwrap();
    let part = messages(&opened, &to(), 1, 150, BODY_MAX).unwrap();
    let deltas: Vec<_> = part.slots.iter().map(|s| s.offset_delta).collect();
    assert_eq!((deltas, part.next), (vec![1, 2], Some(3)));
    let second = part.message(&part.slots[1]);
    let view = MessageView::parse(&second).unwrap();
    assert_eq!((view.queue_offset, view.physic_offset), (102, 5002));
    let framed = frame(iter(&part.bytes).map(Result::unwrap), 1, BODY_MAX).unwrap();
    assert_eq!(
        crate::batch::Header::decode(&framed).unwrap().base_offset,
        101
    );

    let twice = [&second[..], &second[..]].concat();
    let gap = frame(iter(&twice).map(Result::unwrap), 1, BODY_MAX);
    assert_eq!(
        gap,
        Err(TranslateError::Gap {
            last: 102,
            found: 102
        })
    );
    assert_eq!(
        frame(iter(&[]).map(Result::unwrap), 1, BODY_MAX),
        Ok(Bytes::new())
    );

    let control = crate::batch::control_batch(true, 1, 1, 1, 1);
    assert!(translated(&control).slots.is_empty());
}
