//! Use of the processors during a study, and the share of the study's own processes.

use super::spec::LaneSet;
use super::ticks::Ticks;
use crate::results;
use core::time::Duration;
use std::time::Instant;
use weft_io::cpu_usage;

pub(super) struct ProcessorUse {
    begin: Instant,
    ticks: Option<Ticks>,
    /// Other processes of the study, and the time each had used when the study met it.
    others: Vec<(u32, Duration)>,
    /// Time that those of earlier blocks have used.
    ended: Duration,
    /// Time that this process had used.
    own: Duration,
}

impl ProcessorUse {
    pub fn start(stage: &LaneSet) -> Self {
        let own = cpu_usage::process().total();
        Self {
            begin: Instant::now(),
            ticks: Ticks::now(),
            others: processes(stage),
            ended: Duration::ZERO,
            own,
        }
    }

    /// The processes are about to end.
    pub fn leave(&mut self) {
        self.ended += self.used_by_others();
        self.others.clear();
    }

    /// These are the ones of the next block.
    pub fn enter(&mut self, stage: &LaneSet) {
        self.others = processes(stage);
    }

    fn used_by_others(&self) -> Duration {
        let used = |(pid, before): &(u32, Duration)| {
            Some(cpu_usage::of_process(*pid).ok()?.total().saturating_sub(*before))
        };
        self.others.iter().filter_map(used).sum()
    }

    /// Since the start.
    pub fn conditions(&self) -> results::Conditions {
        let used = self.ended
            + self.used_by_others()
            + cpu_usage::process().total().saturating_sub(self.own);
        let ticks = self.ticks.zip(Ticks::now());
        results::Conditions {
            steal: ticks.and_then(|(before, after)| after.stolen_since(before)),
            others: ticks
                .and_then(|(before, after)| after.others_since(before, used, self.begin.elapsed())),
            ..results::Conditions::default()
        }
    }
}

fn processes(stage: &LaneSet) -> Vec<(u32, Duration)> {
    let mut pids: Vec<u32> = stage
        .lanes
        .iter()
        .flat_map(|lane| lane.target_pids.iter().copied())
        .chain(stage.ceiling.as_ref().and_then(|server| server.pid))
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids.retain(|pid| *pid != std::process::id());
    let used = |pid| cpu_usage::of_process(pid).map(|usage| usage.total()).unwrap_or_default();
    pids.into_iter().map(|pid| (pid, used(pid))).collect()
}
