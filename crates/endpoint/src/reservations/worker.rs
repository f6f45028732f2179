//! The thread that waits for the disk, so that no loop has to.

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A thread that runs jobs in order. It begins with the first one, and ends with the worker.
#[derive(Default)]
pub(super) struct Worker(Mutex<Option<mpsc::Sender<Job>>>);

impl Worker {
    /// Runs a job, later. Where no thread can be had it runs at once.
    pub(super) fn run(&self, job: Job) {
        let mut sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.is_none() {
            *sender = start();
        }
        let left = match &*sender {
            Some(sender) => sender.send(job).map_err(|returned| returned.0).err(),
            None => Some(job),
        };
        drop(sender);
        left.into_iter().for_each(|job| job());
    }
}

fn start() -> Option<mpsc::Sender<Job>> {
    let (sender, jobs) = mpsc::channel::<Job>();
    let work = move || jobs.into_iter().for_each(|job| job());
    match thread::Builder::new().name("weft-reservations".to_owned()).spawn(work) {
        Ok(_) => Some(sender),
        Err(e) => {
            tracing::error!("cannot start the thread that stores reservations: {e}");
            None
        }
    }
}
