//! Asymmetric logical unit access (SPC-5 §5.18): how well a logical unit is reached by each target
//! port, and what is refused where it is not.
//!
//! The state of a port can change without that of another, so each target port is a target port
//! group of its own, with the same number.

use super::unit::UnitState;
use super::writer::Writer;
use crate::limits::ANA_TRANSITION_S;
use crate::nvme::wire::codes;
use crate::scsi::cdb::Command;
use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense, SenseKey};

codes! {
    /// Asymmetric access state of the way to a logical unit (SPC-5 §6.36). Four bits.
    pub struct AccessState(u8) {
        0x0 OPTIMIZED "active/optimized";
        0x1 NON_OPTIMIZED "active/non-optimized";
        0x2 STANDBY "standby";
        0x3 UNAVAILABLE "unavailable";
        0xe OFFLINE "offline";
        0xf TRANSITIONING "transitioning";
    }
}

/// How well a logical unit is reached by one target port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAccess {
    /// Relative port identifier: 1 and on.
    pub port: u16,
    /// State.
    pub state: AccessState,
    /// Initiators can come by it. Others are told of it only if they did.
    pub is_open: bool,
}

/// T_SUP, O_SUP, U_SUP, S_SUP, AN_SUP, AO_SUP: all states may be met.
const SUPPORTED: u8 = 0xcf;
/// STATUS CODE: the state changes by itself.
const IMPLICIT: u8 = 0x02;
/// RTPG_FMT of the extended header.
const EXTENDED: u8 = 0x10;

/// Bytes of the head of the response to REPORT TARGET PORT GROUPS, and of a group of one port.
pub(super) const HEAD_BYTES: usize = 8;
pub(super) const GROUP_BYTES: usize = 12;

/// What a command is refused with in a state; `None`: it is executed. Commands that only tell what
/// there is are executed in every state, more of them than SPC-5 demands: initiators ask for size
/// and mode of a disk when they find it, also by a port in standby.
pub(super) fn refusal(state: AccessState, command: &Command) -> Option<Sense> {
    if is_accessible(state) || is_telling(command) {
        return None;
    }
    let code = match state {
        AccessState::STANDBY if is_management(command) => return None,
        AccessState::STANDBY => AdditionalSense::ACCESS_STATE_STANDBY,
        AccessState::OFFLINE => AdditionalSense::ACCESS_STATE_OFFLINE,
        AccessState::TRANSITIONING => AdditionalSense::ACCESS_STATE_TRANSITION,
        _ => AdditionalSense::ACCESS_STATE_UNAVAILABLE,
    };
    Some(Sense::new(SenseKey::NOT_READY, code))
}

/// Whether all commands are executed in this state.
pub(super) const fn is_accessible(state: AccessState) -> bool {
    matches!(state, AccessState::OPTIMIZED | AccessState::NON_OPTIMIZED)
}

fn is_telling(command: &Command) -> bool {
    matches!(
        command,
        Command::Inquiry { .. }
            | Command::ReportLuns { .. }
            | Command::RequestSense { .. }
            | Command::ReportTargetPortGroups { .. }
            | Command::ReportOpCodes { .. }
            | Command::ReportTaskManagement { .. }
            | Command::ReadCapacity10
            | Command::ReadCapacity16 { .. }
            | Command::ModeSense { .. }
            | Command::LogSense { .. }
    )
}

/// What standby executes as well (SPC-5 §5.18.2.4.4): initiators register with all ports.
fn is_management(command: &Command) -> bool {
    matches!(
        command,
        Command::ModeSelect { .. } | Command::ReserveIn { .. } | Command::ReserveOut { .. }
    )
}

impl UnitState {
    /// The state that was set for a port.
    pub(super) fn state_at(&self, port: u16) -> AccessState {
        self.ports
            .iter()
            .find(|known| known.port == port)
            .map_or(AccessState::OPTIMIZED, |known| known.state)
    }

    /// Whether initiators are to be told that a port's state is another one now.
    pub(super) fn differs(&self, ports: &[PortAccess], is_reached: bool) -> bool {
        let moved = |now: &PortAccess| {
            self.ports.iter().any(|was| was.port == now.port && was.state != now.state)
        };
        self.is_reached != is_reached || ports.iter().any(moved)
    }

    /// The ports that an initiator is told of which came by `own`.
    fn told(&self, own: u16) -> impl Iterator<Item = (u16, AccessState)> {
        let is_known = self.ports.iter().any(|known| known.port == own);
        let unknown = (!is_known).then_some((own, AccessState::OPTIMIZED));
        let known = self.ports.iter().filter(move |known| known.is_open || known.port == own);
        unknown.into_iter().chain(known.map(|known| (known.port, known.state)))
    }

    /// How many ports an initiator is told of which came by `own`.
    pub(super) fn ports_told(&self, own: u16) -> usize {
        self.told(own).count()
    }

    /// The response to REPORT TARGET PORT GROUPS (SPC-5 §6.36) for an initiator that came by `own`.
    pub(super) fn report_groups(&self, own: u16, extended: bool, out: &mut Writer) {
        out.zeroes(4);
        if extended {
            out.bytes(&[EXTENDED, ANA_TRANSITION_S, 0, 0]);
        }
        for (port, state) in self.told(own) {
            let state = if !self.is_reached && is_accessible(state) {
                AccessState::UNAVAILABLE
            } else {
                state
            };
            out.bytes(&[state.0, SUPPORTED]);
            out.number(2, port.into());
            // One port.
            out.bytes(&[0, IMPLICIT, 0, 1, 0, 0]);
            out.number(2, port.into());
        }
        out.set(0, 4, out.len() as u64 - 4);
    }
}
