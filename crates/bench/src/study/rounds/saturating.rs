//! Driving lanes until they no longer grow: a curve of IOPS and latency over the depth, and what
//! ended it.

use super::running::{Load, Ran};
use super::{Rounds, Who};
use crate::error::Error;
use crate::results::{Curve, CurveEnd, Point};
use crate::study::clock::TimeSlot;
use crate::study::sample::{self, BUSY_TURNS};
use crate::suite::Saturation;
use core::time::Duration;

/// Steps in a row that bring too little before the growth counts as ended: one may be a
/// disturbance.
const FLAT_STEPS: usize = 2;

/// Maximum number of measurements of a depth, and the part by which it must fall below a smaller
/// one before it is measured again.
const ATTEMPTS: u32 = 3;
const DISTURBED: f64 = 0.1;

/// Most time of a step.
const STEP_MAX: Duration = Duration::from_secs(3);

impl Rounds<'_> {
    /// Drives all lanes with the workloads that the suite selects until they no longer grow; the
    /// lanes take turns at each depth.
    pub fn saturate(&mut self) -> Result<(), Error> {
        let Some(plan) = self.spec.suite.saturation.clone() else { return Ok(()) };
        let named =
            |name: &String| self.workloads.iter().position(|workload| workload.name == *name);
        let workloads: Vec<usize> = plan.workloads.iter().filter_map(named).collect();
        let depths: Vec<u32> = (0..=plan.most.ilog2()).map(|power| 1 << power).collect();
        let lanes = self.alive().iter().filter(|who| matches!(who, Who::Lane(_))).count();
        let steps = (workloads.len() * depths.len() * lanes).max(1) as u32;
        let time = self.clock.budget().mul_f64(plan.time_percent / 100.0);
        let until = self.clock.elapsed() + time;
        let slot = TimeSlot::measuring((time / steps).min(STEP_MAX).mul_f64(0.7));
        for at in workloads {
            let curves = self.curves_of(at, &plan, &depths, slot, until)?;
            self.curves.extend(curves);
        }
        Ok(())
    }

    fn curves_of(
        &mut self,
        at: usize,
        plan: &Saturation,
        depths: &[u32],
        slot: TimeSlot,
        until: Duration,
    ) -> Result<Vec<Curve>, Error> {
        let lanes = self
            .alive()
            .into_iter()
            .filter_map(|who| if let Who::Lane(lane) = who { Some(lane) } else { None });
        let mut growing: Vec<(usize, Vec<Point>, Option<CurveEnd>)> =
            lanes.map(|lane| (lane, Vec::new(), None)).collect();
        for (step, depth) in depths.iter().enumerate() {
            for (lane, points, end) in growing.iter_mut().filter(|(_, _, end)| end.is_none()) {
                if self.stopped() || self.clock.elapsed() > until {
                    *end = Some(CurveEnd::Time);
                    continue;
                }
                let best = points.iter().map(|point| point.iops).fold(0.0, f64::max);
                match self.best_of(*lane, at, *depth, step as u32, slot, best * (1.0 - DISTURBED)) {
                    Ok(Some(point)) => points.push(point),
                    Ok(None) => *end = Some(CurveEnd::Time),
                    Err(error) => {
                        self.fail(Who::Lane(*lane), "could not be driven deeper", error, 0);
                        *end = Some(CurveEnd::Time);
                    }
                }
                *end = end.or_else(|| end_of(points, plan.growth_percent));
            }
        }
        let name = self.workloads[at].name.clone();
        let lane_name = |lane: usize| self.spec.stage.lanes[lane].name.clone();
        let curve = |(lane, points, end): (usize, Vec<Point>, Option<CurveEnd>)| {
            let curve = Curve {
                lane: lane_name(lane),
                workload: name.clone(),
                points,
                end: end.unwrap_or(CurveEnd::Growing),
            };
            Curve { end: curve.verdict(), ..curve }
        };
        Ok(growing.into_iter().map(curve).filter(|curve| !curve.points.is_empty()).collect())
    }

    /// The best of some measurements, as a disturbance only takes; one does if it reaches `least`.
    fn best_of(
        &mut self,
        lane: usize,
        at: usize,
        depth: u32,
        step: u32,
        slot: TimeSlot,
        least: f64,
    ) -> Result<Option<Point>, Error> {
        let mut best: Option<Point> = None;
        for _ in 0..ATTEMPTS {
            let Some(point) = self.point_of(lane, at, depth, step, slot)? else { break };
            best = Some(best.filter(|best| best.iops >= point.iops).unwrap_or(point));
            if self.stopped() || best.is_some_and(|best| best.iops >= least) {
                break;
            }
        }
        Ok(best)
    }

    /// Measures a workload with `depth` operations in flight, distributed over at most as many of
    /// its jobs.
    fn point_of(
        &mut self,
        lane: usize,
        at: usize,
        depth: u32,
        step: u32,
        slot: TimeSlot,
    ) -> Result<Option<Point>, Error> {
        let jobs = self.workloads[at].jobs.min(depth);
        let load = Load { jobs, iodepth: depth / jobs, rate: None };
        let Some(Ran { report, .. }) = self.report_of(lane, at, load, step, slot)? else {
            return Ok(None);
        };
        let all = report.all();
        let seconds = report.loops.iter().map(|one| one.time.as_secs_f64()).fold(0.0, f64::max);
        let cores = report
            .watched
            .filter(|_| seconds > 0.0)
            .map(|usage| usage.total().as_secs_f64() / seconds);
        Ok((all.ios > 0).then(|| Point {
            in_flight: load.jobs * load.iodepth,
            iops: all.iops_mean(),
            latency: sample::latency(&all.total),
            generator: sample::busy(&report),
            target_cores: cores,
        }))
    }
}

/// The end of the growth, if it has ended: in the last steps twice the depth brought less than
/// `growth_percent` more than the best before.
fn end_of(points: &[Point], growth_percent: f64) -> Option<CurveEnd> {
    let flat_from = points.len().checked_sub(FLAT_STEPS).filter(|from| *from > 0)?;
    let (before, last) = points.split_at(flat_from);
    let best = before.iter().map(|point| point.iops).fold(0.0, f64::max);
    if last.iter().any(|point| point.iops > best * (1.0 + growth_percent / 100.0)) {
        return None;
    }
    let busy = last.iter().all(|point| point.generator >= BUSY_TURNS);
    Some(if busy { CurveEnd::Generator } else { CurveEnd::Saturated })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(iops: &[f64], generator: f64) -> Vec<Point> {
        let point = |(at, iops): (usize, &f64)| Point {
            in_flight: 1 << at,
            iops: *iops,
            generator,
            ..Point::default()
        };
        iops.iter().enumerate().map(point).collect()
    }

    #[test]
    fn growth_ends_after_two_steps_that_bring_little() {
        let end = |iops: &[f64], generator| end_of(&points(iops, generator), 5.0);
        assert_eq!((end(&[], 0.0), end(&[100.0, 101.0], 0.0)), (None, None));
        assert_eq!(end(&[100.0, 190.0, 195.0], 0.2), None, "190 was growth");
        assert_eq!(end(&[100.0, 190.0, 195.0, 198.0], 0.2), Some(CurveEnd::Saturated));
        assert_eq!(end(&[100.0, 190.0, 150.0, 260.0], 0.2), None, "one step was disturbed");
        assert_eq!(end(&[100.0, 190.0, 195.0, 198.0], 0.9), Some(CurveEnd::Generator));
    }

    #[test]
    fn a_rate_that_falls_is_no_saturation() {
        let verdict = |iops: &[f64], end| {
            Curve { lane: String::new(), workload: String::new(), points: points(iops, 0.2), end }
                .verdict()
        };
        assert_eq!(
            verdict(&[100.0, 190.0, 195.0, 180.0], CurveEnd::Saturated),
            CurveEnd::Saturated
        );
        assert_eq!(verdict(&[100.0, 190.0, 60.0, 70.0], CurveEnd::Saturated), CurveEnd::Fell);
        assert_eq!(verdict(&[100.0, 190.0, 60.0, 70.0], CurveEnd::Time), CurveEnd::Time);
        assert_eq!(verdict(&[], CurveEnd::Growing), CurveEnd::Growing);
    }
}
