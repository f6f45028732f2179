//! The differences between two states, in an order in which they can be carried out: what goes,
//! then what comes.

use super::state::ServedState;
use crate::config::desired::{DesiredAnaState, DesiredLimit, DesiredNamespace, DesiredSubsystem};
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_block::limit::Limit;
use weft_endpoint::inventory::{Access, Authentication, SubsystemNumbers};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::auth::PskKeys;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A URL to listen at goes.
    Unlisten(String),
    /// A subsystem goes, with its namespaces.
    RemoveSubsystem(DesiredSubsystem),
    /// A namespace goes.
    RemoveNamespace(Nqn, DesiredNamespace),
    /// A subsystem comes; its namespaces follow.
    AddSubsystem(DesiredSubsystem),
    /// NVMe hosts have to prove something else, or nothing.
    Authenticate(Nqn, Option<Authentication>),
    /// NVMe/TCP hosts have other pre-shared keys.
    Keys(Arc<PskKeys>),
    /// Other hosts or initiators may connect.
    Admit(Nqn, Access<Nqn>, Access<Name>),
    /// A subsystem gets another serial or model number, or other limits of I/O queues.
    Number(Nqn, SubsystemNumbers),
    /// A namespace gets another source or identity.
    Replace(Nqn, Box<DesiredNamespace>, Box<DesiredNamespace>),
    /// A namespace gets another size.
    Resize(Nqn, Nsid, Option<u64>),
    /// A namespace gets another name for NBD clients.
    Rename(Nqn, Nsid, Option<String>),
    /// Other hosts or initiators see a namespace.
    Show(Nqn, Nsid, Access<Nqn>, Access<Name>),
    /// A namespace moves to another ANA group.
    Group(Nqn, Nsid, u32),
    /// A namespace comes.
    AddNamespace(Nqn, DesiredNamespace),
    /// A group gets another ANA state.
    SetState(DesiredAnaState),
    /// A host gets another limit, or none.
    Limit(String, Limit),
    /// Hosts have other identifiers.
    Identify(BTreeMap<Nqn, Id128>),
    /// A URL to listen at comes.
    Listen(String),
}

/// What is different in `after` from `before`.
pub fn between(before: &ServedState, after: &ServedState) -> Vec<Step> {
    let mut steps = Vec::new();
    let gone = |url: &&String| !after.listen.contains(url);
    steps.extend(before.listen.iter().filter(gone).cloned().map(Step::Unlisten));
    let gone = before.subsystems.iter().filter(|of| after.subsystem(&of.nqn).is_none());
    steps.extend(gone.cloned().map(Step::RemoveSubsystem));
    if before.discovery != after.discovery {
        steps.push(Step::Authenticate(Nqn::discovery(), after.discovery.clone()));
    }
    // That there is TLS takes effect at the start only.
    if let (Some(was), Some(is)) = (&before.psk, &after.psk)
        && was != is
    {
        steps.push(Step::Keys(Arc::clone(is)));
    }
    for subsystem in &after.subsystems {
        let was = before.subsystem(&subsystem.nqn).and_then(|was| was.authentication.as_ref());
        if was != subsystem.authentication.as_ref() {
            steps.push(Step::Authenticate(subsystem.nqn.clone(), subsystem.authentication.clone()));
        }
        match before.subsystem(&subsystem.nqn) {
            Some(was) => within(was, subsystem, &mut steps),
            None => {
                steps.push(Step::AddSubsystem(subsystem.clone()));
                steps.extend(
                    subsystem
                        .namespaces
                        .iter()
                        .map(|it| Step::AddNamespace(subsystem.nqn.clone(), it.clone())),
                );
            }
        }
    }
    steps.extend(
        after
            .states
            .iter()
            .filter(|state| !before.states.contains(state))
            .copied()
            .map(Step::SetState),
    );
    let is_unlimited = |of: &&DesiredLimit| !after.limits.iter().any(|limit| limit.host == of.host);
    steps.extend(
        before
            .limits
            .iter()
            .filter(is_unlimited)
            .map(|of| Step::Limit(of.host.clone(), Limit::NONE)),
    );
    let limited = after.limits.iter().filter(|limit| !before.limits.contains(limit));
    steps.extend(limited.map(|of| Step::Limit(of.host.clone(), of.limit)));
    if before.identifiers != after.identifiers {
        steps.push(Step::Identify(after.identifiers.clone()));
    }
    steps.extend(
        after.listen.iter().filter(|url| !before.listen.contains(url)).cloned().map(Step::Listen),
    );
    steps
}

fn within(was: &DesiredSubsystem, is: &DesiredSubsystem, steps: &mut Vec<Step>) {
    let nqn = &is.nqn;
    let find =
        |of: &DesiredSubsystem, nsid| of.namespaces.iter().find(|it| it.nsid == nsid).cloned();
    let gone = was.namespaces.iter().filter(|it| find(is, it.nsid).is_none());
    steps.extend(gone.map(|it| Step::RemoveNamespace(nqn.clone(), it.clone())));
    if (&was.hosts, &was.initiators) != (&is.hosts, &is.initiators) {
        steps.push(Step::Admit(nqn.clone(), is.hosts.clone(), is.initiators.clone()));
    }
    if was.numbers != is.numbers {
        steps.push(Step::Number(nqn.clone(), is.numbers.clone()));
    }
    for namespace in &is.namespaces {
        match find(was, namespace.nsid) {
            Some(before) => of_namespace(nqn, &before, namespace, steps),
            None => steps.push(Step::AddNamespace(nqn.clone(), namespace.clone())),
        }
    }
}

fn of_namespace(nqn: &Nqn, was: &DesiredNamespace, is: &DesiredNamespace, steps: &mut Vec<Step>) {
    let data = |it: &DesiredNamespace| (it.origin(), it.uuid, it.nguid, it.eui64, it.reservations);
    if data(was) != data(is) || was.scsi != is.scsi {
        // The new one comes with all the rest.
        return steps.push(Step::Replace(nqn.clone(), Box::new(was.clone()), Box::new(is.clone())));
    }
    let (nqn, nsid) = (|| nqn.clone(), is.nsid);
    if was.bytes != is.bytes {
        steps.push(Step::Resize(nqn(), nsid, is.bytes));
    }
    if was.name != is.name {
        steps.push(Step::Rename(nqn(), nsid, is.name.clone()));
    }
    if (&was.hosts, &was.initiators) != (&is.hosts, &is.initiators) {
        steps.push(Step::Show(nqn(), nsid, is.hosts.clone(), is.initiators.clone()));
    }
    if was.group != is.group {
        steps.push(Step::Group(nqn(), nsid, is.group));
    }
}

impl Step {
    /// `add`, `remove` or `change`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Unlisten(_) | Self::RemoveSubsystem(_) | Self::RemoveNamespace(..) => "remove",
            Self::Listen(_) | Self::AddSubsystem(_) | Self::AddNamespace(..) => "add",
            _ => "change",
        }
    }

    /// The namespace whose source is not used any more, as it was.
    pub fn frees(&self) -> Option<(&Nqn, &DesiredNamespace)> {
        match self {
            Self::RemoveNamespace(nqn, was) => Some((nqn, was)),
            Self::Replace(nqn, was, _) => Some((nqn, was)),
            _ => None,
        }
    }

    /// The namespace that needs a device.
    pub fn opens(&self) -> Option<(&Nqn, &DesiredNamespace)> {
        match self {
            Self::AddNamespace(nqn, is) => Some((nqn, is)),
            Self::Replace(nqn, _, is) => Some((nqn, is)),
            _ => None,
        }
    }
}
