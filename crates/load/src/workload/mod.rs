//! The workload engine: fio's jobs on any block device.
//!
//! A [`JobSpec`] has fio's options with fio's meaning. Each job is a driver with a queue. Jobs are
//! distributed over loops, so hundreds of jobs do not need hundreds of threads. If a device grants
//! fewer queues than there are jobs, the jobs of a loop share its queues. Operations do not
//! allocate: a completed operation is reused with its memory.
//!
//! # Latency
//! There are three histograms for each direction, as in fio: *submission* (until the device
//! accepted the operation), *completion* (from then until the completion was seen) and *total*. The
//! clock is read once per batch.
//!
//! A closed loop (the default) starts the next operation when one has completed. If the device
//! stalls, such a generator stalls with it, and measures one slow operation where an application
//! that continues to send requests would see many: *coordinated omission*. With `rate_iops` the
//! loop is open: operations are due on a fixed schedule, and latency counts from the time an
//! operation was due, even if the queue had no room for it then. `rate` does the same by bytes.
//! Operations that never started are reported as *missed*.
//!
//! # Payload
//! Every write carries new random bytes, so targets that compress, deduplicate or detect zeroes
//! gain nothing. [`Buffers`] has the options that change this.

mod buffers;
mod check;
mod direction;
mod distribution;
mod drawing;
mod extent;
mod floor;
mod issue;
mod job;
mod job_report;
mod job_spec;
mod memory;
mod noise;
mod on_error;
mod options;
mod order;
mod pace;
mod payload;
mod percentiles;
mod permutation;
mod plan;
mod queues;
mod record;
mod region;
mod report;
mod runner;
mod search;
mod shared;
mod spans;
mod split;
mod stages;
mod steady;
mod steps;
mod syncs;
mod think;
pub mod values;
pub mod verify;
mod zipf;

pub use buffers::{BufferPattern, Buffers};
pub use check::check;
pub use direction::{Direction, Rw};
pub use distribution::Distribution;
pub use extent::JobExtent;
pub use floor::RateFloor;
pub use job_report::{
    Batches, Broken, Depths, DirectionReport, ErrorCount, Execution, JobReport, VerifyReport,
};
pub use job_spec::{ExitAll, JobSpec, TotalRate, Verify};
pub use on_error::OnError;
pub use percentiles::{PERCENTILES, Percentiles};
pub use report::{ProcessorTimes, RunLoopReport, RunReport, system_calls};
pub use runner::{Gate, Phase, Progress, run, run_gated, run_until, run_watching};
pub use search::LatencyTarget;
pub use split::{BlockRange, BlockSplit};
pub use steady::{Criterion, SteadyReport, SteadyState};
pub use steps::{Steps, Zones};
pub use syncs::Syncs;
pub use think::Think;
pub use values::{Size, duration, rates, switch};

#[cfg(test)]
mod tests;
