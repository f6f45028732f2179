//! Differences between two inventories.

use super::{Discovery, Inventory, Namespace, OtherGateway, Subsystem};
use std::sync::Arc;
use weft_proto::nvme::types::{Nqn, Nsid};

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A listen address was removed.
    ListenerRemoved(String),
    /// A subsystem was removed, with all its namespaces.
    SubsystemRemoved(Nqn),
    /// A namespace was removed.
    NamespaceRemoved(Nqn, Nsid),
    /// The access to a subsystem changed.
    AccessChanged(Nqn),
    /// A subsystem has another serial or model number, or other limits of I/O queues.
    NumbersChanged(Nqn),
    /// The data of a namespace was replaced.
    NamespaceReplaced(Nqn, Nsid),
    /// A namespace with the same data has another device, size, name, identity or visibility, or
    /// its device was lost or came back. `shrunk`: it has fewer blocks.
    NamespaceChanged {
        /// The subsystem.
        subsystem: Nqn,
        /// The namespace.
        nsid: Nsid,
        /// It has fewer blocks.
        shrunk: bool,
    },
    /// A subsystem was added; its namespaces follow.
    SubsystemAdded(Nqn),
    /// A namespace was added.
    NamespaceAdded(Nqn, Nsid),
    /// A listen address was added.
    ListenerAdded(String),
    /// Groups of namespaces are reached in another way.
    AccessStatesChanged,
    /// Hosts of a subsystem, or of discovery, have to prove something else.
    AuthenticationChanged(Nqn),
    /// Hosts have other limits or identifiers.
    HostsChanged,
    /// Discovery has another name, or refers to other controllers.
    DiscoveryChanged,
    /// These other processes serve the same subsystems.
    OthersChanged(Vec<OtherGateway>),
}

impl Inventory {
    /// The differences from `before`, in an order in which they can be carried out: removals, then
    /// additions.
    pub fn changes_since(&self, before: &Self) -> Vec<Change> {
        between(before, self)
    }
}

fn between(before: &Inventory, now: &Inventory) -> Vec<Change> {
    let mut changes = Vec::new();
    let absent = |from: &Inventory, listener: &&String| !from.listeners.contains(listener);
    changes.extend(
        before.listeners.iter().filter(|it| absent(now, it)).cloned().map(Change::ListenerRemoved),
    );
    let gone = before.subsystems.iter().filter(|subsystem| now.subsystem(&subsystem.nqn).is_none());
    changes.extend(gone.map(|subsystem| Change::SubsystemRemoved(subsystem.nqn.clone())));
    for subsystem in &now.subsystems {
        if let Some(was) =
            before.subsystem(&subsystem.nqn).filter(|was| !Arc::ptr_eq(was, subsystem))
        {
            within(was, subsystem, &mut changes);
        }
    }
    for subsystem in
        now.subsystems.iter().filter(|subsystem| before.subsystem(&subsystem.nqn).is_none())
    {
        changes.push(Change::SubsystemAdded(subsystem.nqn.clone()));
        changes.extend(
            subsystem
                .namespaces
                .keys()
                .map(|nsid| Change::NamespaceAdded(subsystem.nqn.clone(), *nsid)),
        );
    }
    changes.extend(
        now.listeners.iter().filter(|it| absent(before, it)).cloned().map(Change::ListenerAdded),
    );
    if before.access != now.access {
        changes.push(Change::AccessStatesChanged);
    }
    if before.host_limits != now.host_limits || before.host_identifiers != now.host_identifiers {
        changes.push(Change::HostsChanged);
    }
    of_discovery(&before.discovery, &now.discovery, &mut changes);
    changes
}

fn of_discovery(before: &Discovery, now: &Discovery, changes: &mut Vec<Change>) {
    if before.authentication != now.authentication {
        changes.push(Change::AuthenticationChanged(Nqn::discovery()));
    }
    if (&before.name, &before.referrals) != (&now.name, &now.referrals) {
        changes.push(Change::DiscoveryChanged);
    }
    if before.others != now.others {
        changes.push(Change::OthersChanged(now.others.given().to_vec()));
    }
}

fn within(before: &Subsystem, now: &Subsystem, changes: &mut Vec<Change>) {
    let name = || now.nqn.clone();
    let gone = before.namespaces.keys().filter(|nsid| now.namespace(**nsid).is_none());
    changes.extend(gone.map(|nsid| Change::NamespaceRemoved(name(), *nsid)));
    if before.hosts != now.hosts || before.initiators != now.initiators {
        changes.push(Change::AccessChanged(name()));
    }
    if before.authentication != now.authentication {
        changes.push(Change::AuthenticationChanged(name()));
    }
    if before.numbers != now.numbers {
        changes.push(Change::NumbersChanged(name()));
    }
    let both = now.namespaces().filter_map(|is| Some((before.namespace(is.nsid)?, is)));
    changes.extend(both.filter_map(|(was, is)| of_namespace(name(), was, is)));
    let new = now.namespaces.keys().filter(|nsid| before.namespace(**nsid).is_none());
    changes.extend(new.map(|nsid| Change::NamespaceAdded(name(), *nsid)));
}

fn of_namespace(subsystem: Nqn, was: &Namespace, is: &Namespace) -> Option<Change> {
    if was == is {
        return None;
    }
    let nsid = is.nsid;
    Some(match is.is_same_data(was) {
        true => Change::NamespaceChanged { subsystem, nsid, shrunk: is.blocks < was.blocks },
        false => Change::NamespaceReplaced(subsystem, nsid),
    })
}
