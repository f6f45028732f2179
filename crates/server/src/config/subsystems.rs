//! Subsystems in a configuration, with their namespaces and hosts.

use super::authentication::authentication;
use super::desired::{DesiredNamespace, DesiredSubsystem};
use super::faults::Finder;
use super::files::Files;
use super::tables::{At, NamespaceTable, ScsiTable, SubsystemTable, Text};
use crate::values::{max_queues, parse_nqn};
use std::collections::HashSet;
use std::fmt::Display;
use std::hash::Hash;
use std::path::Path;
use std::str::FromStr;
use uuid::Uuid;
use weft_block::{grammar, units};
use weft_endpoint::inventory::{Access, DEFAULT_GROUP, Naa, ScsiIdentity, SubsystemNumbers};
use weft_endpoint::source::discovered;
use weft_proto::iscsi::text::Name;
use weft_proto::limits::ANA_GROUPS_MAX;
use weft_proto::nvme::types::{Nqn, Nsid};

fn host(name: &Text, finder: &mut Finder<'_>) -> Option<Nqn> {
    finder.take(name.place(), parse_nqn(name))
}

pub(super) fn initiator(name: &Text, finder: &mut Finder<'_>) -> Option<Name> {
    let named = Name::new(name).map_err(|e| format!("\"{}\" is not an iSCSI name: {e}", **name));
    finder.take(name.place(), named)
}

fn access<T: Ord + Clone>(
    names: Option<&Vec<Text>>,
    finder: &mut Finder<'_>,
    parse: impl Fn(&Text, &mut Finder<'_>) -> Option<T>,
) -> Access<T> {
    names
        .map(|names| names.iter().filter_map(|name| parse(name, finder)).collect::<Vec<_>>())
        .into()
}

/// An ANA group.
pub(super) fn group(group: &At<u32>, finder: &mut Finder<'_>) -> u32 {
    if !(1..=ANA_GROUPS_MAX).contains(&**group) {
        finder.add(
            group.place(),
            format!("{} is not an ANA group: use 1 to {ANA_GROUPS_MAX}", **group),
        );
    }
    **group
}

/// The subsystems of a file, at least one. `shared`: other processes serve the same sources.
pub(super) fn subsystems(
    tables: &[SubsystemTable],
    (directory, shared): (&Path, bool),
    finder: &mut Finder<'_>,
) -> Vec<DesiredSubsystem> {
    Names::new(directory, shared).subsystems(tables, finder)
}

/// What must differ in the whole file.
struct Names<'a> {
    /// Where paths of files begin.
    directory: &'a Path,
    nqns: HashSet<String>,
    uuids: HashSet<Uuid>,
    names: HashSet<String>,
    naas: HashSet<Naa>,
    files: Files,
}

impl<'a> Names<'a> {
    fn new(directory: &'a Path, shared: bool) -> Self {
        let (nqns, uuids, names, naas) = Default::default();
        Self { directory, nqns, uuids, names, naas, files: Files::new(shared) }
    }

    fn subsystems(
        &mut self,
        tables: &[SubsystemTable],
        finder: &mut Finder<'_>,
    ) -> Vec<DesiredSubsystem> {
        if tables.is_empty() {
            finder.add(0..0, "there is no subsystem to serve: give a [[subsystem]] with an nqn");
        }
        tables.iter().filter_map(|table| self.subsystem(table, finder)).collect()
    }

    fn subsystem(
        &mut self,
        table: &SubsystemTable,
        finder: &mut Finder<'_>,
    ) -> Option<DesiredSubsystem> {
        once(&mut self.nqns, table.nqn.to_string(), &table.nqn, "subsystems have the NQN", finder);
        let mut nsids = HashSet::new();
        let mut namespaces = Vec::new();
        for namespace in &table.namespace {
            once(
                &mut nsids,
                *namespace.nsid,
                &namespace.nsid,
                "namespaces of a subsystem have the nsid",
                finder,
            );
            namespaces.extend(self.namespace(namespace, finder));
        }
        let nqn = host(&table.nqn, finder)?;
        if nqn == Nqn::discovery() {
            finder.add(
                table.nqn.place(),
                format!("{nqn} is the name of discovery: give the subsystem another NQN"),
            );
        }
        let hosts = access(table.hosts.as_ref(), finder, host);
        let initiators = access(table.initiators.as_ref(), finder, initiator);
        let numbers = numbers(table, finder);
        let authentication = table
            .authentication
            .as_ref()
            .map(|table| authentication(table, self.directory, finder));
        Some(DesiredSubsystem { nqn, hosts, initiators, numbers, authentication, namespaces })
    }

    fn namespace(
        &mut self,
        table: &NamespaceTable,
        finder: &mut Finder<'_>,
    ) -> Option<DesiredNamespace> {
        let nsid = Nsid(*table.nsid);
        if nsid.0 == 0 || nsid == Nsid::ALL {
            finder.add(
                table.nsid.place(),
                format!("{nsid} is not a namespace identifier: use 1 to 4294967294"),
            );
        }
        let identities = [&table.uuid, &table.nguid, &table.eui64].into_iter().flatten();
        let identity = identities.chain(lasting(&table.scsi)).next();
        if let Some(identity) = identity.filter(|_| forgets(&table.source)) {
            finder.add(identity.place(), FORGETS);
        }
        let source = source(&table.source, table.read_only, finder);
        self.files.add(&source, &table.source, finder);
        if let Some(name) = &table.name {
            once(&mut self.names, name.to_string(), name, "namespaces have the name", finder);
        }
        let uuid = table.uuid.as_ref().and_then(|text| {
            let parsed = Uuid::parse_str(text)
                .map_err(|_| format!("\"{}\" is not a UUID: `uuidgen` makes one", **text));
            let uuid = finder.take(text.place(), parsed)?;
            once(&mut self.uuids, uuid, text, "namespaces have the UUID", finder);
            Some(uuid)
        });
        Some(DesiredNamespace {
            nsid,
            source,
            paths: paths(&table.paths, finder),
            name: table.name.as_deref().cloned(),
            uuid,
            nguid: table.nguid.as_ref().and_then(|text| digits("nguid", text, finder)),
            eui64: table.eui64.as_ref().and_then(|text| digits("eui64", text, finder)),
            scsi: scsi(&table.scsi, &mut self.naas, finder),
            bytes: table
                .size
                .as_ref()
                .and_then(|size| finder.take(size.place(), units::parse_size(size))),
            group: table.ana_group.as_ref().map_or(DEFAULT_GROUP, |of| group(of, finder)),
            reservations: table.reservations.unwrap_or(true),
            hosts: access(table.hosts.as_ref(), finder, host),
            initiators: access(table.initiators.as_ref(), finder, initiator),
        })
    }
}

/// Why a RAM disk has no fixed identity.
pub const FORGETS: &str = "a RAM disk is empty after a restart, and hosts would take it for the same disk; add volatile=on to its source if that is fine";

/// Returns whether a source, or a part of it, is empty after a restart, without anybody's consent.
pub fn forgets(source: &str) -> bool {
    let forgets = |url: &str| {
        url.starts_with("ram:") && !grammar::options(url).1.contains(&("volatile", "on"))
    };
    grammar::sources(source).iter().any(|source| forgets(source.url))
}

/// The URL of a source, with `readonly:` where it is not to be written to.
fn source(url: &Text, read_only: bool, finder: &mut Finder<'_>) -> String {
    finder.take(url.place(), weft_endpoint::check(url));
    if read_only { format!("readonly:{}", **url) } else { url.to_string() }
}

/// URLs of further paths to a source, or the word for those that are to be discovered.
fn paths(urls: &[Text], finder: &mut Finder<'_>) -> Vec<String> {
    for url in urls.iter().filter(|url| discovered::asks(url).is_none()) {
        if !url.contains("://") {
            let text =
                format!("\"{}\" cannot be a path; a path is a URL of NVMe, iSCSI or NBD", **url);
            finder.add(url.place(), text);
        } else {
            finder.take(url.place(), weft_endpoint::check(url));
        }
    }
    urls.iter().map(|url| url.to_string()).collect()
}

fn once<T: Hash + Eq + ToString, U>(
    seen: &mut HashSet<T>,
    value: T,
    at: &At<U>,
    what: &str,
    finder: &mut Finder<'_>,
) {
    let text = value.to_string();
    if !seen.insert(value) {
        finder.add(at.place(), format!("two {what} {text}: change one of them"));
    }
}

fn digits<const N: usize>(what: &str, text: &Text, finder: &mut Finder<'_>) -> Option<[u8; N]> {
    let bytes = from_digits(text)
        .ok_or_else(|| format!("{what} \"{}\" is not {} hexadecimal digits", **text, 2 * N));
    finder.take(text.place(), bytes)
}

/// Bytes from hexadecimal digits; dashes between them do not count.
pub fn from_digits<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let digit = |of: u8| char::from(of).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
    }
    Some(bytes)
}

// Names of disks in a configuration: numbers of subsystems, and names of logical units.

/// Serial and model number of a subsystem, and I/O queues of its controllers.
fn numbers(table: &SubsystemTable, finder: &mut Finder<'_>) -> SubsystemNumbers {
    SubsystemNumbers {
        serial: parse("serial", table.serial.as_ref(), finder),
        model: parse("model", table.model.as_ref(), finder),
        queues: table
            .max_queues
            .as_ref()
            .and_then(|number| finder.take(number.place(), max_queues((**number).into()))),
    }
}

/// The names of a logical unit; `naas`: the NAA identifiers of those before it.
fn scsi(table: &ScsiTable, naas: &mut HashSet<Naa>, finder: &mut Finder<'_>) -> ScsiIdentity {
    let naa: Option<Naa> = parse("naa", table.naa.as_ref(), finder);
    if let (Some(naa), Some(at)) = (&naa, &table.naa)
        && !naas.insert(naa.clone())
    {
        let text = format!("two namespaces have the NAA identifier {naa}: change one of them");
        finder.add(at.place(), text);
    }
    ScsiIdentity {
        serial: parse("serial", table.serial.as_ref(), finder),
        vendor: parse("vendor", table.vendor.as_ref(), finder),
        product: parse("product", table.product.as_ref(), finder),
        naa,
        t10_id: parse("t10_id", table.t10_id.as_ref(), finder),
    }
}

/// What is there by which initiators would take a disk that has come back empty for the one of
/// before.
fn lasting(table: &ScsiTable) -> impl Iterator<Item = &Text> {
    [&table.serial, &table.naa, &table.t10_id].into_iter().flatten()
}

fn parse<T: FromStr<Err: Display>>(
    key: &str,
    text: Option<&At<String>>,
    finder: &mut Finder<'_>,
) -> Option<T> {
    let text = text?;
    finder.take(text.place(), text.parse().map_err(|e| format!("{key} {e}")))
}

#[cfg(test)]
mod tests {
    use super::super::tests::read;
    use crate::served::ServedState;
    use crate::served::difference::between;
    use std::path::Path;
    use weft_endpoint::inventory::Inventory;

    fn text(subsystem: &str, source: &str, namespace: &str) -> String {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example:a\"\n{subsystem}\n[[subsystem.namespace]]\nnsid = 1\nsource = \"{source}\"\n{namespace}"
        )
    }

    fn mistakes(text: &str) -> Vec<String> {
        let said = read(text, "weft.toml", Path::new(""));
        said.map_or_else(|faults| faults.lines().to_vec(), |_| Vec::new())
    }

    #[test]
    fn names_that_do_not_fit_are_told_in_one_sentence_each() {
        let all = "scsi = { serial = \"\", vendor = \"too long a vendor\", product = \" x\", naa = \"60\", t10_id = \"é\" }";
        let said = mistakes(&text("serial = \"more than twenty characters\"", "null:1MiB", all));
        let starts = ["serial \"more", "serial \"\"", "vendor", "product", "naa", "t10_id"];
        assert_eq!(said.len(), starts.len(), "{said:?}");
        for (said, start) in said.iter().zip(starts) {
            assert!(said.split(": ").nth(1).is_some_and(|it| it.starts_with(start)), "{said}");
        }
        for wrong in ["0", "1025"] {
            let said = mistakes(&text(&format!("max_queues = {wrong}"), "null:1MiB", ""));
            assert!(said[0].contains("1 to 1024 I/O queues"), "{said:?}");
        }
        let serial = "scsi = { serial = \"a\" }";
        assert!(mistakes(&text("", "ram:1MiB", serial))[0].contains("a RAM disk is empty"));
        assert!(mistakes(&text("", "ram:1MiB,volatile=on", serial)).is_empty());
        assert!(mistakes(&text("", "ram:1MiB", "scsi = { product = \"a\" }")).is_empty());
        let naa = "scsi = { naa = \"5001405000000001\" }\n";
        let two = format!(
            "{}[[subsystem.namespace]]\nnsid = 2\nsource = \"null:2MiB\"\n{naa}",
            text("", "null:1MiB", naa)
        );
        let said = mistakes(&two);
        assert!(said[0].contains("two namespaces have the NAA identifier 5001"), "{said:?}");
    }

    #[test]
    fn other_names_are_differences() {
        let state = |subsystem: &str, namespace: &str| {
            let text = text(subsystem, "null:1MiB", namespace);
            ServedState::of(&read(&text, "weft.toml", Path::new("")).unwrap())
        };
        let before = state("", "");
        let told = |after: &ServedState| {
            let found = between(&before, after, (&Inventory::default(), &[]));
            found.into_iter().map(|one| one.text).collect::<Vec<_>>()
        };
        assert_eq!(
            told(&state("serial = \"A1\"", "")),
            [
                "give hosts that connect to nqn.2026-01.example:a the serial number A1, the model weft and up to 128 I/O queues"
            ]
        );
        assert!(told(&state("max_queues = 8", ""))[0].ends_with("and up to 8 I/O queues"));
        assert_eq!(
            told(&state("", "scsi = { vendor = \"x\" }")),
            ["change the identity of namespace 1 of nqn.2026-01.example:a"]
        );
    }
}
