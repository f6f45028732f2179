//! Steps in words.

use super::steps::Step;
use crate::config::check::STATES;
use crate::config::desired::{DesiredAnaState, DesiredNamespace};
use std::fmt;
use std::num::NonZeroU16;
use weft_block::limit::Limit;
use weft_block::units;
use weft_endpoint::inventory::{Access, SubsystemNumbers};
use weft_proto::iscsi::text::Name;
use weft_proto::limits::IO_QUEUES_MAX;
use weft_proto::nvme::types::Nqn;

/// Who has access, in words.
fn who<T: Ord + Clone + ToString>(access: &Access<T>, kind: &str) -> String {
    match access.names() {
        None => format!("any {kind}"),
        Some(names) if names.is_empty() => format!("no {kind}"),
        Some(names) => names.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
    }
}

/// The same of hosts and initiators.
fn both(hosts: &Access<Nqn>, initiators: &Access<Name>) -> String {
    format!("{}, and to {}", who(hosts, "NVMe host"), who(initiators, "iSCSI initiator"))
}

fn replacement(nqn: &Nqn, was: &DesiredNamespace, is: &DesiredNamespace) -> String {
    let nsid = is.nsid;
    if was.origin() == is.origin() {
        return format!("change the identity of namespace {nsid} of {nqn}");
    }
    let how = if was.source == is.source {
        format!("{} with other paths", is.source)
    } else {
        format!("{} by {}", was.source, is.source)
    };
    format!("replace namespace {nsid} of {nqn} ({how})")
}

fn numbers_text(nqn: &Nqn, numbers: &SubsystemNumbers) -> String {
    let SubsystemNumbers { serial, model, queues } = numbers;
    let serial = serial.as_ref().map_or_else(|| "of its own".to_owned(), ToString::to_string);
    let model = model.as_ref().map_or_else(|| "weft".to_owned(), ToString::to_string);
    let queues = queues.map_or(IO_QUEUES_MAX, NonZeroU16::get);
    format!(
        "give hosts that connect to {nqn} the serial number {serial}, the model {model} and up to {queues} I/O queues"
    )
}

fn state_text(DesiredAnaState { group, listener, state }: &DesiredAnaState) -> String {
    let word = STATES.iter().find(|(_, of)| of == state).map_or("changing", |(word, _)| word);
    let at = listener.map(|listener| format!(" for hosts at {listener}")).unwrap_or_default();
    format!("make ANA group {group} {word}{at}")
}

fn limit_text(Limit { operations, bytes }: Limit) -> String {
    let of = |number: u64, text: String| Some(text).filter(|_| number > 0);
    let iops = of(operations, format!("{operations} operations"));
    let bytes = of(bytes, units::format_size(bytes));
    let both: Vec<String> = iops.into_iter().chain(bytes).collect();
    format!("{} per second", both.join(" and "))
}

impl fmt::Display for Step {
    /// What is to be done, in a line that follows "cannot".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlisten(url) => write!(f, "stop listening at {url}"),
            Self::Listen(url) => write!(f, "listen at {url}"),
            Self::RemoveSubsystem(of) => write!(f, "remove subsystem {}", of.nqn),
            Self::AddSubsystem(of) => write!(f, "add subsystem {}", of.nqn),
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
            Self::Number(nqn, numbers) => f.write_str(&numbers_text(nqn, numbers)),
            Self::SetState(state) => f.write_str(&state_text(state)),
            Self::Identify(given) => {
                write!(f, "change the identifiers of hosts ({} are given now)", given.len())
            }
            Self::Limit(host, Limit::NONE) => write!(f, "take the limit of host {host}"),
            Self::Limit(host, limit) => write!(f, "limit host {host} to {}", limit_text(*limit)),
            Self::RemoveNamespace(nqn, was) => {
                write!(f, "remove namespace {} of {nqn} ({})", was.nsid, was.source)
            }
            Self::AddNamespace(nqn, is) => {
                write!(f, "add namespace {} to {nqn} ({})", is.nsid, is.source)
            }
            Self::Replace(nqn, was, is) => f.write_str(&replacement(nqn, was, is)),
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
            Self::Show(nqn, nsid, hosts, initiators) => {
                write!(f, "show namespace {nsid} of {nqn} to {}", both(hosts, initiators))
            }
            Self::Group(nqn, nsid, group) => {
                write!(f, "move namespace {nsid} of {nqn} to ANA group {group}")
            }
        }
    }
}
