//! Identifiers of hosts.

use super::faults::Finder;
use super::tables::HostIdentifierTable;
use crate::values::parse_nqn;
use std::collections::BTreeMap;
use uuid::Uuid;
use weft_endpoint::limits::HOST_IDENTIFIERS_MAX;
use weft_proto::nvme::types::{Id128, Nqn};

/// Which host has which identifier, by the tables.
pub fn host_identifiers(
    tables: &[HostIdentifierTable],
    finder: &mut Finder<'_>,
) -> BTreeMap<Nqn, Id128> {
    let mut all = BTreeMap::new();
    for HostIdentifierTable { host, id } in tables {
        let Some(nqn) = finder.take(host.place(), parse_nqn(host)) else { continue };
        let parsed = Uuid::parse_str(id).ok().filter(|id| !id.is_nil());
        let wrong =
            || format!("\"{}\" is not a UUID other than zero, as in /etc/nvme/hostid", **id);
        let Some(uuid) = finder.take(id.place(), parsed.ok_or_else(wrong)) else { continue };
        let uuid = Id128(*uuid.as_bytes());
        if all.values().any(|other| *other == uuid) {
            finder.add(
                id.place(),
                format!("two hosts have the identifier {uuid}: give each its own"),
            );
        }
        if all.insert(nqn, uuid).is_some() {
            finder.add(
                host.place(),
                format!("the host \"{}\" has two identifiers: remove one of them", **host),
            );
        }
        if all.len() == HOST_IDENTIFIERS_MAX + 1 {
            finder.add(
                host.place(),
                format!("at most {HOST_IDENTIFIERS_MAX} hosts can have an identifier"),
            );
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::config::tests::read;
    use std::path::Path;

    fn table(host: &str, id: &str) -> String {
        format!("[[host_identifier]]\nhost = \"nqn.2026-01.example:{host}\"\nid = \"{id}\"\n")
    }

    #[test]
    fn each_host_has_one_identifier_of_its_own() {
        const ONE: &str = "11111111-2222-3333-4444-555555555555";
        let head =
            "listen = [\"127.0.0.1:4420\"]\n[[subsystem]]\nnqn = \"nqn.2026-01.example:s\"\n";
        let of = |tables: &str| read(&format!("{head}{tables}"), "t", Path::new("/"));
        let desired = of(&table("a", ONE)).unwrap();
        assert_eq!(
            desired.identifiers.values().map(ToString::to_string).collect::<Vec<_>>(),
            [ONE]
        );
        for (tables, word) in [
            (table("a", ONE) + &table("b", ONE), "two hosts have the identifier"),
            (table("a", ONE) + &table("a", &ONE.replace('1', "2")), "has two identifiers"),
            (table("a", "x"), "not a UUID"),
            (table("a", "00000000-0000-0000-0000-000000000000"), "other than zero"),
        ] {
            let faults = of(&tables).unwrap_err();
            assert!(faults.lines().iter().any(|line| line.contains(word)), "{faults:?}");
        }
    }
}
