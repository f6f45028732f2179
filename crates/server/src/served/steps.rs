//! The differences between two states, in an order in which they can be carried out: what goes,
//! then what comes.

use super::state::State;
use crate::config::check::STATES;
use crate::config::desired::{DesiredLimit, DesiredNamespace, DesiredState, DesiredSubsystem};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use weft_block::limit::Limit;
use weft_block::units;
use weft_endpoint::inventory::{Access, Authentication};
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
    SetState(DesiredState),
    /// A host gets another limit, or none.
    Limit(String, Limit),
    /// Hosts have other identifiers.
    Identify(BTreeMap<Nqn, Id128>),
    /// A URL to listen at comes.
    Listen(String),
}

/// What is different in `after` from `before`.
pub fn between(before: &State, after: &State) -> Vec<Step> {
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
    for namespace in &is.namespaces {
        match find(was, namespace.nsid) {
            Some(before) => of_namespace(nqn, &before, namespace, steps),
            None => steps.push(Step::AddNamespace(nqn.clone(), namespace.clone())),
        }
    }
}

fn of_namespace(nqn: &Nqn, was: &DesiredNamespace, is: &DesiredNamespace, steps: &mut Vec<Step>) {
    let data = |it: &DesiredNamespace| (it.origin(), it.uuid, it.nguid, it.eui64, it.reservations);
    if data(was) != data(is) {
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

/// Who has access, in words.
fn who<T: Ord + Clone + ToString>(access: &Access<T>, kind: &str) -> String {
    match access.names() {
        None => format!("any {kind}"),
        Some(names) if names.is_empty() => format!("no {kind}"),
        Some(names) => names.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl fmt::Display for Step {
    /// What is to be done, in a line that follows "cannot".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let both = |hosts: &Access<Nqn>, initiators: &Access<Name>| {
            format!("{}, and to {}", who(hosts, "NVMe host"), who(initiators, "iSCSI initiator"))
        };
        match self {
            Self::Unlisten(url) => write!(f, "stop listening at {url}"),
            Self::Listen(url) => write!(f, "listen at {url}"),
            Self::RemoveSubsystem(of) => write!(f, "remove subsystem {}", of.nqn),
            Self::AddSubsystem(of) => write!(f, "add subsystem {}", of.nqn),
            Self::RemoveNamespace(nqn, was) => {
                write!(f, "remove namespace {} of {nqn} ({})", was.nsid, was.source)
            }
            Self::AddNamespace(nqn, is) => {
                write!(f, "add namespace {} to {nqn} ({})", is.nsid, is.source)
            }
            Self::Replace(nqn, was, is) if was.origin() == is.origin() => {
                write!(f, "change the identity of namespace {} of {nqn}", is.nsid)
            }
            Self::Replace(nqn, was, is) if was.source == is.source => {
                write!(f, "replace namespace {} of {nqn} ({} with other paths)", is.nsid, is.source)
            }
            Self::Replace(nqn, was, is) => {
                write!(
                    f,
                    "replace namespace {} of {nqn} ({} by {})",
                    is.nsid, was.source, is.source
                )
            }
            Self::Resize(nqn, nsid, Some(bytes)) => {
                write!(f, "resize namespace {nsid} of {nqn} to {}", units::format_size(*bytes))
            }
            Self::Resize(nqn, nsid, None) => {
                write!(f, "resize namespace {nsid} of {nqn} to all of its source")
            }
            Self::Rename(nqn, nsid, Some(name)) => {
                write!(f, "name namespace {nsid} of {nqn} \"{name}\"")
            }
            Self::Rename(nqn, nsid, None) => {
                write!(f, "take the name of namespace {nsid} of {nqn}")
            }
            Self::Authenticate(nqn, Some(_)) => {
                write!(f, "change the secrets of the hosts of {nqn}")
            }
            Self::Authenticate(nqn, None) => {
                write!(f, "let hosts use {nqn} without authentication")
            }
            Self::Keys(keys) => {
                write!(f, "change the pre-shared keys of NVMe/TCP hosts ({} now)", keys.len())
            }
            Self::Admit(nqn, hosts, initiators) => {
                write!(f, "admit to {nqn} {}", both(hosts, initiators))
            }
            Self::Show(nqn, nsid, hosts, initiators) => {
                write!(f, "show namespace {nsid} of {nqn} to {}", both(hosts, initiators))
            }
            Self::Group(nqn, nsid, group) => {
                write!(f, "move namespace {nsid} of {nqn} to ANA group {group}")
            }
            Self::SetState(DesiredState { group, listener, state }) => {
                let word =
                    STATES.iter().find(|(_, of)| of == state).map_or("changing", |(word, _)| word);
                let at = listener
                    .map(|listener| format!(" for hosts at {listener}"))
                    .unwrap_or_default();
                write!(f, "make ANA group {group} {word}{at}")
            }
            Self::Identify(given) => {
                write!(f, "change the identifiers of hosts ({} are given now)", given.len())
            }
            Self::Limit(host, Limit::NONE) => write!(f, "take the limit of host {host}"),
            Self::Limit(host, Limit { operations, bytes }) => {
                let of = |number: &u64, text: String| Some(text).filter(|_| *number > 0);
                let iops = of(operations, format!("{operations} operations"));
                let bytes = of(bytes, units::format_size(*bytes));
                let both: Vec<String> = iops.into_iter().chain(bytes).collect();
                write!(f, "limit host {host} to {} per second", both.join(" and "))
            }
        }
    }
}
