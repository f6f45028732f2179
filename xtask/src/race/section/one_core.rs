//! Both ends on one core: there, whoever waits by polling keeps the other end from what is waited
//! for.

use anyhow::Result;
use serde_json::json;

use super::{
    super::{
        contestant::{Ceiling, Target},
        point::POINTS,
        sample::Sample,
        setting::Setting,
        statistics::Spread,
        table::{Section, Table},
    },
    reads, row,
};

/// Measures weft and the blocking ceiling in turn.
pub fn run(setting: &Setting) -> Result<Section> {
    let one = &Setting { initiator_cpu: setting.target_cpu, ..setting.clone() };
    let mut target = Target::start(one, &format!("ram:{}", one.memory_bytes))?;
    target.fill(one)?;
    let mut ceiling = Ceiling::start(one)?;
    let job = reads(one, 1, &[&format!("--cpus_allowed={}", one.initiator_cpu)]);
    let (mut blocking, mut weft) = (Vec::new(), Vec::new());
    for _ in 0..one.rounds {
        blocking.push(ceiling.blocking(one, &POINTS[0])?);
        weft.push(target.sample(one, &job)?);
    }
    let mut table = Table::new(
        "Both ends on one core",
        &format!(
            "4 KiB random reads at depth 1, both ends pinned to the same core; the ceiling's ends sleep in `recv`. Medians of {} rounds.",
            one.rounds
        ),
        &["what", "p50, µs", "p99, µs", "operations per second"],
    );
    for (name, samples) in [("the ceiling, blocking", &blocking), ("weft", &weft)] {
        table.rows.push(row(name, samples));
    }
    let share =
        Spread::of(weft.iter().zip(&blocking).map(|(weft, ceiling)| weft.iops / ceiling.iops))
            .map_or(0.0, |s| s.median);
    table.notes.push(format!("weft reaches {share:.2} of the blocking ceiling (the aim: 0.7)."));
    let list = |samples: &[Sample]| samples.iter().map(Sample::json).collect::<Vec<_>>();
    Ok(Section {
        name: "one-core",
        tables: vec![table],
        data: json!({ "ceiling": list(&blocking), "weft": list(&weft), "share": share }),
    })
}
