//! Random operations against a tiny model of the store, on the simulated disk, with reopening, kill
//! and power cut as operations. Files are small, so that rolling and sealing happen.
//!
//! What must hold: offsets, times and receipts agree with the model; what is read is what was
//! appended; after a power cut a prefix of whole runs is left that holds at least all that was
//! acknowledged as synced; after a kill everything written is left.

mod world;

use proptest::prelude::*;
use world::{Op, Plan, Tamper, Turn, World};

fn plan() -> impl Strategy<Value = Plan> {
    let bytes = prop_oneof![
        12 => 0_u32..600,
        4 => 600_u32..20_000,
        1 => 20_000_u32..250_000,
    ];
    (0_u8..6, 1_u32..5, bytes, -3_i8..100).prop_map(|(queue, span, bytes, time)| Plan {
        queue,
        span,
        bytes,
        time,
    })
}

fn op() -> impl Strategy<Value = Op> {
    let tamper = prop_oneof![
        6 => Just(Tamper::Next),
        2 => (1_u8..6).prop_map(Tamper::Again),
        1 => Just(Tamper::Gap),
        1 => Just(Tamper::NewEpoch),
        1 => Just(Tamper::OldEpoch),
    ];
    let turn = prop_oneof![3 => Just(Turn::Batch), 1 => Just(Turn::Commit), 1 => Just(Turn::Abort)];
    prop_oneof![
        12 => (prop::collection::vec(plan(), 1..6), any::<bool>())
            .prop_map(|(plans, synced)| Op::Append { plans, synced }),
        3 => prop::collection::vec(plan(), 1..60).prop_map(Op::Each),
        4 => (0_u8..6, 0_u8..3, 1_u32..4, tamper).prop_map(|(queue, producer, span, tamper)| {
            Op::Idempotent { queue, producer, span, tamper }
        }),
        4 => (0_u8..6, 3_u8..5, turn)
            .prop_map(|(queue, producer, turn)| Op::Transact { queue, producer, turn }),
        8 => (0_u8..6, 0_u8..=100, 0_u32..100_000, 1_u32..200, any::<bool>()).prop_map(
            |(queue, percent, bytes_max, entries_max, committed)| Op::Read {
                queue, percent, bytes_max, entries_max, committed,
            }
        ),
        3 => (0_u8..6, 0_u8..=100).prop_map(|(queue, percent)| Op::Search { queue, percent }),
        2 => (0_u8..6, 0_u8..=110).prop_map(|(queue, percent)| Op::Raise { queue, percent }),
        1 => (0_u8..6).prop_map(Op::Drop),
        1 => any::<u16>().prop_map(Op::Snapshot),
        1 => Just(Op::FailSync),
        2 => Just(Op::Reopen),
        3 => Just(Op::Kill),
        4 => Just(Op::Crash),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 400,
        ..ProptestConfig::default()
    })]
    #[test]
    fn the_store_does_what_the_model_does(
        seed in any::<u64>(),
        ops in prop::collection::vec(op(), 1..60),
    ) {
        World::new(seed).run(&ops);
    }
}
