//! Check that a logical unit is still the one that was opened (SPC-4 §7.8.6): after each hint that
//! it may be another one it is asked for its names, and nothing is sent to it before it has given
//! them.

use std::time::Duration;
use weft_block::{Raw, Status};
use weft_connection::limits::{ABSENT_PAUSE_MS, ISCSI_BUSY_PAUSE_MS, ISCSI_PROBE_BYTES};
use weft_io::Time;
use weft_proto::scsi::cdb::Command;
use weft_proto::scsi::initiator::{CommandVerdict, InquiryNames, NamesVerdict};
use weft_proto::scsi::status::AdditionalSense;

/// What is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IdentityState {
    /// It is the one that was opened, as far as anybody knows.
    Confirmed,
    /// It is to be asked then. The first hint came at `since`.
    Doubted { since: Time, ask: Time },
    /// It has been asked. There was another hint since if `again`.
    Asked { since: Time, again: bool },
    /// There is none at present; it is to be asked then whether it has come back.
    Absent { ask: Time },
    /// The same, and it has been asked.
    AbsentAsked,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing yet, or nothing new.
    Nothing,
    /// Another logical unit has its number.
    Other,
    /// It tells its names no more.
    Refused,
}

/// The identity of a logical unit, and the check that it is unchanged.
pub(super) struct Identification {
    identity: InquiryNames,
    state: IdentityState,
    /// The page of its names was refused: whether there is a logical unit at all is asked next, by
    /// the standard data. Targets refuse pages of logical units that they do not have.
    is_refused: bool,
}

impl Identification {
    /// Of a logical unit that was opened under these names.
    pub(super) fn new(identity: InquiryNames) -> Self {
        Self { identity, state: IdentityState::Confirmed, is_refused: false }
    }

    /// It may be another one. Of one without names that cannot be found out.
    pub(super) fn doubt(&mut self, now: Time) {
        if self.identity.page().is_none() {
            return;
        }
        self.state = match self.state {
            IdentityState::Confirmed => IdentityState::Doubted { since: now, ask: now },
            IdentityState::Asked { since, .. } => IdentityState::Asked { since, again: true },
            other => other,
        };
    }

    /// Whether commands have to wait.
    #[inline]
    pub(super) fn holds(&self) -> bool {
        matches!(self.state, IdentityState::Doubted { .. } | IdentityState::Asked { .. })
    }

    /// Whether there is none at present.
    #[inline]
    pub(super) fn is_absent(&self) -> bool {
        matches!(self.state, IdentityState::Absent { .. } | IdentityState::AbsentAsked)
    }

    /// Since when commands have been waiting.
    pub(super) fn held_since(&self) -> Option<Time> {
        match self.state {
            IdentityState::Doubted { since, .. } | IdentityState::Asked { since, .. } => {
                Some(since)
            }
            _ => None,
        }
    }

    /// When to ask next.
    pub(super) fn next(&self) -> Option<Time> {
        match self.state {
            IdentityState::Doubted { ask, .. } | IdentityState::Absent { ask } => Some(ask),
            _ => None,
        }
    }

    /// What to ask at this time, if anything.
    pub(super) fn question(&self, now: Time) -> Option<Command> {
        let page = self.identity.page()?;
        let due = self.next().is_some_and(|ask| ask <= now);
        due.then_some(Command::Inquiry {
            page: Some(page).filter(|_| !self.is_refused),
            allocation: ISCSI_PROBE_BYTES as u32,
        })
    }

    /// The question was sent.
    pub(super) fn asked(&mut self) {
        self.state = match self.state {
            IdentityState::Doubted { since, .. } => IdentityState::Asked { since, again: false },
            IdentityState::Absent { .. } => IdentityState::AbsentAsked,
            other => other,
        };
    }

    /// The question was answered; `None` where it was not, or with damaged data.
    pub(super) fn answered(
        &mut self,
        now: Time,
        verdict: Option<CommandVerdict>,
        is_missing: bool,
        data: &[u8],
    ) -> Answer {
        let busy = now + Duration::from_millis(ISCSI_BUSY_PAUSE_MS);
        let absent = IdentityState::Absent { ask: now + Duration::from_millis(ABSENT_PAUSE_MS) };
        let unclear = match self.state {
            IdentityState::Asked { since, .. } => IdentityState::Doubted { since, ask: busy },
            _ => absent,
        };
        let was_refused = core::mem::take(&mut self.is_refused);
        let naming = match verdict {
            Some(CommandVerdict::Done) if was_refused && !is_no_unit(data) => {
                return Answer::Refused;
            }
            Some(CommandVerdict::Done) => self.identity.naming(data),
            Some(CommandVerdict::Failed) if is_missing => NamesVerdict::Absent,
            Some(CommandVerdict::Failed) if was_refused => return Answer::Refused,
            Some(CommandVerdict::Failed) => {
                self.is_refused = true;
                self.state = match self.state {
                    IdentityState::Asked { since, .. } => {
                        IdentityState::Doubted { since, ask: now }
                    }
                    _ => IdentityState::Absent { ask: now },
                };
                return Answer::Nothing;
            }
            _ => {
                self.is_refused = was_refused;
                self.state = unclear;
                return Answer::Nothing;
            }
        };
        let doubted_again = matches!(self.state, IdentityState::Asked { again: true, .. });
        match naming {
            NamesVerdict::Other => return Answer::Other,
            NamesVerdict::Absent => self.state = absent,
            NamesVerdict::Same if doubted_again => {
                self.state = IdentityState::Doubted { since: now, ask: now }
            }
            NamesVerdict::Same => self.state = IdentityState::Confirmed,
        }
        Answer::Nothing
    }
}

/// Whether the standard data says that there is no logical unit: a peripheral qualifier other than
/// 000b.
fn is_no_unit(data: &[u8]) -> bool {
    data.first().is_some_and(|byte| byte & 0xe0 != 0)
}

/// Whether the target has said that there is no such logical unit.
pub(super) fn is_missing(status: &Status) -> bool {
    matches!(status.raw, Some(Raw::Scsi(raw)) if raw.additional_sense == AdditionalSense::LOGICAL_UNIT_NOT_SUPPORTED.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;
    /// VPD page 80h with the serial number that is known, and with another one.
    const SAME: &[u8] = &[0, 0x80, 0, 3, b'o', b'n', b'e'];
    const OTHER: &[u8] = &[0, 0x80, 0, 3, b't', b'w', b'o'];

    fn known() -> Identification {
        Identification::new(InquiryNames { serial: Some("one".into()), ..InquiryNames::default() })
    }

    /// One that was asked after a hint.
    fn asked() -> Identification {
        let mut unit = known();
        unit.doubt(NOW);
        assert!(unit.holds() && unit.question(NOW).is_some());
        unit.asked();
        assert!(unit.holds() && unit.question(NOW).is_none(), "nothing is sent before the answer");
        unit
    }

    fn done(unit: &mut Identification, data: &[u8]) -> Answer {
        unit.answered(NOW, Some(CommandVerdict::Done), false, data)
    }

    #[test]
    fn commands_wait_from_the_hint_to_the_answer() {
        let mut unit = asked();
        assert_eq!(
            (done(&mut unit, SAME), unit.holds(), unit.held_since()),
            (Answer::Nothing, false, None)
        );
        assert_eq!(done(&mut asked(), OTHER), Answer::Other);
        let mut refused = asked();
        assert_eq!(
            refused.answered(NOW, Some(CommandVerdict::Failed), false, &[]),
            Answer::Nothing,
            "it may be gone"
        );
        assert!(refused.holds() && refused.question(NOW).is_some());
        refused.asked();
        assert_eq!(
            refused.answered(NOW, Some(CommandVerdict::Failed), false, &[]),
            Answer::Refused,
            "it may be another one"
        );
    }

    #[test]
    fn a_hint_while_it_is_asked_asks_again() {
        let mut unit = asked();
        unit.doubt(NOW);
        assert_eq!(done(&mut unit, SAME), Answer::Nothing);
        assert!(
            unit.holds() && unit.question(NOW).is_some(),
            "the answer may be of before the hint"
        );
        unit.asked();
        assert_eq!((done(&mut unit, SAME), unit.holds()), (Answer::Nothing, false));
    }

    #[test]
    fn an_answer_that_does_not_come_is_asked_for_again() {
        let mut unit = asked();
        assert_eq!(unit.answered(NOW, None, false, &[]), Answer::Nothing);
        assert!(unit.holds() && unit.question(NOW).is_none());
        assert!(unit.question(NOW + Duration::from_millis(ISCSI_BUSY_PAUSE_MS)).is_some());
    }

    #[test]
    fn one_that_is_away_may_come_back() {
        let mut unit = asked();
        assert_eq!(unit.answered(NOW, Some(CommandVerdict::Failed), true, &[]), Answer::Nothing);
        assert!(unit.is_absent() && !unit.holds());
        let later = NOW + Duration::from_millis(ABSENT_PAUSE_MS);
        assert!(unit.question(NOW).is_none() && unit.question(later).is_some());
        unit.asked();
        assert_eq!((done(&mut unit, SAME), unit.is_absent()), (Answer::Nothing, false));
    }

    #[test]
    fn one_without_names_cannot_be_told_apart() {
        let mut unit = Identification::new(InquiryNames::default());
        unit.doubt(NOW);
        assert!(!unit.holds() && unit.question(NOW).is_none());
    }
}
