//! The formats of other generators of load: their workloads as jobs of `weft_bench`, their results
//! as lanes of a study, and the output of fio for the results of `weft_bench`. Nothing here opens a
//! file.
#![forbid(unsafe_code)]

pub mod fio_output;
pub mod import;
