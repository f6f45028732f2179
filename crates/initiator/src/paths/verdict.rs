//! Decision about an operation that a path has given back without success.

use super::flights::Flight;
use super::options::Failover;
use weft_block::{Completion, OpKind, Outcome, Status, StatusKind};
use weft_connection::limits::{PATH_REFUSALS_MAX, PATH_REPEATS_MAX};
use weft_connection::settle::lost_writes::GONE;

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It ends with its outcome.
    Deliver,
    /// It is sent again, here or elsewhere.
    Again,
    /// The same, but this path is not asked for a moment.
    AgainAfterPause,
}

/// Decides by the outcome alone (decision 8).
pub(super) fn verdict(flight: &Flight, outcome: &Outcome, failover: Failover) -> Verdict {
    // What it did may have been seen, or undone, by others since: its submitter has to look.
    let is_swap = matches!(flight.kind, OpKind::CompareAndWrite { .. }) || flight.kind.is_reserve();
    match outcome {
        _ if flight.cancelled => Verdict::Deliver,
        Outcome::Done(status) if speaks_of_path(status) => {
            if flight.repeats < PATH_REFUSALS_MAX {
                Verdict::AgainAfterPause
            } else {
                Verdict::Deliver
            }
        }
        // It is repeated as after a loss, but not for ever.
        _ if !is_swap && is_given_back(outcome) => {
            if flight.repeats < PATH_REPEATS_MAX {
                Verdict::Again
            } else {
                Verdict::Deliver
            }
        }
        Outcome::Done(_) => Verdict::Deliver,
        Outcome::NotSent(_) => Verdict::AgainAfterPause,
        Outcome::MayHaveExecuted { .. } if is_swap => Verdict::Deliver,
        Outcome::MayHaveExecuted { settled: true, .. } => Verdict::Again,
        Outcome::MayHaveExecuted { settled: false, .. }
            if !flight.kind.is_write() || failover == Failover::Fast =>
        {
            Verdict::Again
        }
        Outcome::MayHaveExecuted { settled: false, .. } => Verdict::Deliver,
    }
}

/// Returns whether the peer has aborted the operation, or its data was damaged in transit, on a
/// connection that goes on.
fn is_given_back(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Done(status) | Outcome::MayHaveExecuted { status, settled: true } => {
            matches!(status.kind, StatusKind::Aborted | StatusKind::Transport)
        }
        Outcome::NotSent(_) | Outcome::MayHaveExecuted { settled: false, .. } => false,
    }
}

/// Returns whether an outcome counts as one of the times that an operation may be sent again.
pub(super) fn is_repeat(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(_)) || is_given_back(outcome)
}

/// What a lost path completed while unflushed writes were written again is not believed: a write
/// may have been lost or undone, a read may show data that was older than what had been
/// acknowledged, and a flush may have covered what was then written over.
pub(super) fn doubt(completion: &mut Completion) {
    // A discard is a hint.
    if completion.op.kind != OpKind::Discard && completion.outcome.is_success() {
        completion.outcome = Outcome::settled(GONE);
    }
}

/// Whether a device that answered did so for the path and not for the data: the command was not
/// executed, and another path may work.
fn speaks_of_path(status: &Status) -> bool {
    matches!(status.kind, StatusKind::Path | StatusKind::Gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::Op;
    use weft_io::Time;

    const WRITE: OpKind = OpKind::Write { fua: false };

    fn judge(kind: OpKind, outcome: Outcome) -> Verdict {
        let op = Op::bare(kind, 0, 1, 0);
        let flight = Flight::of(&op, 0, Time::ZERO);
        op.give_up();
        verdict(&flight, &outcome, Failover::Safe)
    }

    #[test]
    fn what_was_not_sent_or_changes_nothing_is_sent_again() {
        let reserve = OpKind::Reserve(weft_block::ReserveAction::Register { key: 1 });
        for outcome in [
            Outcome::settled(GONE),
            Outcome::unsettled(GONE),
            Outcome::Done(Status::new(StatusKind::Aborted)),
        ] {
            assert_eq!(judge(reserve, outcome), Verdict::Deliver, "{outcome:?}");
            assert_eq!(judge(OpKind::ReservationReport, outcome), Verdict::Again, "{outcome:?}");
        }
        assert_eq!(judge(reserve, Outcome::NotSent(GONE)), Verdict::AgainAfterPause);
        let swap = OpKind::CompareAndWrite { fua: false };
        assert_eq!(judge(OpKind::Read, Outcome::unsettled(GONE)), Verdict::Again);
        assert_eq!(judge(OpKind::Flush, Outcome::unsettled(GONE)), Verdict::Again);
        assert_eq!(judge(WRITE, Outcome::settled(GONE)), Verdict::Again);
        assert_eq!(judge(swap, Outcome::NotSent(GONE)), Verdict::AgainAfterPause);
        assert_eq!(judge(swap, Outcome::settled(GONE)), Verdict::Deliver);
        assert_eq!(judge(WRITE, Outcome::unsettled(GONE)), Verdict::Deliver);
    }

    #[test]
    fn what_the_peer_aborts_is_sent_again_a_few_times() {
        let aborted = Status::new(StatusKind::Aborted);
        for outcome in [Outcome::Done(aborted), Outcome::settled(aborted)] {
            let op = Op::bare(WRITE, 0, 1, 0);
            let mut flight = Flight::of(&op, 0, Time::ZERO);
            op.give_up();
            for _ in 0..PATH_REPEATS_MAX {
                assert_eq!(verdict(&flight, &outcome, Failover::Safe), Verdict::Again);
                flight.repeats += u8::from(is_repeat(&outcome));
            }
            assert_eq!(verdict(&flight, &outcome, Failover::Safe), Verdict::Deliver);
        }
        assert!(!is_repeat(&Outcome::settled(GONE)), "a loss of the connection");
    }

    #[test]
    fn errors_of_the_data_end_and_errors_of_the_path_do_not() {
        let path = Status::new(StatusKind::Path);
        assert_eq!(judge(WRITE, Outcome::Done(path)), Verdict::AgainAfterPause);
        for kind in [
            StatusKind::Media,
            StatusKind::NoSpace,
            StatusKind::ReservationConflict,
            StatusKind::OutOfRange,
        ] {
            assert_eq!(
                judge(WRITE, Outcome::Done(Status::new(kind))),
                Verdict::Deliver,
                "{kind:?}"
            );
        }
    }
}
