//! A header of either encoding, every typed header read from it, and the bodies as JSON.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use twinmq_remoting::bodies::heartbeat::HeartbeatData;
use twinmq_remoting::bodies::lock::LockQueues;
use twinmq_remoting::bodies::registration::RegisterBrokerBody;
use twinmq_remoting::bodies::route::TopicRouteData;
use twinmq_remoting::bodies::stats::ConsumeStats;
use twinmq_remoting::fields::{client, offset, pull, route, send, topic};
use twinmq_remoting::frame::Frame;
use twinmq_remoting::{Encoding, header, json};

fuzz_target!(|data: &[u8]| {
    let Some((&kind, data)) = data.split_first() else {
        return;
    };
    match kind % 4 {
        0 => fields(Encoding::Json, data),
        1 => fields(Encoding::Binary, data),
        2 => {
            let _ = RegisterBrokerBody::decode(data, true, 1 << 16);
        }
        _ => bodies(data),
    }
});

fn fields(encoding: Encoding, data: &[u8]) {
    let frame = Frame {
        encoding,
        header: Bytes::copy_from_slice(data),
        body: Bytes::new(),
    };
    let Ok(command) = header::decode(frame) else {
        return;
    };
    let fields = &command.fields;
    for (name, value) in fields.iter() {
        assert!(fields.get(name).is_some());
        assert!(value.len() <= data.len() * 3);
    }
    let _ = send::Send::read(fields);
    let _ = send::SendBack::read(fields);
    let _ = pull::Pull::read(fields);
    let _ = offset::SearchOffset::read(fields);
    let _ = client::Unregister::read(fields);
    let _ = topic::CreateTopic::read(fields);
    let _ = route::RegisterBroker::read(fields);
}

fn bodies(data: &[u8]) {
    if let Ok(standard) = json::standardize(data) {
        let twice = json::standardize(&standard).map(|twice| twice.into_owned());
        assert!(
            twice.is_ok_and(|twice| twice == *standard),
            "standard JSON stays as it is"
        );
    }
    let _ = json::read::<HeartbeatData>(data);
    let _ = json::read::<LockQueues>(data);
    let _ = json::read::<RegisterBrokerBody>(data);
    if let Ok(route) = json::read::<TopicRouteData>(data) {
        let again: TopicRouteData =
            json::read(&json::write(&route)).expect("what we write, we read");
        assert_eq!(again, route);
    }
    if let Ok(stats) = json::read::<ConsumeStats>(data) {
        let again: ConsumeStats = json::read(&json::write(&stats)).expect("what we write, we read");
        assert_eq!(again.offset_table, stats.offset_table);
    }
}
