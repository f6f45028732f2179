//! Unit attention conditions (SAM-5 §5.14), which an initiator receives before anything else.

use crate::scsi::sense::Sense;
use crate::scsi::status::{AdditionalSense, SenseKey};

/// A notice for an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attention {
    PowerOn,
    DeviceReset,
    NexusLoss,
    ModeChanged,
    ReservationsPreempted,
    ReservationsReleased,
    RegistrationsPreempted,
    AccessStateChanged,
    CapacityChanged,
    InquiryChanged,
    CommandsCleared,
    LunsChanged,
}

impl Attention {
    /// In the order in which they are reported (SAM-5 table 41 puts resets first).
    const ALL: [Self; 12] = [
        Self::PowerOn,
        Self::DeviceReset,
        Self::NexusLoss,
        Self::ModeChanged,
        Self::ReservationsPreempted,
        Self::ReservationsReleased,
        Self::RegistrationsPreempted,
        Self::AccessStateChanged,
        Self::CapacityChanged,
        Self::InquiryChanged,
        Self::CommandsCleared,
        Self::LunsChanged,
    ];

    const fn code(self) -> AdditionalSense {
        match self {
            // Not 29h/01h, which says the same more exactly: libiscsi's tools wait for 29h/00h,
            // which LIO and tgt send.
            Self::PowerOn => AdditionalSense::POWER_ON_OR_RESET,
            Self::DeviceReset => AdditionalSense::DEVICE_RESET,
            Self::NexusLoss => AdditionalSense::NEXUS_LOSS,
            Self::ModeChanged => AdditionalSense::MODE_PARAMETERS_CHANGED,
            Self::ReservationsPreempted => AdditionalSense::RESERVATIONS_PREEMPTED,
            Self::ReservationsReleased => AdditionalSense::RESERVATIONS_RELEASED,
            Self::RegistrationsPreempted => AdditionalSense::REGISTRATIONS_PREEMPTED,
            Self::AccessStateChanged => AdditionalSense::ACCESS_STATE_CHANGED,
            Self::CapacityChanged => AdditionalSense::CAPACITY_DATA_CHANGED,
            Self::InquiryChanged => AdditionalSense::INQUIRY_DATA_CHANGED,
            Self::CommandsCleared => AdditionalSense::COMMANDS_CLEARED,
            Self::LunsChanged => AdditionalSense::REPORTED_LUNS_DATA_CHANGED,
        }
    }

    /// The sense data that tells it.
    pub const fn sense(self) -> Sense {
        Sense::new(SenseKey::UNIT_ATTENTION, self.code())
    }
}

/// The conditions that wait for one initiator on one logical unit: one of each kind at most, so
/// they need no queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Attentions(u16);

impl Attentions {
    /// Adds one. A reset makes what is of less weight void.
    pub fn add(&mut self, attention: Attention) {
        if matches!(attention, Attention::PowerOn | Attention::DeviceReset) {
            self.0 = 0;
        }
        self.0 |= 1 << attention as u16;
    }

    /// Returns whether none waits.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The weightiest one.
    pub fn first(self) -> Option<Attention> {
        Attention::ALL.into_iter().find(|&attention| self.0 & 1 << attention as u16 != 0)
    }

    /// Takes the weightiest one.
    pub fn take(&mut self) -> Option<Attention> {
        let first = self.first()?;
        self.0 &= !(1 << first as u16);
        Some(first)
    }

    /// Takes one kind.
    pub fn remove(&mut self, attention: Attention) {
        self.0 &= !(1 << attention as u16);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_told_by_weight_and_once() {
        let mut waiting = Attentions::default();
        waiting.add(Attention::CapacityChanged);
        waiting.add(Attention::ModeChanged);
        waiting.add(Attention::ModeChanged);
        assert_eq!(waiting.take(), Some(Attention::ModeChanged));
        assert_eq!(waiting.take(), Some(Attention::CapacityChanged));
        assert_eq!(waiting.take(), None);
    }

    #[test]
    fn a_reset_makes_the_rest_void() {
        let mut waiting = Attentions::default();
        waiting.add(Attention::CapacityChanged);
        waiting.add(Attention::DeviceReset);
        waiting.add(Attention::CommandsCleared);
        assert_eq!(waiting.take().map(Attention::sense), Some(Attention::DeviceReset.sense()));
        assert_eq!(waiting.take(), Some(Attention::CommandsCleared));
        assert!(waiting.is_empty());
    }
}
