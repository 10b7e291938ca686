//! Whole frames, byte by byte, made by hand from the protocol. They change only when the wire does.
#![expect(clippy::unwrap_used, reason = "a test may fail")]

use bytes::{Bytes, BytesMut};
use twinmq_remoting::fields::pull::{Pull, Pulled};
use twinmq_remoting::fields::send::{Send, Sent};
use twinmq_remoting::{Command, Encoding, Language, code, frame, header};

fn read(bytes: &[u8]) -> Command {
    let mut buffer = BytesMut::from(bytes);
    let command = frame::next(&mut buffer, 16 << 20).unwrap().unwrap();
    assert!(buffer.is_empty());
    command
}

fn written(command: &Command) -> Vec<u8> {
    let mut out = Vec::new();
    header::encode(command, &mut out);
    out.extend_from_slice(&command.body);
    for chunk in &command.chunks {
        out.extend_from_slice(chunk);
    }
    out
}

fn json(total: u32, header: &str, body: &[u8]) -> Vec<u8> {
    let word = u32::try_from(header.len()).unwrap();
    let mut out = total.to_be_bytes().to_vec();
    out.extend_from_slice(&word.to_be_bytes());
    out.extend_from_slice(header.as_bytes());
    out.extend_from_slice(body);
    out
}

#[test]
fn a_java_send_and_its_answer() {
    let header = r#"{"code":310,"extFields":{"a":"pg","b":"TopicTest","c":"TBW102","d":"4","e":"2","f":"0","g":"1700000000000","h":"0","i":"UNIQ_KEY\u0001AC11\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false","n":"broker-a"},"flag":0,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":475}"#;
    assert_eq!(header.len(), 319);
    let request = read(&json(328, header, b"hello"));
    assert_eq!(request.code, code::request::SEND_MESSAGE_V2);
    let send = Send::read(&request.fields).unwrap();
    assert_eq!(
        (send.topic, send.queue_id, send.broker_name),
        ("TopicTest", 2, Some("broker-a"))
    );
    assert_eq!(
        send.properties,
        Some("UNIQ_KEY\u{1}AC11\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}")
    );
    assert_eq!(&request.body[..], b"hello");
    let mut answer = Command::response_to(&request, code::response::SUCCESS);
    Sent {
        msg_id: "7F00000100002A9F0000000000000000",
        queue_id: 2,
        queue_offset: 41,
        transaction_id: Some("AC11"),
        msg_region: "DefaultRegion",
        trace_on: true,
        ..Sent::default()
    }
    .write(&mut answer.fields);
    let header = r#"{"code":0,"extFields":{"msgId":"7F00000100002A9F0000000000000000","queueId":"2","queueOffset":"41","transactionId":"AC11","MSG_REGION":"DefaultRegion","TRACE_ON":"true"},"flag":1,"language":"JAVA","opaque":7,"serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(header.len(), 255);
    assert_eq!(written(&answer), json(259, header, b""));
}

#[test]
fn a_binary_pull_and_its_answer_in_pieces() {
    let fields: &[(&[u8], &[u8])] = &[
        (b"consumerGroup", b"g"),
        (b"topic", b"t"),
        (b"queueId", b"0"),
        (b"queueOffset", b"5"),
        (b"maxMsgNums", b"32"),
        (b"sysFlag", b"2"),
        (b"commitOffset", b"0"),
        (b"suspendTimeoutMillis", b"15000"),
        (b"subscription", b""),
        (b"subVersion", b"17"),
    ];
    let mut map = Vec::new();
    for (key, value) in fields {
        map.extend_from_slice(&u16::try_from(key.len()).unwrap().to_be_bytes());
        map.extend_from_slice(key);
        map.extend_from_slice(&u32::try_from(value.len()).unwrap().to_be_bytes());
        map.extend_from_slice(value);
    }
    let mut head = vec![
        0, 11, 0, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    head.extend_from_slice(&u32::try_from(map.len()).unwrap().to_be_bytes());
    head.extend_from_slice(&map);
    let len = u32::try_from(head.len()).unwrap();
    let mut bytes = (4 + len).to_be_bytes().to_vec();
    bytes.extend_from_slice(&(1 << 24 | len).to_be_bytes());
    bytes.extend_from_slice(&head);
    let request = read(&bytes);
    assert_eq!(
        (request.opaque, request.version, request.language),
        (-2, 475, Language::JAVA)
    );
    let pull = Pull::read(&request.fields).unwrap();
    assert_eq!(
        (
            pull.queue_offset,
            pull.suspend_timeout_millis,
            pull.subscription
        ),
        (5, 15_000, None)
    );
    let mut answer = Command::response_to(&request, code::response::SUCCESS)
        .with_chunks(vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
    assert_eq!(answer.encoding, Encoding::Binary);
    Pulled {
        next_begin_offset: 7,
        max_offset: 9,
        ..Pulled::default()
    }
    .write(&mut answer.fields);
    let expected: &[u8] = b"\
        \x00\x00\x00\x6d\x01\x00\x00\x66\
        \x00\x00\x00\x01\xdf\xff\xff\xff\xfe\x00\x00\x00\x01\x00\x00\x00\x00\
        \x00\x00\x00\x51\
        \x00\x14suggestWhichBrokerId\x00\x00\x00\x010\
        \x00\x0fnextBeginOffset\x00\x00\x00\x017\
        \x00\x09minOffset\x00\x00\x00\x010\
        \x00\x09maxOffset\x00\x00\x00\x019\
        abc";
    assert_eq!(written(&answer), expected);
}

#[test]
fn cpp_numbers_and_booleans_go_numbers_as_text() {
    let header = r#"{"code":38,"extFields":{"consumerGroup":"g","n":12,"f":1.5,"b":true},"flag":0,"language":"CPP","opaque":1,"version":333}"#;
    let total = u32::try_from(header.len() + 4).unwrap();
    let request = read(&json(total, header, b""));
    let pairs: Vec<_> = request.fields.iter().collect();
    assert_eq!(
        pairs,
        [
            ("consumerGroup", "g"),
            ("n", "12"),
            ("f", "1.5"),
            ("b", "true")
        ]
    );
    let answer = code::not_supported(&Command {
        code: 9999,
        ..request
    });
    let header = r#"{"code":3,"extFields":{},"flag":1,"language":"JAVA","opaque":1,"remark":" request type 9999 not supported","serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(
        written(&answer),
        json(u32::try_from(header.len() + 4).unwrap(), header, b"")
    );
}
