//! The rooms of an open store, and how they are joined at opening.

use crate::allowance::Allowance;
use crate::arrivals::Arrivals;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::cold::Cold;
use crate::config::StoreConfig;
use crate::disk::{Disk, DiskLock, Map};
use crate::error::{AppendError, OpenError};
use crate::flusher::Flusher;
use crate::housekeeping::Housekeeping;
use crate::index::seal::{Seal, Sealer};
use crate::lane::{Around, CONTROL_REIGN, Lane, Limits, Start};
use crate::marks::Marks;
use crate::memory;
use crate::metrics::StoreMetrics;
use crate::queues::Queues;
use crate::reader::Reader;
use crate::rebuild::Bounds;
use crate::recovery::{self, Paths, Recovered};
use crate::room::Room;
use crate::segments::Segments;
use crate::threads::Threads;
use crate::types::{LogOffset, Reign};
use parking_lot::Mutex;
use std::io;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// See [`Limits::reserve_bytes`]: enough to move the first offsets of some hundred thousand queues.
const RESERVE_BYTES: u64 = 4 << 20;

/// The rooms. When the last handle goes, the threads stop as they are: what was not closed is
/// recovered at the next opening.
#[derive(Debug)]
pub(crate) struct Rooms {
    pub(crate) threads: Threads,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) paths: Paths,
    pub(crate) config: StoreConfig,
    pub(crate) metrics: StoreMetrics,
    pub(crate) lane: Arc<Lane>,
    pub(crate) marks: Arc<Marks>,
    pub(crate) queues: Arc<Queues>,
    pub(crate) segments: Arc<Segments>,
    pub(crate) seal: Seal,
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) room: Arc<Room>,
    pub(crate) reader: Reader,
    pub(crate) clock: Arc<dyn Clock>,
    /// Maps of dropped files that readers may still hold.
    pub(crate) dropped: Mutex<Vec<Weak<Map>>>,
    pub(crate) reigns: Vec<(Reign, LogOffset)>,
    _lock: Box<dyn DiskLock>,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> OpenError {
    let path = path.to_owned();
    move |source| OpenError::Io { what, path, source }
}

fn lock(disk: &dyn Disk, dir: &Path) -> Result<Box<dyn DiskLock>, OpenError> {
    let path = dir.join("lock");
    disk.lock(&path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => OpenError::Locked {
            dir: dir.to_owned(),
        },
        _ => failed("cannot lock", &path)(error),
    })
}

/// Opens or creates a store: lock, recover, new reign, threads.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    dir: &Path,
    config: StoreConfig,
    clock: Arc<dyn Clock>,
    metrics: StoreMetrics,
) -> Result<Rooms, OpenError> {
    let paths = Paths::new(dir);
    for dir in [&paths.dir, &paths.log, &paths.index, &paths.snapshots] {
        disk.create_dir_all(dir)
            .map_err(failed("cannot create", dir))?;
    }
    let lock = lock(&*disk, dir)?;
    let file_bytes = recovery::format(&*disk, &paths, config.file_bytes)?;
    let bounds = Bounds {
        rows: config.index_rows_max / 2,
        producers: config.producers_per_queue_max,
    };
    let recovered = recovery::recover(Arc::clone(&disk), &paths, file_bytes, bounds, &metrics)?;
    recovery::remove_clean(&*disk, &paths)?;
    join(disk, paths, config, clock, metrics, recovered, lock)
}

/// What the rooms are made of.
struct Site {
    disk: Arc<dyn Disk>,
    paths: Paths,
    config: StoreConfig,
    metrics: StoreMetrics,
    hot_bytes: u64,
    around: Around,
    seal: Seal,
}

impl Site {
    fn flusher(&self) -> Flusher {
        Flusher {
            disk: Arc::clone(&self.disk),
            log_dir: self.paths.log.clone(),
            marks: Arc::clone(&self.around.marks),
            segments: Arc::clone(&self.seal.segments),
            arrivals: Arc::clone(&self.around.arrivals),
            room: Arc::clone(&self.around.room),
            bell: Arc::clone(&self.around.flusher),
            interval: Duration::from_millis(self.config.flush_interval_ms),
            metrics: self.metrics.clone(),
        }
    }

    fn housekeeping(&self, lane: &Arc<Lane>) -> Housekeeping {
        Housekeeping {
            disk: Arc::clone(&self.disk),
            dir: self.paths.dir.clone(),
            log_dir: self.paths.log.clone(),
            config: self.config.clone(),
            lane: Arc::clone(lane),
            marks: Arc::clone(&self.around.marks),
            segments: Arc::clone(&self.seal.segments),
            room: Arc::clone(&self.around.room),
            bell: Arc::clone(&self.around.housekeeping),
            hot_bytes: self.hot_bytes,
            metrics: self.metrics.clone(),
        }
    }

    fn sealer(&self, lane: &Arc<Lane>, reigns: &[(Reign, LogOffset)]) -> Sealer {
        Sealer {
            seal: self.seal.clone(),
            lane: Arc::clone(lane),
            marks: Arc::clone(&self.around.marks),
            room: Arc::clone(&self.around.room),
            bell: Arc::clone(&self.around.sealer),
            flusher: Arc::clone(&self.around.flusher),
            clock: Arc::clone(&self.around.clock),
            reigns: reigns.to_vec(),
            rows_max: self.config.index_rows_max,
            producer_expiration_ms: self.config.producer_expiration_ms,
            metrics: self.metrics.clone(),
        }
    }

    fn reader(&self) -> io::Result<Reader> {
        Ok(Reader {
            queues: Arc::clone(&self.seal.queues),
            segments: Arc::clone(&self.seal.segments),
            marks: Arc::clone(&self.around.marks),
            cold: Cold::start(self.config.cold_threads, self.config.cold_backlog_max)?,
            allowance: Allowance::new(self.config.cold_bytes_max),
            hot_bytes: self.hot_bytes,
            runs: Arc::clone(&self.seal.runs),
            metrics: self.metrics.clone(),
        })
    }
}

/// What lane and threads share, at the end of a recovered log.
fn around(recovered: &Recovered, clock: Arc<dyn Clock>) -> Around {
    let queues = Arc::clone(&recovered.seal.queues);
    let head = recovered.seal.segments.head().unwrap_or_default();
    let room = Room::default();
    room.add_rows(recovered.rows);
    Around {
        marks: Arc::new(Marks::new(head, recovered.end, recovered.end)),
        arrivals: Arc::new(Arrivals::new(Arc::clone(&queues))),
        queues,
        room: Arc::new(room),
        housekeeping: Arc::new(Bell::default()),
        flusher: Arc::new(Bell::default()),
        sealer: Arc::new(Bell::default()),
        clock,
    }
}

/// Begins the new reign and starts the threads.
fn join(
    disk: Arc<dyn Disk>,
    paths: Paths,
    config: StoreConfig,
    clock: Arc<dyn Clock>,
    metrics: StoreMetrics,
    recovered: Recovered,
    lock: Box<dyn DiskLock>,
) -> Result<Rooms, OpenError> {
    let hot_bytes = match config.hot_bytes {
        0 => memory::hot_bytes(),
        bytes => bytes,
    };
    let site = Site {
        around: around(&recovered, Arc::clone(&clock)),
        seal: recovered.seal.clone(),
        disk,
        paths,
        config,
        metrics,
        hot_bytes,
    };
    let (paths, around) = (&site.paths, &site.around);
    let mut reigns = recovered.reigns.clone();
    let reign = Reign(reigns.last().map_or(1, |(last, _)| last.0 + 1));
    let limits = Limits {
        run_bytes_max: site.config.run_bytes_max,
        dirty_bytes_max: site.config.dirty_bytes_max,
        index_rows_max: site.config.index_rows_max,
        reserve_bytes: RESERVE_BYTES.min(site.config.file_bytes / 16),
    };
    let start = start(recovered, reign, paths)?;
    let lane = Lane::new(start, around.clone(), limits);
    let lane = Arc::new(lane.map_err(failed("cannot map", &paths.log))?);
    let (flusher, housekeeping) = (site.flusher(), site.housekeeping(&lane));
    let prepared = housekeeping.prepare();
    prepared.map_err(failed("cannot prepare the log in", &paths.log))?;
    begin_reign(&lane, &around.marks, &flusher, &mut reigns, paths)?;
    let threads = || failed("cannot start threads for", &paths.dir);
    let reader = site.reader().map_err(threads())?;
    let sealer = site.sealer(&lane, &reigns);
    let running = Threads::start(flusher, housekeeping, sealer).map_err(threads())?;
    Ok(Rooms {
        threads: running,
        lane,
        marks: Arc::clone(&around.marks),
        queues: Arc::clone(&around.queues),
        segments: Arc::clone(&site.seal.segments),
        arrivals: Arc::clone(&around.arrivals),
        room: Arc::clone(&around.room),
        reader,
        clock,
        dropped: Mutex::default(),
        reigns,
        disk: site.disk,
        paths: site.paths,
        config: site.config,
        metrics: site.metrics,
        seal: site.seal,
        _lock: lock,
    })
}

fn start(recovered: Recovered, reign: Reign, paths: &Paths) -> Result<Start, OpenError> {
    let segment = recovered.seal.segments.find(recovered.end);
    Ok(Start {
        segment: segment.ok_or_else(|| OpenError::Corrupt {
            path: paths.log.clone(),
            at: recovered.end.0,
            reason: "no file holds the log's end".to_owned(),
        })?,
        tail: recovered.end,
        store_time: recovered.store_time,
        reign,
        ledger: recovered.ledger,
        pen: recovered.pen,
    })
}

/// Appends the start of this opening's reign and makes it durable.
fn begin_reign(
    lane: &Lane,
    marks: &Marks,
    flusher: &Flusher,
    reigns: &mut Vec<(Reign, LogOffset)>,
    paths: &Paths,
) -> Result<(), OpenError> {
    let refused = |reason: String| OpenError::Corrupt {
        path: paths.log.clone(),
        at: marks.written().0,
        reason,
    };
    reigns.push((lane.reign(), marks.written()));
    // A reign whose successor began before the oldest byte kept says nothing about what is kept.
    let head = marks.head();
    let dead = reigns
        .iter()
        .skip(1)
        .take_while(|(_, at)| *at <= head)
        .count();
    reigns.drain(..dead);
    let mut payload = vec![CONTROL_REIGN, 0, 0, 0, 0, 0, 0, 0];
    for (reign, at) in &*reigns {
        payload.extend_from_slice(&reign.0.to_le_bytes());
        payload.extend_from_slice(&[0; 4]);
        payload.extend_from_slice(&at.0.to_le_bytes());
    }
    match lane.append_control(&payload) {
        Ok(_) => {}
        Err(AppendError::Full { reason }) => {
            return Err(failed("no room in", &paths.log)(io::Error::new(
                io::ErrorKind::StorageFull,
                reason,
            )));
        }
        Err(error) => return Err(refused(error.to_string())),
    }
    if flusher.round() {
        Ok(())
    } else {
        Err(refused("the first sync failed".to_owned()))
    }
}
