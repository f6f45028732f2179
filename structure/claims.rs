//! Claims of the documents about features and missing ones: each names a test that shows it.

use std::collections::BTreeSet;

use crate::{demand, files, markdown::Document};

/// The page that lists what weft lacks: what, what happens instead, and the tests.
const LIMITATIONS: &str = "docs/limitations.md";

/// The page that lists what is promised to whom, and the tests.
const PROMISES: &str = "SECURITY.md";

/// What begins the list of tests below README's comparison. It is a comment, so that readers do not
/// see it.
const TESTS_OF_ROWS: &str = "<!-- The test of each row:";

#[test]
fn rows_of_the_comparison_have_tests() {
    let text = read("README.md");
    let (before, after) =
        text.split_once(TESTS_OF_ROWS).expect("README.md has the tests of its comparison");
    let (_, table) = before.split_once("## Comparison").expect("README.md has a comparison");
    let (list, _) = after.split_once("-->").expect("the list ends");
    let tests: Vec<(&str, &str)> =
        list.trim().lines().map(|line| line.split_once(": ").unwrap_or((line, ""))).collect();
    let document = Document::parse(table);
    let features: Vec<&str> = document.rows.iter().skip(1).map(|row| row[0]).collect();
    assert_eq!(
        tests.iter().map(|(feature, _)| *feature).collect::<Vec<_>>(),
        features,
        "each row of the table once, in its order"
    );
    let known = names();
    let faults =
        tests.iter().flat_map(|(feature, named)| faults(feature, named.split(", "), &known));
    demand("README.md: name a test that shows it", faults.collect());
}

#[test]
fn what_is_missing_has_tests() {
    rows_have_tests(LIMITATIONS);
}

#[test]
fn what_is_promised_has_tests() {
    rows_have_tests(PROMISES);
}

/// The rows of a page name tests in the last of three cells.
fn rows_have_tests(page: &str) {
    let text = read(page);
    let known = names();
    let document = Document::parse(&text);
    let mut rows = 0;
    let mut found = Vec::new();
    for row in document.rows.iter().filter(|row| row.last() != Some(&"test")) {
        let [claim, _, tests] = row[..] else { panic!("three cells: {row:?}") };
        found.extend(faults(claim, tests.split('`').skip(1).step_by(2), &known));
        rows += 1;
    }
    assert!(rows > 0, "{page} has no rows");
    demand(&format!("{page}: name a test that shows it"), found);
}

/// What is wrong with the tests that a line names: there is none, or they are not there.
fn faults<'a>(
    line: &str,
    tests: impl Iterator<Item = &'a str>,
    known: &BTreeSet<String>,
) -> Vec<String> {
    let tests: Vec<&str> = tests.filter(|test| !test.is_empty()).collect();
    if tests.is_empty() {
        return vec![format!("{line}: no test")];
    }
    tests
        .iter()
        .filter(|test| !known.contains(**test))
        .map(|test| format!("{line}: there is no test {test}"))
        .collect()
}

fn read(page: &str) -> String {
    std::fs::read_to_string(files::root().join(page)).unwrap_or_else(|e| panic!("{page}: {e}"))
}

/// The tests that there are: functions by their names, cases of the lab by their paths.
fn names() -> BTreeSet<String> {
    let functions = files::rust().into_iter().flat_map(|(_, text)| tests_in(&text));
    functions.chain(files::below("lab/cases", "sh").into_iter().map(|(path, _)| path)).collect()
}

/// The names of the functions that are tests.
fn tests_in(text: &str) -> Vec<String> {
    let mut is_test = false;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        if line == "#[test]" {
            is_test = true;
        } else if is_test
            && let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split('(').next())
        {
            found.push(name.to_owned());
            is_test = false;
        }
    }
    found
}

#[test]
fn tests_are_found_by_their_attribute() {
    let text = concat!("#[te", "st]\n#[ignore = \"long\"]\nfn one() {}\nfn two() {}\n");
    assert_eq!(tests_in(text), ["one"]);
    let known = BTreeSet::from(["one".to_owned()]);
    assert_eq!(faults("a", ["one"].into_iter(), &known), Vec::<String>::new());
    assert_eq!(faults("a", ["two"].into_iter(), &known), ["a: there is no test two"]);
    assert_eq!(faults("a", [].into_iter(), &known), ["a: no test"]);
}
