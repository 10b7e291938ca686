//! Both encodings: what clients send, what comes back, what is refused.

use super::*;
use crate::frame::next;
use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

fn frame(kind: u8, header: &[u8], body: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    let total = u32::try_from(4 + header.len() + body.len()).unwrap();
    out.extend_from_slice(&total.to_be_bytes());
    let word = u32::from(kind) << 24 | u32::try_from(header.len()).unwrap();
    out.extend_from_slice(&word.to_be_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(body);
    out
}

fn decoded(kind: u8, header: &[u8]) -> Result<Command, FrameError> {
    let command = next(&mut frame(kind, header, b"body"), 1 << 24)?;
    Ok(command.expect("a whole frame"))
}

#[test]
fn reads_what_the_cpp_client_sends() {
    let header = br#" { "version" : 333 , "unknown":{"a":[1,{"b":"}"}]}, "opaque":-7,
        "language":"CPP","flag":0,"extFields":{"queueId":3,"unitMode":false,"topic":"a\u0001b\/\"\ud83d\ude00\ud800","gone":null},
        "code":310,"remark":"" } "#;
    let command = decoded(0, header).unwrap();
    assert_eq!(
        (command.code, command.opaque, command.version),
        (310, -7, 333)
    );
    assert_eq!(command.language, Language::CPP);
    assert_eq!(command.remark, None);
    assert_eq!(&command.body[..], b"body");
    let pairs: Vec<_> = command.fields.iter().collect();
    assert_eq!(
        pairs,
        [
            ("queueId", "3"),
            ("unitMode", "false"),
            ("topic", "a\u{1}b/\"\u{1F600}\u{FFFD}")
        ]
    );
    assert_eq!(command.detached(), command);
}

use crate::Language;

#[test]
fn reads_headers_without_fields_and_strange_languages() {
    for header in [
        &br#"{"code":34,"language":"KLINGON","opaque":1}"#[..],
        br#"{"code":34,"extFields":null,"language":"KLINGON","opaque":1}"#,
        br#"{"code":"34","extFields":{},"language":7,"opaque":1}"#,
    ] {
        let command = decoded(0, header).unwrap();
        assert_eq!((command.code, command.language), (34, Language::OTHER));
        assert!(command.fields.is_empty());
    }
}

#[test]
fn refuses_what_is_no_header() {
    let deep = [b"{\"x\":".as_slice(), &b"[".repeat(100_000)].concat();
    for header in [
        &b""[..],
        b"{}",
        b"[]",
        b"{\"code\":1",
        b"{\"code\":1,}",
        b"{\"code\":99999999999}",
        b"{\"code\":1,\"extFields\":[]}",
        b"{\"code\":1,\"extFields\":{\"a\" 1}}",
        b"{\"code\":1,\"a\":\"\\",
        b"\xff",
        &deep,
    ] {
        let got = decoded(0, header);
        assert!(
            matches!(got, Err(FrameError::Header { .. })),
            "{header:?}: {got:?}"
        );
    }
    let many: String = (0..2000).map(|n| format!(",\"k{n}\":1")).collect();
    let many = format!("{{\"code\":1,\"extFields\":{{\"a\":1{many}}}}}");
    assert!(decoded(0, many.as_bytes()).is_err());
}

#[test]
fn the_last_of_repeated_names_wins() {
    let command = decoded(0, br#"{"code":1,"extFields":{"a":"1","b":"2","a":"3"}}"#).unwrap();
    assert_eq!(command.fields.get("a"), Some("3"));
}

#[test]
fn reads_the_binary_header_and_maps_pop_codes_back() {
    let mut header = vec![0x0d, 0x72, 9, 1, 0x3d, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0];
    let fields = [
        &[0, 1, b'a', 0, 0, 0, 2, b'x', b'y'][..],
        &[0, 1, b'e', 0, 0, 0, 0],
    ]
    .concat();
    header.extend_from_slice(&[0, 0, 0, u8::try_from(fields.len()).unwrap()]);
    header.extend_from_slice(&fields);
    let command = decoded(1, &header).unwrap();
    assert_eq!(
        (command.code, command.version, command.opaque),
        (200_050, 317, 5)
    );
    assert_eq!(command.language, Language::GO);
    assert_eq!(command.fields.iter().collect::<Vec<_>>(), [("a", "xy")]);
    for cut in 0..header.len() {
        if cut != 17 {
            assert!(decoded(1, &header[..cut]).is_err(), "cut at {cut}");
        }
    }
}

#[test]
fn writes_the_json_header_as_fastjson_does() {
    let request = Command {
        opaque: 9,
        ..Command::request(11)
    };
    let answer = Command::response_to(&request, 0)
        .with_remark("a \"b\"\n")
        .with_field("properties", "K\u{1}v\u{2}")
        .with_field("queueId", 4)
        .with_body(Bytes::from_static(b"xyz"));
    let mut out = Vec::new();
    encode(&answer, &mut out);
    let header = r#"{"code":0,"extFields":{"properties":"K\u0001v\u0002","queueId":"4"},"flag":1,"language":"JAVA","opaque":9,"remark":"a \"b\"\n","serializeTypeCurrentRPC":"JSON","version":479}"#;
    assert_eq!(&out[8..], header.as_bytes());
    assert_eq!(&out[..8], &frame(0, header.as_bytes(), b"xyz")[..8]);
}

fn any_command() -> impl Strategy<Value = Command> {
    let fields = proptest::collection::vec(("[a-zA-Z]{1,12}", any::<String>()), 0..20);
    (
        any::<i16>(),
        any::<i32>(),
        0..4i32,
        proptest::option::of("\\PC{1,20}"),
        fields,
        any::<bool>(),
    )
        .prop_map(|(code, opaque, flag, remark, pairs, binary)| Command {
            code: i32::from(code),
            version: VERSION_FOR_TESTS,
            opaque,
            flag,
            remark: remark.map(Into::into),
            fields: pairs
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect(),
            body: Bytes::from_static(b"body"),
            encoding: if binary {
                Encoding::Binary
            } else {
                Encoding::Json
            },
            ..Command::default()
        })
}

const VERSION_FOR_TESTS: i32 = 401;

proptest! {
    #[test]
    fn re_encoding_gives_equal_meaning(command in any_command()) {
        let mut out = Vec::new();
        encode(&command, &mut out);
        let mut out = BytesMut::from(&out[..]);
        out.extend_from_slice(&command.body);
        let mut back = next(&mut out, 1 << 24).unwrap().expect("a whole frame");
        prop_assert!(out.is_empty());
        let mut sent = command.clone();
        if command.encoding == Encoding::Binary {
            sent.fields = command.fields.iter().filter(|(_, value)| !value.is_empty()).collect();
            if !command.is_response() && (3442..=3448).contains(&command.code) || command.code == 3543 {
                back.code = sent.code;
            }
        }
        prop_assert_eq!(back, sent);
    }

    #[test]
    fn what_looks_like_json_never_panics(text in r#"[{}\[\]",:\\u0a1 codeextFields]{0,80}"#) {
        let _ = decoded(0, text.as_bytes());
        let _ = decoded(0, format!("{{\"code\":1,\"extFields\":{{{text}}}}}").as_bytes());
    }
}
