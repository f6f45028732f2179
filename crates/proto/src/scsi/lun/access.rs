//! Asymmetric logical unit access (SPC-5 §5.18): how well a logical unit is reached by each target
//! port, and what is refused where it is not.
//!
//! The state of a port can change without that of another, so each target port is a target port
//! group of its own, with the same number.

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

/// Access to a logical unit by one target port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortAccess {
    /// Relative port identifier: 1 and on.
    pub port: u16,
    /// State.
    pub state: AccessState,
    /// Initiators can come by it. Others see it only if they did.
    pub is_open: bool,
}

/// Returns the refusal of a command in a state; `None`: it is executed. Commands that only report
/// properties are executed in every state, more of them than SPC-5 demands: initiators ask for size
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

/// Returns whether all commands are executed in this state.
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

/// Returns whether standby executes the command as well (SPC-5 §5.18.2.4.4): initiators register
/// with all ports.
fn is_management(command: &Command) -> bool {
    matches!(
        command,
        Command::ModeSelect { .. } | Command::ReserveIn { .. } | Command::ReserveOut { .. }
    )
}
