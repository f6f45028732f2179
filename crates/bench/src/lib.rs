//! Measures block devices: workloads with fio's options, the ceiling of the machine, the study and
//! its report.
//!
//! ```no_run
//! use std::sync::Arc;
//! use weft_bench::{JobSpec, Rw, run};
//!
//! # fn measure(device: Arc<dyn weft_block::BlockDevice>) -> Result<(), weft_bench::Error> {
//! let spec = JobSpec { rw: Rw::RandRead, iodepth: 32, number_ios: Some(100_000),
//! ..JobSpec::default() }; let report = run(device, &spec, &mut |_| ())?;
//! println!("{:.0} operations a second", report.all().iops_mean());
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]
// Each token of a page is a step of `report::markup`.
#![recursion_limit = "512"]

pub mod agents;
pub mod compare;
pub mod gate;
pub mod limits;
pub mod pack;
pub mod relation;
pub mod report;
pub mod results;
pub mod study;
pub mod suite;
pub mod table;
mod text_table;

pub use weft_load::error::{self, Error};
use weft_load::random;
pub use weft_load::{ceiling, stats, workload};
pub use workload::{Direction, JobSpec, Phase, Progress, RunReport, Rw, Verify, run, run_until};
