//! Circumstances that a reader should know, in whole sentences.

use crate::relation::BLOCKS_FIRST;
use crate::results::{Preconditioned, Results};

/// Too few cores for two ends and everything else.
pub(super) fn cores(results: &Results) -> Option<String> {
    let (ends, cores) = (2, results.machine.cores);
    let remote = results.lanes.iter().any(|lane| !lane.is_local());
    match cores {
        1 if remote => Some(
            "The study could use one core: target and initiator took turns on it. Bare TCP, whose ends poll, was not measured."
                .into(),
        ),
        _ if remote && cores == ends => {
            Some("The study could use 2 cores: target and initiator had one each, and everything else shared them.".into())
        }
        _ => None,
    }
}

/// Blocks in words.
pub(super) fn counted(blocks: u32) -> String {
    if blocks == 1 { "one block".to_owned() } else { format!("{blocks} blocks") }
}

/// The number of blocks, and what they share.
pub(super) fn blocks(blocks: u32, anew: bool, is_fixed: bool) -> String {
    let count = counted(blocks);
    let what = if anew {
        "each with targets, devices and connections of its own"
    } else {
        "all with the same targets"
    };
    let lacks = match (blocks, anew) {
        (1, _) => {
            " What stays the same for the life of a process is in no interval: give a longer --time-budget."
        }
        (_, false) => " What stays the same for the life of a target is in no interval.",
        _ => "",
    };
    let later = if blocks > BLOCKS_FIRST && !is_fixed {
        " Later blocks than the sixth measured the lanes of the headline."
    } else {
        ""
    };
    format!("The study had {count} of two rounds, {what}.{later}{lacks}")
}

/// Steal, time of other programs and load from which on they are reported.
const STEAL: f64 = 0.02;
/// See [`STEAL`].
const OTHERS: f64 = 0.05;
/// See [`STEAL`]: a processor in four that was busy before.
const LOAD: f64 = 0.25;

/// Others who wanted the processors.
pub(super) fn conditions(results: &Results) -> Vec<String> {
    let at = &results.conditions;
    let steal = at.steal.filter(|steal| *steal > STEAL).map(|steal| {
        format!("The host took {:.0} % of the processors' time away during the study (steal): it is shared with others.", steal * 100.0)
    });
    let busy = |load: &f64| *load > LOAD * f64::from(results.machine.cores);
    let others = at.others.filter(|others| *others > OTHERS).map(|others| {
        format!(
            "Other programs took {:.0} % of the processors' time away from the study.",
            others * 100.0
        )
    });
    let load = at.load_before.filter(busy).map(|load| {
        format!(
            "Something else ran before the study began: the load was {load:.1} on {} {}.",
            results.machine.cores,
            if results.machine.cores == 1 { "core" } else { "cores" }
        )
    });
    steal.into_iter().chain(others).chain(load).collect()
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

/// Real devices that were not brought to their steady state.
pub(super) fn preconditioned(results: &Results) -> Vec<String> {
    let of = |device: &Preconditioned| {
        let (lane, rounds, passes) = (&device.lane, device.rounds.len(), device.passes);
        let times = if passes == 1 { "once" } else { "twice" };
        if device.steady {
            format!(
                "{lane}: written {times} from front to back, and at random until five rounds were steady ({rounds} rounds)."
            )
        } else {
            format!(
                "{lane}: written {times} from front to back, and in {rounds} rounds at random, which did not become steady (range at most 20 %, slope at \
                 most 10 % over five rounds): if it is flash, its rows change as it is used. A longer --time-budget gives it more time."
            )
        }
    };
    results.preconditioned.iter().map(of).collect()
}

/// Part by which the frequency may change without being reported.
const FREQUENCY: f64 = 0.10;

/// A clock that changed, or a governor that changes it.
pub(super) fn frequency(results: &Results) -> Option<String> {
    let (low, high) = results.conditions.mhz?;
    let governors = results.machine.governors.join(", ");
    let governor =
        if governors.is_empty() { String::new() } else { format!(" (governor {governors})") };
    (high - low > FREQUENCY * high).then(|| {
        format!(
            "The cores ran at {low:.0} to {high:.0} MHz at the start of the measurements{governor}: processor time per operation changes with the clock."
        )
    })
}
