//! The texts in `results.json`, and the rule of each.

use serde_json::Value;

/// The treatment of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It is one of a fixed list, or what a manufacturer or the kernel calls something.
    Kept,
    /// A version or a commit: digits, dots and letters of hexadecimal numbers.
    Version,
    /// The operating system: without what somebody has added to the version of a kernel.
    System,
    /// The maker of a machine: one of those that many have.
    Maker,
    /// The name of a suite.
    Suite,
    /// The name of a lane.
    Lane,
    /// The name of a workload.
    Workload,
    /// The title of a suite, a workload or a lane.
    Title,
    /// A host, perhaps with a port.
    Host,
    /// A network interface.
    Interface,
    /// The module of a driver, or a governor: letters, digits and `_`.
    Module,
    /// A fingerprint.
    Fingerprint,
    /// A URL.
    Url,
    /// A command, or an argument of one.
    Command,
    /// Sentences.
    Prose,
}

/// All texts: where they stand, and their rule. `[]` is each entry of a list.
pub(super) const FIELDS: &[(&str, Rule)] = &[
    ("weft", Rule::Version),
    ("commit", Rule::Version),
    ("command[]", Rule::Command),
    ("suite", Rule::Suite),
    ("title", Rule::Title),
    ("draw[]", Rule::Kept),
    ("reference", Rule::Lane),
    ("machine.name", Rule::Host),
    ("machine.cpu", Rule::Kept),
    ("machine.system", Rule::System),
    ("machine.governors[]", Rule::Module),
    ("machine.mitigations[]", Rule::Kept),
    ("machine.nics[].name", Rule::Interface),
    ("machine.nics[].driver", Rule::Module),
    ("machine.hypervisor", Rule::Maker),
    ("lanes[].name", Rule::Lane),
    ("lanes[].title", Rule::Title),
    ("lanes[].url", Rule::Url),
    ("lanes[].base", Rule::Lane),
    ("lanes[].agents[]", Rule::Host),
    ("lanes[].rival", Rule::Lane),
    ("lanes[].setup[]", Rule::Command),
    ("lanes[].cell.protocol", Rule::Lane),
    ("lanes[].cell.target", Rule::Lane),
    ("lanes[].cell.initiator", Rule::Lane),
    ("skipped[].lane", Rule::Lane),
    ("skipped[].why", Rule::Prose),
    ("skipped[].cell.protocol", Rule::Lane),
    ("skipped[].cell.target", Rule::Lane),
    ("skipped[].cell.initiator", Rule::Lane),
    ("workloads[].name", Rule::Workload),
    ("workloads[].title", Rule::Title),
    ("workloads[].rw", Rule::Lane),
    ("workloads[].open.of", Rule::Workload),
    ("rows[].lane", Rule::Lane),
    ("rows[].workload", Rule::Workload),
    ("rows[].command", Rule::Command),
    ("rows[].remarks[]", Rule::Prose),
    ("rows[].machines[].agent", Rule::Host),
    ("ceiling[].workload", Rule::Workload),
    ("relations[].lane", Rule::Lane),
    ("relations[].to", Rule::Lane),
    ("relations[].workload", Rule::Workload),
    ("relations[].quantity", Rule::Kept),
    ("relations[].estimate.scale", Rule::Kept),
    ("curves[].lane", Rule::Lane),
    ("curves[].workload", Rule::Workload),
    ("curves[].end", Rule::Kept),
    ("preconditioned[].lane", Rule::Lane),
    // Published figures are those of suites that ship with weft, or left out.
    ("published[].source", Rule::Kept),
    ("published[].url", Rule::Kept),
    ("published[].of", Rule::Kept),
    ("published[].workload", Rule::Kept),
    ("published[].metric", Rule::Kept),
    ("published[].figures[].name", Rule::Kept),
    ("published[].figures[].lane", Rule::Kept),
    ("agents[].name", Rule::Host),
    ("agents[].fingerprint", Rule::Fingerprint),
    ("agents[].url", Rule::Url),
    ("agents[].weft", Rule::Version),
    ("agents[].machine.name", Rule::Host),
    ("agents[].machine.cpu", Rule::Kept),
    ("agents[].machine.system", Rule::System),
    ("agents[].machine.governors[]", Rule::Module),
    ("agents[].machine.mitigations[]", Rule::Kept),
    ("agents[].machine.nics[].name", Rule::Interface),
    ("agents[].machine.nics[].driver", Rule::Module),
    ("agents[].machine.hypervisor", Rule::Maker),
    ("agents[].lost", Rule::Prose),
    ("notes[]", Rule::Prose),
];

/// The rule of a place; none: nobody has classified it.
pub(super) fn rule(place: &str) -> Option<Rule> {
    FIELDS.iter().find(|(known, _)| *known == place).map(|(_, rule)| *rule)
}

/// Calls with each text below a place, and the text's own place. Names of members stay.
pub(super) fn each_text(value: &mut Value, place: &str, of: &mut impl FnMut(&str, &mut String)) {
    match value {
        Value::String(text) => of(place, text),
        Value::Array(entries) => {
            let place = format!("{place}[]");
            entries.iter_mut().for_each(|entry| each_text(entry, &place, of));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let dot = if place.is_empty() { "" } else { "." };
                each_text(member, &format!("{place}{dot}{name}"), of);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
