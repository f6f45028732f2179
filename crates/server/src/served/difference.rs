//! The differences between two states, each in a line, and the hosts that lose something: what
//! goes, then what comes.

use super::state::ServedState;
use crate::config::check::STATES;
use crate::config::desired::{DesiredAnaState, DesiredLimit, DesiredNamespace, DesiredSubsystem};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU16;
use weft_block::limit::Limit;
use weft_block::units;
use weft_endpoint::export::{ConnectedHost, HostProtocol};
use weft_endpoint::inventory::{Access, Authentication, Inventory, SubsystemNumbers};
use weft_proto::iscsi::text::Name;
use weft_proto::limits::IO_QUEUES_MAX;
use weft_proto::nvme::types::Nqn;

/// A difference.
#[derive(Debug, Serialize, Deserialize)]
pub struct ShownDifference {
    /// `add`, `remove` or `change`.
    pub kind: String,
    /// Description of it, in a line that follows "cannot".
    pub text: String,
    /// Connected hosts that use what goes.
    pub hosts: Vec<String>,
    /// Hosts of other gateways may use what goes.
    #[serde(skip)]
    pub(super) takes: bool,
}

impl ShownDifference {
    /// One by which no host loses anything.
    pub(super) fn new(kind: &str, text: String) -> Self {
        Self { kind: kind.to_owned(), text, hosts: Vec::new(), takes: false }
    }
}

/// Lists what is different in `after`. `now` and `hosts`: what is served at present, and to whom.
pub fn between(
    before: &ServedState,
    after: &ServedState,
    (now, hosts): (&Inventory, &[ConnectedHost]),
) -> Vec<ShownDifference> {
    let mut found = Differences { now, hosts, all: Vec::new() };
    let gone = before.listen.iter().filter(|url| !after.listen.contains(url));
    gone.for_each(|url| found.add("remove", format!("stop listening at {url}")));
    for DesiredSubsystem { nqn, .. } in &before.subsystems {
        if after.subsystem(nqn).is_none() {
            let text = format!("remove subsystem {nqn}");
            found.take("remove", text, true, |host| host.subsystem == *nqn);
        }
    }
    found.authentication(&Nqn::discovery(), before.discovery.as_ref(), after.discovery.as_ref());
    // That there is TLS takes effect at the start only.
    if let (Some(was), Some(is)) = (&before.psk, &after.psk)
        && was != is
    {
        let text = format!("change the pre-shared keys of NVMe/TCP hosts ({} now)", is.len());
        found.add("change", text);
    }
    for is in &after.subsystems {
        let was = before.subsystem(&is.nqn);
        let demanded = was.and_then(|was| was.authentication.as_ref());
        found.authentication(&is.nqn, demanded, is.authentication.as_ref());
        match was {
            Some(was) => found.subsystem(was, is),
            None => {
                found.add("add", format!("add subsystem {}", is.nqn));
                is.namespaces.iter().for_each(|of| found.new_namespace(&is.nqn, of));
            }
        }
    }
    let new = after.states.iter().filter(|state| !before.states.contains(state));
    new.for_each(|state| found.add("change", state_text(state)));
    found.limits(before, after);
    if before.identifiers != after.identifiers {
        let count = after.identifiers.len();
        found.add("change", format!("change the identifiers of hosts ({count} are given now)"));
    }
    let new = after.listen.iter().filter(|url| !before.listen.contains(url));
    new.for_each(|url| found.add("add", format!("listen at {url}")));
    found.all
}

struct Differences<'a> {
    now: &'a Inventory,
    hosts: &'a [ConnectedHost],
    all: Vec<ShownDifference>,
}

impl Differences<'_> {
    /// One by which no host loses anything.
    fn add(&mut self, kind: &str, text: String) {
        self.all.push(ShownDifference::new(kind, text));
    }

    /// One by which these hosts lose something. `takes`: others may as well, which are not known.
    fn take(
        &mut self,
        kind: &str,
        text: String,
        takes: bool,
        loses: impl Fn(&ConnectedHost) -> bool,
    ) {
        let lost = self.hosts.iter().filter(|host| loses(host));
        let mut hosts: Vec<String> = lost.map(|host| host.name.clone()).collect();
        hosts.sort();
        hosts.dedup();
        self.all.push(ShownDifference { hosts, takes, ..ShownDifference::new(kind, text) });
    }

    fn authentication(
        &mut self,
        nqn: &Nqn,
        was: Option<&Authentication>,
        is: Option<&Authentication>,
    ) {
        match is {
            _ if was == is => {}
            Some(_) => self.add("change", format!("change the secrets of the hosts of {nqn}")),
            None => self.add("change", format!("let hosts use {nqn} without authentication")),
        }
    }

    fn limits(&mut self, before: &ServedState, after: &ServedState) {
        for DesiredLimit { host, .. } in &before.limits {
            if !after.limits.iter().any(|limit| limit.host == *host) {
                self.add("change", format!("take the limit of host {host}"));
            }
        }
        for of in after.limits.iter().filter(|limit| !before.limits.contains(limit)) {
            self.add("change", format!("limit host {} to {}", of.host, limit_text(of.limit)));
        }
    }

    fn subsystem(&mut self, was: &DesiredSubsystem, is: &DesiredSubsystem) {
        let nqn = &is.nqn;
        for gone in was.namespaces.iter().filter(|it| is.namespace(it.nsid).is_none()) {
            let text = format!("remove namespace {} of {nqn} ({})", gone.nsid, gone.source);
            self.take("remove", text, true, |host| sees(host, nqn, gone));
        }
        let access = (&is.hosts, &is.initiators);
        if (&was.hosts, &was.initiators) != access {
            let text = format!("admit to {nqn} {}", both(access));
            let loses = |host: &ConnectedHost| host.subsystem == *nqn && !is_allowed(host, access);
            self.take("change", text, is_narrower((&was.hosts, &was.initiators), access), loses);
        }
        if was.numbers != is.numbers {
            self.add("change", numbers_text(nqn, &is.numbers));
        }
        for namespace in &is.namespaces {
            match was.namespace(namespace.nsid) {
                Some(was) => self.namespace(nqn, was, namespace),
                None => self.new_namespace(nqn, namespace),
            }
        }
    }

    fn new_namespace(&mut self, nqn: &Nqn, is: &DesiredNamespace) {
        self.add("add", format!("add namespace {} to {nqn} ({})", is.nsid, is.source));
    }

    fn namespace(&mut self, nqn: &Nqn, was: &DesiredNamespace, is: &DesiredNamespace) {
        let (nsid, sees) = (is.nsid, |host: &ConnectedHost| sees(host, nqn, is));
        let data = |it: &DesiredNamespace| {
            (it.origin(), it.uuid, it.nguid, it.eui64, it.reservations, it.scsi.clone())
        };
        if data(was) != data(is) {
            // The new one comes with all the rest.
            return self.take("change", replacement(nqn, was, is), true, sees);
        }
        if was.bytes != is.bytes {
            let size = is.bytes.map_or_else(|| "all of its source".into(), units::format_size);
            let served = self
                .now
                .namespace(nqn, nsid)
                .map_or(0, |of| of.blocks * u64::from(of.device.geometry().block_bytes));
            let shrinks = is.bytes.is_some_and(|bytes| bytes < served);
            let text = format!("resize namespace {nsid} of {nqn} to {size}");
            self.take("change", text, shrinks, |host| shrinks && sees(host));
        }
        match &is.name {
            name if was.name == *name => {}
            Some(name) => self.add("change", format!("name namespace {nsid} of {nqn} \"{name}\"")),
            None => {
                let text = format!("take the name of namespace {nsid} of {nqn}");
                let loses = |host: &ConnectedHost| host.protocol == HostProtocol::Nbd && sees(host);
                self.take("change", text, true, loses);
            }
        }
        let access = (&is.hosts, &is.initiators);
        if (&was.hosts, &was.initiators) != access {
            let text = format!("show namespace {nsid} of {nqn} to {}", both(access));
            let takes = is_narrower((&was.hosts, &was.initiators), access);
            self.take("change", text, takes, |host| sees(host) && !is_allowed(host, access));
        }
        if was.group != is.group {
            let text = format!("move namespace {nsid} of {nqn} to ANA group {}", is.group);
            self.add("change", text);
        }
    }
}

/// NVMe hosts and iSCSI initiators that have access.
type Both<'a> = (&'a Access<Nqn>, &'a Access<Name>);

/// Returns whether a host sees a namespace of a subsystem now.
fn sees(host: &ConnectedHost, nqn: &Nqn, of: &DesiredNamespace) -> bool {
    host.subsystem == *nqn && host.namespaces.contains(&of.nsid)
}

/// Returns whether a host keeps its access. Clients of NBD have no names, so lists of names are not
/// for them.
fn is_allowed(host: &ConnectedHost, (hosts, initiators): Both<'_>) -> bool {
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

/// Returns whether somebody loses access.
fn is_narrower(was: Both<'_>, is: Both<'_>) -> bool {
    fn lacks<T: Ord + Clone>(was: &Access<T>, is: &Access<T>) -> bool {
        match (was, is) {
            (_, Access::Any) => false,
            (Access::Any, Access::Only(_)) => true,
            (Access::Only(names), is) => names.iter().any(|name| !is.allows(name)),
        }
    }
    lacks(was.0, is.0) || lacks(was.1, is.1)
}

/// Hosts and initiators with access, in words.
fn both((hosts, initiators): Both<'_>) -> String {
    fn who<T: Ord + Clone + ToString>(access: &Access<T>, kind: &str) -> String {
        match access.names() {
            None => format!("any {kind}"),
            Some(names) if names.is_empty() => format!("no {kind}"),
            Some(names) => names.iter().map(T::to_string).collect::<Vec<_>>().join(", "),
        }
    }
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
