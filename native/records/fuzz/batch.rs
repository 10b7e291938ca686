//! Any bytes as a produced batch; what the walk accepts must open, and cross to RocketMQ and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twinmq_records::batch::{Walk, check, open, set_max_timestamp};
use twinmq_records::internal::{GroupValue, OffsetValue, OffsetsKey, TransactionValue};
use twinmq_records::message::iter;
use twinmq_records::translate::{Destination, frame, messages};

const MAX: u64 = 1 << 20;

fuzz_target!(|bytes: &[u8]| {
    let _ = OffsetsKey::decode(bytes);
    let _ = OffsetValue::decode(bytes);
    let _ = GroupValue::decode(bytes);
    let _ = TransactionValue::decode(bytes);
    walk(bytes);
    // Most inputs fail on length, magic and CRC: set them right.
    if bytes.len() >= 61 {
        let mut bytes = bytes.to_vec();
        let length = bytes.len() as u32 - 12;
        bytes[..8].fill(0);
        bytes[8..12].copy_from_slice(&length.to_be_bytes());
        bytes[16] = 2;
        let max = i64::from_be_bytes(bytes[35..43].try_into().expect("8 bytes"));
        let _ = set_max_timestamp(&mut bytes, max);
        walk(&bytes);
    }
});

fn walk(bytes: &[u8]) {
    let rules = Walk {
        decompressed_max: MAX,
        log_append_time: true,
    };
    let opened = open(bytes, MAX);
    let Ok(facts) = check(bytes, &rules) else {
        if let Ok(opened) = opened {
            let _ = opened.records().count();
        }
        return;
    };
    let opened = opened.expect("the walk accepted it");
    assert_eq!(opened.records().flatten().count(), facts.count as usize);
    let to = Destination {
        topic: "topic",
        queue_id: 0,
        base: 0,
        address: 0,
        store_time: 0,
        store_host: ([127, 0, 0, 1], 10911).into(),
    };
    let there = messages(&opened, &to, 0, 1 << 22, MAX).expect("records become messages");
    let views = iter(&there.bytes).map(|view| view.expect("a written message"));
    let back = frame(views, 0, MAX).expect("messages become records");
    let back = open(&back, MAX).expect("a written batch");
    for (a, b) in opened.records().flatten().zip(back.records()) {
        let b = b.expect("a written record");
        assert_eq!((a.timestamp, a.value), (b.timestamp, b.value));
    }
}
