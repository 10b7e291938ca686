//! A stream of bytes, arriving in pieces, is cut and decoded. What decodes must survive being written
//! and read again; bytes are neither lost nor invented.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use twinmq_remoting::{Command, frame, header};

const LIMIT: usize = 1 << 16;

fuzz_target!(|data: &[u8]| {
    let Some((&step, stream)) = data.split_first() else {
        return;
    };
    let mut buffer = BytesMut::new();
    for piece in stream.chunks(usize::from(step).max(1)) {
        buffer.extend_from_slice(piece);
        loop {
            let before = buffer.len();
            match frame::next(&mut buffer, LIMIT) {
                Ok(Ok(command)) => {
                    assert!(buffer.len() + 8 + command.body.len() <= before);
                    round_trip(&command);
                }
                Ok(Err(needed)) => {
                    assert!(needed > before && needed <= LIMIT);
                    assert_eq!(buffer.len(), before);
                    break;
                }
                Err(error) => {
                    let _ = error.to_string();
                    return;
                }
            }
        }
    }
});

fn round_trip(command: &Command) {
    let mut out = Vec::new();
    header::encode(command, &mut out);
    let mut out = BytesMut::from(&out[..]);
    out.extend_from_slice(&command.body);
    let again = frame::next(&mut out, 1 << 26)
        .expect("what we write, we read")
        .expect("whole");
    assert!(out.is_empty());
    assert_eq!((again.opaque, again.flag), (command.opaque, command.flag));
    assert_eq!(again.body, command.body);
    let written = command.fields.iter().filter(|(_, value)| !value.is_empty());
    let read = again.fields.iter().filter(|(_, value)| !value.is_empty());
    assert!(written.eq(read));
    assert_eq!(command.detached().fields, command.fields);
}
