//! Relations of two lanes: the ratio of their rates, or the difference of their latencies or of
//! their processor time per operation, with an interval that holds the truth 95 times in 100.
//!
//! A study is made of blocks. Each block has targets, devices and connections of its own, and
//! visits the lanes by turns in short slices, so that a phase of the machine meets all of them
//! alike. Slices of two lanes that lie side by side make a pair ([`turns`]); the pairs of a block
//! make one value, and the values of the blocks the interval ([`estimate()`]). Decision 48 says
//! why.

mod change;
mod estimate;
mod order;
mod plan;
#[cfg(test)]
mod simulated;
mod words;

pub use estimate::{BLOCKS_FIRST, Estimate, Pair, Scale, estimate};
pub use order::turns;
pub use plan::blocks_for;
pub use words::{adds, does};
pub(crate) use words::{changed, level, stated};
pub(crate) use words::{is_narrow, narrower, times_between};
