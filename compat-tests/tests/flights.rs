//! The main job on real data, whole.

use std::process::ExitCode;
use twinmq_compat_tests::suite::Suite;
use twinmq_compat_tests::{Node, flights};

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add(
        "all_336776_flights_cross_both_ways_with_equal_offsets",
        flights::CLIENTS,
        || {
            let node = Node::start()?;
            flights::run(&node, flights::ROWS, &mut |line| eprintln!("{line}"))
        },
    );
    suite.run()
}
