//! The configuration of the Linux kernel's target that nvmetcli saves: `hosts`, `ports` and
//! `subsystems`.
//!
//! Absent settings have the kernel's default: no host is allowed, a namespace is disabled, and an
//! ANA group other than the first is inaccessible. A subsystem that allows any host authenticates
//! nobody, whatever keys hosts have.

use super::imported::{
    AdmittedHosts, Imported, ImportedAuthentication, ImportedNamespace, ImportedSubsystem,
};
use super::json::{is_set, list, listener, number, report_unknown, switch, text, word};
use super::ports::{self, ImportedPort};
use super::sources::{SourceKind, place, with_path};
use crate::dhchap::{parse_group, parse_hash};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use weft_block::AccessState;
use weft_endpoint::inventory::DEFAULT_GROUP;
use weft_proto::nvme::auth::{Group, Hash};

/// The model number of Linux, where none was set.
const MODEL: &str = "Linux";

/// Largest block size of a file.
const FILE_BLOCK_BYTES_MAX: u64 = 4096;

/// Identifiers of controllers, where nothing is said.
const CNTLIDS: (u16, u16) = (1, 0xffef);

/// Returns whether it is such a configuration.
pub fn is_of(json: &Value) -> bool {
    json["subsystems"].is_array()
        && list(json, "subsystems").iter().all(|subsystem| subsystem["nqn"].is_string())
}

/// Takes over what can be taken over.
pub fn import(json: &Value) -> Imported {
    let mut imported = Imported::default();
    let known = ["discovery", "hosts", "ports", "subsystems"];
    report_unknown("the file", json, &known, &mut imported.left);
    let hosts: BTreeMap<String, Host> = list(json, "hosts").iter().filter_map(Host::read).collect();
    for of in list(json, "subsystems") {
        let subsystem = subsystem(of, &hosts, &mut imported);
        imported.subsystems.push(subsystem);
    }
    let mut states = HashMap::new();
    let mut all = Vec::new();
    for of in list(json, "ports") {
        let Some(port) = port(of, &mut imported.left) else { continue };
        states.insert(port.url.clone(), groups(of));
        all.push(port);
    }
    ports::expose(&mut imported, &all, &|port, _, namespace| {
        let group = namespace.ana_group.unwrap_or(DEFAULT_GROUP);
        let usual = match group {
            DEFAULT_GROUP => AccessState::Optimized,
            _ => AccessState::Inaccessible,
        };
        states.get(&port.url).and_then(|of| of.get(&group)).copied().unwrap_or(usual)
    });
    imported
}

/// What hosts prove themselves by.
struct Host {
    has_key: bool,
    controller_key: Option<String>,
    hash: Option<String>,
    group: Option<String>,
}

impl Host {
    fn read(of: &Value) -> Option<(String, Self)> {
        let field =
            |name: &str| word(&of["dhchap"], name).or_else(|| word(of, &format!("dhchap_{name}")));
        let host = Self {
            has_key: field("key").is_some(),
            controller_key: field("ctrl_key"),
            hash: field("hash"),
            group: field("dhgroup"),
        };
        Some((text(of, "nqn")?, host))
    }
}

/// A port, if weft has its transport.
fn port(of: &Value, left: &mut Vec<String>) -> Option<ImportedPort> {
    let (id, address) = (text(of, "portid").unwrap_or_default(), &of["addr"]);
    let name = format!("port {id}");
    let known = ["addr", "ana_groups", "enable", "param", "portid", "referrals", "subsystems"];
    report_unknown(&name, of, &known, left);
    if !list(of, "referrals").is_empty() {
        left.push(format!("{name} has referrals: give them to weft by hand (--referral)"));
    }
    let field = |name| text(address, name).unwrap_or_default();
    let Some(url) = listener(&field("trtype"), &field("traddr"), &field("trsvcid")) else {
        left.push(format!("{name} has the transport {}: weft has tcp and rdma", field("trtype")));
        return None;
    };
    let subsystems = list(of, "subsystems").iter().filter_map(Value::as_str).map(str::to_owned);
    let demands_tls = field("tsas").contains("tls") || field("treq") == "required";
    Some(ImportedPort { name, url, subsystems: subsystems.collect(), demands_tls })
}

/// The states of ANA groups that are set at a port.
fn groups(port: &Value) -> HashMap<u32, AccessState> {
    let state = |of: &Value| {
        let group = u32::try_from(number(of, "grpid")?).ok()?;
        let word = text(&of["ana"], "state").or_else(|| text(of, "ana_state"))?;
        Some((group, ports::state_of(&word)))
    };
    list(port, "ana_groups").iter().filter_map(state).collect()
}

fn subsystem(
    of: &Value,
    hosts: &BTreeMap<String, Host>,
    imported: &mut Imported,
) -> ImportedSubsystem {
    let (nqn, attributes) = (text(of, "nqn").unwrap_or_default(), &of["attr"]);
    let known = ["allowed_hosts", "attr", "namespaces", "nqn", "passthru"];
    report_unknown(&nqn, of, &known, &mut imported.left);
    let named: Vec<String> =
        list(of, "allowed_hosts").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let is_any = switch(attributes, "allow_any_host") == Some(true);
    let mut subsystem = ImportedSubsystem { nqn: nqn.clone(), ..ImportedSubsystem::default() };
    subsystem.hosts = if is_any { AdmittedHosts::Any } else { AdmittedHosts::Only(named) };
    subsystem.authentication = authentication(&subsystem, hosts, imported);
    subsystem.cntlids = attribute(&nqn, attributes, &mut imported.left);
    subsystem.limit_queues(number(attributes, "qid_max"), &mut imported.left);
    // A list, in what newer versions save.
    let passthru = of["passthru"].get(0).unwrap_or(&of["passthru"]);
    if word(&passthru["device"], "path").is_some() {
        imported.left.push(format!("{nqn} passes a controller through: weft serves namespaces"));
    }
    let namespaces = list(of, "namespaces").iter();
    subsystem.namespaces =
        namespaces.filter_map(|of| namespace(of, &nqn, &mut imported.left)).collect();
    let model = text(attributes, "model").unwrap_or_else(|| MODEL.to_owned());
    subsystem.number(text(attributes, "serial"), Some(model), &mut imported.left);
    subsystem
}

/// Reports attributes of a subsystem that weft does not have, and returns the identifiers of its
/// controllers.
fn attribute(nqn: &str, of: &Value, left: &mut Vec<String>) -> Option<(u16, u16)> {
    let known = [
        "allow_any_host",
        "cntlid_max",
        "cntlid_min",
        "firmware",
        "ieee_oui",
        "model",
        "pi_enable",
        "qid_max",
        "serial",
        "version",
    ];
    report_unknown(nqn, of, &known, left);
    if let Some(value) = word(of, "firmware") {
        left.push(format!("{nqn} has the firmware revision {value}: weft gives its own"));
    }
    if switch(of, "pi_enable") == Some(true) {
        left.push(format!("{nqn} has protection information: weft has none"));
    }
    let bound = |name, usual: u16| match number(of, name) {
        Some(value) => u16::try_from(value).unwrap_or(usual),
        None => usual,
    };
    let range = (bound("cntlid_min", CNTLIDS.0), bound("cntlid_max", CNTLIDS.1));
    (range != CNTLIDS).then_some(range)
}

/// What hosts of a subsystem prove. Where some of them have keys, all others are refused.
fn authentication(
    subsystem: &ImportedSubsystem,
    hosts: &BTreeMap<String, Host>,
    imported: &mut Imported,
) -> Option<ImportedAuthentication> {
    let of = |name: &String| hosts.get(name).filter(|host| host.has_key);
    let names = subsystem.hosts.names();
    let keyed: Vec<(&String, &Host)> =
        names.iter().filter_map(|name| Some((name, of(name)?))).collect();
    if keyed.is_empty() {
        return None;
    }
    for name in names.iter().filter(|name| of(name).is_none()) {
        imported.leave(format!(
            "host {name} proves nothing to {}: in weft all hosts of a subsystem do, so it is refused until it has a secret",
            subsystem.nqn
        ));
    }
    let mut demanded = ImportedAuthentication::default();
    for (name, _) in &keyed {
        let file = imported.files.of(name, "dhchap");
        imported
            .leave(format!("host {name} has a DH-HMAC-CHAP key: write it into {file} (chmod 600)"));
        demanded.hosts.push(((*name).clone(), file));
    }
    demanded.controller = controller(&subsystem.nqn, &keyed, imported);
    // Elsewhere both are chosen for each host: the strongest of all is not weaker for any.
    let hashes = keyed.iter().filter_map(|(_, host)| parse_hash(host.hash.as_ref()?).ok());
    let hash = hashes.max_by_key(|hash| hash.id()).filter(|hash| *hash != Hash::Sha256);
    let groups = keyed.iter().filter_map(|(_, host)| parse_group(host.group.as_ref()?).ok());
    let group = groups.max_by_key(|group| group.bits()).filter(|group| *group != Group::Null);
    demanded.hashes = hash.map(|hash| hash.name().to_owned()).into_iter().collect();
    demanded.groups = group.map(|group| group.name().to_owned()).into_iter().collect();
    Some(demanded)
}

/// The file with what a subsystem proves itself by, which elsewhere each host has for itself.
fn controller(nqn: &str, hosts: &[(&String, &Host)], imported: &mut Imported) -> Option<String> {
    let mut all =
        hosts.iter().filter_map(|(name, host)| Some((name, host.controller_key.as_ref()?)));
    let (first, key) = all.next()?;
    let file = imported.files.of(nqn, "ctrl.dhchap");
    imported.leave(format!(
        "{nqn} proves itself to hosts: write the controller key of host {first} into {file} (chmod 600)"
    ));
    for (name, _) in all.filter(|(_, other)| *other != key) {
        imported.leave(format!(
            "host {name} expects another controller key of {nqn}: in weft a subsystem has one"
        ));
    }
    Some(file)
}

fn namespace(of: &Value, nqn: &str, left: &mut Vec<String>) -> Option<ImportedNamespace> {
    let device = &of["device"];
    let Some(nsid) = number(of, "nsid") else {
        left.push(format!("{nqn} has a namespace whose nsid is not a number: {}", of["nsid"]));
        return None;
    };
    let whose = format!("{nqn}, namespace {nsid},");
    let Some(path) = word(device, "path").filter(|path| path != "(null)") else {
        left.push(format!("{whose} has no path"));
        return None;
    };
    if switch(of, "enable") != Some(true) {
        left.push(format!("{whose} is disabled: it is left out"));
        return None;
    }
    let known = [
        "ana",
        "ana_grpid",
        "buffered_io",
        "device",
        "enable",
        "nsid",
        "p2pmem",
        "resv",
        "revalidate_size",
    ];
    report_unknown(&whose, of, &known, left);
    report_unknown(&whose, device, &["nguid", "path", "uuid"], left);
    let source = match source(&path) {
        Ok(source) => source,
        Err(why) => {
            left.push(format!("{whose} is left out: {path}: {why}"));
            return None;
        }
    };
    let group = number(&of["ana"], "grpid").or_else(|| number(of, "ana_grpid"));
    let group = group.map(|group| u32::try_from(group).unwrap_or(u32::MAX));
    let identity = |name| text(device, name).filter(|identity| is_set(identity));
    Some(ImportedNamespace {
        nsid,
        source,
        uuid: identity("uuid"),
        nguid: identity("nguid"),
        hosts: AdmittedHosts::Any,
        initiators: AdmittedHosts::Any,
        is_writable: true,
        ana_group: group.filter(|group| *group > DEFAULT_GROUP),
        reservations: switch(&of["resv"], "enable"),
        ..ImportedNamespace::default()
    })
}

fn source(path: &str) -> Result<String, String> {
    source_at(path, place(path))
}

/// A file has the block size of its inode, 4096 at most.
fn source_at(path: &str, place: SourceKind) -> Result<String, String> {
    match place {
        SourceKind::Disk => with_path(path, None),
        SourceKind::File(Some(bytes)) => with_path(path, Some(bytes.min(FILE_BLOCK_BYTES_MAX))),
        SourceKind::File(None) => Err(format!(
            "nvmet takes its block size from the inode, and weft does not know that of this file system: add a namespace with \
             source = \"{path},block=N\", where N is the block size that hosts have now (blockdev --getss)"
        )),
        SourceKind::Unknown => Err(
            "its block size is that of its file system, which is not known here: import it on the machine that has it".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_the_blocks_of_its_inode_or_is_left_out() {
        let of = |bytes| source_at("/srv/a.img", SourceKind::File(bytes));
        for (bytes, served) in [(512, 512), (4096, 4096), (8192, 4096), (65536, 4096)] {
            assert_eq!(of(Some(bytes)), Ok(format!("/srv/a.img,block={served}")));
        }
        for bytes in [1024, 2048] {
            let why = of(Some(bytes)).unwrap_err();
            assert!(why.contains(&format!("blocks of {bytes} bytes")), "{why}");
        }
        let why = of(None).unwrap_err();
        assert!(why.contains("source = \"/srv/a.img,block=N\""), "{why}");
        assert!(
            source_at("/srv/a.img", SourceKind::Unknown).unwrap_err().contains("on the machine")
        );
        assert_eq!(source_at("/dev/sda", SourceKind::Disk), Ok("/dev/sda".to_owned()));
    }
}
