//! The state of each ANA group at each address that hosts connect to (Base 2.1 §8.1.1).

use std::collections::BTreeMap;
use std::net::SocketAddr;

#[cfg(doc)]
use crate::limits::ANA_GROUPS_MAX;
use crate::nvme::log_page::AnaState;

/// The states of ANA groups. A group of which nothing is said is optimized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnaStates {
    groups: BTreeMap<u32, AnaState>,
    /// Groups whose state differs for hosts that came by a certain listener.
    at: BTreeMap<(SocketAddr, u32), AnaState>,
}

impl AnaStates {
    /// Sets the state of a group, 1 to [`ANA_GROUPS_MAX`]: for hosts that came by this listener, or
    /// for all of whose listener nothing is said.
    pub fn set(&mut self, listener: Option<SocketAddr>, group: u32, state: AnaState) {
        match listener {
            Some(listener) => self.at.insert((listener, group), state),
            None => self.groups.insert(group, state),
        };
    }

    /// The state of a group for hosts that came by this listener.
    pub fn of(&self, listener: Option<SocketAddr>, group: u32) -> AnaState {
        let at = listener.and_then(|listener| self.at.get(&(listener, group)));
        at.or_else(|| self.groups.get(&group)).copied().unwrap_or(AnaState::OPTIMIZED)
    }
}
