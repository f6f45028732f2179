//! Writes a configuration.

use super::imported::{Imported, ImportedNamespace, ImportedScsi, ImportedSubsystem};
use std::fmt::Write;

/// A text as TOML writes it. JSON's escapes are TOML's, too.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn quoted_list(texts: &[String]) -> String {
    format!("[{}]", texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(", "))
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
    if let Some(name) = &imported.iscsi_name {
        _ = writeln!(out, "\n[iscsi]\nname = {}", quoted(name));
    }
    imported.subsystems.iter().for_each(|of| subsystem(&mut out, of));
    out
}

/// Hosts and initiators, where they are named.
fn who(out: &mut String, hosts: Option<&[String]>, initiators: Option<&[String]>) {
    for (key, names) in [("hosts", hosts), ("initiators", initiators)] {
        names.into_iter().for_each(|names| _ = writeln!(out, "{key} = {}", quoted_list(names)));
    }
}

fn subsystem(out: &mut String, of: &ImportedSubsystem) {
    _ = writeln!(out, "\n[[subsystem]]\nnqn = {}", quoted(&of.nqn));
    for (key, value) in [("serial", &of.serial), ("model", &of.model)] {
        if let Some(value) = value {
            _ = writeln!(out, "{key} = {}", quoted(value));
        }
    }
    who(out, of.hosts.as_deref(), of.initiators.as_deref());
    of.namespaces.iter().for_each(|of| namespace(out, of));
}

fn namespace(out: &mut String, of: &ImportedNamespace) {
    _ = writeln!(
        out,
        "\n[[subsystem.namespace]]\nnsid = {}\nsource = {}",
        of.nsid,
        quoted(&of.source)
    );
    for (key, value) in [("uuid", &of.uuid), ("nguid", &of.nguid), ("eui64", &of.eui64)] {
        if let Some(value) = value {
            _ = writeln!(out, "{key} = {}", quoted(value));
        }
    }
    who(out, of.hosts.as_deref(), of.initiators.as_deref());
    if of.read_only {
        out.push_str("read_only = true\n");
    }
    scsi(out, &of.scsi);
}

fn scsi(out: &mut String, of: &ImportedScsi) {
    let names = [
        ("serial", &of.serial),
        ("vendor", &of.vendor),
        ("product", &of.product),
        ("naa", &of.naa),
        ("t10_id", &of.t10_id),
    ];
    let given = |(key, value): (&str, &Option<String>)| {
        value.as_deref().map(|value| format!("{key} = {}", quoted(value)))
    };
    let lines: Vec<String> = names.into_iter().filter_map(given).collect();
    if !lines.is_empty() {
        _ = writeln!(out, "\n[subsystem.namespace.scsi]\n{}", lines.join("\n"));
    }
}
