//! Choice of the path that an operation takes.

use super::options::IoPolicy;
use super::route::Route;
use weft_block::AccessState;
use weft_connection::limits::PATH_PROBE_OPS;
use weft_io::Time;

/// Chooses by a policy.
pub(super) struct Chooser {
    policy: IoPolicy,
    /// The path of the last operation.
    last: usize,
    /// Operations since a path other than the best one was measured.
    since_probe: u32,
}

impl Chooser {
    pub(super) fn new(policy: IoPolicy) -> Self {
        Self { policy, last: 0, since_probe: 0 }
    }

    /// The path of the next operation; none if no path takes operations. Paths that are not
    /// optimized are used if no other is left.
    #[inline]
    pub(super) fn choose(&mut self, routes: &[Route], now: Time) -> Option<usize> {
        let chosen = self
            .among(routes, |route| route.usable(now) == Some(AccessState::Optimized))
            .or_else(|| self.among(routes, |route| route.usable(now).is_some()))?;
        self.last = chosen;
        Some(chosen)
    }

    fn among(&mut self, routes: &[Route], takes: impl Fn(&Route) -> bool) -> Option<usize> {
        let first = self.last + 1;
        let in_turn = || {
            (first..first + routes.len()).map(|n| n % routes.len()).filter(|&n| takes(&routes[n]))
        };
        match self.policy {
            IoPolicy::Numa => (0..routes.len()).find(|&n| takes(&routes[n])),
            IoPolicy::RoundRobin => in_turn().next(),
            IoPolicy::QueueDepth => in_turn().min_by_key(|&n| routes[n].in_flight),
            IoPolicy::Latency => {
                self.since_probe += 1;
                if self.since_probe >= PATH_PROBE_OPS {
                    self.since_probe = 0;
                    return in_turn().next();
                }
                in_turn().min_by_key(|&n| {
                    routes[n]
                        .counters
                        .latency_ns()
                        .saturating_mul(u64::from(routes[n].in_flight) + 1)
                })
            }
        }
    }
}
