//! Productive system calls for each 4 KiB read, beside those of the bare TCP probe at the same depth, on each side.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{
    super::{
        contestant::{Ceiling, Contestant, Weft},
        point::{POINTS, Point},
        sample::{Cost, Sample},
        setting::Setting,
    },
    Check,
};

/// Calls of weft for each of the probe's.
const LIMIT: f64 = 1.1;

/// The same at depth 128 or more, where a call serves thirty operations: the target reaches 1.12. Its host sends commands in larger
/// batches than the probe does (0.72 of its calls), and so the target's answers meet a fuller socket.
const LIMIT_DEEP: f64 = 1.25;

/// Calls for each operation that weft's ends make beyond the probe's because they connect, ask who is there and disconnect: the
/// target's counters begin before that, and at depth 128 the probe makes no more than 0.016 itself.
const SET_UP: f64 = 0.001;

/// How long each try measures at least: long against connecting.
const RUNTIME: Duration = Duration::from_millis(200);

/// Tries at each depth before the best is too bad.
const TRIES: u32 = 12;

/// The points that are compared.
const NAMES: [&str; 4] = ["4k-randread-1", "4k-randread-8", "4k-randread-32", "4k-randread-128"];

/// Compares both ends at all depths.
pub fn check(setting: &Setting, ceiling: &mut Ceiling) -> Result<Vec<Check>> {
    let setting = &Setting { runtime: setting.runtime.max(RUNTIME), ..setting.clone() };
    let mut weft = Weft::start(setting, "ram")?;
    let mut checks = Vec::new();
    for point in POINTS.iter().filter(|point| NAMES.contains(&point.name)) {
        let best = best(setting, ceiling, &mut weft, point)?;
        for (end, ratio) in ["initiator", "target"].into_iter().zip(best) {
            checks.push(Check::at_most(format!("{}, {end}", point.title), ratio, limit(point), "times the probe's"));
        }
    }
    Ok(checks)
}

fn limit(point: &Point) -> f64 {
    if point.name.ends_with("-128") { LIMIT_DEEP } else { LIMIT }
}

/// The best ratio of each end.
fn best(setting: &Setting, ceiling: &mut Ceiling, weft: &mut Weft, point: &Point) -> Result<[f64; 2]> {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..TRIES {
        let probe = calls(&ceiling.as_weft(setting, point)?)?;
        let ours = calls(&weft.measure(setting, point)?.context("weft can do all points")?)?;
        best = core::array::from_fn(|end| best[end].min((ours[end] - SET_UP) / probe[end]));
        if best.iter().all(|ratio| *ratio <= limit(point)) {
            break;
        }
    }
    Ok(best)
}

fn calls(sample: &Sample) -> Result<[f64; 2]> {
    let of = |end: Option<Cost>| end.and_then(|cost| cost.calls).context("system calls were not counted");
    Ok([of(sample.initiator)?, of(sample.target)?])
}
