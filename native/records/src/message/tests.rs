//! Stored messages: golden bytes, limits, and bytes that are none.

use super::*;
use proptest::prelude::*;

fn sample<'a>() -> NewMessage<'a> {
    NewMessage {
        queue_id: 3,
        flag: 7,
        sys_flag: 0,
        born_time: 1_700_000_000_000,
        born_host: "10.1.2.3:4567".parse().unwrap(),
        store_host: "127.0.0.1:10911".parse().unwrap(),
        reconsume_times: 2,
        prepared_transaction_offset: 99,
        body: b"hello",
        topic: "orders",
        properties: b"TAGS\x01a\x02",
    }
}

#[test]
fn golden_bytes_of_the_first_layout() {
    let encoded = encode(&sample(), 100).unwrap();
    let mut want = Vec::new();
    want.extend_from_slice(&[0, 0, 0, 91 + 5 + 6 + 7]);
    want.extend_from_slice(&[0xDA, 0xA3, 0x20, 0xA7]);
    want.extend_from_slice(&[0x36, 0x10, 0xA6, 0x86]); // CRC-32 of "hello"
    want.extend_from_slice(&[0, 0, 0, 3, 0, 0, 0, 7]);
    want.extend_from_slice(&[0; 16]);
    want.extend_from_slice(&[0; 4]);
    want.extend_from_slice(&1_700_000_000_000i64.to_be_bytes());
    want.extend_from_slice(&[10, 1, 2, 3, 0, 0, 0x11, 0xD7]);
    want.extend_from_slice(&[0; 8]);
    want.extend_from_slice(&[127, 0, 0, 1, 0, 0, 0x2A, 0x9F]);
    want.extend_from_slice(&[0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 99]);
    want.extend_from_slice(b"\0\0\0\x05hello\x06orders\0\x07TAGS\x01a\x02");
    assert_eq!(&encoded.bytes[..], &want[..]);
    assert_eq!((encoded.head, encoded.store_time_at), (64, 56));
    assert_eq!(encoded.bytes.len(), encoded.bytes[3].into());
}

#[test]
fn ipv6_born_host_moves_the_store_time() {
    let message = NewMessage {
        born_host: "[2001:db8::1]:1".parse().unwrap(),
        store_host: "[2001:db8::2]:2".parse().unwrap(),
        ..sample()
    };
    let encoded = encode(&message, 100).unwrap();
    assert_eq!((encoded.head, encoded.store_time_at), (76, 68));
    let mut bytes = encoded.bytes.to_vec();
    bytes[68..76].copy_from_slice(&5i64.to_be_bytes());
    let view = MessageView::parse(&bytes).unwrap();
    assert_eq!(view.store_time, 5);
    assert_eq!(view.born_host, message.born_host);
    assert_eq!(view.store_host, message.store_host);
    assert_eq!(view.sys_flag, SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6);
}

#[test]
fn mapped_addresses_are_stored_as_ipv4() {
    let message = NewMessage {
        born_host: "[::ffff:10.1.2.3]:4567".parse().unwrap(),
        ..sample()
    };
    assert_eq!(
        encode(&message, 100).unwrap().bytes,
        encode(&sample(), 100).unwrap().bytes
    );
}

#[test]
fn limits() {
    let long = "t".repeat(256);
    let too_long = |m: NewMessage<'_>| encode(&m, 10).unwrap_err();
    let named = |e| match e {
        MessageError::TooLong { what, .. } => what,
        MessageError::Corrupt(_) => "corrupt",
    };
    let properties = vec![b'x'; PROPERTIES_MAX + 1];
    assert_eq!(
        named(too_long(NewMessage {
            topic: &long,
            ..sample()
        })),
        "topic"
    );
    assert_eq!(
        named(too_long(NewMessage {
            topic: "",
            ..sample()
        })),
        "corrupt"
    );
    assert_eq!(
        named(too_long(NewMessage {
            body: &[0; 11],
            ..sample()
        })),
        "body"
    );
    assert_eq!(
        named(too_long(NewMessage {
            properties: &properties,
            ..sample()
        })),
        "properties"
    );
    let v2 = encode(
        &NewMessage {
            topic: &long[..128],
            ..sample()
        },
        10,
    )
    .unwrap();
    let view = MessageView::parse(&v2.bytes).unwrap();
    assert!(view.v2);
    assert_eq!(view.topic.len(), 128);
    assert!(
        !MessageView::parse(
            &encode(
                &NewMessage {
                    topic: &long[..127],
                    ..sample()
                },
                10
            )
            .unwrap()
            .bytes
        )
        .unwrap()
        .v2
    );
}

#[test]
fn java_hash_is_javas() {
    assert_eq!(java_hash(""), 0);
    assert_eq!(java_hash("TagA"), 2_598_919);
    assert_eq!(java_hash("hello world, this is long"), {
        "hello world, this is long".chars().fold(0i32, |h, c| {
            h.wrapping_mul(31)
                .wrapping_add(i32::try_from(u32::from(c)).unwrap())
        })
    });
    // U+1F600 is two UTF-16 units: 0xD83D and 0xDE00.
    assert_eq!(java_hash("😀"), 0xD83D * 31 + 0xDE00);
}

#[test]
fn batch_items_of_a_client() {
    let mut body = Vec::new();
    for (flag, text) in [(1i32, "one"), (2, "two")] {
        let properties = b"A\x01b";
        let total = i32::try_from(22 + text.len() + properties.len()).unwrap();
        body.extend_from_slice(&total.to_be_bytes());
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&flag.to_be_bytes());
        body.extend_from_slice(&3i32.to_be_bytes());
        body.extend_from_slice(text.as_bytes());
        body.extend_from_slice(&3i16.to_be_bytes());
        body.extend_from_slice(properties);
    }
    let items: Vec<_> = batch_items(&body).collect::<Result<_, _>>().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((items[1].flag, items[1].body), (2, &b"two"[..]));
    body.pop();
    assert_eq!(batch_items(&body).filter(Result::is_err).count(), 1);
    assert!(batch_items(&[0, 0, 0, 0]).next().unwrap().is_err());
}

prop_compose! {
    fn any_host()(v6: bool, high: u128, port: u16) -> SocketAddr {
        let ip = if v6 {
            IpAddr::V6(Ipv6Addr::from(high | 1 << 127))
        } else {
            IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(high >> 96).unwrap()))
        };
        SocketAddr::new(ip, port)
    }
}

proptest! {
    #[test]
    fn reads_what_it_wrote(
        numbers: (i32, i32, i32, i64, i32, i64),
        hosts in (any_host(), any_host()),
        body: Vec<u8>,
        topic in "[a-zA-Z%_-]{1,255}",
        properties: Vec<u8>,
    ) {
        let message = NewMessage {
            queue_id: numbers.0, flag: numbers.1, sys_flag: numbers.2, born_time: numbers.3,
            born_host: hosts.0, store_host: hosts.1, reconsume_times: numbers.4,
            prepared_transaction_offset: numbers.5, body: &body, topic: &topic,
            properties: &properties,
        };
        let encoded = encode(&message, body.len()).unwrap();
        let mut bytes = encoded.bytes.to_vec();
        bytes[usize::from(encoded.queue_offset_at)..][..8].copy_from_slice(&1i64.to_be_bytes());
        bytes[usize::from(encoded.address_at)..][..8].copy_from_slice(&2i64.to_be_bytes());
        bytes[usize::from(encoded.store_time_at)..][..8].copy_from_slice(&3i64.to_be_bytes());
        let two = [&bytes[..], &bytes[..]].concat();
        let views: Vec<_> = iter(&two).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(views.len(), 2);
        let view = views[1];
        prop_assert!(view.body_crc_is_right());
        prop_assert_eq!((view.queue_offset, view.physic_offset, view.store_time), (1, 2, 3));
        prop_assert_eq!((view.queue_id, view.flag, view.born_time), (numbers.0, numbers.1, numbers.3));
        let host_bits = SYS_BORN_HOST_V6 | SYS_STORE_HOST_V6;
        prop_assert_eq!(view.sys_flag & !host_bits, numbers.2 & !host_bits);
        prop_assert_eq!((view.born_host, view.store_host), hosts);
        prop_assert_eq!(view.reconsume_times, numbers.4);
        prop_assert_eq!(view.prepared_transaction_offset, numbers.5);
        prop_assert_eq!(view.body, &body[..]);
        prop_assert_eq!(view.topic, &topic);
        prop_assert_eq!(view.properties, &properties[..]);
    }

    #[test]
    fn any_bytes_are_survived(bytes: Vec<u8>) {
        let _ = iter(&bytes).count();
        let _ = batch_items(&bytes).count();
    }

    #[test]
    fn mutated_messages_are_survived(at in 0usize..109, byte: u8, cut in 0usize..109) {
        let mut bytes = encode(&sample(), 100).unwrap().bytes.to_vec();
        bytes[at] = byte;
        let _ = iter(&bytes).count();
        let _ = iter(&bytes[..cut]).count();
    }
}
