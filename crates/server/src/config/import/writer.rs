//! Writes a configuration.

use super::imported::{
    AdmittedHosts, Imported, ImportedAuthentication, ImportedNamespace, ImportedScsi,
    ImportedSubsystem,
};
use std::fmt::Write;

/// A text as TOML writes it. JSON's escapes are TOML's, too.
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn quoted_list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
}

/// Prints the keys that have a value.
fn put_present<'a>(
    out: &mut String,
    pairs: impl IntoIterator<Item = (&'static str, &'a Option<String>)>,
) {
    for (key, value) in pairs {
        if let Some(value) = value {
            _ = writeln!(out, "{key} = {}", quoted(value));
        }
    }
}

/// The file; `group`: for a group of gateways.
pub fn write(imported: &Imported, from: &str, group: bool) -> String {
    let mut out = format!("# From {}.\n", from.replace('\n', " "));
    if !imported.left.is_empty() {
        out.push_str("#\n# Not carried over:\n");
        imported
            .left
            .iter()
            .for_each(|sentence| _ = writeln!(out, "# - {}", sentence.replace('\n', " ")));
    }
    if !group {
        _ = writeln!(out, "\nlisten = {}", quoted_list(&imported.listen));
    }
    process(&mut out, imported);
    imported.subsystems.iter().for_each(|of| subsystem(&mut out, of));
    out
}

/// Tables that are not about one subsystem.
fn process(out: &mut String, imported: &Imported) {
    if let Some((first, last)) = imported.cntlids {
        _ = writeln!(out, "\n[server]\ncntlid_range = \"{first}-{last}\"");
    }
    if !imported.connect.is_empty() {
        out.push_str("\n[connect]\n");
        imported.connect.iter().for_each(|(key, value)| _ = writeln!(out, "{key} = {value}"));
    }
    iscsi(out, imported);
    if let Some(file) = &imported.psk_file {
        _ = writeln!(out, "\n[tls]\npsk_file = {}", quoted(file));
    }
    for of in &imported.states {
        _ = writeln!(out, "\n[[ana]]\ngroup = {}\nstate = {}", of.group, quoted(of.state));
        put_present(out, [("listener", &of.listener)]);
    }
}

fn iscsi(out: &mut String, imported: &Imported) {
    if let Some(name) = &imported.iscsi_name {
        _ = writeln!(out, "\n[iscsi]\nname = {}", quoted(name));
    }
    for of in &imported.users {
        let (name, file) = (quoted(&of.name), quoted(&of.secret_file));
        _ = writeln!(out, "\n[[iscsi.user]]\nname = {name}\nsecret_file = {file}");
        if !of.initiators.is_empty() {
            _ = writeln!(out, "initiators = {}", quoted_list(&of.initiators));
        }
    }
    if let Some((name, file)) = &imported.target_user {
        let (name, file) = (quoted(name), quoted(file));
        _ = writeln!(out, "\n[iscsi.target]\nname = {name}\nsecret_file = {file}");
    }
}

/// Hosts and initiators, where not all are admitted.
fn admitted(out: &mut String, hosts: &AdmittedHosts, initiators: &AdmittedHosts) {
    for (key, of) in [("hosts", hosts), ("initiators", initiators)] {
        if let AdmittedHosts::Only(names) = of {
            _ = writeln!(out, "{key} = {}", quoted_list(names));
        }
    }
}

fn subsystem(out: &mut String, of: &ImportedSubsystem) {
    _ = writeln!(out, "\n[[subsystem]]\nnqn = {}", quoted(&of.nqn));
    put_present(out, [("serial", &of.serial), ("model", &of.model)]);
    of.max_queues.iter().for_each(|queues| _ = writeln!(out, "max_queues = {queues}"));
    admitted(out, &of.hosts, &of.initiators);
    of.authentication.iter().for_each(|of| authentication(out, of));
    of.namespaces.iter().for_each(|of| namespace(out, of));
}

fn authentication(out: &mut String, of: &ImportedAuthentication) {
    out.push_str("\n[subsystem.authentication]\n");
    put_present(out, [("ctrl_secret_file", &of.controller)]);
    for (key, words) in [("hashes", &of.hashes), ("dhgroups", &of.groups)] {
        if !words.is_empty() {
            _ = writeln!(out, "{key} = {}", quoted_list(words));
        }
    }
    for (nqn, file) in &of.hosts {
        let (nqn, file) = (quoted(nqn), quoted(file));
        _ = writeln!(
            out,
            "\n[[subsystem.authentication.host]]\nnqn = {nqn}\nsecret_files = [{file}]"
        );
    }
}

fn namespace(out: &mut String, of: &ImportedNamespace) {
    let source = quoted(&of.source);
    _ = writeln!(out, "\n[[subsystem.namespace]]\nnsid = {}\nsource = {source}", of.nsid);
    if !of.paths.is_empty() {
        _ = writeln!(out, "paths = {}", quoted_list(&of.paths));
    }
    put_present(out, [("uuid", &of.uuid), ("nguid", &of.nguid), ("eui64", &of.eui64)]);
    if let Some(bytes) = of.bytes {
        _ = writeln!(out, "size = \"{bytes}\"");
    }
    if let Some(group) = of.ana_group {
        _ = writeln!(out, "ana_group = {group}");
    }
    if let Some(are_offered) = of.reservations {
        _ = writeln!(out, "reservations = {are_offered}");
    }
    admitted(out, &of.hosts, &of.initiators);
    if !of.is_writable {
        out.push_str("read_only = true\n");
    }
    scsi(out, &of.scsi);
}

fn scsi(out: &mut String, of: &ImportedScsi) {
    let mut names = String::new();
    put_present(
        &mut names,
        [
            ("serial", &of.serial),
            ("vendor", &of.vendor),
            ("product", &of.product),
            ("naa", &of.naa),
            ("t10_id", &of.t10_id),
        ],
    );
    if !names.is_empty() {
        _ = write!(out, "\n[subsystem.namespace.scsi]\n{names}");
    }
}
