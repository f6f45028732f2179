//! Results without what says whose they are.

use super::aliases::{AliasKind, Aliases};
use super::fields::{Rule, each_text, rule};
use super::known::Known;
use super::parts;
use super::url;
use super::words::{self, Mode};
use crate::error::Error;
use crate::results::Results;

/// Removed texts of one kind, in one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedTexts {
    /// The kind: `host name`.
    pub kind: &'static str,
    /// The place: `lanes[].url`.
    pub place: String,
    /// The number of removals.
    pub count: usize,
}

/// Results that can be given away.
#[derive(Clone, Debug, PartialEq)]
pub struct Packed {
    /// The results.
    pub results: Results,
    /// The removed texts, by kind and place only.
    pub removed: Vec<RemovedTexts>,
}

/// The replacement of a removed text that has none of its own.
const REMOVED: &str = "removed";

/// Removes names of hosts and users, addresses, serial numbers, paths and secrets. The names in
/// `keep` stay: of lanes, suites and workloads.
///
/// # Errors
/// The results cannot be written as JSON and read again.
pub fn pack(mut results: Results, keep: &[String]) -> Result<Packed, Error> {
    let known = Known::new(keep);
    let mut aliases = Aliases::default();
    aliases.at("published[]");
    (0..known.keep_published(&mut results)).for_each(|_| aliases.removed(AliasKind::Text));
    let wrong = |error: serde_json::Error| Error::Results {
        place: "to be packed".to_owned(),
        problem: error.to_string(),
    };
    let mut value = serde_json::to_value(&results).map_err(wrong)?;
    // Names first, so that commands and sentences in which they stand have the same.
    for turn in 0..3 {
        each_text(&mut value, "", &mut |place, text| {
            let rule = rule(place);
            if turn_of(rule) == turn {
                aliases.at(place);
                *text = applied(rule, text, &known, &mut aliases);
            }
        });
    }
    let results = serde_json::from_value(value).map_err(wrong)?;
    let removed = aliases.into_removed().into_iter();
    let removed =
        removed.map(|((kind, place), count)| RemovedTexts { kind: kind.words(), place, count });
    Ok(Packed { results, removed: removed.collect() })
}

fn turn_of(rule: Option<Rule>) -> u8 {
    match rule {
        Some(Rule::Prose | Rule::Title) => 2,
        Some(Rule::Command) => 1,
        _ => 0,
    }
}

fn applied(rule: Option<Rule>, text: &str, known: &Known, aliases: &mut Aliases) -> String {
    let name = |is_known: bool, prefix: &'static str, aliases: &mut Aliases| match is_known {
        true => text.to_owned(),
        false => aliases.of(AliasKind::Name, prefix, text),
    };
    match rule {
        Some(Rule::Kept) => text.to_owned(),
        Some(Rule::Version) => checked(text, is_version, aliases),
        Some(Rule::System) => system(text),
        Some(Rule::Maker) => checked(text, is_maker, aliases),
        Some(Rule::Module) => checked(text, is_module, aliases),
        Some(Rule::Suite) => name(known.suite(text) || known.word(text), "suite-", aliases),
        Some(Rule::Lane) => name(known.lane(text), "lane-", aliases),
        Some(Rule::Workload) => name(known.workload(text), "workload-", aliases),
        Some(Rule::Title) if known.title(text) => text.to_owned(),
        Some(Rule::Title | Rule::Prose) => words::scrub(text, Mode::Prose, known, aliases),
        Some(Rule::Host) => parts::host(text, aliases),
        Some(Rule::Interface) => match text {
            "lo" => text.to_owned(),
            text => aliases.of(AliasKind::Interface, "nic-", text),
        },
        Some(Rule::Fingerprint) => aliases.of(AliasKind::Fingerprint, "fingerprint-", text),
        Some(Rule::Url) => url::scrub(text, known, aliases),
        Some(Rule::Command) => words::scrub(text, Mode::Command, known, aliases),
        None => checked(text, |_| false, aliases),
    }
}

fn checked(text: &str, is_kept: fn(&str) -> bool, aliases: &mut Aliases) -> String {
    if text.is_empty() || is_kept(text) {
        return text.to_owned();
    }
    aliases.removed(AliasKind::Text);
    REMOVED.to_owned()
}

fn is_version(text: &str) -> bool {
    text.len() <= 40 && text.bytes().all(|it| it.is_ascii_hexdigit() || it == b'.')
}

fn is_module(text: &str) -> bool {
    let is_plain =
        |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || it == b'_' || it == b'-';
    text.len() <= 24 && text.bytes().all(is_plain)
}

/// Makers of machines and hypervisors that many have.
fn is_maker(text: &str) -> bool {
    const MAKERS: [&str; 14] = [
        "a hypervisor",
        "QEMU",
        "Amazon EC2",
        "Google",
        "Google Compute Engine",
        "Microsoft Corporation",
        "VMware, Inc.",
        "innotek GmbH",
        "Xen",
        "Red Hat",
        "Oracle Corporation",
        "DigitalOcean",
        "Hetzner",
        "OpenStack Foundation",
    ];
    MAKERS.contains(&text)
}

/// `Debian GNU/Linux 12 (bookworm), Linux 6.1.0`, without what a build has behind its number.
fn system(text: &str) -> String {
    let words = text.split(' ').map(|word| {
        let is_number = word.starts_with(|first: char| first.is_ascii_digit());
        let end = word.find(['-', '+', '_', '~']).filter(|_| is_number).unwrap_or(word.len());
        &word[..end]
    });
    words.collect::<Vec<_>>().join(" ")
}
