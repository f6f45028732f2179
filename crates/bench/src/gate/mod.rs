//! A study judged by an earlier one, for CI: does it fall behind by more than a given part?
//!
//! Machines and days differ, and rates and times with them. So a gate looks at what both studies
//! have measured within themselves: relations of lanes, each with its interval, and counts, which
//! have none. A relation fails only if all of the interval of its change is beyond the given part.

mod check;
mod counts;
mod junit;
mod markdown;
mod outcome;
mod relations;
#[cfg(test)]
mod tests;
mod text;

pub use check::{Check, CheckKind, CheckVerdict};
pub use junit::junit;
pub use markdown::markdown;
pub use outcome::{GateOutcome, RowName, Rule, judge};
pub use text::text;
