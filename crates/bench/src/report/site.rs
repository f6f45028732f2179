//! A site of many studies: an index and the report of each, as files that need nothing else.

use super::first::{headline, theme_switch};
use super::markup::{DOCTYPE, Markup, Raw, html};
use super::tables::folded;
use super::units::{self, count, date, or_none};
use super::{findings_of, html as report, theme};
use crate::Error;
use crate::results::{Lane, Results, Row};
use std::collections::BTreeMap;

/// A file of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFile {
    /// Its path below the site, with `/`.
    pub path: String,
    /// Its content.
    pub content: String,
}

/// Name of the index, which stands last.
pub const INDEX: &str = "index.html";

/// A study in the index.
struct Entry {
    /// Name of its directory, and of its place in the index.
    id: String,
    results: Results,
}

/// The files of a site of these studies: the report and the results of each, and the index. The
/// order of the studies does not matter, and one that is there twice counts once.
///
/// # Errors
/// A study cannot be written as JSON.
pub fn site(studies: Vec<Results>) -> Result<Vec<SiteFile>, Error> {
    let mut entries = BTreeMap::new();
    let mut pages = Vec::new();
    for results in studies {
        let json = results.to_json()?;
        let id = id_of(&results, &json);
        // The latest comes first.
        let key = (core::cmp::Reverse(results.started_s), id.clone());
        if entries.contains_key(&key) {
            continue;
        }
        let page = |name: &str, content: String| SiteFile { path: format!("{id}/{name}"), content };
        pages.push(page("report.html", report(&results)));
        pages.push(page("results.json", json + "\n"));
        entries.insert(key, Entry { id, results });
    }
    let entries: Vec<Entry> = entries.into_values().collect();
    pages.sort_by(|a, b| a.path.cmp(&b.path));
    pages.push(SiteFile { path: INDEX.to_owned(), content: index(&entries) });
    Ok(pages)
}

/// `2026-11-24-null-…`: the day, the suite, and a hash of the content. Only letters, digits and
/// hyphens, whatever the suite is called.
fn id_of(results: &Results, json: &str) -> String {
    let day = date(results.started_s);
    let day = day.split(' ').next().unwrap_or_default();
    let plain = |letter: char| {
        let letter = letter.to_ascii_lowercase();
        if letter.is_ascii_alphanumeric() { letter } else { '-' }
    };
    let suite: String = results.suite.chars().map(plain).take(32).collect();
    format!("{day}-{suite}-{:016x}", hash(json.as_bytes()))
}

/// FNV-1a of 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A property of a study, as text.
type Property = fn(&Results) -> String;

/// By what the index lists studies, and how each calls it.
const LISTS: [(&str, Property); 4] = [
    ("Machines", |results| machine(results).to_owned()),
    ("Systems", |results| or_unknown(&results.machine.system).to_owned()),
    ("Networks", network),
    ("Versions", version),
];

fn or_unknown(text: &str) -> &str {
    if text.is_empty() { "unknown" } else { text }
}

fn machine(results: &Results) -> &str {
    or_unknown(&results.machine.name)
}

/// `weft 0.1.0 (1a2b3c4)`.
fn version(results: &Results) -> String {
    match &results.commit {
        Some(commit) => format!("weft {} ({commit})", results.weft),
        None => format!("weft {}", results.weft),
    }
}

/// The network between the load generator and the targets.
fn network(results: &Results) -> String {
    let is_apart = !results.agents.is_empty() || results.lanes.iter().any(is_elsewhere);
    if !is_apart {
        return "loopback".to_owned();
    }
    let fastest = results.machine.nics.iter().filter(|nic| nic.driver.is_some());
    match fastest.max_by_key(|nic| nic.mbits) {
        Some(nic) => {
            let driver = nic.driver.as_deref().unwrap_or_default();
            nic.mbits.map_or_else(
                || driver.to_owned(),
                |mbits| format!("{} Gbit/s, {driver}", f64::from(mbits) / 1e3),
            )
        }
        None => "a network of unknown rate".to_owned(),
    }
}

/// Returns whether a lane leads to another machine.
fn is_elsewhere(lane: &Lane) -> bool {
    let Some((_, rest)) = lane.url.split_once("://") else { return false };
    let host = rest.split(['/', '?', ',']).next().unwrap_or_default();
    !["127.", "localhost", "[::1]"].iter().any(|here| host.starts_with(here)) && !host.is_empty()
}

fn index(entries: &[Entry]) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "weft study: " (entries.len()) " studies" }
                style { (Raw(theme::style_sheet())) }
            }
            body {
                div.wrap {
                    main {
                        header {
                            div.top { span { "weft study · " (entries.len()) " studies" } (theme_switch()) }
                            h1 { "Studies of storage over the network" }
                        }
                        div.answers { @for (name, of) in LISTS { (list(name, of, entries)) } }
                        @for entry in entries { (study(entry)) }
                    }
                    footer { "Made by weft study publish. These files need no network and no script." }
                }
            }
        }
    };
    page.into_string()
}

/// The studies by one property.
fn list(name: &str, of: Property, entries: &[Entry]) -> Markup {
    let mut by = BTreeMap::<String, Vec<&Entry>>::new();
    for entry in entries {
        by.entry(of(&entry.results)).or_default().push(entry);
    }
    html! {
        section {
            h2 { (name) }
            @for (value, entries) in by {
                h3 { (value) }
                ul {
                    @for entry in entries {
                        li { a href=(format!("#{}", entry.id)) { (date(entry.results.started_s)) } ", " (entry.results.suite) }
                    }
                }
            }
        }
    }
}

/// A study: its headline, where it was measured, and its rows.
fn study(entry: &Entry) -> Markup {
    let Entry { id, results } = entry;
    let facts = [
        date(results.started_s),
        format!("suite {}{}", results.suite, if results.quick { " (quick)" } else { "" }),
        machine(results).to_owned(),
        or_unknown(&results.machine.system).to_owned(),
        network(results),
        version(results),
    ];
    html! {
        section id=(id) {
            h2 { a href=(format!("{id}/report.html")) { (headline(results, &findings_of(results))) } }
            p.hint { (facts.join(" · ")) }
            (folded("Numbers and their commands", &format!("Rows of {id}"), rows(results)))
            p.hint { a href=(format!("{id}/results.json")) { "results.json" } }
        }
    }
}

fn rows(results: &Results) -> Markup {
    let target = |row: &Row| or_none(row.target.map(|cpu| cpu.total_ns()), units::micros);
    html! {
        thead {
            tr {
                @for name in ["Workload", "Lane"] { th.word scope="col" { (name) } }
                @for name in ["IOPS", "95 % interval", "p50, µs", "init. CPU, µs", "target CPU, µs"] { th scope="col" { (name) } }
                th.word scope="col" { "Command" }
            }
        }
        tbody {
            @for row in &results.rows {
                tr.first {
                    th.word scope="row" { (row.workload) }
                    td.word { (row.lane) }
                    td.strong { (count(row.iops)) }
                    td { (units::interval(row)) }
                    td { (units::latency(row.latency.p50_ns)) }
                    td { (units::micros(row.initiator.total_ns())) }
                    td { (target(row)) }
                    td.word { code { (row.command) } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(started_s: u64, suite: &str) -> Results {
        let value = serde_json::json!({ "schema": crate::results::SCHEMA, "weft": "1", "started_s": started_s, "took_s": 0.0, "quick": false,
            "suite": suite, "machine": { "name": "<m>", "cpu": "c", "cores": 2, "memory_bytes": 0, "system": "x" },
            "lanes": [{ "name": "l", "title": "L", "url": "nbd://127.0.0.1:1/x" }], "workloads": [], "rows": [], "ceiling": [], "notes": [] });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn the_same_studies_make_the_same_bytes_in_any_order() {
        let [a, b] = [study(0, "null"), study(90_000, "../a b")];
        let once = site(vec![a.clone(), b.clone()]).unwrap();
        let again = site(vec![b, a.clone(), a]).unwrap();
        assert_eq!(once, again);
        let places: Vec<&str> = once.iter().map(|page| page.path.as_str()).collect();
        assert!(
            places.len() == 5
                && places[0].starts_with("1970-01-01-null-")
                && places[2].starts_with("1970-01-02----a-b-")
                && places[4] == INDEX,
            "{places:?}"
        );
    }

    #[test]
    fn the_index_leads_to_each_study_and_loads_nothing() {
        let pages = site(vec![study(0, "null"), study(90_000, "other")]).unwrap();
        let index = &pages.last().unwrap().content;
        for page in &pages[..4] {
            assert!(index.contains(&format!("href=\"{}\"", page.path)), "{}", page.path);
        }
        for (name, _) in LISTS {
            assert!(index.contains(&format!("<h2>{name}</h2>")), "{name}");
        }
        assert!(index.contains("<h3>&lt;m&gt;</h3>") && index.contains("<h3>loopback</h3>"));
        assert!(!index.contains("<script") && !index.contains("http"), "{index}");
        let (later, earlier) =
            (index.find("section id=\"1970-01-02"), index.find("section id=\"1970-01-01"));
        assert!(later < earlier && later.is_some());
    }

    #[test]
    fn a_network_is_what_lies_between() {
        let mut results = study(0, "s");
        results.lanes[0].url = "nvme+tcp://[::1]:4420/n".into();
        assert_eq!(network(&results), "loopback");
        results.lanes[0].url = "nvme+tcp://192.0.2.7/n".into();
        assert_eq!(network(&results), "a network of unknown rate");
        results.machine.nics = vec![crate::results::Nic {
            driver: Some("mlx5_core".into()),
            mbits: Some(25_000),
            ..crate::results::Nic::default()
        }];
        assert_eq!(network(&results), "25 Gbit/s, mlx5_core");
    }
}
