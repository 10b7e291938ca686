//! A short crash check; `compat-tests crash --rounds N --seed S` runs longer ones.

use std::process::ExitCode;
use std::time::Duration;
use twinmq_compat_tests::crash;
use twinmq_compat_tests::suite::Suite;

fn main() -> ExitCode {
    let mut suite = Suite::new();
    suite.add(
        "nothing_acknowledged_is_lost_over_eight_kills_under_load",
        crash::CLIENTS,
        || {
            let plan = crash::Plan {
                rounds: 8,
                seed: 7,
                round_max: Duration::from_millis(2000),
            };
            let checked = crash::run(plan, &mut |line| eprintln!("{line}"))?;
            anyhow::ensure!(
                checked.acknowledged > 500 && checked.read > 500,
                "too little load: {checked:?}"
            );
            Ok(())
        },
    );
    suite.run()
}
