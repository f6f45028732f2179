//! The options of fio 3.33, and their support: the table in `options.txt`.

use super::number::Kind;
use crate::import::OptionSupport;
use std::fmt::Write as _;
use std::sync::LazyLock;

/// An option of fio.
#[derive(Clone, Debug)]
pub struct FioOption {
    /// Its name and its aliases.
    pub names: Vec<&'static str>,
    /// Its subject: `device`, `zoned`, `file`, `process`, `report`, `removed`, or the engine that
    /// has it.
    pub concerns: &'static str,
    /// Its support.
    pub answer: OptionSupport,
    /// Files among fio's examples that have it.
    pub examples: u32,
    /// Why, or with which limits.
    pub note: &'static str,
    /// The numbers in its value.
    pub(super) kind: Kind,
    /// Values with which it asks for nothing, or for what weft does anyway.
    harmless: Vec<&'static str>,
}

/// All options, in fio's order; those of its engines at the end.
static OPTIONS: LazyLock<Vec<FioOption>> = LazyLock::new(|| {
    let lines = include_str!("options.txt").lines();
    lines.filter(|line| !line.starts_with('#') && !line.is_empty()).map(FioOption::parse).collect()
});

/// Subjects of the options that are not of an engine.
const GENERAL: [&str; 6] = ["device", "zoned", "file", "process", "report", "removed"];

impl FioOption {
    /// All options.
    pub fn all() -> &'static [Self] {
        &OPTIONS
    }

    /// The option with this name or alias.
    pub fn named(name: &str) -> Option<&'static Self> {
        OPTIONS.iter().find(|option| option.names.contains(&name))
    }

    /// A line of the table.
    fn parse(line: &'static str) -> Self {
        let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
        let [names, kind, concerns, answer, harmless, examples, note] = cells[..] else {
            panic!("seven cells: {line}")
        };
        Self {
            names: names.split(',').collect(),
            concerns,
            answer: match answer {
                "yes" => OptionSupport::Honoured,
                "no" => OptionSupport::Refused,
                "left" => OptionSupport::LeftOut,
                _ => panic!("an answer: {line}"),
            },
            examples: examples.parse().expect("a number of files"),
            note,
            kind: match kind {
                "t" => Kind::Text,
                "n" | "f" => Kind::Number,
                "s" => Kind::Seconds,
                "u" => Kind::Micros,
                _ => panic!("a kind of numbers: {line}"),
            },
            harmless: harmless.split(',').filter(|value| !value.is_empty()).collect(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.names[0]
    }

    /// Returns whether only an engine of fio has it.
    pub fn is_of_engine(&self) -> bool {
        !GENERAL.contains(&self.concerns)
    }

    /// Returns whether a value asks for nothing, or for what weft does anyway.
    pub(super) fn is_harmless(&self, value: &str) -> bool {
        self.harmless.contains(&value)
    }
}

/// The options as tables of `docs/bench.md`.
pub fn tables() -> String {
    let mut text = String::new();
    let of = |concerns: &[&str], answer| {
        let fits = |o: &&FioOption| o.answer == answer && concerns.contains(&o.concerns);
        FioOption::all().iter().filter(fits).count()
    };
    let device = ["device"];
    let (honoured, refused) =
        (of(&device, OptionSupport::Honoured), of(&device, OptionSupport::Refused));
    let _ = writeln!(
        text,
        "{honoured} of the {} options that concern a block device are honoured ({} %).\n",
        honoured + refused,
        honoured * 100 / (honoured + refused)
    );
    let with = |answer| FioOption::all().iter().filter(move |o| o.answer == answer);
    row(&mut text, ["honoured", "concerns", "remarks"]);
    row(&mut text, ["---"; 3]);
    with(OptionSupport::Honoured).for_each(|o| row(&mut text, [&names(o), o.concerns, o.note]));
    text.push('\n');
    row(&mut text, ["refused", "concerns", "examples", "reason"]);
    row(&mut text, ["---"; 4]);
    // The most used options come first.
    let mut refused: Vec<_> = with(OptionSupport::Refused).collect();
    refused.sort_by_key(|option| core::cmp::Reverse(option.examples));
    for option in refused {
        let examples = option.examples.to_string();
        row(&mut text, [&names(option), option.concerns, &examples, option.note]);
    }
    text.push('\n');
    row(&mut text, ["meaningless here", "concerns", "reason"]);
    row(&mut text, ["---"; 3]);
    with(OptionSupport::LeftOut).for_each(|o| row(&mut text, [&names(o), o.concerns, o.note]));
    text
}

fn names(option: &FioOption) -> String {
    option.names.iter().map(|name| format!("`--{name}`")).collect::<Vec<_>>().join(", ")
}

fn row<const N: usize>(text: &mut String, cells: [&str; N]) {
    match cells.contains(&"---") {
        true => _ = writeln!(text, "|{}|", cells.join("|")),
        false => _ = writeln!(text, "| {} |", cells.join(" | ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use weft_testing::programs::{command, have};

    #[test]
    fn names_are_there_once() {
        let mut seen = BTreeSet::new();
        for name in FioOption::all().iter().flat_map(|option| &option.names) {
            assert!(seen.insert(*name), "{name} is there twice");
        }
        assert_eq!(FioOption::named("blocksize").map(FioOption::name), Some("bs"));
        assert!(FioOption::named("banana").is_none());
    }

    #[test]
    fn what_is_not_honoured_says_why() {
        for option in FioOption::all() {
            assert!(
                option.answer == OptionSupport::Honoured || !option.note.is_empty(),
                "{option:?}"
            );
        }
    }

    #[test]
    fn most_options_that_concern_a_device_are_honoured() {
        let of = |answer| {
            let fits = |o: &&FioOption| o.concerns == "device" && o.answer == answer;
            FioOption::all().iter().filter(fits).count()
        };
        let (honoured, refused) = (of(OptionSupport::Honoured), of(OptionSupport::Refused));
        assert!(honoured * 100 >= 70 * (honoured + refused), "{honoured} honoured, {refused} not");
    }

    /// The output of fio for an argument.
    fn printed(argument: &str) -> String {
        let output = command("fio").arg(argument).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Options as fio itself lists them.
    fn options_of(argument: &str) -> Vec<String> {
        let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
        let text = printed(argument);
        text.lines().filter(|line| !line.contains(" has no ")).filter_map(name).collect()
    }

    #[test]
    fn the_table_has_every_option_of_fio() {
        if !have(&["fio"]) {
            return;
        }
        let version = printed("--version");
        if version.trim() != "fio-3.33" {
            return weft_testing::skip(format!("the table is of fio 3.33, not of {version}"));
        }
        let mut all = options_of("--cmdhelp");
        assert!(all.len() > 200, "{all:?}");
        for engine in printed("--enghelp").lines().skip(1).map(str::trim) {
            all.extend(options_of(&format!("--enghelp={engine}")));
        }
        let missing: Vec<_> =
            all.iter().filter(|name| FioOption::named(name.as_str()).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
