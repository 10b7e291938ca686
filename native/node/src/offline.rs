//! `twinmq store verify|dump`: a stopped broker's log, looked at without opening it for writing.

use crate::cli::StoreCommand;
use crate::error::StartError;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use twinmq_store::LogOffset;
use twinmq_store::verify::{Report, dump, verify};

/// Runs the command; the exit code is 0 when everything is sound.
///
/// # Errors
/// The directory cannot be read, or a broker has it open.
pub(crate) fn run(command: &StoreCommand) -> Result<ExitCode, StartError> {
    match command {
        StoreCommand::Verify { dir, json } => {
            let report =
                verify(&log_of(dir)).map_err(|error| StartError::new("store verify", &error))?;
            if *json {
                print_json(&report)
            } else {
                print_text(&report)
            };
            Ok(if report.is_sound() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        StoreCommand::Dump { dir, from, most } => {
            let mut out = Lines {
                out: BufWriter::new(io::stdout().lock()),
                left: *most,
            };
            match dump(&log_of(dir), LogOffset(*from), &mut out) {
                Err(error) if out.left > 0 => Err(StartError::new("store dump", &error)),
                // Enough lines, or a reader such as `head` that went away.
                _ => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

/// The data directory's log; the log's own directory is taken as well.
fn log_of(dir: &Path) -> PathBuf {
    let inner = dir.join("store");
    if inner.is_dir() {
        inner
    } else {
        dir.to_owned()
    }
}

/// Passes on a number of lines, then refuses.
struct Lines<W: Write> {
    out: W,
    left: u64,
}

impl<W: Write> Write for Lines<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.left == 0 {
            return Err(io::Error::from(io::ErrorKind::BrokenPipe));
        }
        let end = bytes
            .iter()
            .position(|byte| *byte == b'\n')
            .map(|at| at + 1);
        let part = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        if let Err(error) = self.out.write_all(part) {
            self.left = 0;
            return Err(error);
        }
        if end.is_some() {
            self.left -= 1;
        }
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn print_text(report: &Report) {
    println!(
        "log        {} to {}, {} files",
        report.head, report.end, report.files
    );
    println!(
        "entries    {} in {} runs, {} queues",
        report.entries, report.runs, report.queues
    );
    println!(
        "index      {} runs, {} rows compared",
        report.index_runs, report.rows
    );
    println!("snapshots  {}", report.snapshots);
    match report.clean {
        Some(end) => println!("stopped    cleanly at {end}"),
        None => println!(
            "stopped    without a clean end; on disk for sure up to {}",
            report.synced
        ),
    }
    if let Some(end) = report.unfinished {
        println!("unfinished a run up to {end}; the next start cuts it");
    }
    for problem in &report.problems {
        println!(
            "PROBLEM    {} at {}: {}",
            problem.path.display(),
            problem.at,
            problem.what
        );
    }
    if report.more_problems > 0 {
        println!("PROBLEM    and {} more", report.more_problems);
    }
    if report.is_sound() {
        println!("sound");
    }
}

fn print_json(report: &Report) {
    let problems: Vec<_> = report
        .problems
        .iter()
        .map(|p| serde_json::json!({"path": p.path, "at": p.at, "what": p.what}))
        .collect();
    let json = serde_json::json!({
        "sound": report.is_sound(), "head": report.head.0, "end": report.end.0, "files": report.files,
        "entries": report.entries, "runs": report.runs, "queues": report.queues, "index_runs": report.index_runs,
        "rows": report.rows, "snapshots": report.snapshots, "synced": report.synced.0,
        "clean": report.clean.map(|at| at.0), "unfinished": report.unfinished.map(|at| at.0),
        "problems": problems, "more_problems": report.more_problems,
    });
    println!("{json}");
}
