//! The search for the best tuning.

use super::client::{CeilingReport, CeilingSpec, run};
use super::tuning::CeilingTuning;
use crate::error::Error;
use core::time::Duration;
use std::net::SocketAddr;

/// Times that each tuning is tried before the best is chosen.
const TRIES: usize = 2;

/// Part of the time to measure that one try takes, and its least.
const TRY: (u32, Duration) = (8, Duration::from_millis(30));

/// Tries all tunings in turn, takes the one that did the most operations, and measures with it.
///
/// # Errors
/// As [`run`].
pub fn run_best(to: SocketAddr, spec: &CeilingSpec) -> Result<CeilingReport, Error> {
    let each = (spec.runtime / TRY.0).max(TRY.1);
    let mut best = (0.0, spec.tuning);
    for _ in 0..TRIES {
        for &tuning in CeilingTuning::worth_trying(spec.bytes) {
            let tried = run(
                to,
                &CeilingSpec { tuning, ramp_time: each / 2, runtime: each, ..spec.clone() },
            )?;
            if tried.iops() > best.0 {
                best = (tried.iops(), tuning);
            }
        }
    }
    run(to, &CeilingSpec { tuning: best.1, ..spec.clone() })
}
