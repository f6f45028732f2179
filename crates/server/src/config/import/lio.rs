//! The configuration of the Linux kernel's SCSI target that targetcli saves: `storage_objects` and
//! `targets`.
//!
//! Absent settings have the kernel's default: no initiator is admitted without an ACL, an initiator
//! that is admitted without one (demo mode) may only read, and logins demand CHAP.

use super::imported::{
    AdmittedHosts, Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem,
};
use super::iscsi_access::{
    Chap, ImportedInitiator, ImportedLogin, OtherInitiators, Right, Rules, admit,
};
use super::json::{list, number, report_unknown, switch, text, word};
use super::sources::{SourceKind, memory, place, with_path};
use super::{lio_names, ports};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use weft_block::AccessState;

/// Block size of a file or RAM disk, where nothing is said.
const BLOCK_BYTES: u64 = 512;

/// Largest LUN that is carried over.
const LUN_MAX: u64 = 255;

/// Returns whether it is such a configuration.
pub fn is_of(json: &Value) -> bool {
    json["storage_objects"].is_array() && json["targets"].is_array()
}

/// Takes over what can be taken over.
pub fn import(json: &Value) -> Imported {
    let mut imported = Imported::default();
    let known = ["fabric_modules", "storage_objects", "targets"];
    report_unknown("the file", json, &known, &mut imported.left);
    let mut states = States::new();
    for target in list(json, "targets") {
        let iqn = text(target, "wwn").unwrap_or_default();
        let fabric = text(target, "fabric").unwrap_or_default();
        if fabric != "iscsi" {
            imported.leave(format!(
                "the target {iqn} is one of {fabric}: only those of iscsi are read"
            ));
            continue;
        }
        let mut groups =
            list(target, "tpgs").iter().filter(|of| switch(of, "enable") != Some(false));
        match groups.next() {
            Some(group) => {
                let place = Target { iqn: &iqn, group, json };
                states.extend(place.serve(&mut imported));
            }
            None => imported.leave(format!("{iqn} has no portal group that is enabled")),
        }
        for group in groups {
            let tag = text(group, "tag").unwrap_or_default();
            imported.leave(format!(
                "{iqn} has the portal group {tag}: in weft a target has one set of disks, that of the first"
            ));
        }
    }
    let listen = imported.listen.clone();
    ports::set_states(&mut imported, &listen, &|_, subsystem, namespace| {
        let name = (subsystem.nqn.clone(), namespace.nsid);
        states.get(&name).copied().unwrap_or_default()
    });
    imported
}

/// States of namespaces, by NQN and identifier.
type States = HashMap<(String, u64), AccessState>;

/// A target with its portal group.
struct Target<'a> {
    iqn: &'a str,
    group: &'a Value,
    json: &'a Value,
}

impl Target<'_> {
    /// Takes it over; the first target is the one that is served by iSCSI.
    fn serve(&self, imported: &mut Imported) -> States {
        let Self { iqn, group, .. } = *self;
        let is_served = imported.serve_first(iqn);
        if is_served {
            imported.listen = list(group, "portals")
                .iter()
                .filter_map(|of| portal(of, &mut imported.left))
                .collect();
        }
        let mut subsystem = ImportedSubsystem::of_target(iqn, &mut imported.left);
        let mut states = States::new();
        for lun in list(group, "luns") {
            let Some((namespace, state)) = self.namespace(lun, &mut imported.left) else {
                continue;
            };
            states.insert((subsystem.nqn.clone(), namespace.nsid), state);
            subsystem.namespaces.push(namespace);
        }
        let rules = self.rules(imported);
        admit(rules, iqn, &mut subsystem, is_served, imported);
        imported.subsystems.push(subsystem);
        states
    }

    /// Who logs in, and how, and what each may do.
    fn rules(&self, imported: &mut Imported) -> Rules {
        let Self { iqn, group, json } = *self;
        let attributes = &group["attributes"];
        report_unknown(iqn, attributes, &ATTRIBUTES, &mut imported.left);
        report_unknown(iqn, group, &GROUP, &mut imported.left);
        if ["fabric_prot_type", "t10_pi"].iter().any(|key| switch(attributes, key) == Some(true)) {
            imported.leave(format!("{iqn} has protection information: weft has none"));
        }
        let demands_chap = switch(attributes, "authentication") != Some(false)
            || text(&group["parameters"], "AuthMethod").is_some_and(|all| !all.contains("None"));
        let acls = list(group, "node_acls");
        let initiator = |acl: &Value| {
            let own = number(&acl["attributes"], "authentication").map(|number| number == 1);
            Some(ImportedInitiator {
                name: text(acl, "node_wwn")?,
                login: login(acl, own.unwrap_or(demands_chap)),
                rights: rights(acl),
            })
        };
        let initiators = acls.iter().filter_map(initiator).collect();
        acls.iter().for_each(|acl| self.report(acl, imported));
        let is_demo = switch(attributes, "generate_node_acls") == Some(true);
        let users: Vec<Chap> =
            chap(group, "chap").filter(|_| is_demo && demands_chap).into_iter().collect();
        let others = is_demo.then(|| OtherInitiators {
            login: if demands_chap { ImportedLogin::Shared } else { ImportedLogin::Free },
            right: match switch(attributes, "demo_mode_write_protect") {
                Some(false) => Right::Write,
                _ => Right::Read,
            },
        });
        Rules { initiators, others, users, discovery: discovery(json) }
    }

    /// Reports what an ACL loses, such as LUNs that have another number for one initiator.
    fn report(&self, acl: &Value, imported: &mut Imported) {
        let name = text(acl, "node_wwn").unwrap_or_default();
        report_unknown(&name, acl, &ACL, &mut imported.left);
        for mapped in list(acl, "mapped_luns") {
            let numbers = number(mapped, "tpg_lun").zip(number(mapped, "index"));
            let Some((lun, other)) = numbers.filter(|(lun, other)| lun != other) else { continue };
            imported.leave(format!(
                "{name} has LUN {lun} of {} as LUN {other}: in weft it is LUN {lun} for all",
                self.iqn
            ));
        }
    }

    /// A disk, and the state of the way to it.
    fn namespace(
        &self,
        lun: &Value,
        left: &mut Vec<String>,
    ) -> Option<(ImportedNamespace, AccessState)> {
        let (iqn, path) = (self.iqn, text(lun, "storage_object").unwrap_or_default());
        let mut parts = path.trim_start_matches("/backstores/").splitn(2, '/');
        let (plugin, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_it = |of: &&Value| of["plugin"] == plugin && of["name"] == name;
        let found = list(self.json, "storage_objects").iter().find(is_it);
        let index = number(lun, "index").filter(|lun| *lun <= LUN_MAX);
        let Some((index, object)) = index.zip(found) else {
            left.push(format!(
                "{iqn} serves {path}, whose LUN or storage object is not clear: add it by hand"
            ));
            return None;
        };
        report_unknown(&path, object, &OBJECT, left);
        let source = match source(plugin, object) {
            Ok(source) => source,
            Err(why) => {
                left.push(format!("{iqn} serves {path}, which is left out: {why}"));
                return None;
            }
        };
        let is_forgetful = source.starts_with("ram:");
        if is_forgetful {
            left.push(format!("{path} keeps no identity: a RAM disk is empty after a restart"));
        }
        let scsi = match text(object, "wwn").filter(|_| !is_forgetful) {
            Some(wwn) => scsi(plugin, name, &wwn, object).checked(&path, left),
            None => ImportedScsi::default(),
        };
        let namespace = ImportedNamespace {
            nsid: index + 1,
            source,
            // What is behind the size in the file is not served.
            bytes: number(object, "size").filter(|_| plugin == "fileio"),
            scsi,
            hosts: AdmittedHosts::Any,
            is_writable: switch(object, "readonly") != Some(true),
            reservations: (switch(&object["attributes"], "emulate_pr") == Some(false))
                .then_some(false),
            ..ImportedNamespace::default()
        };
        Some((namespace, state(lun, object)))
    }
}

/// Members of a portal group that are read, or make no difference.
const GROUP: [&str; 13] = [
    "attributes",
    "authenticate_target",
    "chap_mutual_password",
    "chap_mutual_userid",
    "chap_password",
    "chap_userid",
    "enable",
    "luns",
    "node_acl_groups",
    "node_acls",
    "parameters",
    "portals",
    "tag",
];

/// Those of an ACL.
const ACL: [&str; 9] = [
    "attributes",
    "authenticate_target",
    "chap_mutual_password",
    "chap_mutual_userid",
    "chap_password",
    "chap_userid",
    "mapped_luns",
    "node_wwn",
    "tag",
];

/// Attributes of a portal group.
const ATTRIBUTES: [&str; 14] = [
    "authentication",
    "cache_dynamic_acls",
    "default_cmdsn_depth",
    "default_erl",
    "demo_mode_discovery",
    "demo_mode_write_protect",
    "fabric_prot_type",
    "generate_node_acls",
    "login_keys_workaround",
    "login_timeout",
    "netif_timeout",
    "prod_mode_write_protect",
    "t10_pi",
    "tpg_enabled_sendtargets",
];

/// Members of a storage object.
const OBJECT: [&str; 17] = [
    "aio",
    "alua_tpgs",
    "attributes",
    "buffered_mode",
    "config",
    "control",
    "dev",
    "exclusive",
    "exists",
    "hw_max_sectors",
    "name",
    "nullio",
    "plugin",
    "readonly",
    "size",
    "write_back",
    "wwn",
];

fn portal(of: &Value, left: &mut Vec<String>) -> Option<String> {
    let (address, port) = (text(of, "ip_address")?, text(of, "port")?);
    if switch(of, "iser") == Some(true) {
        left.push(format!("the portal {address}:{port} is one of iSER: weft has iSCSI over TCP"));
        return None;
    }
    let address = address.trim_start_matches('[').trim_end_matches(']');
    Some(match address.contains(':') {
        true => format!("iscsi://[{address}]:{port}"),
        false => format!("iscsi://{address}:{port}"),
    })
}

/// What discovery demands.
fn discovery(json: &Value) -> Option<Chap> {
    let mut modules = list(json, "fabric_modules").iter();
    let module = modules.find(|of| of["name"] == "iscsi")?;
    let demands = switch(module, "discovery_enable_auth") == Some(true);
    chap(module, "discovery").filter(|_| demands)
}

/// How an initiator with an ACL logs in: as the user there, not as that of the portal group.
fn login(of: &Value, demands_chap: bool) -> ImportedLogin {
    match chap(of, "chap") {
        _ if !demands_chap => ImportedLogin::Free,
        Some(chap) => ImportedLogin::Chap(chap),
        None => ImportedLogin::Never("CHAP is demanded, and there is no user for it".into()),
    }
}

fn chap(of: &Value, prefix: &str) -> Option<Chap> {
    let field = |name: &str| word(of, &format!("{prefix}_{name}"));
    let mutual = field("mutual_userid").zip(field("mutual_password"));
    Some(Chap { user: field("userid")?, password: field("password").unwrap_or_default(), mutual })
}

/// The rights of an initiator, by namespace identifier.
fn rights(acl: &Value) -> BTreeMap<u64, Right> {
    let right = |mapped: &Value| {
        let nsid = number(mapped, "tpg_lun")?.checked_add(1)?;
        let is_protected = switch(mapped, "write_protect") == Some(true);
        Some((nsid, if is_protected { Right::Read } else { Right::Write }))
    };
    list(acl, "mapped_luns").iter().filter_map(right).collect()
}

/// The state of the target port group that a LUN is in.
fn state(lun: &Value, object: &Value) -> AccessState {
    let name = text(lun, "alua_tg_pt_gp_name").unwrap_or_default();
    let mut groups = list(object, "alua_tpgs").iter();
    let found = groups.find(|of| of["name"] == name.as_str());
    match found.and_then(|of| number(of, "alua_access_state")).unwrap_or(0) {
        0 => AccessState::Optimized,
        1 => AccessState::NonOptimized,
        14 => AccessState::PersistentLoss,
        _ => AccessState::Inaccessible,
    }
}

fn source(plugin: &str, object: &Value) -> Result<String, String> {
    let given = number(&object["attributes"], "block_size");
    let path = text(object, "dev").unwrap_or_default();
    match plugin {
        "block" => with_path(&path, given),
        "fileio" if place(&path) == SourceKind::Disk => with_path(&path, given),
        "fileio" => with_path(&path, Some(given.unwrap_or(BLOCK_BYTES))),
        "ramdisk" => {
            let scheme = if switch(object, "nullio") == Some(true) { "null" } else { "ram" };
            let size = number(object, "size").ok_or("it has no size")?;
            memory(scheme, size, given.unwrap_or(BLOCK_BYTES))
        }
        _ => Err(format!("weft has no source for what {plugin} is")),
    }
}

/// The product is the name of the storage object, as targetcli sets it, or one of the kind.
fn scsi(plugin: &str, name: &str, wwn: &str, object: &Value) -> ImportedScsi {
    let is_named = object["attributes"]["emulate_model_alias"] == 1;
    let product = match plugin {
        _ if is_named => name.chars().take(15 + usize::from(name.len() <= 16)).collect(),
        "block" => "IBLOCK".to_owned(),
        "fileio" => "FILEIO".to_owned(),
        _ => "RAMDISK-MCP".to_owned(),
    };
    lio_names::of_kernel(wwn, &product)
}
