//! Processor time of a target while another program puts the load on.

use std::time::{Duration, Instant};
use weft_io::cpu_usage::{self, Usage};

/// The processes of a target on this machine; none if there are none or they are not known.
#[derive(Clone, Default)]
pub struct WatchedProcesses {
    pids: Vec<u32>,
    /// They use their cores even while they are idle.
    poll: bool,
}

/// Their processor time at the start of a run.
pub struct Watching<'a> {
    of: &'a WatchedProcesses,
    begun: Instant,
    before: Option<Usage>,
}

impl WatchedProcesses {
    /// Watches these processes.
    #[cfg(any(test, target_os = "linux"))]
    pub fn new(pids: &[u32], poll: bool) -> Self {
        Self { pids: pids.to_vec(), poll }
    }

    /// Begins a run.
    pub fn start(&self) -> Watching<'_> {
        Watching { of: self, begun: Instant::now(), before: used(&self.pids) }
    }
}

impl Watching<'_> {
    /// Returns their processor time within the `measured` time of a run that also had a warm-up
    /// `ramp`. It is a part of what they used since the start, as they work as much in the warm-up
    /// as after it. One that polls works all the time, also while the load generator starts.
    pub fn end(self, measured: Duration, ramp: Duration) -> Option<Usage> {
        let used = used(&self.of.pids)?.since(&self.before?);
        let idle = self.begun.elapsed().saturating_sub(measured);
        part(used, measured, if self.of.poll { idle } else { ramp })
    }
}

fn part(used: Usage, measured: Duration, ramp: Duration) -> Option<Usage> {
    let part = measured.as_secs_f64() / (measured + ramp).as_secs_f64();
    let scaled = |time: Duration| Duration::try_from_secs_f64(time.as_secs_f64() * part).ok();
    Some(Usage { user: scaled(used.user)?, system: scaled(used.system)?, ..used })
}

/// The sum of what all of them used; none if one is gone.
fn used(pids: &[u32]) -> Option<Usage> {
    let mut all = pids.iter().map(|pid| cpu_usage::of_process(*pid).ok());
    let first = all.next()??;
    all.try_fold(first, |sum, one| Some(sum.plus(&one?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_does_not_count() {
        let second = Duration::from_secs(1);
        let usage = Usage { user: 4 * second, system: 2 * second, ..Usage::default() };
        let of = part(usage, second, second).unwrap();
        assert_eq!((of.user, of.system), (2 * second, second));
        assert_eq!(part(usage, Duration::ZERO, Duration::ZERO), None, "nothing was measured");
    }

    #[test]
    fn the_time_of_a_process_that_is_gone_is_not_known() {
        for watched in
            [WatchedProcesses::default(), WatchedProcesses::new(&[u32::MAX / 2 - 1], false)]
        {
            assert_eq!(watched.start().end(Duration::from_secs(1), Duration::ZERO), None);
        }
    }
}
