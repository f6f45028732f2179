//! Asymmetric namespace access (Base §8.1.1; 2.1 §8.1.1): how well this controller reaches each
//! namespace, from its log page (§5.16.1.13).

use core::time::Duration;

use super::{AssociationStage, HostControl};
use crate::limits::{REMOTE_ANA_GROUPS_MAX, REMOTE_NAMESPACES_MAX};
use crate::nvme::cqe::Cqe;
use crate::nvme::host::HostAction;
use crate::nvme::host::config::AdminData;
use crate::nvme::host::request::{self, AssociationStep, Purpose};
use crate::nvme::host::timer::Timer;
use crate::nvme::identify::IdentifyController;
use crate::nvme::log_page::{AnaGroupDescriptor, AnaGroups, AnaHeader, AnaState, LogPageId};
use crate::nvme::types::Nsid;

/// Pause before the log page is read again after a failure, and the minimum time for a change.
const REREAD_DELAY: Duration = Duration::from_secs(1);
/// Bytes that are asked for first: the smallest limit that a controller may set, and enough for
/// hundreds of namespaces. The whole may be much more, for which a controller may have to find
/// memory.
const SHORT_BYTES: u32 = 4096;
/// Number of times that it is read again; then the host waits for the next event.
const REREADS_MAX: u32 = 5;

/// Contents of the log page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct States {
    groups: Vec<(u32, AnaState)>,
    /// The group of each namespace that the log page names, by namespace.
    members: Vec<(Nsid, u32)>,
    /// A group has been changing its state for longer than the controller says that it takes.
    overdue: bool,
}

/// Access states, and the reading of their log page.
#[derive(Debug, Default)]
pub(super) struct Access {
    /// `None`: never read.
    states: Option<States>,
    /// There is reason to read it again.
    pub again: bool,
    /// Since when a group is between two states.
    changing_since: Option<Duration>,
    failures: u32,
    /// The log page did not fit [`SHORT_BYTES`].
    long: bool,
}

impl States {
    /// Decodes the readable part of a page, and returns whether it is cut off.
    fn decode(page: &[u8]) -> (Self, bool) {
        let mut states = Self::default();
        let mut is_cut = false;
        for group in AnaGroups::new(page).into_iter().flatten().take(REMOTE_ANA_GROUPS_MAX) {
            let Ok((group, members)) = group else {
                is_cut = true;
                break;
            };
            states.groups.push((group.grpid, group.state));
            let room = REMOTE_NAMESPACES_MAX - states.members.len();
            states.members.extend(members.take(room).map(|nsid| (nsid, group.grpid)));
        }
        states.members.sort_unstable();
        (states, is_cut)
    }

    fn is_changing(&self) -> bool {
        self.groups.iter().any(|(_, state)| *state == AnaState::CHANGE)
    }

    /// The state of a namespace; the group that it says it is in counts where the page does not
    /// name it.
    fn of(&self, nsid: Nsid, grpid: u32) -> AnaState {
        let listed = self
            .members
            .binary_search_by_key(&nsid, |member| member.0)
            .ok()
            .map(|at| self.members[at].1);
        let grpid = listed.unwrap_or(grpid);
        match self.groups.iter().find(|group| group.0 == grpid) {
            Some((_, AnaState::CHANGE)) if self.overdue => AnaState::INACCESSIBLE,
            Some((_, state)) => *state,
            None => AnaState::INACCESSIBLE,
        }
    }
}

impl HostControl {
    /// Returns whether the controller tells access states (CMIC).
    pub(super) fn has_access_states(&self) -> bool {
        !self.config.discovery && self.remote.identify.cmic & IdentifyController::CMIC_ANA != 0
    }

    /// Returns this controller's access to a usable namespace; `None` if it does not report it. A
    /// change that takes longer than the controller says (ANATT) counts as inaccessible.
    pub fn access(&self, nsid: Nsid) -> Option<AnaState> {
        let namespace = self.namespaces.iter().find(|namespace| namespace.nsid == nsid)?;
        Some(self.access.states.as_ref()?.of(nsid, namespace.identify.anagrpid))
    }

    /// A command was refused for the access state of its namespace: the log page is read again.
    pub fn access_doubted(&mut self, now: Duration) {
        if self.has_access_states() && self.stage == AssociationStage::Ready {
            self.access.again = true;
            if !self.line_busy() {
                self.after_look(now);
            }
        }
    }

    /// The controller says that access states have changed. A namespace that has changed its group
    /// is found by the log page, too.
    pub(super) fn access_changed(&mut self) {
        self.access.again |= self.has_access_states();
    }

    /// Returns whether it is still to be seen what the access states are.
    pub fn is_reading_access(&self) -> bool {
        self.access.again
            || self.requests.any(|purpose| purpose == Purpose::Line(AssociationStep::ReadAnaLog))
    }

    /// Reads the log page, which also lets the controller report the next change.
    pub(super) fn read_access(&mut self, now: Duration) {
        self.access.again = false;
        let id = &self.remote.identify;
        let groups = (id.nanagrpid as usize).clamp(1, REMOTE_ANA_GROUPS_MAX);
        let namespaces = if id.mnan == 0 { id.nn } else { id.mnan };
        let namespaces = (namespaces as usize).clamp(1, REMOTE_NAMESPACES_MAX);
        let bytes =
            AnaHeader::BYTES + groups * AnaGroupDescriptor::BYTES + namespaces * size_of::<Nsid>();
        let limit = if self.access.long { self.remote.transfer_bytes_max() } else { SHORT_BYTES };
        let len = (bytes as u32).min(limit);
        self.line(
            now,
            AssociationStep::ReadAnaLog,
            request::log_page(LogPageId::ANA, 0, len, false),
            AdminData::In { len },
        );
    }

    /// The log page has been read, or could not be.
    pub(super) fn access_read(&mut self, now: Duration, cqe: &Cqe, data: &[u8]) {
        let (states, is_cut) = States::decode(data);
        let is_read = cqe.status.is_success() && data.len() >= AnaHeader::BYTES;
        if (!is_read || is_cut) && !self.access.long {
            // Some controllers refuse to send a part of it.
            self.access.long = true;
            return self.read_access(now);
        }
        if is_read {
            self.access.failures = 0;
            self.access_known(now, states);
        } else {
            self.access.failures += 1;
            if self.access.failures <= REREADS_MAX {
                self.timers.set(Timer::Access, now.saturating_add(REREAD_DELAY));
            }
        }
        if self.stage == AssociationStage::Setup {
            self.ask_health(now)
        } else {
            self.after_look(now)
        }
    }

    fn access_known(&mut self, now: Duration, mut states: States) {
        self.timers.stop(Timer::Access);
        if states.is_changing() {
            let limit = Duration::from_secs(self.remote.identify.anatt.into()).max(REREAD_DELAY);
            let end = self.access.changing_since.get_or_insert(now).saturating_add(limit);
            states.overdue = now >= end;
            self.timers
                .set(Timer::Access, if states.overdue { now.saturating_add(limit) } else { end });
        } else {
            self.access.changing_since = None;
        }
        if self.access.states.as_ref() != Some(&states) {
            self.access.states = Some(states);
            self.push(HostAction::AccessChanged);
        }
    }

    /// It is time to read the log page again.
    pub(super) fn reread_access(&mut self, now: Duration) {
        self.access.again = true;
        if self.stage == AssociationStage::Ready && !self.line_busy() {
            self.after_look(now);
        }
    }
}
