//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// One message broker for Kafka and RocketMQ clients, over one log.
#[derive(Debug, Parser)]
#[command(
    name = "twinmq",
    version,
    about,
    args_conflicts_with_subcommands = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) settings: Settings,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// All roles in one process (the default).
    Server(Settings),
    /// The name server alone.
    Nameserver(Settings),
    /// Prints the effective configuration as TOML and ends.
    Config(Settings),
    /// Looks at a stopped broker's log.
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Checks every header, checksum, index run and snapshot.
    Verify {
        /// The data directory.
        dir: PathBuf,
        /// Prints one JSON object.
        #[arg(long)]
        json: bool,
    },
    /// Prints one line per entry.
    Dump {
        /// The data directory.
        dir: PathBuf,
        /// First log offset to print.
        #[arg(long, default_value_t = 0)]
        from: u64,
        /// Most entries to print.
        #[arg(long, default_value_t = u64::MAX)]
        most: u64,
    },
}

/// Where settings come from; flags win over the environment, that over the file.
#[derive(Clone, Debug, Args)]
pub(crate) struct Settings {
    /// A TOML file; see config/twinmq.toml for every key.
    #[arg(long, env = "TWINMQ_CONFIG", value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Where everything is kept; the same as --set data_dir=DIR.
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// One setting, as section.key=value.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

impl Settings {
    /// All `key=value` that the flags name.
    pub(crate) fn overrides(&self) -> Vec<String> {
        let dir = self
            .data_dir
            .as_ref()
            .map(|dir| format!("data_dir={}", dir.display()));
        self.set.iter().cloned().chain(dir).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }
}
