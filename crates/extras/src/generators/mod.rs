//! Completions for shells and pages of the manual, made of the definition of a command line.

#[cfg(any(not(feature = "generators"), test))]
mod left_out;
#[cfg(feature = "generators")]
mod made;

#[cfg(not(feature = "generators"))]
pub use left_out::{completions, manual};
#[cfg(feature = "generators")]
pub use made::{completions, manual};
