//! The hosts that use what a step takes away.

use super::steps::Step;
use weft_endpoint::export::{ConnectedHost, HostProtocol};
use weft_endpoint::inventory::{Access, Inventory, Namespace};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::{Nqn, Nsid};

/// Their names: of those that are connected now, those that lose something by the step.
pub fn of(step: &Step, now: &Inventory, hosts: &[ConnectedHost]) -> Vec<String> {
    let sees = |nqn: &Nqn, nsid: Nsid| {
        hosts_of(hosts, nqn).filter(move |host| host.namespaces.contains(&nsid))
    };
    let lost: Vec<&ConnectedHost> = match step {
        Step::RemoveSubsystem(of) => hosts_of(hosts, &of.nqn).collect(),
        Step::RemoveNamespace(nqn, was) => sees(nqn, was.nsid).collect(),
        Step::Replace(nqn, was, _) => sees(nqn, was.nsid).collect(),
        Step::Resize(nqn, nsid, bytes) => {
            let shrinks =
                now.namespace(nqn, *nsid).is_some_and(|namespace| is_less(*bytes, namespace));
            sees(nqn, *nsid).filter(|_| shrinks).collect()
        }
        Step::Rename(nqn, nsid, None) => {
            sees(nqn, *nsid).filter(|host| host.protocol == HostProtocol::Nbd).collect()
        }
        Step::Admit(nqn, admitted, initiators) => {
            hosts_of(hosts, nqn).filter(|host| !is_allowed(host, admitted, initiators)).collect()
        }
        Step::Show(nqn, nsid, shown, initiators) => {
            sees(nqn, *nsid).filter(|host| !is_allowed(host, shown, initiators)).collect()
        }
        _ => Vec::new(),
    };
    let mut names: Vec<String> = lost.into_iter().map(|host| host.name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

/// Whether a step takes something away from hosts, whoever they are.
pub fn takes(step: &Step, now: &Inventory) -> bool {
    match step {
        Step::RemoveSubsystem(_)
        | Step::RemoveNamespace(..)
        | Step::Replace(..)
        | Step::Rename(_, _, None) => true,
        Step::Resize(nqn, nsid, bytes) => {
            now.namespace(nqn, *nsid).is_some_and(|namespace| is_less(*bytes, namespace))
        }
        Step::Admit(nqn, hosts, initiators) => now.subsystem(nqn).is_some_and(|was| {
            is_narrower(&was.hosts, hosts) || is_narrower(&was.initiators, initiators)
        }),
        Step::Show(nqn, nsid, hosts, initiators) => now.namespace(nqn, *nsid).is_some_and(|was| {
            is_narrower(&was.hosts, hosts) || is_narrower(&was.initiators, initiators)
        }),
        _ => false,
    }
}

/// Whether somebody who had access has none any more.
fn is_narrower<T: Ord + Clone>(was: &Access<T>, is: &Access<T>) -> bool {
    match was {
        _ if matches!(is, Access::Any) => false,
        Access::Any => true,
        Access::Only(names) => names.iter().any(|name| !is.allows(name)),
    }
}

fn hosts_of<'a>(
    hosts: &'a [ConnectedHost],
    nqn: &Nqn,
) -> impl Iterator<Item = &'a ConnectedHost> + use<'a> {
    let nqn = nqn.clone();
    hosts.iter().filter(move |host| host.subsystem == nqn)
}

fn is_less(bytes: Option<u64>, than: &Namespace) -> bool {
    let block = u64::from(than.device.geometry().block_bytes);
    bytes.is_some_and(|bytes| bytes < than.blocks * block)
}

/// Whether a host keeps its access. Clients of NBD have no names, so lists of names are not for
/// them.
fn is_allowed(host: &ConnectedHost, hosts: &Access<Nqn>, initiators: &Access<Name>) -> bool {
    match host.protocol {
        HostProtocol::Nvme
        | HostProtocol::InProcess
        | HostProtocol::Ublk
        | HostProtocol::Fuse
        | HostProtocol::VhostUser => {
            *hosts == Access::Any || Nqn::new(&host.name).is_ok_and(|name| hosts.allows(&name))
        }
        HostProtocol::Iscsi => {
            *initiators == Access::Any
                || Name::new(&host.name).is_ok_and(|name| initiators.allows(&name))
        }
        HostProtocol::Nbd => true,
    }
}
