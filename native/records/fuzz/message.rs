//! Any bytes as stored messages and as the body of SEND_BATCH_MESSAGE; what parses must cross to Kafka.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twinmq_records::batch::crc_is_right;
use twinmq_records::message::{MessageView, batch_items, iter};
use twinmq_records::translate::frame;

fuzz_target!(|bytes: &[u8]| {
    let _ = batch_items(bytes).count();
    for view in iter(bytes).flatten() {
        let _ = view.properties().iter().count();
        cross(view);
    }
    // Most inputs fail on the length and the magic: set them right.
    if bytes.len() > 8 {
        let mut bytes = bytes.to_vec();
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_be_bytes());
        bytes[4..7].copy_from_slice(&[0xDA, 0xA3, 0x20]);
        bytes[7] = if bytes[7] & 1 == 0 { 0xA7 } else { 0xAB };
        if let Ok(view) = MessageView::parse(&bytes) {
            cross(view);
        }
    }
});

fn cross(view: MessageView<'_>) {
    let batch = frame([view], 1, 1 << 20).expect("one message always fits");
    assert!(crc_is_right(&batch));
}
