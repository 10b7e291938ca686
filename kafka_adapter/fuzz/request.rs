//! A stream of bytes is cut into frames; each header is read, guarded and decoded. Nothing may panic
//! or take more memory than the bytes bear out.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    // The input is one frame; a length prefix is put in front so that most inputs get past it.
    twinmq_kafka::probe(data);
});
