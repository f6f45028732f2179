//! The workspace's test programs: each starts as soon as cargo has built it, several at a time.

mod apart;
mod build;
mod part;
mod program;
mod queue;

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::Result;

use crate::steps::{Results, interrupted, run_command};
use apart::Apart;
pub use part::Part;
use program::{Job, Program};
use queue::Queue;

/// Builds the programs and runs a part of their tests, with a row for each program.
///
/// # Errors
/// If a program does not list its tests, or `xtask/apart.txt` names tests that do not exist.
pub fn run(step: &str, part: Part, results: &Results) -> Result<()> {
    let (apart, queue) = (Apart::read()?, Queue::new());
    let (fault, all_built) = (Mutex::new(Ok(())), AtomicBool::new(false));
    let keep = |outcome: Result<()>| {
        let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.is_ok() {
            *fault = outcome;
        }
    };
    thread::scope(|scope| {
        for _ in 0..part.width() {
            scope.spawn(|| {
                while let Some(job) = queue.next() {
                    keep(run_job(&job, results));
                    queue.done();
                }
            });
        }
        let found = |program: Program| match apart.jobs(&program, part) {
            Ok(jobs) => {
                jobs.into_iter().for_each(|job| queue.push(results.took(&job.name), job));
            }
            Err(error) => keep(Err(error)),
        };
        match build::build(step, part, results, found) {
            Ok(complete) => all_built.store(complete, Ordering::Relaxed),
            Err(error) => keep(Err(error)),
        }
        queue.close();
        results.set_built();
    });
    if all_built.into_inner() && !interrupted() && part != Part::Tools {
        keep(apart.all_exist());
    }
    fault.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_job(job: &Job, results: &Results) -> Result<()> {
    if interrupted() {
        return Ok(());
    }
    run_command(&job.name, job.command(), results)
}
