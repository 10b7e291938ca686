//! Any bytes as property text: reading, changing, and names of topics and groups.
#![no_main]

use libfuzzer_sys::fuzz_target;
use twinmq_records::names::{kafka_group, kafka_topic, native_group, native_topic};
use twinmq_records::properties::{Properties, PropertiesBuilder};

fuzz_target!(|bytes: &[u8]| {
    let before: Vec<_> = Properties::new(bytes).pairs().collect();
    let mut builder = PropertiesBuilder::from_text(bytes);
    let after: Vec<_> = Properties::new(builder.as_bytes()).pairs().collect();
    assert_eq!(before, after);
    builder.set("name", "value").expect("a plain property");
    assert_eq!(builder.get("name"), Some("value"));
    if let Ok(name) = std::str::from_utf8(bytes) {
        if let Some(native) = native_topic(name) {
            assert_eq!(kafka_topic(&native).as_deref(), Some(name));
        }
        if let Some(kafka) = kafka_topic(name) {
            assert_eq!(native_topic(&kafka).as_deref(), Some(name));
        }
        if let Some(native) = native_group(name) {
            assert_eq!(kafka_group(&native), name);
        }
    }
});
