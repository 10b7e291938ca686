//! Scenarios as ordinary cargo tests: each has a sentence for a name and the clients it needs. A
//! runtime that the machine lacks makes its scenarios *ignored*, with the line that installs it.

use crate::clients::Client;
use anyhow::Result;
use libtest_mimic::{Arguments, Failed, Trial};
use std::process::ExitCode;

/// The scenarios of one test binary.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
    lacking: Vec<String>,
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Suite")
            .field("trials", &self.trials.len())
            .finish_non_exhaustive()
    }
}

impl Suite {
    /// No scenarios yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a scenario that needs `clients`.
    pub fn add(
        &mut self,
        name: impl Into<String>,
        clients: &[Client],
        body: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        let name = name.into();
        let missing = clients.iter().find_map(|client| client.missing());
        let ignored = missing.is_some();
        if let Some(missing) = missing
            && !self.lacking.contains(&missing.0)
        {
            self.lacking.push(missing.0);
        }
        let run = move || body().map_err(|error| Failed::from(format!("{error:?}")));
        self.trials
            .push(Trial::test(name, run).with_ignored_flag(ignored));
    }

    /// Runs them as `cargo test` asks.
    #[must_use]
    pub fn run(self) -> ExitCode {
        for line in &self.lacking {
            eprintln!("IGNORED SCENARIOS: {line}");
        }
        libtest_mimic::run(&Arguments::from_args(), self.trials).exit_code()
    }
}
