//! Checks progress once the faults are over: no operation is older than the options allow, and no
//! workload stands still.

use crate::initiator::SimInitiator;
use core::time::Duration;
use std::collections::BTreeMap;
use weft_io::Time;

/// What is waited for: the operation of a workload of an initiator, or the next one where there is
/// none.
type Waiting = (usize, usize, Option<u64>);

/// Watches the operations of all initiators, by the time of the world.
pub(super) struct Progress {
    /// The longest that an operation may take.
    patience: Duration,
    /// The longest that a workload may be without one.
    pause: Duration,
    since: BTreeMap<Waiting, Time>,
    /// The longest that an operation took so far.
    pub longest: Duration,
}

impl Progress {
    /// Operations that are under way already are as if they began now.
    pub fn new(patience: Duration, pause: Duration) -> Self {
        Self { patience, pause, since: BTreeMap::new(), longest: Duration::ZERO }
    }

    /// Looks at all operations; who waits too long, in words.
    pub fn look(&mut self, now: Time, initiators: &[SimInitiator]) -> Option<String> {
        let waiting = waiting(initiators);
        self.since.retain(|waits, _| waiting.contains(waits));
        let mut late = None;
        for waits @ (initiator, workload, operation) in waiting {
            let age = now - *self.since.entry(waits).or_insert(now);
            let name = || format!("{}/{workload}", initiators[initiator].name);
            match operation {
                Some(operation) => {
                    self.longest = self.longest.max(age);
                    if age > self.patience {
                        late = Some(format!("{}: operation {operation} is under way", name()));
                    }
                }
                None if age > self.pause => {
                    late = Some(format!("{}: nothing is under way", name()))
                }
                None => {}
            }
        }
        late
    }
}

fn waiting(initiators: &[SimInitiator]) -> Vec<Waiting> {
    let mut all = Vec::new();
    for (n, initiator) in initiators.iter().enumerate() {
        for (m, workload) in initiator.workloads.iter().enumerate() {
            let workload = workload.borrow();
            let before = all.len();
            all.extend(workload.under_way().map(|operation| (n, m, Some(operation))));
            if all.len() == before && (workload.running || !workload.is_over()) {
                all.push((n, m, None));
            }
        }
    }
    all
}
