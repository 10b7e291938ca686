//! Records of Kafka's internal topics, against bytes laid out by hand.

use super::*;
use proptest::prelude::*;

fn offset() -> OffsetValue {
    OffsetValue {
        offset: 258,
        leader_epoch: 4,
        metadata: "m".to_owned(),
        commit_time: 5,
        expire_time: None,
        topic_id: None,
    }
}

#[test]
fn golden_offset_key_and_value() {
    let key = OffsetKey {
        group: "g".to_owned(),
        topic: "tt".to_owned(),
        partition: 3,
    };
    let bytes = key.encode().unwrap();
    assert_eq!(bytes, b"\0\x01\0\x01g\0\x02tt\0\0\0\x03");
    assert_eq!(OffsetsKey::decode(&bytes), Ok(OffsetsKey::Offset(key)));

    let bytes = offset().encode().unwrap();
    assert_eq!(
        bytes,
        b"\0\x03\0\0\0\0\0\0\x01\x02\0\0\0\x04\0\x01m\0\0\0\0\0\0\0\x05"
    );
    let expiring = OffsetValue {
        expire_time: Some(6),
        ..offset()
    };
    let bytes = expiring.encode().unwrap();
    assert_eq!(
        bytes,
        b"\0\x01\0\0\0\0\0\0\x01\x02\0\x01m\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06"
    );
    let back = OffsetValue::decode(&bytes).unwrap();
    assert_eq!((back.leader_epoch, back.expire_time), (-1, Some(6)));
}

#[test]
fn other_versions_of_an_offset() {
    let plain = OffsetValue {
        leader_epoch: -1,
        ..offset()
    };
    for version in [0, 2] {
        let mut bytes = vec![0, version];
        bytes.extend_from_slice(b"\0\0\0\0\0\0\x01\x02\0\x01m\0\0\0\0\0\0\0\x05");
        assert_eq!(OffsetValue::decode(&bytes), Ok(plain.clone()));
    }
    // Version 4: compact metadata, one tagged topic id, one tag nobody knows.
    let mut bytes =
        b"\0\x04\0\0\0\0\0\0\x01\x02\0\0\0\x04\x02m\0\0\0\0\0\0\0\x05\x02\0\x10".to_vec();
    bytes.extend_from_slice(&[7; 16]);
    bytes.extend_from_slice(&[9, 1, 1]);
    let want = OffsetValue {
        topic_id: Some([7; 16]),
        ..offset()
    };
    assert_eq!(OffsetValue::decode(&bytes), Ok(want));
    bytes.push(0);
    assert!(OffsetValue::decode(&bytes).is_err(), "bytes left over");
    let unknown = InternalError::Version {
        what: "offset value",
        version: 5,
    };
    assert_eq!(OffsetValue::decode(&[0, 5]), Err(unknown));
}

fn group() -> GroupValue {
    GroupValue {
        protocol_type: "consumer".to_owned(),
        generation: 2,
        protocol: Some("range".to_owned()),
        leader: None,
        state_time: 7,
        members: vec![GroupMember {
            id: "m1".to_owned(),
            instance_id: Some("i".to_owned()),
            client_id: "c".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            rebalance_timeout: 300,
            session_timeout: 10,
            subscription: vec![1, 2],
            assignment: vec![],
        }],
    }
}

#[test]
fn groups() {
    let key = encode_group_key("g").unwrap();
    assert_eq!(key, b"\0\x02\0\x01g");
    assert_eq!(
        OffsetsKey::decode(&key),
        Ok(OffsetsKey::Group("g".to_owned()))
    );
    assert_eq!(OffsetsKey::decode(&[0, 3, 9]), Ok(OffsetsKey::Other(3)));
    let bytes = group().encode().unwrap();
    assert_eq!(GroupValue::decode(&bytes), Ok(group()));
    // Version 0 has neither times nor instance id.
    let old = b"\0\0\0\x01c\0\0\0\x01\xFF\xFF\xFF\xFF\0\0\0\x01\0\x01m\0\x01c\0\x01h\0\0\0\x09\0\0\0\0\0\0\0\0";
    let old = GroupValue::decode(old).unwrap();
    assert_eq!((old.state_time, old.protocol), (-1, None));
    assert_eq!(
        (
            old.members[0].rebalance_timeout,
            old.members[0].session_timeout
        ),
        (9, 9)
    );
    // Version 4 is flexible.
    let new = b"\0\x04\x02c\0\0\0\x01\0\0\0\0\0\0\0\0\0\x08\x02\x02m\0\x02c\x02h\0\0\0\x05\0\0\0\x09\x01\x01\0\0";
    let new = GroupValue::decode(new).unwrap();
    assert_eq!((new.state_time, new.members[0].rebalance_timeout), (8, 5));
}

#[test]
fn transactions() {
    let key = encode_transaction_key("tx").unwrap();
    assert_eq!(key, b"\0\0\0\x02tx");
    assert_eq!(decode_transaction_key(&key).as_deref(), Ok("tx"));
    let mut value = TransactionValue {
        producer_id: 1,
        producer_epoch: 2,
        timeout: 3,
        status: TransactionStatus::Ongoing,
        partitions: Some(vec![("t".to_owned(), vec![0, 5])]),
        last_update: 4,
        start: 5,
        v2: TransactionV2::default(),
    };
    let bytes = value.encode().unwrap();
    let want =
        b"\0\0\0\0\0\0\0\0\0\x01\0\x02\0\0\0\x03\x01\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x05\
        \0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05";
    assert_eq!(bytes, want);
    assert_eq!(TransactionValue::decode(&bytes), Ok(value.clone()));
    value.partitions = None;
    assert_eq!(
        TransactionValue::decode(&value.encode().unwrap()),
        Ok(value)
    );
    // Version 1 with next producer id 9.
    let flexible = b"\0\x01\0\0\0\0\0\0\0\x01\0\x02\0\0\0\x03\x01\x02\x02t\x02\0\0\0\x07\0\
        \0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\x01\x01\x08\0\0\0\0\0\0\0\x09";
    let flexible = TransactionValue::decode(flexible).unwrap();
    assert_eq!(flexible.partitions, Some(vec![("t".to_owned(), vec![7])]));
    assert_eq!(flexible.v2.next_producer_id, 9);
}

#[test]
fn names_of_any_length_are_survived() {
    let long = "x".repeat(32_768);
    assert_eq!(
        encode_group_key(&long),
        Err(InternalError::TooLong("group"))
    );
    assert!(encode_group_key(&long[1..]).is_ok());
}

fn decode_all(bytes: &[u8]) {
    let _ = OffsetsKey::decode(bytes);
    let _ = OffsetValue::decode(bytes);
    let _ = GroupValue::decode(bytes);
    let _ = decode_transaction_key(bytes);
    let _ = TransactionValue::decode(bytes);
}

proptest! {
    #[test]
    fn any_bytes_are_survived(version in 0u8..6, bytes: Vec<u8>) {
        decode_all(&bytes);
        decode_all(&[&[0, version], &bytes[..]].concat());
    }

    #[test]
    fn mutated_records_are_survived(at: prop::sample::Index, byte: u8) {
        let mut bytes = group().encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        decode_all(&bytes);
    }
}
