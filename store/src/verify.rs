//! Looking at a closed store without opening it: `twinmq store verify` and `twinmq store dump`.
//!
//! Promises: nothing is changed but the lock file, which is held meanwhile, so that no broker runs;
//! every header, sum, base, run, index run and snapshot is read, and each finding says where it is.
//! Leaves out repair.

mod walk;

use crate::ahead;
use crate::disk::{Disk, DiskLock, RealDisk};
use crate::entry::{Header, le_u32, le_u64};
use crate::error::OpenError;
use crate::index::layout::QueueLine;
use crate::index::run::{Access, IndexRun, RunError};
use crate::recovery::Paths;
use crate::run::{Flags, Kind};
use crate::snapshot;
use crate::types::{LogOffset, QueueNumber, QueueOffset};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use walk::{LogFile, Step, Walk};

/// Problems listed at most; the rest is counted.
const PROBLEMS_MAX: usize = 1000;
/// Rows compared at once.
const ROWS_AT_ONCE: usize = 4096;

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Which file.
    pub path: PathBuf,
    /// Log offset, or byte of the file for an index run or a snapshot.
    pub at: u64,
    /// What is wrong.
    pub what: String,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// First byte kept.
    pub head: LogOffset,
    /// End of the last whole run.
    pub end: LogOffset,
    /// Why no entry follows the last one.
    pub stops: String,
    /// End of the last entry, if it lies behind `end`: a run that was never finished. No problem:
    /// the next opening cuts it.
    pub unfinished: Option<LogOffset>,
    /// Highest log offset that was known to be on disk.
    pub synced: LogOffset,
    /// Where a clean stop left the end; none after a crash.
    pub clean: Option<LogOffset>,
    /// Log files, those prepared ahead included.
    pub files: u64,
    /// Entries, without control entries.
    pub entries: u64,
    /// Runs of entries.
    pub runs: u64,
    /// Queues that have entries.
    pub queues: u64,
    /// Index runs.
    pub index_runs: u64,
    /// Rows of index runs compared with the log.
    pub rows: u64,
    /// Snapshots.
    pub snapshots: u64,
    /// What is wrong, at most 1000.
    pub problems: Vec<Problem>,
    /// How many more problems there were.
    pub more_problems: u64,
}

impl Report {
    /// True if nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    fn problem(&mut self, path: &Path, at: u64, what: impl Into<String>) {
        if self.problems.len() == PROBLEMS_MAX {
            self.more_problems += 1;
            return;
        }
        self.problems.push(Problem {
            path: path.to_owned(),
            at,
            what: what.into(),
        });
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { what, path, source }
}

fn lock(disk: &dyn Disk, paths: &Paths) -> Result<Box<dyn DiskLock>, OpenError> {
    disk.list(&paths.log)
        .map_err(failed("no store in", &paths.dir))?;
    let path = paths.dir.join("lock");
    disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked {
            dir: paths.dir.clone(),
        },
        _ => failed("cannot lock", &path)(error),
    })
}

/// Checks the whole store in `dir`. Reads every byte that is in use.
///
/// # Errors
/// [`OpenError::Locked`] while a process has it open; [`OpenError::Io`] when something cannot be
/// read. What is damaged is no error but a [`Problem`].
pub fn verify(dir: &Path) -> Result<Report, OpenError> {
    verify_on(&RealDisk, dir)
}

/// Like [`verify`], on any disk.
///
/// # Errors
/// See [`verify`].
#[doc(hidden)]
pub fn verify_on(disk: &dyn Disk, dir: &Path) -> Result<Report, OpenError> {
    let paths = Paths::new(dir);
    let _lock = lock(disk, &paths)?;
    let mut report = Report::default();
    let files = walk::files(disk, &paths.log).map_err(failed("cannot read", &paths.log))?;
    check_files(&mut report, disk, &paths, &files);
    let index = open_index(&mut report, disk, &paths)?;
    check_snapshots(&mut report, disk, &paths)?;
    report.clean = clean(disk, &paths);
    report.synced = report.synced.max(report.clean.unwrap_or_default());
    check_log(&mut report, disk, &paths, &files, &index)?;
    for (path, run) in &index {
        let compared = compare(&mut report, disk, &files, path, run);
        compared.map_err(failed("cannot read", path))?;
    }
    Ok(report)
}

/// The size of log files that `format` names.
fn file_bytes(disk: &dyn Disk, paths: &Paths) -> Option<u64> {
    let mut text = [0; 64];
    let file = disk.open_read(&paths.dir.join("format")).ok()?;
    let len = file.read_at(0, &mut text).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    let bytes = text.strip_prefix("twinmq-store 1 ")?.trim_end();
    bytes.parse().ok().filter(|bytes: &u64| *bytes > 0)
}

fn check_files(report: &mut Report, disk: &dyn Disk, paths: &Paths, files: &[LogFile]) {
    report.files = files.len() as u64;
    report.head = files.first().map_or(LogOffset(0), |file| file.start);
    let Some(bytes) = file_bytes(disk, paths) else {
        report.problem(&paths.dir.join("format"), 0, "missing or not of format 1");
        return;
    };
    for (n, file) in files.iter().enumerate() {
        let newest = n + 1 == files.len();
        if !file.start.0.is_multiple_of(bytes) {
            report.problem(&file.path, file.start.0, "the name is not a file's start");
        } else if file.bytes != bytes && !(newest && file.bytes < bytes) {
            report.problem(
                &file.path,
                file.start.0,
                "the length is not that of log files",
            );
        }
    }
    for pair in files.windows(2) {
        if pair[0].end() != pair[1].start {
            report.problem(
                &pair[1].path,
                pair[0].end().0,
                "a file before this one is missing",
            );
        }
    }
}

fn clean(disk: &dyn Disk, paths: &Paths) -> Option<LogOffset> {
    let mut bytes = [0; 12];
    let file = disk.open_read(&paths.clean()).ok()?;
    let sound =
        file.read_at(0, &mut bytes).ok()? == 12 && crc32c::crc32c(&bytes[..8]) == le_u32(&bytes, 8);
    sound.then(|| LogOffset(le_u64(&bytes, 0)))
}

fn open_index(
    report: &mut Report,
    disk: &dyn Disk,
    paths: &Paths,
) -> Result<Vec<(PathBuf, IndexRun)>, OpenError> {
    let mut runs: Vec<(PathBuf, IndexRun)> = Vec::new();
    let names = disk.list(&paths.index);
    for name in names.map_err(failed("cannot list", &paths.index))? {
        let path = paths.index.join(&name);
        if !name.ends_with(".run") {
            continue;
        }
        report.index_runs += 1;
        match IndexRun::open(disk, &path).and_then(|run| run.verify().map(|()| run)) {
            Ok(run) => {
                let told = format!("{:020}-{:020}.run", run.log().start.0, run.log().end.0);
                if told != name {
                    report.problem(&path, 0, "the name is not that of its stretch");
                }
                runs.push((path, run));
            }
            Err(RunError::Corrupt { at, reason }) => report.problem(&path, at, reason),
            Err(error) => report.problem(&path, 0, error.to_string()),
        }
    }
    runs.sort_unstable_by_key(|(_, run)| run.log().start);
    for pair in runs.windows(2) {
        if pair[0].1.log().end != pair[1].1.log().start {
            report.problem(&pair[1].0, 0, "does not follow the index run before it");
        }
    }
    if let Some((_, newest)) = runs.last() {
        report.synced = report.synced.max(newest.log().end);
    }
    Ok(runs)
}

fn check_snapshots(report: &mut Report, disk: &dyn Disk, paths: &Paths) -> Result<(), OpenError> {
    let names = disk.list(&paths.snapshots);
    for name in names.map_err(failed("cannot list", &paths.snapshots))? {
        let Some((_, at)) = snapshot::parse_name(&name) else {
            continue;
        };
        let path = paths.snapshots.join(&name);
        report.snapshots += 1;
        match snapshot::read(disk, &path, at) {
            Ok(_) => report.synced = report.synced.max(at),
            Err(error) => report.problem(&path, 0, error.to_string()),
        }
    }
    Ok(())
}

/// What the walk over the log keeps in mind.
#[derive(Default)]
struct Seen {
    next: BTreeMap<QueueNumber, QueueOffset>,
    run_file: Option<LogOffset>,
    mark: LogOffset,
}

fn check_log(
    report: &mut Report,
    disk: &dyn Disk,
    paths: &Paths,
    files: &[LogFile],
    index: &[(PathBuf, IndexRun)],
) -> Result<(), OpenError> {
    let from = report.head;
    report.end = from;
    let mut walk = Walk::new(disk, files, from);
    let mut seen = Seen::default();
    let mut sealed = index.iter().peekable();
    loop {
        while let Some((path, run)) = sealed.next_if(|(_, run)| run.log().end <= walk.at) {
            if run.log().end == walk.at {
                let compared = compare_ends(report, path, run, &seen);
                compared.map_err(|error| failed("cannot read", path)(io::Error::other(error)))?;
            } else if run.log().end > from {
                report.problem(path, 0, "its stretch does not end where an entry does");
            }
        }
        let mut mark = seen.mark;
        let step = walk.step(|header, payload| {
            mark = mark.max(ahead::mark(header, payload).unwrap_or_default());
        });
        seen.mark = mark;
        let path = walk.file().map_or(paths.log.as_path(), |file| &file.path);
        match step.map_err(failed("cannot read", path))? {
            Step::Entry(header) => check_entry(report, path, &header, &walk, &mut seen),
            Step::Spoilt(header) => {
                let what = "the payload's sum is wrong";
                report.problem(path, header.log_offset.0, what);
                check_entry(report, path, &header, &walk, &mut seen);
            }
            Step::End(why) => {
                report.stops = why.to_owned();
                break;
            }
        }
    }
    report.unfinished = Some(walk.at).filter(|at| *at > report.end);
    report.queues = seen.next.len() as u64;
    let ahead = walk.ahead().map_err(failed("cannot read", &paths.log))?;
    report.synced = report.synced.max(seen.mark).max(ahead);
    if report.end < report.synced {
        let what = format!(
            "the log ends here ({}), but was on disk up to {}",
            report.stops, report.synced
        );
        let at = walk.at.0;
        let path = walk.file().map_or(paths.log.as_path(), |file| &file.path);
        report.problem(path, at, what);
    }
    if let Some(clean) = report.clean.filter(|clean| *clean != report.end) {
        let what = "a clean stop left the end elsewhere";
        report.problem(&paths.clean(), clean.0, what);
    }
    Ok(())
}

fn check_entry(
    report: &mut Report,
    path: &Path,
    header: &Header,
    walk: &Walk<'_>,
    seen: &mut Seen,
) {
    let at = header.log_offset.0;
    let file = walk.file().map(|file| file.start);
    if seen.run_file.is_some() && seen.run_file != file {
        report.problem(path, at, "a run goes on from another file");
    }
    if header.queue != QueueNumber::CONTROL {
        report.entries += 1;
        let known = seen.next.insert(header.queue, header.next());
        // The first entry seen of a queue may follow others in files long gone.
        let follows = match known {
            Some(next) => next == header.base,
            None => header.base == QueueOffset(0) || report.head > LogOffset(0),
        };
        if !follows {
            let what = format!("queue {} does not go on with {}", header.queue, header.base);
            report.problem(path, at, what);
        }
    }
    seen.run_file = file;
    if header.flags.has(Flags::LAST_OF_RUN) {
        report.runs += 1;
        report.end = header.end();
        seen.run_file = None;
    }
}

/// The queue table of a run against what the walk has counted up to the run's end.
fn compare_ends(
    report: &mut Report,
    path: &Path,
    run: &IndexRun,
    seen: &Seen,
) -> Result<(), RunError> {
    run.each_queue(|line: QueueLine| {
        let counted = seen.next.get(&line.queue);
        if let Some(next) = counted.filter(|next| **next != line.end) {
            let what = format!(
                "ends queue {} at {}, the log at {next}",
                line.queue, line.end
            );
            report.problem(path, 0, what);
        }
        Ok(())
    })
}

/// Every row of a run against the header it speaks of.
fn compare(
    report: &mut Report,
    disk: &dyn Disk,
    files: &[LogFile],
    path: &Path,
    run: &IndexRun,
) -> io::Result<()> {
    let head = report.head;
    let mut lines = Vec::new();
    let listed = run.each_queue(|line| {
        lines.push(line);
        Ok(())
    });
    listed.map_err(io::Error::other)?;
    for line in lines.iter().filter(|line| line.rows > 0) {
        let mut from = line.start;
        let mut rows = Vec::new();
        loop {
            rows.clear();
            let read = run.rows(Access::Wait, line, from, ROWS_AT_ONCE, &mut rows);
            read.map_err(io::Error::other)?;
            let Some(last) = rows.last() else { break };
            from = last.next();
            for row in rows.iter().filter(|row| row.at >= head) {
                report.rows += 1;
                let header = Walk::new(disk, files, row.at).step(|_, _| {})?;
                let told = match header {
                    Step::Entry(header) | Step::Spoilt(header) => {
                        Some(crate::index::Row::of(&header))
                    }
                    Step::End(_) => None,
                };
                if told != Some(*row) {
                    let what = format!("a row of queue {} is not what the log says", row.queue);
                    report.problem(path, row.at.0, what);
                }
            }
        }
    }
    Ok(())
}

/// Writes one line per entry to `out`, from the first entry at or after `from` on.
///
/// # Errors
/// [`OpenError::Locked`] while a process has it open; [`OpenError::Io`] when something cannot be
/// read or `out` fails.
pub fn dump(dir: &Path, from: LogOffset, out: &mut dyn io::Write) -> Result<(), OpenError> {
    dump_on(&RealDisk, dir, from, out)
}

/// Like [`dump`], on any disk.
///
/// # Errors
/// See [`dump`].
#[doc(hidden)]
pub fn dump_on(
    disk: &dyn Disk,
    dir: &Path,
    from: LogOffset,
    out: &mut dyn io::Write,
) -> Result<(), OpenError> {
    let paths = Paths::new(dir);
    let _lock = lock(disk, &paths)?;
    let files = walk::files(disk, &paths.log).map_err(failed("cannot read", &paths.log))?;
    // Every file starts with an entry.
    let start = files.iter().rev().find(|file| file.start <= from);
    let start = start.or(files.first()).map_or(from, |file| file.start);
    let mut walk = Walk::new(disk, &files, start);
    loop {
        let step = walk.step(|_, _| {});
        let line = match step.map_err(failed("cannot read", &paths.log))? {
            Step::Entry(header) if header.log_offset < from => continue,
            Step::Spoilt(header) if header.log_offset < from => continue,
            Step::Entry(header) => line(&header),
            Step::Spoilt(header) => format!("{} PAYLOAD-SUM-WRONG", line(&header)),
            Step::End(why) => {
                let last = writeln!(out, "{:020} end: {why}", walk.at.0).and_then(|()| out.flush());
                return last.map_err(failed("cannot write what was found in", dir));
            }
        };
        let written = writeln!(out, "{line}");
        written.map_err(failed("cannot write what was found in", dir))?;
    }
}

fn line(header: &Header) -> String {
    use std::fmt::Write;
    let kind = match header.kind {
        Kind::Control => "control",
        Kind::Message => "message",
        Kind::Batch => "batch",
    };
    let mut line = format!(
        "{:020} length={} payload={} {kind} queue={} base={} span={} reign={} stored={} record={} tag={}",
        header.log_offset.0,
        header.length,
        header.payload_length,
        header.queue.0,
        header.base,
        header.span,
        header.reign.0,
        header.store_time.0,
        header.record_time.0,
        header.tag_hash,
    );
    if let Some(producer) = header.producer {
        let _ = write!(
            line,
            " producer={}/{} sequence={}",
            producer.id, producer.epoch, producer.first_sequence
        );
    }
    let names = [
        (Flags::TRANSACTIONAL, "transactional"),
        (Flags::COMMIT_MARKER, "commit"),
        (Flags::ABORT_MARKER, "abort"),
        (Flags::MIXED_TAGS, "mixed-tags"),
        (Flags::LAST_OF_RUN, "last"),
    ];
    for (_, name) in names.iter().filter(|(flag, _)| header.flags.has(*flag)) {
        let _ = write!(line, " {name}");
    }
    line
}
