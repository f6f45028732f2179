//! The workload engine: fio's jobs on any block device.
//!
//! A [`JobSpec`] has fio's options with fio's meaning. Each job is a driver with a queue; jobs are spread over loops,
//! so that hundreds of jobs need no hundreds of threads. Where a device grants fewer queues than there are jobs, those of a loop share
//! its queues. Nothing is allocated for an operation: it comes back whole with its memory and is used again.
//!
//! # Latency
//! For each direction there are three histograms, as in fio: *submission* (until the device took the operation), *completion*
//! (from there until the completion was seen) and *total*. The clock is read once for each batch.
//!
//! A closed loop (the default) sends the next operation when one has completed. When the device stalls, such a generator stalls
//! with it and measures one slow operation where an application that goes on asking would have seen many: *coordinated
//! omission*. With `rate_iops` the loop is open: operations are due on a schedule that no stall moves, and latency counts from
//! when an operation was due, even if the queue had no room for it then. `rate` does the same by bytes. What never began is reported as *missed*.

mod issue;
mod job;
mod order;
mod pace;
mod plan;
mod queues;
mod record;
mod report;
mod runner;
mod shared;
mod spec;
mod split;
mod stages;
mod values;
pub mod verify;

pub use report::{
    Batches, Depths, DirectionReport, ErrorCount, JobReport, Known, LoopReport, Report, VerifyReport, system_calls,
};
pub use runner::{Phase, Progress, run, run_until, run_watching};
pub use spec::{Direction, JobSpec, Rw, Verify};
pub use split::BlockSplit;
pub use values::{Size, duration, rates};

#[cfg(test)]
mod tests;
