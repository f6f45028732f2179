//! Access state of the logical unit through the target's port (SPC-4 §5.15), as a session learns
//! it.

use weft_block::{AccessState, DeviceChange};
use weft_io::Time;
use weft_proto::scsi::initiator::PortState;
use weft_proto::scsi::sense::Sense;
use weft_proto::scsi::status::{AdditionalSense as Code, SenseKey as Key};

/// What a session knows of the access state.
#[derive(Default)]
pub(super) struct Access {
    /// What was told of it last.
    told: AccessState,
    /// The target is to be asked.
    pub(super) wanted: bool,
    /// It is to be asked then.
    pub(super) again: Option<Time>,
}

impl Access {
    /// There is reason to ask.
    pub(super) fn doubt(&mut self) {
        self.wanted = true;
    }

    /// When to ask next.
    pub(super) fn next(&self) -> Option<Time> {
        self.again
    }

    /// What is news.
    pub(super) fn change(&mut self, state: AccessState) -> Option<DeviceChange> {
        (core::mem::replace(&mut self.told, state) != state).then_some(DeviceChange::Access(state))
    }
}

/// The state in which a target refuses commands like this.
pub(super) fn refusing(sense: Sense) -> Option<PortState> {
    match (sense.key, sense.code) {
        (Key::NOT_READY, Code::ACCESS_STATE_TRANSITION) => Some(PortState::TRANSITIONING),
        (Key::NOT_READY, Code::ACCESS_STATE_STANDBY) => Some(PortState::STANDBY),
        (Key::NOT_READY, Code::ACCESS_STATE_UNAVAILABLE) => Some(PortState::UNAVAILABLE),
        (Key::NOT_READY, Code::ACCESS_STATE_OFFLINE) => Some(PortState::OFFLINE),
        _ => None,
    }
}
