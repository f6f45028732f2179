//! What targetcli saves of the Linux kernel's SCSI target: `storage_objects` and `targets`.

use super::imported::{Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem};
use super::json::{list, text};
use super::lio_names;
use serde_json::Value;
use weft_block::units;

/// Whether it is such a configuration.
pub fn is_of(json: &Value) -> bool {
    json["storage_objects"].is_array() && json["targets"].is_array()
}

/// Takes over what can be taken over.
pub fn import(json: &Value) -> Imported {
    let mut imported = Imported::default();
    for target in list(json, "targets") {
        let iqn = text(target, "wwn").unwrap_or_default();
        let fabric = text(target, "fabric").unwrap_or_default();
        if fabric != "iscsi" {
            let text = format!("the target {iqn} is one of {fabric}: only those of iscsi are read");
            imported.left.push(text);
            continue;
        }
        let groups = list(target, "tpgs").iter().filter(|group| group["enable"] != false);
        for (n, group) in groups.enumerate() {
            if n > 0 {
                let tag = text(group, "tag").unwrap_or_default();
                imported.left.push(format!(
                    "{iqn} has the portal group {tag}: in weft a target has one set of disks, that of the first"
                ));
            } else {
                serve(&iqn, group, list(json, "storage_objects"), &mut imported);
            }
        }
    }
    imported
}

/// A target; the first is the one that is served by iSCSI.
fn serve(iqn: &str, group: &Value, objects: &[Value], imported: &mut Imported) {
    if imported.iscsi_name.is_some() {
        imported.left.push(format!(
            "{iqn} is another target: a weft serves one by iSCSI, the first; start another weft for it"
        ));
    } else {
        imported.iscsi_name = Some(iqn.to_owned());
        imported.listen = list(group, "portals").iter().filter_map(portal).collect();
    }
    let subsystem = subsystem(iqn, group, objects, &mut imported.left);
    imported.subsystems.push(subsystem);
}

fn portal(of: &Value) -> Option<String> {
    let (address, port) = (text(of, "ip_address")?, text(of, "port")?);
    let address = address.trim_start_matches('[').trim_end_matches(']');
    Some(match address.contains(':') {
        true => format!("iscsi://[{address}]:{port}"),
        false => format!("iscsi://{address}:{port}"),
    })
}

fn subsystem(
    iqn: &str,
    group: &Value,
    objects: &[Value],
    left: &mut Vec<String>,
) -> ImportedSubsystem {
    let is_open = group["attributes"]["generate_node_acls"] == 1;
    let acls = list(group, "node_acls");
    passwords(iqn, group, left);
    acls.iter().for_each(|of| passwords(&text(of, "node_wwn").unwrap_or_default(), of, left));
    left.push(format!("{iqn} has no NVMe hosts: name those that may connect in hosts"));
    let mut namespaces = Vec::new();
    for lun in list(group, "luns") {
        let Some(mut namespace) = namespace(iqn, lun, objects, left) else { continue };
        namespace.initiators = (!is_open).then(|| seen_by(iqn, acls, namespace.nsid - 1, left));
        namespaces.push(namespace);
    }
    let nqn = iqn.strip_prefix("iqn.").map_or_else(|| iqn.to_owned(), |rest| format!("nqn.{rest}"));
    let names = || acls.iter().filter_map(|of| text(of, "node_wwn")).collect();
    ImportedSubsystem {
        nqn,
        hosts: Some(Vec::new()),
        initiators: (!is_open).then(names),
        namespaces,
        ..ImportedSubsystem::default()
    }
}

/// What is said of secrets; they stay where they are.
fn passwords(whose: &str, of: &Value, left: &mut Vec<String>) {
    for (key, instead) in [
        ("chap_userid", "[[iscsi.user]], or by --login-user and --login-secret-file"),
        (
            "chap_mutual_userid",
            "[iscsi.target], or by --login-target-user and --login-target-secret-file",
        ),
    ] {
        if let Some(user) = text(of, key).filter(|user| !user.is_empty()) {
            left.push(format!(
                "{whose} has the {key} \"{user}\": write the password into a file, and name both in {instead}"
            ));
        }
    }
}

/// The initiators that see a disk. What differs between them is said.
fn seen_by(iqn: &str, acls: &[Value], lun: u64, left: &mut Vec<String>) -> Vec<String> {
    let mut names = Vec::new();
    for acl in acls {
        let mapped = list(acl, "mapped_luns").iter().find(|of| of["tpg_lun"].as_u64() == Some(lun));
        let (Some(mapped), Some(name)) = (mapped, text(acl, "node_wwn")) else { continue };
        if let Some(other) = mapped["index"].as_u64().filter(|other| *other != lun) {
            left.push(format!(
                "{name} has LUN {lun} of {iqn} as LUN {other}: in weft it is LUN {lun} for all"
            ));
        }
        if mapped["write_protect"] == true {
            left.push(format!(
                "{name} may only read LUN {lun} of {iqn}: in weft a disk is read-only for all or for none"
            ));
        }
        names.push(name);
    }
    names
}

fn namespace(
    iqn: &str,
    lun: &Value,
    objects: &[Value],
    left: &mut Vec<String>,
) -> Option<ImportedNamespace> {
    let path = text(lun, "storage_object").unwrap_or_default();
    let mut parts = path.trim_start_matches("/backstores/").splitn(2, '/');
    let (plugin, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_it = |of: &&Value| of["plugin"] == plugin && of["name"] == name;
    let found = lun["index"].as_u64().filter(|lun| *lun < 256).zip(objects.iter().find(is_it));
    let Some((number, object)) = found else {
        left.push(format!(
            "{iqn} serves {path}, whose LUN or storage object is not clear: add it by hand"
        ));
        return None;
    };
    let Some(source) = source(plugin, object) else {
        left.push(format!("{iqn} serves {path}: weft has no source for what {plugin} is"));
        return None;
    };
    let is_forgetful = source.starts_with("ram:");
    if is_forgetful {
        left.push(format!("{path} keeps no identity: a RAM disk is empty after a restart"));
    }
    let scsi = match text(object, "wwn").filter(|_| !is_forgetful) {
        Some(wwn) => scsi(plugin, name, &wwn, object).checked(&path, left),
        None => ImportedScsi::default(),
    };
    let read_only = object["readonly"] == true;
    Some(ImportedNamespace { nsid: number + 1, source, scsi, read_only, ..Default::default() })
}

fn source(plugin: &str, object: &Value) -> Option<String> {
    let path = text(object, "dev").filter(|path| path.starts_with('/'));
    let block = object["attributes"]["block_size"].as_u64().filter(|bytes| *bytes == 4096);
    match plugin {
        "block" => path,
        "fileio" => path.map(|path| match block.filter(|_| !path.starts_with("/dev/")) {
            Some(bytes) => format!("{path},block={bytes}"),
            None => path,
        }),
        "ramdisk" => object["size"].as_u64().map(|size| match object["nullio"] == true {
            true => format!("null:{}", units::format_size(size)),
            false => format!("ram:{}", units::format_size(size)),
        }),
        _ => None,
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
