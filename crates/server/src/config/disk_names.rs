//! Names of disks in a configuration: numbers of subsystems, and names of logical units.

use super::faults::Finder;
use super::tables::{At, ScsiTable, SubsystemTable, Text};
use crate::values::max_queues;
use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;
use weft_endpoint::inventory::{Naa, ScsiIdentity, SubsystemNumbers};

/// Serial and model number of a subsystem, and I/O queues of its controllers.
pub(super) fn numbers(table: &SubsystemTable, finder: &mut Finder<'_>) -> SubsystemNumbers {
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
pub(super) fn scsi(
    table: &ScsiTable,
    naas: &mut HashSet<Naa>,
    finder: &mut Finder<'_>,
) -> ScsiIdentity {
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
pub(super) fn lasting(table: &ScsiTable) -> impl Iterator<Item = &Text> {
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
    use crate::config::tests::read;
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
