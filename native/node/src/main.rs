//! The TwinMQ process: arguments, configuration, start, signal, drain.

mod cli;
mod config;
mod descriptors;
mod error;
mod logging;
mod node;
mod offline;

use crate::cli::{Arguments, Command};
use crate::config::NodeConfig;
use crate::error::StartError;
use crate::node::{Node, Role};
use clap::Parser as _;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Some(Command::Store { command }) => offline::run(&command),
        Some(Command::Config(settings)) => print_config(&settings),
        Some(Command::Nameserver(settings)) => serve(&settings, Role::Nameserver),
        Some(Command::Server(settings)) => serve(&settings, Role::All),
        None => serve(&arguments.settings, Role::All),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("twinmq: {error}");
            ExitCode::FAILURE
        }
    }
}

fn load(settings: &cli::Settings) -> Result<NodeConfig, StartError> {
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    NodeConfig::load(
        settings.config.as_deref(),
        environment,
        &settings.overrides(),
    )
}

fn print_config(settings: &cli::Settings) -> Result<ExitCode, StartError> {
    let text =
        toml::to_string(&load(settings)?).map_err(|error| StartError::new("config", &error))?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn serve(settings: &cli::Settings, role: Role) -> Result<ExitCode, StartError> {
    let config = load(settings)?;
    logging::start(&config.log)?;
    descriptors::prepare(&config, role);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if config.worker_threads > 0 {
        runtime.worker_threads(config.worker_threads);
    }
    let runtime = runtime
        .enable_all()
        .thread_name("twinmq-worker")
        .build()
        .map_err(|error| StartError::new("the runtime", &error))?;
    runtime.block_on(async {
        let node = Node::start(config, role).await?;
        println!("{}", node.banner());
        let signal = ended().await?;
        tracing::info!(
            signal,
            "stopping: no new clients, requests under way are finished"
        );
        node.stop().await;
        tracing::info!("stopped");
        Ok(ExitCode::SUCCESS)
    })
}

/// Resolves with the name of the signal that asks the process to end.
async fn ended() -> Result<&'static str, StartError> {
    let broken = |error: std::io::Error| StartError::new("signals", &error);
    let mut terminate = signal(SignalKind::terminate()).map_err(broken)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(broken)?;
    tokio::select! {
        _ = terminate.recv() => Ok("SIGTERM"),
        _ = interrupt.recv() => Ok("SIGINT"),
    }
}
