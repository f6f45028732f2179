//! The configuration that all gateways of a group share: the part of a server's that says what is
//! served to whom. It lives in the cluster.

use super::authentication::authentication;
use super::desired::{DesiredLimit, DesiredNamespace, DesiredSubsystem};
use super::faults::{ConfigFaults, Finder, with_finder};
use super::host_identifiers::host_identifiers;
use super::limits::limits;
use super::shape;
use super::subsystems::{group, subsystems};
use super::tables::{
    AuthenticationTable, ConfigFile, IscsiTable, NamespaceTable, ServerTable, TlsTable,
};
use crate::served::ServedState;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};
use weft_block::grammar;
use weft_ceph::{CephAccess, RBD, RbdUrl};
use weft_endpoint::inventory::{self, Authentication};
use weft_group::limits::ANA_GROUPS;
use weft_group::placement::default_ana_group;
use weft_proto::nvme::types::{Id128, Nqn};

/// The configuration of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupConfig {
    /// Subsystems with their namespaces.
    pub subsystems: Vec<DesiredSubsystem>,
    /// Authentication of hosts for discovery.
    pub discovery: Option<Authentication>,
    /// Limits of hosts, at each gateway.
    pub limits: Vec<DesiredLimit>,
    /// Identifiers of NVMe hosts.
    pub identifiers: BTreeMap<Nqn, Id128>,
}

/// Reads and checks a group's configuration; `file` is its name for messages.
pub fn read(text: &str, file: &str) -> Result<GroupConfig, ConfigFaults> {
    with_finder(text, file, |finder| {
        shape::parse(text, finder).map(|tables| check(&tables, finder))
    })
}

/// Returns whether a text is meant for a group: a server's own configuration has listening
/// addresses.
pub fn is_of_group(text: &str) -> bool {
    text.parse::<Table>()
        .is_ok_and(|root| !root.contains_key("listen") && root.contains_key("subsystem"))
}

fn check(tables: &ConfigFile, finder: &mut Finder<'_>) -> GroupConfig {
    refuse_own(tables, finder);
    let each = tables
        .subsystem
        .iter()
        .filter_map(|of| of.authentication.as_ref())
        .chain(&tables.discovery_authentication);
    each.for_each(|table| absolute(table, finder));
    let directory = Path::new("/");
    let mut served = if tables.subsystem.is_empty() {
        Vec::new()
    } else {
        subsystems(&tables.subsystem, (directory, true), finder)
    };
    for table in tables.subsystem.iter().flat_map(|subsystem| &subsystem.namespace) {
        check_namespace(table, finder);
    }
    for (subsystem, table) in served.iter_mut().zip(&tables.subsystem) {
        let of = |nsid: u32| table.namespace.iter().find(|table| *table.nsid == nsid);
        for namespace in &mut subsystem.namespaces {
            if of(namespace.nsid.0).is_some_and(|table| table.ana_group.is_none()) {
                namespace.group = default_ana_group(&subsystem.nqn, namespace.nsid.0);
            }
        }
    }
    let discovery = tables
        .discovery_authentication
        .as_ref()
        .map(|table| authentication(table, directory, finder));
    let (limits, identifiers) =
        (limits(&tables.host_limit, finder), host_identifiers(&tables.host_identifier, finder));
    GroupConfig { subsystems: served, discovery, limits, identifiers }
}

/// What each gateway says on its own command line.
fn refuse_own(tables: &ConfigFile, finder: &mut Finder<'_>) {
    let own = [
        ("listen", !tables.listen.is_empty(), "--listen"),
        ("name", tables.name.is_some(), "--control"),
        ("ana", !tables.ana.is_empty(), "weft ana set"),
        ("connect", !tables.connect.is_empty(), "the command line"),
        ("server", tables.server != ServerTable::default(), "the command line"),
        ("iscsi", tables.iscsi != IscsiTable::default(), "the command line"),
        ("tls", tables.tls != TlsTable::default(), "the command line"),
    ];
    for (key, _, instead) in own.iter().filter(|(_, is_given, _)| *is_given) {
        finder.add(
            0..0,
            format!("{key} is a matter of each gateway, and does not belong into the configuration of a group: use {instead}"),
        );
    }
}

/// Each gateway reads files of its own.
fn absolute(table: &AuthenticationTable, finder: &mut Finder<'_>) {
    let files =
        table.host.iter().flat_map(|host| &host.secret_files).chain(&table.ctrl_secret_file);
    for file in files.filter(|file| !file.is_absolute()) {
        finder.add(
            file.place(),
            "each gateway of a group reads this file on its own machine: give its whole path",
        );
    }
}

fn check_namespace(table: &NamespaceTable, finder: &mut Finder<'_>) {
    if let Some(why) = unfit(&table.source) {
        finder.add(table.source.place(), why);
    }
    if let Some(path) = table.paths.first() {
        finder.add(path.place(), "an image of Ceph needs no further paths: leave them out");
    }
    if let Some(of) = table.ana_group.as_ref().filter(|of| !(1..=ANA_GROUPS).contains(&**of)) {
        group(of, finder);
        finder.add(
            of.place(),
            format!("a group of gateways has the ANA groups 1 to {ANA_GROUPS}; without one, namespaces are spread over them"),
        );
    }
}

/// Why a source cannot be served by a group, if it cannot.
pub fn unfit(source: &str) -> Option<String> {
    grammar::sources(source).into_iter().find_map(|leaf| {
        if !leaf.url.starts_with(RBD) {
            return Some(format!(
                "\"{}\" cannot be served by a group of gateways: only images of Ceph can, as a gateway that has died is kept out of the cluster before another takes its place",
                leaf.url
            ));
        }
        if leaf.above.contains(&"mirror") {
            let text = format!("\"{source}\": a mirror is open in one process at a time, and Ceph keeps copies itself: serve the image alone");
            return Some(text);
        }
        let url = RbdUrl::parse(leaf.url).ok()?;
        let is_other = url.access != CephAccess::default();
        is_other.then(|| format!("\"{}\": a group uses all images as it uses the cluster (--cluster): leave out conf=, id= and keyring=", leaf.url))
    })
}

/// The text for a wanted state. Parts that the commands do not change stay as in the previous text.
///
/// # Errors
/// Why that cannot be written.
pub fn text(wanted: &ServedState, before: &str) -> Result<String, String> {
    let mut root: Table =
        before.parse().map_err(|e| format!("the group's configuration is damaged: {e}"))?;
    let known = match root.remove("subsystem") {
        Some(Value::Array(known)) => known,
        _ => Vec::new(),
    };
    let table = |of: &DesiredSubsystem| {
        let is_it =
            |table: &&Value| table.get("nqn").and_then(Value::as_str) == Some(of.nqn.as_str());
        let mut table =
            known.iter().find(is_it).and_then(Value::as_table).cloned().unwrap_or_default();
        table.insert("nqn".into(), of.nqn.as_str().into());
        put_names(&mut table, "hosts", &of.hosts);
        put_names(&mut table, "initiators", &of.initiators);
        put(&mut table, "serial", of.numbers.serial.as_ref().map(ToString::to_string));
        put(&mut table, "model", of.numbers.model.as_ref().map(ToString::to_string));
        put(&mut table, "max_queues", of.numbers.queues.map(|queues| i64::from(queues.get())));
        let namespaces: Vec<Value> =
            of.namespaces.iter().map(|it| Value::Table(namespace(of, it))).collect();
        put(&mut table, "namespace", (!namespaces.is_empty()).then_some(namespaces));
        Value::Table(table)
    };
    let subsystems: Vec<Value> = wanted.subsystems.iter().map(table).collect();
    put(&mut root, "subsystem", (!subsystems.is_empty()).then_some(subsystems));
    let text = toml::to_string(&root).map_err(|e| e.to_string())?;
    let read = read(&text, "the new configuration").map_err(|faults| faults.to_string())?;
    if read
        .subsystems
        .iter()
        .map(|of| &of.namespaces)
        .ne(wanted.subsystems.iter().map(|of| &of.namespaces))
    {
        return Err("this cannot be written into the group's configuration: use weft apply".into());
    }
    Ok(text)
}

fn put(table: &mut Table, key: &str, value: Option<impl Into<Value>>) {
    match value {
        Some(value) => _ = table.insert(key.into(), value.into()),
        None => _ = table.remove(key),
    }
}

fn put_names<T: ToString + Ord + Clone>(
    table: &mut Table,
    key: &str,
    access: &inventory::Access<T>,
) {
    let names = access
        .names()
        .map(|names| names.iter().map(|name| Value::from(name.to_string())).collect::<Vec<_>>());
    put(table, key, names);
}

fn namespace(subsystem: &DesiredSubsystem, of: &DesiredNamespace) -> Table {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut table = Table::new();
    table.insert("nsid".into(), i64::from(of.nsid.0).into());
    table.insert("source".into(), of.source.as_str().into());
    put(&mut table, "name", of.name.as_deref());
    put(&mut table, "uuid", of.uuid.map(|uuid| uuid.to_string()));
    put(&mut table, "nguid", of.nguid.map(|id| hex(&id)));
    put(&mut table, "eui64", of.eui64.map(|id| hex(&id)));
    let names = scsi(&of.scsi);
    put(&mut table, "scsi", (!names.is_empty()).then_some(names));
    put(&mut table, "size", of.bytes.map(|bytes| bytes.to_string()));
    put(
        &mut table,
        "ana_group",
        (of.group != default_ana_group(&subsystem.nqn, of.nsid.0)).then(|| i64::from(of.group)),
    );
    put(&mut table, "reservations", (!of.reservations).then_some(false));
    put_names(&mut table, "hosts", &of.hosts);
    put_names(&mut table, "initiators", &of.initiators);
    table
}

fn scsi(of: &inventory::ScsiIdentity) -> Table {
    let mut table = Table::new();
    put(&mut table, "serial", of.serial.as_ref().map(ToString::to_string));
    put(&mut table, "vendor", of.vendor.as_ref().map(ToString::to_string));
    put(&mut table, "product", of.product.as_ref().map(ToString::to_string));
    put(&mut table, "naa", of.naa.as_ref().map(ToString::to_string));
    put(&mut table, "t10_id", of.t10_id.as_ref().map(ToString::to_string));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# the disks of the hall\n[[subsystem]]\nnqn = \"nqn.2026-01.example:hall\"\nhosts = [\"nqn.2026-01.example:a\"]\n\
        [[subsystem.namespace]]\nnsid = 1\nsource = \"rbd:rbd/one\"\n[[subsystem.namespace]]\nnsid = 2\nsource = \"readonly:rbd:rbd/two@s\"\nana_group = 7\n";

    fn state(config: &GroupConfig) -> ServedState {
        ServedState { subsystems: config.subsystems.clone(), ..ServedState::default() }
    }

    #[test]
    fn namespaces_are_spread_unless_a_group_is_given() {
        let config = read(TEXT, "t").unwrap();
        let groups: Vec<u32> = config.subsystems[0].namespaces.iter().map(|of| of.group).collect();
        assert_eq!(groups, [default_ana_group(&config.subsystems[0].nqn, 1), 7]);
        assert_eq!(read("", "t").unwrap(), GroupConfig::default());
    }

    #[test]
    fn what_is_a_matter_of_each_gateway_is_refused() {
        for (text, word) in [
            ("listen = [\"127.0.0.1:4420\"]\n", "--listen"),
            ("[server]\nthreads = 2\n", "server"),
            ("[tls]\nconcat = true\n", "tls"),
            (
                "[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n[[subsystem.namespace]]\nnsid = 1\nsource = \"ram:1MiB\"\n",
                "only images",
            ),
            (
                "[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n[[subsystem.namespace]]\nnsid = 1\nsource = \"rbd:a/b,id=x\"\n",
                "leave out",
            ),
            (
                "[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n[[subsystem.namespace]]\nnsid = 1\nsource = \"rbd:a/b\"\nana_group = 49\n",
                "1 to 48",
            ),
            (
                "[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n[[subsystem.authentication.host]]\nsecret_files = [\"a\"]\n",
                "whole path",
            ),
        ] {
            let faults = read(text, "t").unwrap_err();
            assert!(faults.lines().iter().any(|line| line.contains(word)), "{text}: {faults:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let mut config = read(TEXT, "t").unwrap();
        assert_eq!(read(&text(&state(&config), TEXT).unwrap(), "t").unwrap(), config);
        let subsystem = &mut config.subsystems[0];
        subsystem.namespaces.remove(0);
        let group = default_ana_group(&subsystem.nqn, 9);
        subsystem.namespaces.push(DesiredNamespace {
            name: Some("nine".into()),
            uuid: Some(uuid::Uuid::from_u128(7)),
            nguid: Some([8; 16]),
            eui64: Some([9; 8]),
            scsi: inventory::ScsiIdentity {
                serial: Some("S 9".parse().unwrap()),
                naa: Some("5001405000000009".parse().unwrap()),
                ..inventory::ScsiIdentity::default()
            },
            bytes: Some(5 << 20),
            reservations: false,
            group,
            ..DesiredNamespace::new(weft_proto::nvme::types::Nsid(9), "rbd:rbd/nine".into())
        });
        let written = text(&state(&config), TEXT).unwrap();
        assert_eq!(read(&written, "t").unwrap(), config, "{written}");
    }
}
