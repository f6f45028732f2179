//! The meaning of a command's status (SAM-5 §5.3, SPC-4 §4.5).

use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense as Code, ScsiStatus, SenseKey as Key};

/// Change that a unit attention condition reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionChange {
    /// Nothing that a host has to look after.
    Nothing,
    /// The disk has another size.
    Capacity,
    /// The target has other logical units.
    Luns,
    /// The disk was restarted: its volatile cache may be lost, and identity or features may have
    /// changed.
    Restarted,
    /// Identity or features may be others.
    Identity,
    /// A reservation or a registration of this host is gone.
    Reservations,
    /// The way to the disk has another access state.
    AccessState,
}

/// Reaction to the end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandVerdict {
    /// It was done.
    Done,
    /// It was not executed; the same command may be sent again at once. How often is up to the
    /// caller.
    Again(AttentionChange),
    /// It was not executed; the same command may work later.
    Later,
    /// It failed, and would again.
    Failed,
}

impl CommandVerdict {
    /// Returns whether another disk may be behind the number now, or none.
    pub fn casts_doubt(&self) -> bool {
        matches!(
            self,
            Self::Again(
                AttentionChange::Luns | AttentionChange::Restarted | AttentionChange::Identity
            )
        )
    }

    /// The verdict on a status with its sense data, which comes with CHECK CONDITION.
    pub fn of(status: ScsiStatus, sense: Option<Sense>) -> Self {
        match (status, sense) {
            (ScsiStatus::GOOD | ScsiStatus::CONDITION_MET, _) => Self::Done,
            (ScsiStatus::BUSY | ScsiStatus::TASK_SET_FULL, _) => Self::Later,
            // Another nexus's reset or abort took it away.
            (ScsiStatus::TASK_ABORTED, _) => Self::Again(AttentionChange::Nothing),
            (ScsiStatus::CHECK_CONDITION, Some(sense)) => Self::of_sense(sense),
            _ => Self::Failed,
        }
    }

    fn of_sense(sense: Sense) -> Self {
        match (sense.key, sense.code) {
            (Key::NO_SENSE | Key::RECOVERED_ERROR | Key::COMPLETED, _) => Self::Done,
            (Key::UNIT_ATTENTION, code) => Self::Again(change(code)),
            // The standby and unavailable states may last for ever; that is for who has several
            // paths.
            (Key::NOT_READY, Code::BECOMING_READY | Code::ACCESS_STATE_TRANSITION) => Self::Later,
            (Key::ABORTED_COMMAND, _) => Self::Again(AttentionChange::Nothing),
            _ => Self::Failed,
        }
    }
}

fn change(code: Code) -> AttentionChange {
    match code {
        Code::CAPACITY_DATA_CHANGED => AttentionChange::Capacity,
        Code::REPORTED_LUNS_DATA_CHANGED => AttentionChange::Luns,
        // 29h/00h may be a mere reset, which loses no data; but many targets tell of power on by
        // it. Resets with a code of their own (29h/02h and 03h) and the loss of a nexus (29h/07h)
        // end commands and leave the cache alone (SAM-5 §6.3).
        Code::POWER_ON_OR_RESET | Code::POWER_ON | Code::INTERNAL_RESET => {
            AttentionChange::Restarted
        }
        Code::INQUIRY_DATA_CHANGED
        | Code::MEDIUM_MAY_HAVE_CHANGED
        | Code::MODE_PARAMETERS_CHANGED => AttentionChange::Identity,
        Code::RESERVATIONS_PREEMPTED
        | Code::RESERVATIONS_RELEASED
        | Code::REGISTRATIONS_PREEMPTED => AttentionChange::Reservations,
        Code::ACCESS_STATE_CHANGED => AttentionChange::AccessState,
        _ => AttentionChange::Nothing,
    }
}
