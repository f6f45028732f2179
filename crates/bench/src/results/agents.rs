//! The machines of a study of several.

use super::Machine;
use serde::{Deserialize, Serialize};

/// A machine that put load on for the study.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Agent {
    /// Host and port, as the user named them.
    pub name: String,
    /// SHA-256 fingerprint of its certificate: `sha256:…`.
    pub fingerprint: String,
    /// URL of the device that it put the load on, without secrets.
    pub url: String,
    /// Version of its weft.
    pub weft: String,
    /// The machine.
    pub machine: Machine,
    /// Processors that it put the load on.
    pub cpus: Vec<usize>,
    /// Its clock minus that of [`super::Results::machine`], nanoseconds, when it connected.
    pub clock_offset_ns: f64,
    /// The greatest uncertainty with which its clock was known when a run began, nanoseconds.
    pub clock_uncertainty_ns: f64,
    /// The longest time that it began a run after the instant that was agreed on, on its own clock,
    /// nanoseconds.
    pub late_ns: f64,
    /// Why it was lost, in a whole sentence; none if it stayed until the end.
    pub lost: Option<String>,
}
