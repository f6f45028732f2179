//! What a configuration says of the names of disks: numbers of subsystems, and names of logical
//! units.

use super::faults::Finder;
use super::tables::{At, ScsiTable, SubsystemTable, Text};
use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;
use weft_endpoint::inventory::{Naa, ScsiIdentity, SubsystemNumbers};

/// Serial and model number of a subsystem.
pub(super) fn numbers(table: &SubsystemTable, finder: &mut Finder<'_>) -> SubsystemNumbers {
    SubsystemNumbers {
        serial: parse("serial", table.serial.as_ref(), finder),
        model: parse("model", table.model.as_ref(), finder),
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
