//! Frozen bytes of requests and answers. A change here is a change of the wire: never regenerate in
//! passing.
//!
//! Requests are as clients send them (length prefix left out); answers as they must read, with the
//! listener's port in place of `PPPP`.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod harness;

use bytes::{Buf, Bytes};
use harness::{Broker, Client, prefixed};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn ask(client: &mut Client, request: &str) -> Bytes {
    client.raw(&prefixed(&bytes(request))).await;
    client.frame().await.unwrap()
}

async fn exchange(client: &mut Client, port: u16, request: &str, answer: &str) {
    let expected: String = answer
        .split_whitespace()
        .collect::<String>()
        .replace("PPPP", &format!("{port:04x}"));
    let got = ask(client, request).await;
    assert_eq!(hex(&got), expected, "answer to {request}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_read_as_they_always_have() {
    let broker = Broker::start().await;
    broker.create_topic("t", 1, &[]).await;
    let port = broker.address.port();
    let mut client = broker.connect().await;
    let client = &mut client;
    // ApiVersions v0, client id "c": error, then (key, lowest, highest) in key order.
    exchange(
        client,
        port,
        "0012 0000 00000001 0001 63",
        "00000001 0000 0000001e
         0000 0000 000d  0001 0004 0011  0002 0001 000a  0003 0000 000d  0008 0002 0009  0009 0001 0009
         000a 0000 0006  000b 0000 0009  000c 0000 0004  000d 0000 0005  000e 0000 0005  000f 0000 0006
         0010 0000 0005  0012 0000 0004  0013 0002 0007  0014 0001 0006  0015 0000 0002  0016 0000 0005
         0017 0002 0004  0020 0001 0004  0021 0000 0002  0023 0001 0004  0025 0000 0003  002a 0000 0002
         002b 0000 0002  002c 0000 0001  002e 0000 0000  002f 0000 0000  003c 0000 0002  004b 0000 0000",
    )
    .await;
    // ApiVersions v3 of a librdkafka: header v2 in, header v0 out, features as tagged fields.
    let mut answer = ask(
        client,
        "0012 0003 00000002 0007 72646b61666b61 00 0b 6c696272646b61666b61 06 322e332e30 00",
    )
    .await;
    assert_eq!(answer.get_i32(), 2);
    assert_eq!(answer.get_i16(), 0);
    assert_eq!(answer.get_u8(), 31, "30 APIs, compact");
    answer.advance(30 * 7);
    assert_eq!(
        hex(&answer),
        "0000000003\
         001702116d657461646174612e76657273696f6e0007001900\
         01080000000000000000\
         021702116d657461646174612e76657273696f6e0019001900"
    );
    // Metadata v1 for "t": brokers, controller, topics.
    exchange(
        client,
        port,
        "0003 0001 00000003 0001 63 00000001 0001 74",
        "00000003
         00000001 00000001 0009 3132372e302e302e31 0000PPPP ffff
         00000001
         00000001 0000 0001 74 00
         00000001 0000 00000000 00000001 00000001 00000001 00000001 00000001",
    )
    .await;
    // Produce v3, acks 1, one record (null key, value "v", CreateTime 0) to t-0.
    let batch = "0000000000000000 00000039 ffffffff 02 CCCCCCCC 0000 00000000 0000000000000000 0000000000000000
                 ffffffffffffffff ffff ffffffff 00000001 0e 00 00 00 01 02 76 00";
    let summed = bytes(
        &batch
            .split("CCCCCCCC")
            .nth(1)
            .unwrap()
            .replace(char::is_whitespace, ""),
    );
    let batch = batch.replace("CCCCCCCC", &hex(&crc32c::crc32c(&summed).to_be_bytes()));
    exchange(
        client,
        port,
        &format!(
            "0000 0003 00000004 0001 63 ffff 0001 000003e8
             00000001 0001 74 00000001 00000000 00000045 {batch}"
        ),
        "00000004 00000001 0001 74 00000001 00000000 0000 0000000000000000 ffffffffffffffff 00000000",
    )
    .await;
    // Fetch v4 of it: only the leader epoch (1) differs from what was sent.
    let stored = batch.replacen("ffffffff", "00000001", 1);
    exchange(
        client,
        port,
        "0001 0004 00000005 0001 63 ffffffff 00000000 00000001 00100000 00
         00000001 0001 74 00000001 00000000 0000000000000000 00100000",
        &format!(
            "00000005 00000000 00000001 0001 74 00000001 00000000 0000
             0000000000000001 0000000000000001 ffffffff 00000045 {stored}"
        ),
    )
    .await;
    // Fetch v12, read_committed, no session: compact, tags, an empty aborted list.
    exchange(
        client,
        port,
        "0001 000c 00000006 0001 63 00 ffffffff 00000000 00000001 00100000 01 00000000 ffffffff
         02 02 74 02 00000000 ffffffff 0000000000000000 ffffffff ffffffffffffffff 00100000 00 00
         01 01 00",
        &format!(
            "00000006 00 00000000 0000 00000000
             02 02 74 02 00000000 0000 0000000000000001 0000000000000001 0000000000000000
             01 ffffffff 46 {stored} 00 00 00"
        ),
    )
    .await;
    // ListOffsets v1, latest.
    exchange(
        client,
        port,
        "0002 0001 00000007 0001 63 ffffffff 00000001 0001 74 00000001 00000000 ffffffffffffffff",
        "00000007 00000001 0001 74 00000001 00000000 0000 ffffffffffffffff 0000000000000001",
    )
    .await;
}
