//! Listeners of NVMe subsystems. Elsewhere each subsystem has ports of its own; in weft all ports
//! serve all subsystems. The ports that are carried over all served the same subsystems, and nobody
//! is admitted to other subsystems.

use super::imported::{
    AdmittedHosts, Imported, ImportedNamespace, ImportedState, ImportedSubsystem,
};
use crate::config::check::{STATES, listen_place};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use weft_block::AccessState;
use weft_endpoint::inventory::DEFAULT_GROUP;
use weft_endpoint::url::NVME_TCP;
use weft_proto::limits::ANA_GROUPS_MAX;

/// The file with the keys of NVMe/TCP hosts.
const PSK_FILE: &str = "tls.keys";

/// A port of another target.
#[derive(Debug)]
pub struct ImportedPort {
    /// Its name in reports.
    pub name: String,
    /// URL to listen at.
    pub url: String,
    /// NQNs of the subsystems that it serves.
    pub subsystems: BTreeSet<String>,
    /// Accepts TLS only.
    pub demands_tls: bool,
}

/// State of a namespace of a subsystem for hosts that come by a port.
pub type StateOf<'a> = dyn Fn(&ImportedPort, &str, &ImportedNamespace) -> AccessState + 'a;

/// Takes over the ports, and closes the subsystems that not all of them serve.
pub fn expose(imported: &mut Imported, ports: &[ImportedPort], state: &StateOf<'_>) {
    let known: BTreeSet<String> = imported.subsystems.iter().map(|of| of.nqn.clone()).collect();
    let (served, chosen) = choose(ports, &known);
    for port in ports.iter().filter(|port| !chosen.iter().any(|it| it.url == port.url)) {
        let many = port.subsystems.intersection(&known).count();
        imported.left.push(format!(
            "{} at {} serves {many} of {} subsystems: it is left out, as all ports of weft serve all subsystems; start another weft for it",
            port.name, port.url, known.len()
        ));
    }
    for port in &chosen {
        if !imported.listen.contains(&port.url) {
            imported.listen.push(port.url.clone());
        }
    }
    for subsystem in imported.subsystems.iter_mut().filter(|of| !served.contains(&of.nqn)) {
        subsystem.hosts = AdmittedHosts::default();
        imported.left.push(format!(
            "{} is not served by the ports that are carried over: nobody may connect to it (hosts = [])",
            subsystem.nqn
        ));
    }
    demand_tls(imported, &chosen);
    let urls: Vec<String> = chosen.iter().map(|port| port.url.clone()).collect();
    set_states(imported, &urls, &|at, subsystem, namespace| {
        state(chosen[at], &subsystem.nqn, namespace)
    });
}

/// The largest set of subsystems that one port serves, and all ports that serve these.
fn choose<'a>(
    ports: &'a [ImportedPort],
    known: &BTreeSet<String>,
) -> (BTreeSet<String>, Vec<&'a ImportedPort>) {
    let of =
        |port: &ImportedPort| port.subsystems.intersection(known).cloned().collect::<BTreeSet<_>>();
    let candidates = ports.iter().enumerate().map(|(n, port)| {
        let served = of(port);
        let chosen: Vec<&ImportedPort> =
            ports.iter().filter(|other| other.subsystems.is_superset(&served)).collect();
        (served.len(), chosen.len(), Reverse(n), served, chosen)
    });
    let best = candidates
        .filter(|(many, ..)| *many > 0)
        .max_by_key(|(subsystems, ports, first, ..)| (*subsystems, *ports, *first));
    best.map(|(.., served, chosen)| (served, chosen)).unwrap_or_default()
}

/// TLS is for all ports of NVMe/TCP, or for none.
fn demand_tls(imported: &mut Imported, chosen: &[&ImportedPort]) {
    let tcp = || chosen.iter().filter(|port| port.url.starts_with(NVME_TCP));
    if !tcp().any(|port| port.demands_tls) {
        return;
    }
    imported.psk_file = Some(PSK_FILE.to_owned());
    imported.left.push(format!(
        "hosts have keys for TLS: write them into {PSK_FILE} (chmod 600), each in a line with the NQN of its host in front"
    ));
    for port in tcp().filter(|port| !port.demands_tls) {
        imported.left.push(format!(
            "{} at {} accepts plain text: in weft all ports of NVMe/TCP demand TLS, or none does",
            port.name, port.url
        ));
    }
}

/// Puts namespaces into ANA groups and sets the states of these. `urls` are the listeners;
/// `state` tells the state of a namespace at one of them, by its place.
pub fn set_states(
    imported: &mut Imported,
    urls: &[String],
    state: &dyn Fn(usize, &ImportedSubsystem, &ImportedNamespace) -> AccessState,
) {
    let mut groups: BTreeMap<u32, Vec<AccessState>> = BTreeMap::new();
    for subsystem in &mut imported.subsystems {
        let mut namespaces = core::mem::take(&mut subsystem.namespaces);
        namespaces.retain_mut(|namespace| {
            let states: Vec<AccessState> =
                (0..urls.len()).map(|at| state(at, subsystem, namespace)).collect();
            let wanted = namespace.ana_group;
            let Some(group) = group(&groups, wanted, &states) else {
                imported.left.push(format!(
                    "{}, namespace {}, is left out: there are only {ANA_GROUPS_MAX} ANA groups",
                    subsystem.nqn, namespace.nsid
                ));
                return false;
            };
            if wanted.is_some_and(|wanted| wanted != group) {
                imported.left.push(format!(
                    "{}, namespace {}, is in ANA group {group}: group {} has other states",
                    subsystem.nqn,
                    namespace.nsid,
                    wanted.unwrap_or(DEFAULT_GROUP)
                ));
            }
            namespace.ana_group = (group != DEFAULT_GROUP).then_some(group);
            groups.insert(group, states);
            true
        });
        subsystem.namespaces = namespaces;
    }
    for (group, states) in groups {
        let states = imported_states(group, urls, &states, &mut imported.left);
        imported.states.extend(states);
    }
}

/// The group for a namespace with these states: the wanted one, unless others in it have other
/// states.
fn group(
    groups: &BTreeMap<u32, Vec<AccessState>>,
    wanted: Option<u32>,
    states: &[AccessState],
) -> Option<u32> {
    let is_usual = states.iter().all(|state| *state == AccessState::Optimized);
    let first = wanted.or(is_usual.then_some(DEFAULT_GROUP));
    first
        .into_iter()
        .filter(|group| (1..=ANA_GROUPS_MAX).contains(group))
        .chain(DEFAULT_GROUP + 1..=ANA_GROUPS_MAX)
        .find(|group| groups.get(group).is_none_or(|other| other == states))
}

/// What has to be told of a group: one state for all listeners, or that of each.
fn imported_states(
    group: u32,
    urls: &[String],
    states: &[AccessState],
    left: &mut Vec<String>,
) -> Vec<ImportedState> {
    let of = |state: AccessState, listener| ImportedState { group, state: word(state), listener };
    let worst = states.iter().copied().max_by_key(|state| rank(*state)).unwrap_or_default();
    if worst == AccessState::Optimized {
        return Vec::new();
    }
    if states.iter().all(|state| *state == worst) {
        return vec![of(worst, None)];
    }
    let places: Option<Vec<SocketAddr>> = urls.iter().map(|url| listen_place(url)).collect();
    let Some(places) = places else {
        left.push(format!(
            "ANA group {group} has other states at some ports: only those with numeric addresses can have their own"
        ));
        return vec![of(worst, None)];
    };
    // Ports of two transports may have one address, and then one state.
    let mut at: BTreeMap<SocketAddr, AccessState> = BTreeMap::new();
    for (place, state) in places.into_iter().zip(states) {
        let known = at.entry(place).or_default();
        *known = if rank(*state) > rank(*known) { *state } else { *known };
    }
    at.into_iter()
        .filter(|(_, state)| *state != AccessState::Optimized)
        .map(|(place, state)| of(state, Some(place.to_string())))
        .collect()
}

/// How much a state refuses.
fn rank(state: AccessState) -> u8 {
    match state {
        AccessState::Optimized => 0,
        AccessState::NonOptimized => 1,
        AccessState::Inaccessible | AccessState::Transition => 2,
        AccessState::PersistentLoss => 3,
    }
}

/// The word of a configuration for a state. One that does not last refuses commands, too.
fn word(state: AccessState) -> &'static str {
    let lasting = match state {
        AccessState::Transition => AccessState::Inaccessible,
        other => other,
    };
    STATES.iter().find(|(_, of)| *of == lasting).map_or("inaccessible", |(word, _)| word)
}

/// A state by its word, with dashes or underscores. An unknown one refuses commands.
pub fn state_of(word: &str) -> AccessState {
    let word = word.replace('_', "-");
    let known = STATES.iter().find(|(known, _)| *known == word);
    known.map_or(AccessState::Inaccessible, |(_, state)| *state)
}
