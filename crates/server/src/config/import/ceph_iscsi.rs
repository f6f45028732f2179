//! The object `gateway.conf` of Ceph's iSCSI gateway (ceph-iscsi): `disks`, `targets` and
//! `gateways`, as of version 11 of its form.
//!
//! The gateway makes targets of LIO from it. A target demands CHAP of all its initiators as soon as
//! one of them, or the target, has a user.

use super::imported::{
    AdmittedHosts, Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem,
};
use super::iscsi_access::{
    Chap, ImportedInitiator, ImportedLogin, OtherInitiators, Right, Rules, admit,
};
use super::json::{list, report_unknown, switch, text, word};
use super::lio_names;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use weft_block::grammar::closed;

/// The version of the form that is read, the last one.
const VERSION: u64 = 11;

/// The port of all its portals.
const PORT: u16 = 3260;

/// Returns whether it is such an object.
pub fn is_of(json: &Value) -> bool {
    json["targets"].is_object() && json["disks"].is_object() && json["version"].is_u64()
}

/// Takes over what can be taken over.
///
/// # Errors
/// The form is another one.
pub fn import(json: &Value) -> Result<Imported, String> {
    let version = json["version"].as_u64().unwrap_or_default();
    if version != VERSION {
        return Err(format!(
            "it has version {version} of gateway.conf, and {VERSION} is read: start rbd-target-api of ceph-iscsi 3.4 or later once, which converts it"
        ));
    }
    let mut imported = Imported::default();
    let known = [
        "created",
        "discovery_auth",
        "disks",
        "epoch",
        "gateways",
        "targets",
        "updated",
        "version",
    ];
    report_unknown("the file", json, &known, &mut imported.left);
    for (iqn, target) in entries(json, "targets") {
        let is_served = imported.serve_first(iqn);
        if is_served {
            portals(target, &mut imported);
        }
        let mut subsystem = subsystem(iqn, target, &json["disks"], &mut imported.left);
        let rules = rules(target, chap(&json["discovery_auth"]));
        admit(rules, iqn, &mut subsystem, is_served, &mut imported);
        imported.subsystems.push(subsystem);
    }
    Ok(imported)
}

/// The members of an object.
fn entries<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    of[name].as_object().into_iter().flat_map(Map::iter)
}

/// The addresses of the first gateway; those of others are for the weft there.
fn portals(target: &Value, imported: &mut Imported) {
    for (n, (gateway, portal)) in entries(target, "portals").enumerate() {
        let addresses = list(portal, "portal_ip_addresses").iter().filter_map(Value::as_str);
        let urls = addresses.map(|address| match address.contains(':') {
            true => format!("iscsi://[{address}]:{PORT}"),
            false => format!("iscsi://{address}:{PORT}"),
        });
        let urls: Vec<String> = urls.collect();
        if n == 0 {
            imported.left.push(format!("listen is that of the gateway {gateway}"));
            imported.listen = urls;
        } else {
            imported.left.push(format!(
                "the gateway {gateway} listens at {}: give that to the weft there",
                urls.join(", ")
            ));
        }
    }
}

fn subsystem(
    iqn: &str,
    target: &Value,
    disks: &Value,
    left: &mut Vec<String>,
) -> ImportedSubsystem {
    let known = [
        "acl_enabled",
        "auth",
        "clients",
        "controls",
        "created",
        "disks",
        "groups",
        "ip_list",
        "portals",
        "updated",
    ];
    report_unknown(iqn, target, &known, left);
    settings(&format!("target {iqn}"), target, left);
    let mut subsystem = ImportedSubsystem::of_target(iqn, left);
    for (key, place) in entries(target, "disks") {
        let Some(namespace) = namespace(iqn, key, place, &disks[key], left) else { continue };
        for (name, client) in entries(target, "clients") {
            let own = client["luns"][key]["lun_id"].as_u64();
            if let Some(lun) = own.filter(|lun| Some(*lun) != place["lun_id"].as_u64()) {
                left.push(format!(
                    "{name} has {key} as LUN {lun}: in weft it is LUN {} for all",
                    namespace.nsid - 1
                ));
            }
        }
        subsystem.namespaces.push(namespace);
    }
    if subsystem.namespaces.iter().any(|namespace| namespace.scsi.naa.is_none()) {
        left.push(format!("some disks of {iqn} have no wwn: initiators see other disks"));
    }
    subsystem
}

/// Who logs in, and how, and what each may do.
fn rules(target: &Value, discovery: Option<Chap>) -> Rules {
    let own = chap(&target["auth"]);
    let mut clients = entries(target, "clients");
    let demands_chap = own.is_some() || clients.any(|(_, client)| chap(&client["auth"]).is_some());
    let initiator = |(name, client): (&String, &Value)| ImportedInitiator {
        name: name.clone(),
        login: match chap(&client["auth"]) {
            _ if !demands_chap => ImportedLogin::Free,
            Some(chap) => ImportedLogin::Chap(chap),
            None => ImportedLogin::Never("CHAP is demanded, and there is no user for it".into()),
        },
        rights: rights(target, client),
    };
    let initiators = entries(target, "clients").map(initiator).collect();
    let is_open = switch(target, "acl_enabled") == Some(false);
    let login = if demands_chap { ImportedLogin::Shared } else { ImportedLogin::Free };
    let others = is_open.then_some(OtherInitiators { login, right: Right::Write });
    let users = own.into_iter().filter(|_| is_open).collect();
    Rules { initiators, others, users, discovery }
}

/// The rights of a client, by namespace identifier.
fn rights(target: &Value, client: &Value) -> BTreeMap<u64, Right> {
    let nsid = |key: &String| target["disks"][key]["lun_id"].as_u64()?.checked_add(1);
    let luns = entries(client, "luns").filter_map(|(key, _)| nsid(key));
    luns.map(|nsid| (nsid, Right::Write)).collect()
}

fn chap(of: &Value) -> Option<Chap> {
    let mutual = word(of, "mutual_username").zip(word(of, "mutual_password"));
    let password = word(of, "password").unwrap_or_default();
    Some(Chap { user: word(of, "username")?, password, mutual })
}

/// What was tuned.
fn settings(whose: &str, of: &Value, left: &mut Vec<String>) {
    let names: Vec<&str> = entries(of, "controls").map(|(name, _)| name.as_str()).collect();
    if !names.is_empty() {
        left.push(format!("{whose} has settings of LIO: {}", names.join(", ")));
    }
}

fn namespace(
    iqn: &str,
    key: &str,
    place: &Value,
    disk: &Value,
    left: &mut Vec<String>,
) -> Option<ImportedNamespace> {
    let is_plain =
        |name: &String| !name.is_empty() && !name.contains(['/', ',', '@', '%', '?', '\n']);
    let names = [text(disk, "pool").filter(is_plain), text(disk, "image").filter(is_plain)];
    let lun = place["lun_id"].as_u64().filter(|lun| *lun < 256);
    let ([Some(pool), Some(image)], Some(lun)) = (names, lun) else {
        left.push(format!(
            "{iqn} serves {key}, whose pool, image or LUN is not clear: add it by hand"
        ));
        return None;
    };
    if let Some(kind) = text(disk, "backstore").filter(|kind| kind != "user:rbd") {
        left.push(format!("{iqn} serves {key} by {kind}: weft opens it by librbd"));
    }
    settings(&format!("disk {key}"), disk, left);
    let scsi = match text(disk, "wwn") {
        Some(wwn) => lio_names::of_tcmu(&wwn).checked(&format!("disk {key}"), left),
        None => ImportedScsi::default(),
    };
    Some(ImportedNamespace {
        nsid: lun + 1,
        source: closed(&format!("rbd:{pool}/{image}")),
        scsi,
        hosts: AdmittedHosts::Any,
        is_writable: true,
        ..ImportedNamespace::default()
    })
}
