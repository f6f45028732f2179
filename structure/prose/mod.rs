//! Prose that reads like a translation, as a ratchet.
//!
//! `prose/rules.rs` has the patterns. `prose.txt` says how many places each area still has: the
//! pages, the help, the messages and comments of each crate. A number may not grow. When it has
//! become smaller, lower it: `cargo test -p structure prose::written -- --ignored` writes the file.
//! `cargo test -p structure prose::shown -- --ignored --nocapture` shows all places.

mod rules;
mod rust;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use rules::Fault;
use rust::Reader;

use crate::{demand, files, numbers};

/// For each area: the places that it may have.
const COUNTS: &str = include_str!("../prose.txt");

/// First lines of the file.
const HEAD: &str =
    "# Places that read like a translation, of each area. Numbers may fall only. See prose.rs.\n";

/// Places that a failure names if git does not tell which ones are new.
const NAMED_MAX: usize = 40;

/// A fault and its file.
type Place = (String, Fault);

/// All faults by their areas.
fn places() -> BTreeMap<String, Vec<Place>> {
    let mut areas = BTreeMap::<String, Vec<Place>>::new();
    // Programs wrote the reports.
    let pages = files::markdown().into_iter().filter(|(path, _)| !path.contains("/reports/"));
    for (path, text) in pages {
        let area = areas.entry(page_area(&path).to_owned()).or_default();
        area.extend(page_faults(&path, &text).into_iter().map(|fault| (path.clone(), fault)));
    }
    for (path, text) in files::rust() {
        for (reader, fault) in rust::faults(&path, &text) {
            areas.entry(rust_area(&path, reader)).or_default().push((path.clone(), fault));
        }
    }
    areas
}

/// The area of a page.
fn page_area(path: &str) -> &'static str {
    match path {
        "CHANGELOG.md" => "changelog",
        _ if path.starts_with("docs/decisions/") => "decisions",
        _ if path.starts_with("docs/study") => "study",
        "README.md" | "CONTRIBUTING.md" | "SECURITY.md" => "docs",
        _ if path.starts_with("docs/") => "docs",
        _ => "pages",
    }
}

/// The area of a text in Rust.
fn rust_area(path: &str, reader: Reader) -> String {
    let mut parts = path.split('/');
    let first = parts.next().unwrap_or_default();
    let krate = if first == "crates" { parts.next().unwrap_or_default() } else { first };
    match reader {
        Reader::Help => "help".to_owned(),
        Reader::Messages => format!("messages {krate}"),
        Reader::Public => format!("public {krate}"),
        Reader::Other => format!("other {krate}"),
    }
}

/// The faults of a page.
fn page_faults(path: &str, text: &str) -> Vec<Fault> {
    let lines: Vec<_> = text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
    let blocks = text::blocks(&lines);
    let entries = blocks.iter().filter(|_| path == "CHANGELOG.md").filter_map(rules::entry);
    blocks.iter().flat_map(|block| rules::faults(block, false)).chain(entries).collect()
}

#[test]
fn prose_becomes_plainer() {
    let areas = places();
    let mut counts = numbers(COUNTS);
    let mut faults = Vec::new();
    let added = areas
        .iter()
        .any(|(area, places)| places.len() > counts.get(area.as_str()).copied().unwrap_or(0))
        .then(added)
        .unwrap_or_default();
    for (area, places) in &areas {
        let count = counts.remove(area.as_str()).unwrap_or(0);
        if places.len() > count {
            faults.push(format!("{area}: {} places, and {count} in prose.txt; new:", places.len()));
            faults.extend(new(places, &added).into_iter().map(shown_place));
        } else if places.len() < count {
            faults
                .push(format!("{area}: {} places only: lower {count} in prose.txt", places.len()));
        }
    }
    let gone = counts.into_iter().filter(|(_, count)| *count > 0);
    faults
        .extend(gone.map(|(area, count)| format!("{area}: no place: lower {count} in prose.txt")));
    demand("write plain English (subject, verb, object), and keep structure/prose.txt", faults);
}

/// The places on lines that were added since `prose.txt` was changed; without git, or if the lines
/// are older, all places.
fn new<'a>(places: &'a [Place], added: &BTreeSet<(String, usize)>) -> Vec<&'a Place> {
    let is_new = |(path, (line, _)): &&Place| {
        added.contains(&(path.clone(), *line)) || added.contains(&(path.clone(), 0))
    };
    let new: Vec<_> = places.iter().filter(is_new).collect();
    if new.is_empty() { places.iter().take(NAMED_MAX).collect() } else { new }
}

fn shown_place((path, (line, fault)): &Place) -> String {
    format!("  {path}:{line}: {fault}")
}

/// Lines that were added since the commit that changed `prose.txt` last. Line 0: the whole file.
fn added() -> BTreeSet<(String, usize)> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(files::root()).output();
        let output = output.ok().filter(|output| output.status.success());
        output
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default()
    };
    let commit = git(&["log", "-1", "--format=%H", "--", "structure/prose.txt"]);
    let since = if commit.is_empty() { "HEAD" } else { commit.trim() };
    let unknown = git(&["ls-files", "--others", "--exclude-standard"]);
    let mut added: BTreeSet<_> = unknown.lines().map(|path| (path.to_owned(), 0)).collect();
    added.extend(added_lines(&git(&["diff", "--no-color", "--no-prefix", "-U0", since])));
    added
}

/// The lines that a difference without context adds.
fn added_lines(difference: &str) -> Vec<(String, usize)> {
    let mut path = "";
    let mut added = Vec::new();
    for line in difference.lines() {
        if let Some(name) = line.strip_prefix("+++ ") {
            path = name;
        } else if let Some(range) = line.strip_prefix("@@ ").and_then(|it| it.split('+').nth(1)) {
            let range = range.split(' ').next().unwrap_or_default();
            let (first, length) = range.split_once(',').unwrap_or((range, "1"));
            let first: usize = first.parse().unwrap_or(0);
            let end = first + length.parse::<usize>().unwrap_or(0);
            added.extend((first..end).map(|line| (path.to_owned(), line)));
        }
    }
    added
}

#[test]
#[ignore = "writes structure/prose.txt, and judges nothing"]
fn written() {
    let counts = places().into_iter().filter(|(_, places)| !places.is_empty());
    let lines = counts.map(|(area, places)| format!("{area} {}\n", places.len()));
    let text = HEAD.to_owned() + &lines.collect::<String>();
    std::fs::write(files::root().join("structure/prose.txt"), text).unwrap();
}

#[test]
#[ignore = "shows, and judges nothing"]
fn shown() {
    for (area, places) in places() {
        println!("{area} {}", places.len());
        places.iter().for_each(|place| println!("{}", shown_place(place)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The patterns in a page.
    fn patterns(text: &str) -> Vec<String> {
        let pattern = |(_, fault): Fault| fault.split('"').nth(1).unwrap_or_default().to_owned();
        page_faults("page.md", text).into_iter().map(pattern).collect()
    }

    #[test]
    fn translated_sentences_are_found() {
        for (text, pattern) in [
            ("# What it costs", "what ..."),
            ("It has so many blocks.", "so many, so much, so long"),
            ("A queue that waited for so long,", "so many, so much, so long"),
            ("The name is to be changed.", "is to be"),
            ("It is not read\nany more.", "any more"),
            ("It is read no more.", "no more"),
            ("The key is made anew.", "anew"),
            ("Of the points, three are new.", "Of ..., at the front"),
            ("It takes the name of before.", "of before"),
            ("A host learns what came of it.", "what came of it"),
            ("Hosts are told of a change.", "told of"),
            ("A change is told to all.", "is told"),
            ("It tells whether it is full.", "tells of"),
            ("What it says of a page.", "says of"),
            ("It is no error.", "is no ..., is none"),
            ("| a | it waits meanwhile |", "meanwhile"),
        ] {
            assert_eq!(patterns(text), [pattern], "{text}");
        }
    }

    #[test]
    fn plain_sentences_quotations_and_code_are_left_alone() {
        for text in [
            "# Where it differs, the first counts",
            "# What is a queue?",
            "What differs is written.",
            "It holds as many, and so long as it is open.",
            "It cannot be told from others, is told to wait, and has no more than four.",
            "Is there any more data?",
            "It says \"what came of it\", and `is to be`.",
            "```\nanew\n```",
            "> anew",
            "There is no reason, and it is no longer than 4.",
            "Of course, it waits.",
            "There are two: of the host, and of the target.",
            "[a page](beside.md)",
            "| of `a|b`, beside | `anew` |",
        ] {
            let found = patterns(text);
            assert!(found.is_empty() || text.starts_with("| of"), "{text}: {found:?}");
        }
        assert_eq!(patterns("| of `a|b`, beside | `anew` |"), ["beside"]);
    }

    #[test]
    fn comments_have_readers_and_messages_are_texts_of_three_words() {
        let source = concat!(
            "//! Whether it is open.\n/// What it is.\n#[must_use]\npub fn a() {}\n",
            "/// Who it is.\nfn b() { say(\"made anew\", \"it was made anew\"); }\n",
            "#[derive(Args)]\nstruct C {\n    /// Made anew.\n    d: u8,\n}\n",
            "\n#[cfg(test)]\nmod tests {\n    const E: &str = \"it was made anew\";\n}\n",
        );
        let found = rust::faults("a.rs", source);
        let places = found.iter().map(|(reader, (line, _))| (*reader, *line));
        assert_eq!(
            places.collect::<Vec<_>>(),
            [
                (Reader::Public, 1),
                (Reader::Public, 2),
                (Reader::Other, 5),
                (Reader::Help, 9),
                (Reader::Messages, 6),
            ]
        );
    }

    #[test]
    fn entries_of_the_changelog_say_what_was_done() {
        let text = "- Keep it.\n- Add it.\n";
        assert_eq!(page_faults("CHANGELOG.md", text).len(), 1);
        assert!(page_faults("docs/a.md", text).is_empty());
    }

    #[test]
    fn added_lines_are_read_from_a_difference() {
        let difference = "+++ docs/a.md\n@@ -3,2 +3 @@ x\n-a\n-b\n+c\n@@ -9,0 +8,2 @@\n+d\n+e\n";
        let lines = added_lines(difference).into_iter().map(|(_, line)| line);
        assert_eq!(lines.collect::<Vec<_>>(), [3, 8, 9]);
    }
}
