//! Threads that wait for a disk or a cluster, so that no loop has to.

use super::threads::system;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_connection::refusals::Refusals;

/// Threads that could not be started, for the log.
static FAILED: Refusals = Refusals::of_errors();

type Job = Box<dyn FnOnce() + Send>;

/// Threads that run jobs, begun in the order in which they came. A thread begins with a job, and
/// ends when none is left.
pub(super) struct Pool {
    name: &'static str,
    threads_max: usize,
    work: Arc<Lock<Work>>,
}

#[derive(Default)]
struct Work {
    waiting: VecDeque<Job>,
    threads: usize,
}

impl Pool {
    /// A pool of at most `threads_max` threads, which have this name.
    pub(super) fn new(name: &'static str, threads_max: usize) -> Self {
        Self { name, threads_max, work: Arc::default() }
    }

    /// Runs a job, later. Where no thread can be had it runs at once.
    pub(super) fn run(&self, job: Job) {
        let mut work = self.work.lock();
        work.waiting.push_back(job);
        if work.threads == self.threads_max {
            return;
        }
        work.threads += 1;
        drop(work);
        let shared = Arc::clone(&self.work);
        if let Err(e) = system().start(self.name, Box::new(move || run_all(&shared))) {
            FAILED.log_now(|| format!("cannot start a thread for reservations: {e}"));
            let mut work = self.work.lock();
            if work.threads > 1 {
                work.threads -= 1;
            } else {
                drop(work);
                run_all(&self.work);
            }
        }
    }
}

fn run_all(work: &Lock<Work>) {
    loop {
        let mut now = work.lock();
        let Some(job) = now.waiting.pop_front() else {
            now.threads -= 1;
            return;
        };
        drop(now);
        // The thread goes on: what one job did wrong is none of the others' business.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}
