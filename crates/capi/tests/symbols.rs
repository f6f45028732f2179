//! The symbols of the library, with their versions; and that it has no more in it than it needs.

use crate::built::{here, library, succeeds};
use std::collections::BTreeSet;
use weft_testing::programs;

/// Functions that the library may have.
const FUNCTIONS_MAX: usize = 200;

/// Parts of weft, and of others, that must not be in the library, as they stand in symbols.
const ABSENT: [&str; 5] =
    ["4clap", "10weft_bench", "9weft_load", "10management6server", "11weft_server7metrics6"];

fn listed() -> Vec<String> {
    let text = std::fs::read_to_string(here().join("symbols.txt")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn are_those_of_the_list() {
    let Some(library) = library() else { return };
    let mut nm = programs::command("nm");
    nm.args(["--dynamic", "--defined-only", "--with-symbol-versions"]);
    let output = succeeds(nm.arg(library.join("libweft.so.1")));
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.split(' ').next_back());
    let mut found: Vec<String> =
        names.filter(|name| name.starts_with("weft_")).map(str::to_owned).collect();
    found.sort();
    assert_eq!(found, listed(), "symbols may be added to symbols.txt, and never go");
    let others = text.lines().filter(|line| !line.contains("weft_") && !line.contains("WEFT_1"));
    assert_eq!(others.count(), 0, "{text}");
}

#[test]
fn are_declared_in_the_header() {
    let header = std::fs::read_to_string(here().join("include/weft.h")).unwrap();
    let code: Vec<&str> =
        header.lines().filter(|line| !line.trim_start().starts_with(['*', '/'])).collect();
    let words = code.iter().flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    let known: BTreeSet<&str> = words.collect();
    let all = listed();
    assert!(all.len() <= FUNCTIONS_MAX && all.is_sorted());
    for symbol in all {
        let (name, version) = symbol.split_once("@@").expect("a version");
        assert!(known.contains(name) && version == "WEFT_1", "{symbol}");
    }
}

#[test]
fn none_are_of_the_command_line_the_study_or_management() {
    let Some(library) = library() else { return };
    let mut nm = programs::command("nm");
    let output = succeeds(nm.arg(library.join("libweft.so.1")));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("weft_endpoint"), "the library has its symbols");
    for part in ABSENT {
        let found = text.lines().find(|line| line.contains(part));
        assert_eq!(found, None, "{part}");
    }
}
