//! Random records to messages and back; random messages to records and back.

#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use std::net::SocketAddr;
use twinmq_records::batch::{Tag, Walk, Writer, check, open};
use twinmq_records::compression::{BodyCodec, compress_body, decompress_body};
use twinmq_records::message::{self, MessageView, NewMessage, encode};
use twinmq_records::translate::{Destination, frame, messages};

const MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq)]
struct Record {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn write(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(0, 7);
    for r in records {
        let headers: Vec<_> = r
            .headers
            .iter()
            .map(|(n, v)| (&n[..], v.as_deref()))
            .collect();
        writer
            .push(r.timestamp, r.key.as_deref(), r.value.as_deref(), &headers)
            .unwrap();
    }
    writer.finish().to_vec()
}

fn read(batch: &[u8]) -> Vec<Record> {
    let opened = open(batch, MAX).unwrap();
    let records = opened.records().map(|record| {
        let record = record.unwrap();
        let headers = record
            .headers
            .map(|(n, v)| (n.to_vec(), v.map(<[u8]>::to_vec)));
        Record {
            timestamp: record.timestamp,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: headers.collect(),
        }
    });
    records.collect()
}

fn destination() -> Destination<'static> {
    Destination {
        topic: "topic",
        queue_id: 1,
        base: 0,
        address: 1000,
        store_time: 5,
        store_host: "127.0.0.1:10911".parse().unwrap(),
    }
}

fn to_messages(batch: &[u8]) -> Vec<u8> {
    let opened = open(batch, MAX).unwrap();
    messages(&opened, &destination(), 0, usize::MAX, MAX)
        .unwrap()
        .bytes
        .to_vec()
}

fn to_batch(messages: &[u8]) -> Vec<u8> {
    let views = message::iter(messages).map(Result::unwrap);
    frame(views, 7, MAX).unwrap().to_vec()
}

/// Names and values that mean something, that look as if they did, and anything else.
fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => "[a-z]{1,6}".prop_map(String::into_bytes),
        2 => prop_oneof![
            Just("KEYS"), Just("TAGS"), Just("WAIT"), Just("DELAY"), Just("UNIQ_KEY"),
            Just("__SHARDINGKEY"), Just("TIMER_DELAY_MS"), Just("RETRY_TOPIC"), Just("null"),
            Just("TWINMQ_KEY"), Just("TWINMQ_HEADERS"), Just("TWINMQ_VALUE"), Just("TWINMQ_LEFT_OUT"),
            Just("twinmq.message"), Just("twinmq.properties"), Just("twinmq.x"), Just("left-out"),
            Just("=k"), Just("0:a=b"), Just("1:TAGS"), Just("born=0.0.0.0:0"), Just("a\u{1}b\u{2}"),
            Just("born=10.0.0.1:1 flag=3"), Just("born=10.0.0.1:1 text=raw"), Just("two words"),
            Just("born=0.0.0.0:0 text=raw"), Just("KEYS\u{1}k\u{2}TWINMQ_VALUE\u{1}null\u{2}"),
        ].prop_map(|word| word.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
        1 => ".{0,6}".prop_map(String::into_bytes),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    let ending = prop_oneof![
        4 => Just(None),
        1 => Just(Some("born=10.0.0.1:1")),
        1 => Just(Some("born=10.0.0.1:1 text=raw")),
        1 => Just(Some("born=0.0.0.0:0")),
        1 => Just(Some("born=[::1]:9 flag=1 sys=8 reconsume=-1 prepared=5")),
    ];
    (
        prop_oneof![0i64..1 << 50, any::<i64>()],
        option::of(word()),
        option::of(prop_oneof![word(), vec(any::<u8>(), 0..50)]),
        vec((word(), option::weighted(0.9, word())), 0..6),
        ending,
    )
        .prop_map(|(timestamp, key, value, mut headers, ending)| {
            if let Some(ending) = ending {
                headers.push((b"twinmq.message".to_vec(), Some(ending.as_bytes().to_vec())));
            }
            Record {
                timestamp,
                key,
                value,
                headers,
            }
        })
}

#[derive(Clone, Debug)]
struct Message {
    flag: i32,
    sys_flag: i32,
    born_time: i64,
    born_host: SocketAddr,
    reconsume_times: i32,
    prepared: i64,
    body: Vec<u8>,
    properties: Vec<u8>,
    codec: Option<BodyCodec>,
}

fn properties() -> impl Strategy<Value = Vec<u8>> {
    let well_formed = vec((word(), word()), 0..6)
        .prop_map(|pairs| {
            let pairs = pairs
                .into_iter()
                .map(|(n, v)| [&n[..], b"\x01", &v, b"\x02"].concat());
            pairs.collect::<Vec<_>>().concat()
        })
        .boxed();
    // What a Kafka record gives, so that both reserved forms are met.
    let from_record = record().prop_map(|mut record| {
        record.value = None;
        let bytes = to_messages(&write(&[record]));
        MessageView::parse(&bytes).unwrap().properties.to_vec()
    });
    prop_oneof![
        4 => well_formed.clone(),
        2 => from_record,
        1 => well_formed.prop_map(|mut text| { text.pop(); text }),
        1 => vec(prop_oneof![Just(1u8), Just(2), any::<u8>()], 0..20),
    ]
}

fn host() -> impl Strategy<Value = SocketAddr> {
    let hosts = [
        "10.0.0.1:4567",
        "0.0.0.0:0",
        "[2001:db8::1]:80",
        "255.255.255.255:65535",
    ];
    proptest::sample::select(hosts.to_vec()).prop_map(|host| host.parse().unwrap())
}

prop_compose! {
    fn native()(
        plain: bool,
        numbers: (i32, i32, i64, i32, i64),
        born_host in host(),
        body in prop_oneof![word(), vec(any::<u8>(), 0..50)],
        properties in properties(),
        codec in option::of(proptest::sample::select(vec![BodyCodec::Zlib, BodyCodec::Lz4, BodyCodec::Zstd])),
    ) -> Message {
        let (flag, sys_flag, born_time, reconsume_times, prepared) =
            if plain { (0, 0, numbers.2, 0, 0) } else { numbers };
        Message { flag, sys_flag, born_time, born_host, reconsume_times, prepared, body, properties, codec }
    }
}

fn store(m: &Message) -> Vec<u8> {
    let (body, sys_flag) = match m.codec {
        None => (m.body.clone(), m.sys_flag),
        Some(codec) => (
            compress_body(codec, &m.body).unwrap(),
            m.sys_flag & !0x700 | codec.sys_flag(),
        ),
    };
    let message = NewMessage {
        queue_id: 1,
        flag: m.flag,
        sys_flag,
        born_time: m.born_time,
        born_host: m.born_host,
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: m.reconsume_times,
        prepared_transaction_offset: m.prepared,
        body: &body,
        topic: "topic",
        properties: &m.properties,
    };
    encode(&message, 1 << 20).unwrap().bytes.to_vec()
}

/// What a reader of the message gets to know: unpacked body, and sysFlag without the bits that tell
/// how to unpack it.
fn meaning(view: &MessageView<'_>) -> (Vec<u8>, i32) {
    if let Ok(Some(codec)) = BodyCodec::from_sys_flag(view.sys_flag)
        && let Ok(body) = decompress_body(codec, view.body, MAX)
    {
        return (body, view.sys_flag & !0x701);
    }
    (view.body.to_vec(), view.sys_flag)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn records_come_back(records in vec(record(), 1..4)) {
        let batch = write(&records);
        let there = to_messages(&batch);
        prop_assert_eq!(read(&to_batch(&there)), records);
    }

    #[test]
    fn messages_come_back(message in native()) {
        let stored = store(&message);
        let before = MessageView::parse(&stored).unwrap();
        let back = to_messages(&to_batch(&stored));
        let after = MessageView::parse(&back).unwrap();
        prop_assert_eq!(meaning(&after), meaning(&before));
        prop_assert_eq!(after.flag, before.flag);
        prop_assert_eq!(after.born_time, before.born_time);
        prop_assert_eq!(after.born_host, before.born_host);
        prop_assert_eq!(after.reconsume_times, before.reconsume_times);
        prop_assert_eq!(after.prepared_transaction_offset, before.prepared_transaction_offset);
        prop_assert_eq!(after.properties, before.properties);
    }

    /// The walk and the translation agree on the tag of a record.
    #[test]
    fn tags_agree(mut record in record()) {
        record.timestamp &= i64::MAX >> 1;
        let batch = write(&[record]);
        let facts = check(&batch, &Walk { decompressed_max: MAX, log_append_time: false }).unwrap();
        let opened = open(&batch, MAX).unwrap();
        let slot = messages(&opened, &destination(), 0, usize::MAX, MAX).unwrap().slots[0];
        match facts.tag {
            Tag::Same(hash) => prop_assert_eq!(slot.tag_hash, hash),
            _ => prop_assert_eq!(slot.tag_hash, 0),
        }
    }
}
