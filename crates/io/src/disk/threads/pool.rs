//! The threads of the process that do blocking disk calls: as many as there is work for, up to a
//! limit.

use super::call;
use super::mailbox::{Finished, Loans, Mailbox, borrowed, returned};
use crate::disk::DiskKind;
use crate::limits::{DISK_THREAD_IDLE_MS, DISK_THREADS};
use core::time::Duration;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::{Arc, MutexGuard};
use weft_base::lock::{Condition, Lock};

/// An operation for a thread, and where its result goes.
pub(super) struct Job {
    pub(super) file: Arc<File>,
    pub(super) kind: DiskKind,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) loans: Loans,
    pub(super) key: u64,
    pub(super) reply: Arc<Mailbox>,
}

impl Job {
    fn execute(self) {
        let mut data = borrowed(self.loans);
        let result = call::execute(&self.file, self.kind, self.offset, self.len, &mut data);
        // The loop may close its file as soon as it has the result: let go of ours before.
        drop(self.file);
        self.reply.put(Finished { key: self.key, loans: returned(data), result });
    }

    fn fail(self, error: io::Error) {
        self.reply.put(Finished { key: self.key, loans: self.loans, result: Err(error) });
    }
}

struct Pool {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static POOL: Lock<Pool> = Lock::new(Pool { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condition = Condition::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock()
}

/// Has a thread execute the job.
pub(super) fn run(job: Job) {
    let mut all = pool();
    all.jobs.push_back(job);
    if all.jobs.len() <= all.idle {
        return WORK.notify_one();
    }
    if all.threads == DISK_THREADS {
        return;
    }
    match std::thread::Builder::new().name("weft-disk".into()).spawn(work) {
        Ok(_) => all.threads += 1,
        // The threads there are will get to it.
        Err(_) if all.threads > 0 => {}
        Err(error) => {
            let stranded = all.jobs.pop_back();
            drop(all);
            if let Some(job) = stranded {
                job.fail(error);
            }
        }
    }
}

/// Work of a thread until there has been nothing to do for a while.
fn work() {
    let mut all = pool();
    loop {
        while let Some(job) = all.jobs.pop_front() {
            drop(all);
            job.execute();
            all = pool();
        }
        all.idle += 1;
        let limit = Duration::from_millis(DISK_THREAD_IDLE_MS);
        let (guard, is_over) = WORK.wait_while_for(all, limit, |p| p.jobs.is_empty());
        all = guard;
        all.idle -= 1;
        if is_over && all.jobs.is_empty() {
            all.threads -= 1;
            return;
        }
    }
}
