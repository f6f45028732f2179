//! Asymmetric Namespace Access (Base 2.1 §8.1.1): the state of each ANA group at each address that
//! hosts connect to, what the states refuse, and the log page.
//!
//! Where the specification leaves it open this controller does as nvmet does: namespaces of an
//! inaccessible group keep their size in Identify Namespace (Linux takes a namespace with a
//! capacity of zero away, and its paths with it), only what is used of them is reported as zero.

use std::collections::BTreeMap;

use super::fault::{Fault, at};
use super::namespace::{Namespace, NamespaceMap};
use crate::limits::{ANA_GROUPS_MAX, NAMESPACES_MAX};
use crate::nvme::log_page::{AnaGroupDescriptor, AnaHeader, AnaState};
use crate::nvme::status::Status;
use crate::nvme::types::Nsid;

/// Returns whether commands are executed in this state.
#[inline]
pub(super) fn is_accessible(state: AnaState) -> bool {
    matches!(state, AnaState::OPTIMIZED | AnaState::NON_OPTIMIZED)
}

/// The status of commands that a namespace in this state refuses; `None`: it executes them.
#[inline]
pub(super) fn refusal(state: AnaState) -> Option<Status> {
    if is_accessible(state) { None } else { Some(refused(state)) }
}

#[cold]
fn refused(state: AnaState) -> Status {
    match state {
        AnaState::PERSISTENT_LOSS => Status::ANA_PERSISTENT_LOSS,
        AnaState::CHANGE => Status::ANA_TRANSITION,
        _ => Status::ANA_INACCESSIBLE,
    }
}

/// Refuses what concerns a namespace in a state in which it cannot be reached.
#[inline]
pub(super) fn check(namespace: &Namespace) -> Result<(), Fault> {
    refusal(namespace.ana_state).map_or(Ok(()), |status| Err(Fault::at(status, at::NSID)))
}

/// A group as the log page has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    state: AnaState,
    /// Identifiers in ascending order.
    namespaces: Vec<Nsid>,
    changes: u64,
}

/// The log page Asymmetric Namespace Access of one controller. It has the groups of the namespaces
/// that its host sees.
#[derive(Debug)]
pub(super) struct AnaLog {
    groups: BTreeMap<u32, Group>,
    changes: u64,
}

impl AnaLog {
    /// The log page of a new controller. Counts begin with 1: zero would say that nothing is
    /// counted.
    pub fn new(namespaces: &NamespaceMap) -> Self {
        let mut log = Self { groups: BTreeMap::new(), changes: 0 };
        log.follow(namespaces);
        log
    }

    /// Takes the namespaces as they are now. Returns whether the host must be notified: the state
    /// of a group that it knew has changed, or a namespace has moved to another group. Another
    /// event reports new and removed namespaces.
    pub fn follow(&mut self, namespaces: &NamespaceMap) -> bool {
        let next = groups(namespaces);
        let mut news = false;
        let mut changed = self.groups.keys().any(|group| !next.contains_key(group));
        for (id, (state, members)) in &next {
            let was = self.groups.get(id);
            let is_same = was.is_some_and(|was| was.state == *state && was.namespaces == *members);
            changed |= !is_same;
            news |= was.is_some_and(|was| was.state != *state)
                || members.iter().any(|nsid| self.moved(*nsid, *id));
        }
        if changed {
            self.changes += 1;
            let counted = |(id, (state, namespaces)): (u32, (AnaState, Vec<Nsid>))| {
                let was = self
                    .groups
                    .get(&id)
                    .filter(|was| was.state == state && was.namespaces == namespaces);
                let changes = was.map_or(self.changes, |was| was.changes);
                (id, Group { state, namespaces, changes })
            };
            self.groups = next.into_iter().map(counted).collect();
        }
        news
    }

    /// Returns whether a namespace was in another group until now.
    fn moved(&self, nsid: Nsid, to: u32) -> bool {
        self.groups
            .iter()
            .any(|(id, group)| *id != to && group.namespaces.binary_search(&nsid).is_ok())
    }

    /// Bytes of the page with all groups and namespaces that there may be: nvme-cli reads this many
    /// in parts, and everything behind the present ones is zero.
    pub const BYTES_MAX: usize = AnaHeader::BYTES
        + ANA_GROUPS_MAX as usize * AnaGroupDescriptor::BYTES
        + NAMESPACES_MAX as usize * size_of::<u32>();

    /// The page; with `groups_only` (RGO) without the namespaces of the groups.
    pub fn page(&self, groups_only: bool) -> Vec<u8> {
        let mut page = AnaHeader { chgcnt: self.changes, ngrps: self.groups.len() as u16 }.encode();
        for (&grpid, group) in &self.groups {
            let listed: &[Nsid] = if groups_only { &[] } else { &group.namespaces };
            let (nnsids, chgcnt, state) = (listed.len() as u32, group.changes, group.state);
            page.extend(AnaGroupDescriptor { grpid, nnsids, chgcnt, state }.encode());
            listed.iter().for_each(|nsid| page.extend(nsid.0.to_le_bytes()));
        }
        page
    }
}

fn groups(namespaces: &NamespaceMap) -> BTreeMap<u32, (AnaState, Vec<Nsid>)> {
    let mut groups: BTreeMap<u32, (AnaState, Vec<Nsid>)> = BTreeMap::new();
    for namespace in namespaces.iter() {
        let group =
            groups.entry(namespace.ana_group).or_insert_with(|| (namespace.ana_state, Vec::new()));
        group.1.push(namespace.nsid);
    }
    groups
}

const _: () = assert!(ANA_GROUPS_MAX <= u16::MAX as u32);
