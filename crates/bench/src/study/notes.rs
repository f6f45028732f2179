//! What a reader should know of the circumstances, in whole sentences.

use crate::results::Results;

/// Too few cores for two ends and everything else.
pub(super) fn cores(results: &Results) -> Option<String> {
    let (ends, cores) = (2, results.machine.cores);
    let remote = results.lanes.iter().any(|lane| !lane.is_local());
    match cores {
        1 if remote => Some("The machine has one core: target and initiator took turns on it.".into()),
        _ if remote && cores == ends => {
            Some("The machine has 2 cores: target and initiator had one each, and everything else shared them.".into())
        }
        _ => None,
    }
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
