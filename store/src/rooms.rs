//! The rooms of an open store, and how they are joined at opening.

use crate::arrivals::Arrivals;
use crate::bell::Bell;
use crate::clock::Clock;
use crate::cold::Cold;
use crate::config::StoreConfig;
use crate::disk::{Disk, DiskLock};
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
use crate::recovery::{self, Paths, Recovered};
use crate::room::Room;
use crate::segments::Segments;
use crate::threads::Threads;
use crate::types::{LogOffset, Reign};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

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
    let rows_max = config.index_rows_max / 2;
    let recovered = recovery::recover(Arc::clone(&disk), &paths, file_bytes, rows_max)?;
    recovery::remove_clean(&*disk, &paths)?;
    join(disk, paths, config, clock, metrics, recovered, lock)
}

fn join(
    disk: Arc<dyn Disk>,
    paths: Paths,
    config: StoreConfig,
    clock: Arc<dyn Clock>,
    metrics: StoreMetrics,
    recovered: Recovered,
    lock: Box<dyn DiskLock>,
) -> Result<Rooms, OpenError> {
    let built = recovered;
    let seal = built.seal;
    let (segments, queues) = (Arc::clone(&seal.segments), Arc::clone(&seal.queues));
    let head = segments.head().unwrap_or_default();
    let marks = Arc::new(Marks::new(head, built.end, built.end));
    let arrivals = Arc::new(Arrivals::new(Arc::clone(&queues)));
    let room = Arc::new(Room::default());
    room.add_rows(built.rows);
    let [housekeeping_bell, flusher_bell, sealer_bell] =
        [(); 3].map(|()| Arc::new(Bell::default()));
    let around = Around {
        marks: Arc::clone(&marks),
        queues: Arc::clone(&queues),
        arrivals: Arc::clone(&arrivals),
        room: Arc::clone(&room),
        housekeeping: Arc::clone(&housekeeping_bell),
        flusher: Arc::clone(&flusher_bell),
        sealer: Arc::clone(&sealer_bell),
        clock: Arc::clone(&clock),
    };
    let tail = segments.find(built.end).ok_or_else(|| OpenError::Corrupt {
        path: paths.log.clone(),
        at: built.end.0,
        reason: "no file holds the log's end".to_owned(),
    })?;
    let mut reigns = built.reigns;
    let reign = Reign(reigns.last().map_or(1, |(last, _)| last.0 + 1));
    let start = Start {
        segment: tail,
        tail: built.end,
        store_time: built.store_time,
        reign,
        ledger: built.ledger,
        pen: built.pen,
    };
    let limits = Limits {
        run_bytes_max: config.run_bytes_max,
        dirty_bytes_max: config.dirty_bytes_max,
        index_rows_max: config.index_rows_max,
    };
    let lane = Lane::new(start, around, limits).map_err(failed("cannot map", &paths.log))?;
    let lane = Arc::new(lane);
    let hot_bytes = match config.hot_bytes {
        0 => memory::hot_bytes(),
        bytes => bytes,
    };
    let flusher = Flusher {
        marks: Arc::clone(&marks),
        segments: Arc::clone(&segments),
        arrivals: Arc::clone(&arrivals),
        room: Arc::clone(&room),
        bell: Arc::clone(&flusher_bell),
        interval: Duration::from_millis(config.flush_interval_ms),
        metrics: metrics.clone(),
    };
    let housekeeping = Housekeeping {
        disk: Arc::clone(&disk),
        dir: paths.dir.clone(),
        log_dir: paths.log.clone(),
        config: config.clone(),
        lane: Arc::clone(&lane),
        marks: Arc::clone(&marks),
        segments: Arc::clone(&segments),
        room: Arc::clone(&room),
        bell: housekeeping_bell,
        hot_bytes,
        metrics: metrics.clone(),
    };
    let prepared = housekeeping.prepare();
    prepared.map_err(failed("cannot prepare the log in", &paths.log))?;
    begin_reign(&lane, &marks, &flusher, &mut reigns, &paths)?;
    let cold = Cold::start(config.cold_threads, config.cold_backlog_max);
    let reader = Reader {
        queues: Arc::clone(&queues),
        segments: Arc::clone(&segments),
        marks: Arc::clone(&marks),
        cold: cold.map_err(failed("cannot start threads for", &paths.dir))?,
        hot_bytes,
        runs: Arc::clone(&seal.runs),
        metrics: metrics.clone(),
    };
    let sealer = Sealer {
        seal: seal.clone(),
        lane: Arc::clone(&lane),
        marks: Arc::clone(&marks),
        room: Arc::clone(&room),
        bell: sealer_bell,
        flusher: flusher_bell,
        clock: Arc::clone(&clock),
        reigns: reigns.clone(),
        rows_max: config.index_rows_max,
        producer_expiration_ms: config.producer_expiration_ms,
        metrics: metrics.clone(),
    };
    let threads = Threads::start(flusher, housekeeping, sealer);
    Ok(Rooms {
        threads: threads.map_err(failed("cannot start threads for", &paths.dir))?,
        disk,
        paths,
        config,
        metrics,
        lane,
        marks,
        queues,
        segments,
        seal,
        arrivals,
        room,
        reader,
        clock,
        reigns,
        _lock: lock,
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
