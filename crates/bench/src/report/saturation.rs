//! Conclusions from the depth: lanes that were driven to saturation, and lanes that seem faster
//! than their device.

use super::comparison;
use super::units::count;
use crate::results::{Curve, CurveEnd, Lane, Results, Row, Workload};

/// All sentences.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let winner = winner(results);
    let faster = results.lanes.iter().filter_map(|lane| faster_than_device(results, lane));
    winner
        .into_iter()
        .chain(faster)
        .chain(results.curves.iter().filter_map(|curve| of_curve(results, curve)))
        .collect()
}

fn workload<'a>(results: &'a Results, name: &str) -> Option<&'a Workload> {
    results.workloads.iter().find(|workload| workload.name == name)
}

/// The lane over a network that does most in the first random read. Those to a modelled flash
/// device are no rivals of those to the device that answers at once.
fn winner(results: &Results) -> Option<String> {
    let workload = results
        .patterns()
        .find(|workload| workload.rw == "randread")
        .or_else(|| results.patterns().next())?;
    if comparison::compared(results).is_some() {
        // The relation to the reference says it better.
        return None;
    }
    let remote = results.lanes.iter().filter(|lane| !lane.is_local() && lane.base() != Lane::FLASH);
    let mut rows: Vec<(&Lane, &Row)> =
        remote.filter_map(|lane| Some((lane, results.row(&lane.name, &workload.name)?))).collect();
    rows.sort_by(|a, b| b.1.iops.total_cmp(&a.1.iops));
    let [(first, best), (second, next), ..] = rows[..] else { return None };
    let title = &workload.title;
    let (of_best, of_next) = best.interval.zip(next.interval)?;
    let apart = of_best.0 > of_next.1;
    let (most, times) = (count(best.iops), best.iops / next.iops);
    Some(if apart {
        let limit = if best.generator_limited { "; the load generator was the limit" } else { "" };
        format!(
            "At {title} {} does most over a network: {most} IOPS, {times:.2} times {}{limit}.",
            first.name, second.name
        )
    } else {
        format!(
            "At {title} the rates of {} and {} cannot be told apart: their intervals overlap.",
            first.name, second.name
        )
    })
}

/// A network cannot make a device faster: where it seems to, the device had not been driven to
/// saturation.
fn faster_than_device(results: &Results, lane: &Lane) -> Option<String> {
    let base = results.base_of(lane).filter(|_| !lane.is_local())?;
    let faster = |workload: &&Workload| {
        let (row, local) =
            (results.row(&lane.name, &workload.name)?, results.row(&base.name, &workload.name)?);
        let apart = row.interval.zip(local.interval).is_some_and(|(row, local)| row.0 > local.1);
        let steady = !row.is_unstable() && !local.is_unstable();
        (steady && apart).then_some((row.iops / local.iops, local.generator_limited))
    };
    let found: Vec<(&Workload, f64, bool)> = results
        .patterns()
        .filter_map(|workload| faster(&workload).map(|(times, limited)| (workload, times, limited)))
        .collect();
    let (most, times, _) = found.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let limited = found.iter().filter(|(.., limited)| *limited).count();
    let deeper = results.curve(&base.name, &most.name).and_then(|curve| {
        let best = curve.best().filter(|best| best.in_flight > most.in_flight())?;
        Some(format!(
            " With {} operations in flight {} did {} IOPS.",
            best.in_flight,
            base.name,
            count(best.iops)
        ))
    });
    let why = if limited > 0 {
        "one core ran both the load generator and the device there and was the limit, while over the network two programs share the work"
    } else {
        "it takes more jobs or a greater depth"
    };
    Some(format!(
        "{} seems faster than {} in {} of the patterns ({}: {times:.2} times). A network cannot make a device faster: {} was not driven to \
         saturation; {why}. Shares of it say nothing there.{}",
        lane.name,
        base.name,
        found.len(),
        most.title,
        base.name,
        deeper.unwrap_or_default()
    ))
}

fn of_curve(results: &Results, curve: &Curve) -> Option<String> {
    let (best, last) = (curve.best()?, curve.points.last()?);
    let title = &workload(results, &curve.workload)?.title;
    let (lane, iops, depth) = (&curve.lane, count(best.iops), best.in_flight);
    let words = match curve.verdict() {
        CurveEnd::Saturated => format!(
            "saturated with {depth} operations in flight ({iops} IOPS): twice as many do not raise the rate"
        ),
        CurveEnd::Generator => {
            format!(
                "the load generator ran out of CPU at {depth} operations in flight ({iops} IOPS): what the lane can do is not known"
            )
        }
        CurveEnd::Growing => format!(
            "not saturated: it still grew at {} operations in flight ({iops} IOPS)",
            last.in_flight
        ),
        CurveEnd::Fell => format!(
            "the rate fell from {iops} IOPS with {depth} operations in flight to {} with {}: the machine was disturbed, or the lane does not bear more; what it \
             can do is not known",
            count(last.iops),
            last.in_flight
        ),
        CurveEnd::Time => format!(
            "the time ended at {} operations in flight ({iops} IOPS), before it was known whether more bring more",
            last.in_flight
        ),
    };
    Some(format!("{lane}, {title}: {words}."))
}
