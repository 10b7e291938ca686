//! The store's own threads: started together, stopped together.

use crate::bell::Bell;
use crate::flusher::Flusher;
use crate::housekeeping::Housekeeping;
use crate::index::seal::Sealer;
use parking_lot::Mutex;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// The running threads and their bells.
#[derive(Debug)]
pub(crate) struct Threads {
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) housekeeping: Arc<Housekeeping>,
    sealer: Arc<Bell>,
    running: Mutex<Vec<JoinHandle<()>>>,
}

impl Threads {
    /// Starts them.
    pub(crate) fn start(
        flusher: Flusher,
        housekeeping: Housekeeping,
        sealer: Sealer,
    ) -> io::Result<Self> {
        let threads = Self {
            flusher: Arc::new(flusher),
            housekeeping: Arc::new(housekeeping),
            sealer: Arc::clone(&sealer.bell),
            running: Mutex::default(),
        };
        let flusher = Arc::clone(&threads.flusher);
        threads.spawn("flusher", move || flusher.run())?;
        let housekeeping = Arc::clone(&threads.housekeeping);
        threads.spawn("housekeeping", move || housekeeping.run())?;
        threads.spawn("sealer", move || sealer.run())?;
        Ok(threads)
    }

    fn spawn(&self, name: &'static str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let (marks, room) = (
            Arc::clone(&self.flusher.marks),
            Arc::clone(&self.flusher.room),
        );
        let work = move || {
            // Whoever waits for a thread that is gone is told, not left waiting.
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                marks.close(&format!("the store's thread {name} panicked"), true);
                room.tell();
            }
        };
        let thread = Builder::new().name(name.to_owned()).spawn(work)?;
        self.running.lock().push(thread);
        Ok(())
    }

    fn bells(&self) -> [&Bell; 3] {
        [&self.flusher.bell, &self.housekeeping.bell, &self.sealer]
    }

    /// Asks for a sync now.
    pub(crate) fn flush(&self) {
        self.flusher.bell.ring();
    }

    /// Asks for whatever makes room.
    pub(crate) fn make_room(&self) {
        self.housekeeping.bell.ring();
        self.flusher.bell.ring();
        self.sealer.ring();
    }

    /// Stops them and waits for their end; false if that was done before.
    pub(crate) fn finish(&self) -> bool {
        for bell in self.bells() {
            bell.stop();
        }
        let running = std::mem::take(&mut *self.running.lock());
        let first = !running.is_empty();
        for thread in running {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
        first
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.finish();
    }
}
