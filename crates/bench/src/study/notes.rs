//! What a reader should know of the circumstances, in whole sentences.

use crate::results::{Results, UNSTABLE};

/// Too few cores for two ends and everything else.
pub(super) fn cores(results: &Results) -> Option<String> {
    let (ends, cores) = (2, results.machine.cores);
    let remote = results.lanes.iter().any(|lane| !lane.is_local());
    match cores {
        1 if remote => Some(
            "The machine has one core: target and initiator took turns on it. Bare TCP did so too, so nothing is given as a share of it."
                .into(),
        ),
        _ if remote && cores == ends => {
            Some("The machine has 2 cores: target and initiator had one each, and everything else shared them.".into())
        }
        _ => None,
    }
}

/// How many rows do not mean much.
pub(super) fn unstable(results: &Results) -> Option<String> {
    let (unstable, all) = results.unstable();
    let percent = UNSTABLE * 100.0;
    (unstable > 0).then(|| {
        format!(
            "The rounds of {unstable} of {all} rows over a network lie more than {percent:.0} % apart, which are marked: take none of their \
             numbers for more than a first look. A longer --budget on a quieter machine makes them steadier."
        )
    })
}

/// Steal and load from which on they are told.
const STEAL: f64 = 0.02;
/// See [`STEAL`]: a processor in four that was busy before.
const LOAD: f64 = 0.25;

/// Others who wanted the processors.
pub(super) fn conditions(results: &Results) -> Vec<String> {
    let at = &results.conditions;
    let steal = at.steal.filter(|steal| *steal > STEAL).map(|steal| {
        format!("The host took {:.0} % of the processors' time away meanwhile (steal): it is shared with others.", steal * 100.0)
    });
    let busy = |load: &f64| *load > LOAD * f64::from(results.machine.cores);
    let load = at.load_before.filter(busy).map(|load| {
        format!(
            "Something else ran before the study began, and maybe during it: the load was {load:.1} on {} cores.",
            results.machine.cores
        )
    });
    steal.into_iter().chain(load).collect()
}

/// Lanes that the load generator limited, in words.
pub(super) fn limited(results: &Results) -> Vec<String> {
    let mut notes = Vec::new();
    for lane in &results.lanes {
        let rows: Vec<_> = results.rows.iter().filter(|row| row.lane == lane.name).collect();
        let limited = rows.iter().filter(|row| row.generator_limited).count();
        if limited > 0 {
            let name = &lane.name;
            let all = rows.len();
            notes.push(format!(
                "{name}: in {limited} of {all} workloads the load generator never waited for the device: one core of it was the limit."
            ));
        }
    }
    notes
}
