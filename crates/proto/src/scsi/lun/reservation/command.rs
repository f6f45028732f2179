//! The commands that conflict with another initiator's reservation (SPC-4 §5.12.1, SBC-3 §4.17).

use crate::reservation::Effect;
use crate::scsi::cdb::Command;

/// Returns the effect of a command as far as persistent reservations are concerned; `None`: it is
/// allowed for all initiators. PERSISTENT RESERVE OUT has rules of its own.
pub(in crate::scsi::lun) fn effect(command: &Command) -> Option<Effect> {
    match command {
        Command::Read { .. }
        | Command::PreFetch { .. }
        | Command::Verify { .. }
        | Command::LbaStatus { .. } => Some(Effect::Reads),
        Command::TestUnitReady
        | Command::LogSense { .. }
        | Command::ReserveIn { .. }
        | Command::ReserveOut { .. } => None,
        Command::Reserve | Command::Release => None,
        _ if is_exempt(command) => None,
        _ => Some(Effect::Writes),
    }
}

/// Returns whether a command is allowed although another nexus has the logical unit by RESERVE(6)
/// (SPC-2 §5.5.1).
pub(in crate::scsi::lun) fn is_exempt(command: &Command) -> bool {
    match command {
        Command::Inquiry { .. }
        | Command::RequestSense { .. }
        | Command::ReportLuns { .. }
        | Command::Release
        | Command::ReadCapacity10
        | Command::ReadCapacity16 { .. }
        | Command::ReportTargetPortGroups { .. }
        | Command::PreventAllow { prevent: false } => true,
        Command::StartStopUnit { start, power_condition, .. } => *start && *power_condition == 0,
        _ => false,
    }
}
