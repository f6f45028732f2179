//! Access of hosts to namespaces through this target: a state per group of namespaces (asymmetric
//! namespace access of NVMe, asymmetric logical unit access of SCSI), for all listeners or for one.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use weft_block::AccessState;
use weft_proto::limits::ANA_GROUPS_MAX;

/// The group of a namespace for which none is configured.
pub const DEFAULT_GROUP: u32 = 1;

/// States by group, 1 to [`ANA_GROUPS_MAX`]. A group of which nothing is said is optimized.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessStates {
    groups: BTreeMap<u32, AccessState>,
    at: BTreeMap<(SocketAddr, u32), AccessState>,
}

impl AccessStates {
    /// The state of a group for hosts that came by this listener, by the address that it was given
    /// (a free port as it was chosen); `None`: for hosts of whose listener nothing is said.
    pub fn of(&self, listener: Option<SocketAddr>, group: u32) -> AccessState {
        let at = listener.and_then(|listener| self.at.get(&(listener, group)));
        at.or_else(|| self.groups.get(&group)).copied().unwrap_or_default()
    }

    /// Everything that was said: listener (`None`: any other), group, state.
    pub fn iter(&self) -> impl Iterator<Item = (Option<SocketAddr>, u32, AccessState)> {
        let everywhere = self.groups.iter().map(|(&group, &state)| (None, group, state));
        everywhere.chain(
            self.at.iter().map(|(&(listener, group), &state)| (Some(listener), group, state)),
        )
    }

    /// Sets a state. A state of a group for any listener replaces the states of that group for
    /// single ones.
    pub(super) fn set(&mut self, listener: Option<SocketAddr>, group: u32, state: AccessState) {
        match listener {
            Some(listener) => _ = self.at.insert((listener, group), state),
            None => {
                self.at.retain(|(_, of), _| *of != group);
                self.groups.insert(group, state);
            }
        }
    }
}

/// Returns whether there can be such a group.
pub(super) fn is_group(group: u32) -> bool {
    (1..=ANA_GROUPS_MAX).contains(&group)
}
