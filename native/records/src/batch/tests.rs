//! Record batches: the produce walk's refusals, golden bytes, and bytes that are none.

use super::*;
use crate::message::java_hash;
use proptest::prelude::*;

const WALK: Walk = Walk {
    decompressed_max: 1 << 20,
    log_append_time: false,
};
const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

type Owned = (
    i64,
    Option<Vec<u8>>,
    Option<Vec<u8>>,
    Vec<(Vec<u8>, Option<Vec<u8>>)>,
);

fn write(records: &[Owned], codec: Codec) -> Vec<u8> {
    let mut writer = Writer::new(0, -1);
    for (timestamp, key, value, headers) in records {
        let headers: Vec<_> = headers
            .iter()
            .map(|(n, v)| (&n[..], v.as_deref()))
            .collect();
        writer
            .push(*timestamp, key.as_deref(), value.as_deref(), &headers)
            .unwrap();
    }
    writer.finish_compressed(codec).unwrap().to_vec()
}

fn read(batch: &[u8]) -> Vec<Owned> {
    let opened = open(batch, 1 << 20).unwrap();
    let records = opened.records().map(|record| {
        let record = record.unwrap();
        let headers = record
            .headers
            .map(|(n, v)| (n.to_vec(), v.map(<[u8]>::to_vec)));
        (
            record.timestamp,
            record.key.map(<[u8]>::to_vec),
            record.value.map(<[u8]>::to_vec),
            headers.collect(),
        )
    });
    records.collect()
}

fn one(key: Option<&str>, headers: &[(&str, &str)]) -> Owned {
    let headers = headers
        .iter()
        .map(|(n, v)| (n.as_bytes().to_vec(), Some(v.as_bytes().to_vec())));
    (
        1000,
        key.map(|k| k.as_bytes().to_vec()),
        Some(b"value".to_vec()),
        headers.collect(),
    )
}

fn any_records() -> impl Strategy<Value = Vec<Owned>> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..20);
    let headers = proptest::collection::vec((bytes(), proptest::option::of(bytes())), 0..4);
    let record = (
        0i64..1 << 60,
        proptest::option::of(bytes()),
        proptest::option::of(bytes()),
        headers,
    );
    proptest::collection::vec(record, 1..8)
}

#[test]
fn golden_bytes() {
    let mut writer = Writer::new(5, 9).producer(7, 1, 3, true);
    writer
        .push(1000, Some(b"k"), None, &[(b"h", Some(b"v")), (b"n", None)])
        .unwrap();
    let batch = writer.finish();
    let mut want = Vec::new();
    want.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 64, 0, 0, 0, 9, 2]);
    let mut summed = vec![0, 0x10, 0, 0, 0, 0];
    summed.extend_from_slice(&[0, 0, 0, 0, 0, 0, 3, 0xE8, 0, 0, 0, 0, 0, 0, 3, 0xE8]);
    summed.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1]);
    summed.extend_from_slice(&[28, 0, 0, 0, 2, b'k', 1, 4, 2, b'h', 2, b'v', 2, b'n', 1]);
    want.extend_from_slice(&crc32c::crc32c(&summed).to_be_bytes());
    want.extend_from_slice(&summed);
    assert_eq!(&batch[..], &want[..]);
}

#[test]
fn facts_of_a_batch() {
    let mut late = one(None, &[("TAGS", "a")]);
    late.0 = 3000;
    let mut early = one(Some("k"), &[("TAGS", "x"), ("TAGS", "a")]);
    early.0 = 500;
    for codec in CODECS {
        let batch = write(
            &[
                one(Some("k"), &[("TAGS", "a")]),
                late.clone(),
                early.clone(),
            ],
            codec,
        );
        let facts = check(&batch, &WALK).unwrap();
        assert_eq!((facts.count, facts.last_offset_delta), (3, 2));
        assert_eq!((facts.min_timestamp, facts.max_timestamp), (500, 3000));
        assert_eq!(facts.first_without_key, Some(1));
        assert_eq!(facts.tag, Tag::Same(java_hash("a")));
        assert_eq!(facts.codec, codec);
        assert_eq!(facts.payload_sum, crc32c::crc32c(&batch[21..]));
    }
}

#[test]
fn tags() {
    let tag = |records: &[Owned]| check(&write(records, Codec::Gzip), &WALK).unwrap().tag;
    let (a, b, none) = (
        one(None, &[("TAGS", "a")]),
        one(None, &[("TAGS", "b")]),
        one(None, &[]),
    );
    assert_eq!(tag(&[none.clone(), none.clone()]), Tag::None);
    assert_eq!(tag(&[a.clone(), a.clone()]), Tag::Same(97));
    assert_eq!(tag(&[a.clone(), b]), Tag::Mixed);
    assert_eq!(tag(&[a.clone(), none.clone()]), Tag::Mixed);
    assert_eq!(tag(&[none, a]), Tag::Mixed);
    assert_eq!(tag(&[one(None, &[("TAGS", "a\u{1}")])]), Tag::None);
    assert_eq!(tag(&[one(None, &[("TAGS", &"a".repeat(1025))])]), Tag::None);
    assert!(matches!(
        tag(&[one(None, &[("TAGS", &"a".repeat(1024))])]),
        Tag::Same(_)
    ));
}

/// Changes a good batch and recomputes its CRC.
fn changed(change: impl Fn(&mut Vec<u8>)) -> Result<Facts, BatchError> {
    let mut batch = write(&[one(Some("k"), &[]), one(Some("k"), &[])], Codec::None);
    change(&mut batch);
    let length = u32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = crc32c::crc32c(&batch[21..]).to_be_bytes();
    batch[17..21].copy_from_slice(&crc);
    check(&batch, &WALK)
}

#[test]
fn refusals() {
    let invalid =
        |change: &dyn Fn(&mut Vec<u8>)| matches!(changed(change), Err(BatchError::Invalid(_)));
    let corrupt =
        |change: &dyn Fn(&mut Vec<u8>)| matches!(changed(change), Err(BatchError::Corrupt(_)));
    assert!(changed(|_| ()).is_ok());
    assert!(invalid(&|b| b[7] = 1), "base offset");
    assert!(invalid(&|b| b[60] = 3), "count");
    assert!(invalid(&|b| (b[60], b[26]) = (3, 2)), "count above content");
    assert!(invalid(&|b| (b[60], b[26]) = (1, 0)), "count below content");
    assert!(invalid(&|b| (b[60], b[57]) = (0, 0x80)), "negative count");
    assert!(invalid(&|b| b[22] = 0x20), "control");
    assert!(invalid(&|b| b[22] = 0x40), "delete horizon");
    assert!(invalid(&|b| b[22] = 0x10), "transaction without producer");
    assert!(invalid(&|b| b[43..51].fill(0)), "producer without sequence");
    assert!(invalid(&|b| b[62] = 1), "record attribute");
    assert!(invalid(&|b| b[64] = 2), "offset delta");
    assert!(corrupt(&|b| b[61] = 4), "record length");
    assert!(corrupt(&|b| b[61] = 0xFF), "record length past the end");
    assert!(corrupt(&|b| b[65] = 200), "key length");
    assert!(corrupt(&|b| b[65] = 3), "key length below −1");
    assert_eq!(changed(|b| b[22] = 5), Err(BatchError::Codec(5)));
    assert_eq!(changed(|b| b[22] = 8), Err(BatchError::TimestampType));
    assert_eq!(changed(|b| b[16] = 1), Err(BatchError::Magic(1)));

    let good = write(&[one(None, &[])], Codec::None);
    assert!(matches!(check(&[], &WALK), Err(BatchError::Invalid(_))));
    let two = [&good[..], &good[..]].concat();
    assert!(matches!(check(&two, &WALK), Err(BatchError::Invalid(_))));
    let mut flipped = good.clone();
    *flipped.last_mut().unwrap() ^= 1;
    assert!(matches!(
        check(&flipped, &WALK),
        Err(BatchError::Corrupt(_))
    ));
    assert!(matches!(
        check(&good[..good.len() - 1], &WALK),
        Err(BatchError::Corrupt(_))
    ));
}

#[test]
fn a_bomb_is_refused() {
    let mut bomb = one(None, &[]);
    bomb.2 = Some(vec![0; 2 << 20]);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let batch = write(&[bomb.clone()], codec);
        assert_eq!(check(&batch, &WALK), Err(BatchError::TooBig(1 << 20)));
        assert!(open(&batch, 1 << 20).is_err());
    }
}

#[test]
fn log_append_time_and_stamp() {
    let mut batch = write(&[one(None, &[])], Codec::None);
    let sum = set_log_append_time(&mut batch, 9_000).unwrap();
    stamp(&mut batch, 77, 5).unwrap();
    assert!(crc_is_right(&batch));
    let header = Header::decode(&batch).unwrap();
    assert_eq!(
        (header.base_offset, header.leader_epoch, header.crc),
        (77, 5, sum)
    );
    assert_eq!(read(&batch)[0].0, 9_000);
    assert_eq!(
        check(&batch, &WALK).unwrap_err(),
        BatchError::Invalid("base offset is not 0".into())
    );
}

#[test]
fn control_and_empty_batches() {
    let batch = control_batch(true, 7, 2, 3, 1000);
    assert!(crc_is_right(&batch));
    let header = Header::decode(&batch).unwrap();
    assert!(header.has(CONTROL) && header.has(TRANSACTIONAL));
    assert_eq!(
        (
            header.producer_id,
            header.producer_epoch,
            header.base_sequence
        ),
        (7, 2, -1)
    );
    let record = &read(&batch)[0];
    assert_eq!(record.1.as_deref(), Some(&[0, 0, 0, 1][..]));
    assert_eq!(record.2.as_deref(), Some(&[0, 0, 0, 0, 0, 3][..]));
    assert_eq!(
        read(&control_batch(false, 7, 2, 3, 0))[0].1,
        Some(vec![0; 4])
    );

    let batch = empty_batch(10, 4, 1);
    assert!(crc_is_right(&batch));
    let header = Header::decode(&batch).unwrap();
    assert_eq!(
        (header.base_offset, header.last_offset_delta, header.count),
        (10, 4, 0)
    );
    assert_eq!(read(&batch), []);
}

#[test]
fn far_apart_times_survive() {
    let times = [i64::MIN, i64::MAX, 0, -1];
    let records: Vec<Owned> = times.map(|t| (t, None, None, vec![])).to_vec();
    assert_eq!(read(&write(&records, Codec::None)), records);
}

proptest! {
    #[test]
    fn reads_what_it_wrote(records in any_records()) {
        for codec in CODECS {
            let batch = write(&records, codec);
            let facts = check(&batch, &WALK).unwrap();
            prop_assert_eq!(facts.count as usize, records.len());
            prop_assert_eq!(Some(facts.max_timestamp), records.iter().map(|r| r.0).max());
            prop_assert_eq!(facts.stated_max_timestamp, facts.max_timestamp);
            prop_assert_eq!(&read(&batch), &records);
        }
    }

    #[test]
    fn any_bytes_are_survived(mut bytes: Vec<u8>) {
        let _ = check(&bytes, &WALK);
        if bytes.len() > 61 {
            bytes[16] = 2;
            let length = u32::try_from(bytes.len() - 12).unwrap();
            bytes[8..12].copy_from_slice(&length.to_be_bytes());
        }
        if let Ok(opened) = open(&bytes, 1 << 16) {
            let _ = opened.records().count();
        }
    }

    /// With the CRC made right again, so that the walk sees the change; and what the walk accepts
    /// can be read.
    #[test]
    fn mutated_batches_are_survived(
        records in any_records(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        codec in 0usize..5,
    ) {
        let mut batch = write(&records, CODECS[codec]);
        for (at, byte) in changes {
            let at = at.index(batch.len());
            if !(8..21).contains(&at) {
                batch[at] = byte;
            }
        }
        let crc = crc32c::crc32c(&batch[21..]).to_be_bytes();
        batch[17..21].copy_from_slice(&crc);
        let opened = open(&batch, 1 << 20).map(|o| o.records().filter(|r| r.is_ok()).count());
        if let Ok(facts) = check(&batch, &WALK) {
            prop_assert_eq!(opened, Ok(facts.count as usize));
        }
    }
}
