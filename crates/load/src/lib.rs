//! Puts load on block devices: workloads with fio's options, and the ceiling of the machine. What
//! studies make of their results is in `weft_bench`, which has all of this, too.
#![forbid(unsafe_code)]

pub mod ceiling;
pub mod cycles;
pub mod error;
pub mod limits;
pub mod random;
pub mod stats;
pub mod workload;

pub use error::Error;
