//! `compat-tests crash [--rounds N] [--seed S]` and `compat-tests flights`: the crash check and the
//! main job on real data, for people.

use anyhow::{Result, bail};
use std::process::ExitCode;
use std::time::Duration;
use twinmq_compat_tests::{clients::Client, crash, flights};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:?}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("flights") => {
            need(flights::CLIENTS)?;
            flights::show()
        }
        Some("crash") => {
            need(crash::CLIENTS)?;
            let rounds = number(&arguments, "--rounds", 10)?;
            let seed = number(&arguments, "--seed", 1)?;
            let plan = crash::Plan {
                rounds: u32::try_from(rounds)?,
                seed,
                round_max: Duration::from_millis(2500),
            };
            let checked = crash::run(plan, &mut |line| println!("{line}"))?;
            println!("seed {seed}: {checked:?}");
            Ok(())
        }
        _ => bail!("compat-tests crash [--rounds N] [--seed S] | compat-tests flights"),
    }
}

fn need(clients: &[Client]) -> Result<()> {
    match clients.iter().find_map(|client| client.missing()) {
        Some(missing) => bail!("{}", missing.0),
        None => Ok(()),
    }
}

fn number(arguments: &[String], name: &str, default: u64) -> Result<u64> {
    match arguments.iter().position(|argument| argument == name) {
        Some(at) => match arguments.get(at + 1) {
            Some(value) => Ok(value.parse()?),
            None => bail!("{name} needs a number"),
        },
        None => Ok(default),
    }
}
