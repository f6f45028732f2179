//! What Ceph's iSCSI gateway (ceph-iscsi) keeps in the object `gateway.conf`: `disks`, `targets`
//! and `gateways`, as of version 11 of its form.

use super::imported::{Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem};
use super::json::{list, text};
use super::lio_names;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The version of the form that is read, the last one.
const VERSION: u64 = 11;

/// The port of all its portals.
const PORT: u16 = 3260;

/// Whether it is such an object.
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
    if is_given(&json["discovery_auth"], "username") {
        imported.left.push(
            "discovery demands a user and a password: in weft it demands what the target does"
                .into(),
        );
    }
    let targets = entries(json, "targets");
    for (n, (iqn, target)) in targets.enumerate() {
        let subsystem = subsystem(iqn, target, &json["disks"], &mut imported.left);
        imported.subsystems.push(subsystem);
        if n == 0 {
            imported.iscsi_name = Some(iqn.clone());
            portals(target, &mut imported);
        } else {
            imported
                .left
                .push(format!("{iqn} is another target: a weft serves one by iSCSI, the first; start another weft for it"));
        }
    }
    Ok(imported)
}

/// The members of an object.
fn entries<'a>(of: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    of[name].as_object().into_iter().flat_map(Map::iter)
}

fn is_given(of: &Value, name: &str) -> bool {
    text(of, name).is_some_and(|text| !text.is_empty())
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
    let clients: BTreeMap<&String, &Value> = entries(target, "clients").collect();
    passwords(iqn, target, &clients, left);
    settings(&format!("target {iqn}"), target, left);
    left.push(format!("{iqn} has no NVMe hosts: name those that may connect in hosts"));
    let is_open = target["acl_enabled"] == false;
    let names = |of: Vec<&&String>| {
        (!is_open).then(|| of.into_iter().map(|name| (*name).clone()).collect::<Vec<_>>())
    };
    let mut namespaces = Vec::new();
    for (key, place) in entries(target, "disks") {
        let Some(mut namespace) = namespace(iqn, key, place, &disks[key], left) else { continue };
        let seen = clients.iter().filter(|(_, client)| client["luns"].get(key).is_some());
        for (name, client) in seen.clone() {
            if let Some(lun) = client["luns"][key]["lun_id"]
                .as_u64()
                .filter(|lun| Some(*lun) != place["lun_id"].as_u64())
            {
                left.push(format!(
                    "{name} has {key} as LUN {lun}: in weft it is LUN {} for all",
                    namespace.nsid - 1
                ));
            }
        }
        namespace.initiators = names(seen.map(|(name, _)| name).collect());
        namespaces.push(namespace);
    }
    if namespaces.iter().any(|namespace| namespace.scsi.naa.is_none()) {
        left.push(format!("some disks of {iqn} have no wwn: initiators see other disks"));
    }
    let nqn = iqn.strip_prefix("iqn.").map_or_else(|| iqn.to_owned(), |rest| format!("nqn.{rest}"));
    ImportedSubsystem {
        nqn,
        hosts: Some(Vec::new()),
        initiators: names(clients.keys().collect()),
        namespaces,
        ..ImportedSubsystem::default()
    }
}

/// What is said of secrets; they stay where they are.
fn passwords(
    iqn: &str,
    target: &Value,
    clients: &BTreeMap<&String, &Value>,
    left: &mut Vec<String>,
) {
    let target = (format!("target {iqn}"), "initiators", &target["auth"]);
    let each =
        clients.iter().map(|(name, client)| (format!("initiator {name}"), "it", &client["auth"]));
    for (whose, who, auth) in std::iter::once(target).chain(each) {
        if is_given(auth, "username") {
            let user = text(auth, "username").unwrap_or_default();
            left.push(format!(
                "{whose}: {who} must log in as \"{user}\": write the password into a file, and name both in [[iscsi.user]], or by --login-user and --login-secret-file"
            ));
        }
        if is_given(auth, "mutual_username") {
            let user = text(auth, "mutual_username").unwrap_or_default();
            left.push(format!(
                "{whose}: the target proves itself as \"{user}\": write the password into a file, and name both in [iscsi.target], or by --login-target-user and --login-target-secret-file"
            ));
        }
    }
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
        source: format!("rbd:{pool}/{image}"),
        scsi,
        ..ImportedNamespace::default()
    })
}
