//! The time from which a write on a lost connection can no longer be executed (decision 8), and the
//! writes that wait for it.
//!
//! Until then it is neither answered nor sent again: it could be executed after what was written
//! later, and undo that. Each protocol knows other ways to be certain sooner; where none of them
//! works, time has to pass. The bounds are those of the peer's own timers where it has some, and the
//! option `quiesce_time` where it has none.

use std::time::Duration;
use weft_block::{Completion, Op, Outcome, Status, StatusKind};
use weft_io::event_loop::TimerSlot;
use weft_io::{DriverId, Handle, Time};
use weft_proto::nvme::identify::IdentifyController;

/// The status of operations whose connection is over.
pub const GONE: Status = Status::new(StatusKind::Gone);

/// The unit of KAS, to multiples of which controllers round keep alive timeouts up, in ms.
const KEEP_ALIVE_UNIT_MS: u64 = 100;

/// Writes that were under way when their connection ended.
pub struct LostWrites {
    /// Keep writes until they can no longer be executed.
    keeps: bool,
    ops: Vec<Op>,
    timer: TimerSlot,
}

impl LostWrites {
    /// With `keeps`, a write is answered only when it can no longer be executed.
    pub fn new(keeps: bool) -> Self {
        Self { keeps, ops: Vec::new(), timer: TimerSlot::default() }
    }

    /// Takes an operation that was in flight. Returns its completion, or `None` if it is kept because
    /// the device may still execute it. `never_sent`: its present command was not sent; `untouched`:
    /// nor was an earlier one, which has been answered.
    pub fn take(&mut self, op: Op, never_sent: bool, untouched: bool) -> Option<Completion> {
        let outcome = match (never_sent, untouched) {
            (true, true) => Outcome::NotSent(GONE),
            (true, false) => Outcome::settled(GONE),
            (false, _) if op.kind.is_write() && self.keeps => {
                self.ops.push(op);
                return None;
            }
            (false, _) => Outcome::unsettled(GONE),
        };
        Some(op.done(outcome))
    }

    /// The number of writes. Drivers ask in each turn.
    #[inline]
    pub fn count(&self) -> usize {
        self.ops.len()
    }

    /// Completes the writes if it is `at` or later, when they can no longer be executed. Wakes the
    /// driver at that time otherwise.
    pub fn settle(&mut self, on: &Handle, driver: DriverId, at: Time, done: &mut Vec<Completion>) {
        if self.ops.is_empty() {
            return;
        }
        if on.now() < at {
            return self.timer.arm(on, driver, at);
        }
        done.extend(self.ops.drain(..).map(|op| op.done(Outcome::settled(GONE))));
    }
}

impl Drop for LostWrites {
    /// The loop ends, or nobody waits.
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

/// The time for which an unreachable controller may go on executing commands (Base 2.1 §9.6): it
/// notices the loss within two keep alive timeouts, or three where any command restarts its timer,
/// and then takes its quiesce time (CQT). `quiesce` takes the place of CQT where that is 0;
/// `keep_alive` is zero if there is no keep alive.
pub fn nvme_bound(
    keep_alive: Duration,
    controller: &IdentifyController,
    quiesce: Duration,
) -> Duration {
    // The controller rounds up what it was asked for.
    let unit = Duration::from_millis(KEEP_ALIVE_UNIT_MS) * u32::from(controller.kas.max(1));
    let keep_alive =
        unit * u32::try_from(keep_alive.as_millis().div_ceil(unit.as_millis())).unwrap_or(u32::MAX);
    let by_traffic = controller.ctratt & IdentifyController::CTRATT_TRAFFIC_KEEP_ALIVE != 0;
    let notices = keep_alive * if by_traffic { 3 } else { 2 };
    let quiet =
        if controller.cqt == 0 { quiesce } else { Duration::from_millis(controller.cqt.into()) };
    notices + quiet
}

/// The time for which a target keeps the tasks of a session whose connection was lost (RFC 7143
/// §7.5, §13.15, §13.16), and takes to end them.
pub fn iscsi_bound(time2wait_s: u16, time2retain_s: u16, quiesce: Duration) -> Duration {
    Duration::from_secs(u64::from(time2wait_s) + u64::from(time2retain_s)) + quiesce
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    #[test]
    fn a_controller_is_quiet_after_its_own_timers() {
        let plain = IdentifyController::default();
        assert_eq!(nvme_bound(5 * S, &plain, 10 * S), 20 * S);
        let traffic = IdentifyController {
            ctratt: IdentifyController::CTRATT_TRAFFIC_KEEP_ALIVE,
            ..plain.clone()
        };
        assert_eq!(nvme_bound(5 * S, &traffic, 10 * S), 25 * S);
        let told = IdentifyController { cqt: 1500, ..traffic };
        assert_eq!(nvme_bound(5 * S, &told, 10 * S), Duration::from_millis(16_500));
        assert_eq!(nvme_bound(Duration::ZERO, &plain, 10 * S), 10 * S);
        // It takes whole seconds (KAS), and was asked for less than two.
        let coarse = IdentifyController { kas: 10, ..plain };
        assert_eq!(nvme_bound(Duration::from_millis(1001), &coarse, 10 * S), 14 * S);
    }

    #[test]
    fn a_target_is_quiet_after_the_times_that_were_agreed() {
        assert_eq!(iscsi_bound(2, 20, 10 * S), 32 * S);
        assert_eq!(iscsi_bound(2, 0, Duration::ZERO), 2 * S);
    }
}
