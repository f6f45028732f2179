//! Copies of payload in user space, at each end.

use anyhow::{Context, Result};

use super::{
    super::{
        contestant::{Contestant, Weft},
        point::{POINTS, Point},
        sample::{Cost, Sample},
        setting::Setting,
    },
    Check,
};

/// What may be copied, in payloads: at 4 KiB one; from 64 KiB on none but what came along with a header.
fn limit(point: &Point) -> f64 {
    if point.bytes >= 64 << 10 { 1.0 / 16.0 } else { 1.02 }
}

/// The points that are looked at.
const NAMES: [&str; 6] = ["4k-randread-32", "4k-randwrite-32", "64k-randread-32", "64k-randwrite-32", "1m-read-8", "1m-write-8"];

/// Tries before the best is too bad: what comes along with a header is more while the machine is busy.
const TRIES: u32 = 4;

/// Looks at both ends, over a RAM disk.
pub fn check(setting: &Setting) -> Result<Vec<Check>> {
    let mut weft = Weft::start(setting, "ram")?;
    let mut checks = Vec::new();
    for point in POINTS.iter().filter(|point| NAMES.contains(&point.name)) {
        let mut best = [f64::INFINITY; 2];
        for _ in 0..TRIES {
            let found = copied(&weft.measure(setting, point)?.context("weft can do all points")?)?;
            best = core::array::from_fn(|end| best[end].min(found[end] / f64::from(point.bytes)));
            if best.iter().all(|found| *found <= limit(point)) {
                break;
            }
        }
        for (end, copies) in ["initiator", "target"].into_iter().zip(best) {
            checks.push(Check::at_most(format!("{}, {end}", point.title), copies, limit(point), "copies of the payload"));
        }
    }
    Ok(checks)
}

fn copied(sample: &Sample) -> Result<[f64; 2]> {
    let of = |end: Option<Cost>| end.and_then(|cost| cost.copied).context("copies were not counted");
    Ok([of(sample.initiator)?, of(sample.target)?])
}
