//! The disk format, frozen: these bytes change only with the format's number (FORMAT.md).

#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

use bytes::Bytes;
use smallvec::smallvec;
use std::fmt::Write;
use std::sync::Arc;
use twinmq_store::{
    Clock, Draft, Fill, Flags, Kind, Place, Producer, QueueNumber, Store, StoreConfig,
    StoreMetrics, Timestamp,
};

#[derive(Debug)]
struct Still;

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp(1_700_000_000_123)
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::new();
    for line in bytes.chunks(32) {
        for byte in line {
            write!(out, "{byte:02x}").unwrap();
        }
        out.push('\n');
    }
    out
}

#[tokio::test]
async fn the_log_is_written_in_format_1() {
    let dir = tempfile::tempdir().unwrap();
    let config = StoreConfig {
        file_bytes: 1 << 20,
        run_bytes_max: 256 << 10,
        ..StoreConfig::default()
    };
    let store = Store::open(dir.path(), config, Arc::new(Still), StoreMetrics::default()).unwrap();
    let payload = Bytes::from_static(b"................................body");
    let message = Draft {
        kind: Kind::Message,
        flags: Flags::default(),
        queue: QueueNumber(16),
        span: 1,
        record_time: Timestamp(1_600_000_000_000),
        tag_hash: -2,
        producer: None,
        head: 32,
        payload_sum: crc32c::crc32c(&payload[32..]),
        places: smallvec![
            Place {
                at: 0,
                fill: Fill::QueueOffset
            },
            Place {
                at: 8,
                fill: Fill::Address
            },
            Place {
                at: 16,
                fill: Fill::StoreTime
            },
            Place {
                at: 24,
                fill: Fill::Reign
            },
        ],
        payload: payload.clone(),
    };
    let batch = Draft {
        kind: Kind::Batch,
        flags: Flags::TRANSACTIONAL.with(Flags::MIXED_TAGS),
        queue: QueueNumber(17),
        span: 200,
        producer: Some(Producer {
            id: 0x0102_0304,
            epoch: 7,
            first_sequence: 9,
        }),
        head: 0,
        payload_sum: crc32c::crc32c(&payload),
        places: smallvec![],
        ..message.clone()
    };
    let receipts = store.append(&[message, batch]).await.unwrap();
    let end = usize::try_from(receipts[0].end.0).unwrap();
    store.close();
    let log = std::fs::read(dir.path().join("log/00000000000000000000")).unwrap();
    assert_eq!(hex(&log[..end]), include_str!("golden/log.hex"));
    let format = std::fs::read_to_string(dir.path().join("format")).unwrap();
    assert_eq!(format, "twinmq-store 1 1048576\n");
    let clean = std::fs::read(dir.path().join("clean")).unwrap();
    assert_eq!(clean[..8], receipts[0].end.0.to_le_bytes());
    assert_eq!(clean[8..], crc32c::crc32c(&clean[..8]).to_le_bytes());
}
