//! The study: the workloads of a suite on its lanes, next to the bare TCP ceiling.
//!
//! A study is made of blocks, each with targets, devices and connections of its own. Devices are
//! filled first: blocks that were never written may cost nothing to read; real ones are written
//! until they are steady. A round visits every workload, and for each one all lanes and the ceiling
//! right after one another, in a random order, and the next round in the opposite one, so that a
//! slow second of the machine hits all of them alike. Each measurement is short and begins with a
//! warm-up. The number of blocks is decided once, after the first of them, by the width that the
//! intervals of the headline have then. Then lanes are driven deeper until they no longer grow. A
//! suite that counts then runs a fixed number of operations on each lane, of which everything is
//! counted.

mod clock;
mod counting;
mod machine;
mod machines;
mod notes;
mod remarks;
mod rounds;
mod sample;
mod study_spec;
pub(crate) mod ticks;

pub use study_spec::{
    CeilingServer, ForeignTarget, Generator, KnownDevice, LanePeer, LaneSet, Purpose, ReadCounters,
    SetUp, StudyLane, StudyProgress, StudySpec,
};

use crate::error::Error;
use crate::results::{self, Results, SCHEMA};
use crate::suite::SuiteMode;
use rounds::Rounds;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs a study. `progress` hears of each measurement before it begins, and some times a second
/// while one goes on.
///
/// # Errors
/// When nothing could be measured at all: the error of the first lane that failed. A lane that
/// fails later is reported in [`Results::notes`].
pub fn run(
    spec: StudySpec<'_>,
    progress: &mut dyn FnMut(StudyProgress<'_>),
) -> Result<Results, Error> {
    let (started, load_before) = (SystemTime::now(), machine::load());
    let times = *spec.suite.times(spec.mode);
    let (suite, facts) = (spec.suite.clone(), Facts::of(&spec));
    let mut rounds = Rounds::new(spec, progress)?;
    if suite.fill {
        rounds.prepare()?;
        rounds.precondition()?;
    }
    let kept = suite.saturation.as_ref().map_or(0.0, |saturation| saturation.time_percent / 100.0);
    rounds.measure(&times, kept)?;
    rounds.complete()?;
    rounds.saturate()?;
    if suite.count {
        rounds.count();
    }
    let mut results = Results {
        schema: SCHEMA,
        weft: env!("CARGO_PKG_VERSION").to_owned(),
        commit: facts.commit,
        command: facts.command,
        started_s: started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        took_s: 0.0,
        quick: facts.quick,
        suite: suite.name,
        title: suite.title,
        draw: suite.draw,
        reference: suite.reference,
        seed: facts.seed,
        machine: machine_facts(),
        conditions: results::Conditions {
            load_before,
            load_after: machine::load(),
            mhz: rounds.mhz,
            ..rounds.processor_use.conditions()
        },
        lanes: rounds.lanes(),
        skipped: facts.skipped,
        workloads: rounds.workloads(),
        rows: rounds.rows(),
        ceiling: rounds.ceilings(),
        relations: rounds.relations(),
        curves: core::mem::take(&mut rounds.curves),
        preconditioned: core::mem::take(&mut rounds.preconditioned),
        published: suite.published,
        agents: Vec::new(),
        notes: Vec::new(),
    };
    results.notes = rounds.notes(&results);
    remarks::add(&mut results);
    rounds.spec.stage.close();
    results.took_s = started.elapsed().unwrap_or_default().as_secs_f64();
    Ok(results)
}

/// Facts about this machine.
pub fn machine_facts() -> results::Machine {
    machine::facts()
}

/// Facts of a study that are only reported.
struct Facts {
    quick: bool,
    seed: u64,
    commit: Option<String>,
    command: Vec<String>,
    skipped: Vec<results::Skipped>,
}

impl Facts {
    fn of(spec: &StudySpec) -> Self {
        let (command, skipped) = (spec.command.clone(), spec.skipped.clone());
        let (quick, commit) = (spec.mode == SuiteMode::Quick, spec.commit.clone());
        Self { quick, seed: spec.seed, commit, command, skipped }
    }
}

#[cfg(test)]
mod tests;
