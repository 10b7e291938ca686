//! The cold pool: a few threads that may wait for the disk, so that nobody else does.
//!
//! Promises: at most `backlog` reads wait; more wait outside, in order. Leaves out what is read.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use tokio::sync::{Semaphore, oneshot};

type Job = Box<dyn FnOnce() + Send>;

/// The threads and the way to them.
#[derive(Debug)]
pub(crate) struct Cold {
    jobs: Mutex<Option<SyncSender<Job>>>,
    slots: Arc<Semaphore>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Cold {
    /// Starts `threads` threads.
    pub(crate) fn start(threads: usize, backlog: usize) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel::<Job>(backlog.max(1));
        let receiver = Arc::new(Mutex::new(receiver));
        let mut running = Vec::with_capacity(threads);
        for n in 0..threads {
            let receiver = Arc::clone(&receiver);
            let thread = std::thread::Builder::new()
                .name(format!("cold-{n}"))
                .spawn(move || work(&receiver))?;
            running.push(thread);
        }
        Ok(Self {
            jobs: Mutex::new(Some(sender)),
            slots: Arc::new(Semaphore::new(backlog.max(1))),
            threads: Mutex::new(running),
        })
    }

    /// Runs a job on the pool; `None` when the pool has stopped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let slot = Arc::clone(&self.slots).acquire_owned().await.ok()?;
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move || {
            let _ = sender.send(job()); // who went away needs no answer
            drop(slot);
        });
        // Every job in the channel holds a slot, so there is room and this never waits.
        let sent = match &*self.jobs.lock() {
            Some(jobs) => jobs.try_send(job).is_ok(),
            None => false,
        };
        if sent { receiver.await.ok() } else { None }
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().recv();
        match job {
            // A job that panics (a bug) costs its own answer, not the thread.
            Ok(job) => {
                if catch_unwind(AssertUnwindSafe(job)).is_err() {
                    tracing::error!("a cold read panicked");
                }
            }
            Err(_) => return,
        }
    }
}

impl Drop for Cold {
    fn drop(&mut self) {
        *self.jobs.lock() = None;
        for thread in self.threads.lock().drain(..) {
            // The last handle may be dropped by a job's own thread.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}
