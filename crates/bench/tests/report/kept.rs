//! Studies that are kept in the documentation.

use super::document::check_nesting;
use std::fs;
use std::path::{Path, PathBuf};
use weft_bench::report::html;
use weft_bench::results::Results;

const KEPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/study");

/// Each suite's results, and where they are.
fn studies() -> Vec<(PathBuf, Results)> {
    let suites = fs::read_dir(Path::new(KEPT).join("reports")).unwrap();
    let paths = suites.map(|suite| suite.unwrap().path().join("results.json"));
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).ok()?;
        let results = weft_bench::compare::read(&path.display().to_string(), &text);
        Some((path, results.unwrap_or_else(|e| panic!("{e}"))))
    };
    paths.filter_map(read).collect()
}

/// They can be read and drawn by this version.
#[test]
fn kept_studies_are_current() {
    let studies = studies();
    for (path, results) in &studies {
        check_nesting(&html(results));
        let commit = results.commit.as_deref().unwrap_or("none");
        assert!(
            commit.bytes().all(|digit| digit.is_ascii_hexdigit()) && !results.rows.is_empty(),
            "{}: built from commit {commit}; `weft study` has to be of a release build of a tree \
             without changes",
            path.display()
        );
    }
    assert_eq!(
        studies.len(),
        8,
        "one of each suite that has a page with a report, two of distance"
    );
}

/// All files below a directory.
fn files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => files(&path, into),
            false => into.push(path),
        }
    }
}

/// They do not tell where on a machine they were made.
#[test]
fn kept_studies_name_no_place_of_a_build() {
    for (path, results) in studies() {
        let path = path.display();
        assert_eq!(results.command.first().map(String::as_str), Some("weft"), "{path}");
        let is_place = |arg: &&String| arg.starts_with('/') && !arg.starts_with("/dev/");
        assert_eq!(results.command.iter().find(is_place), None, "{path}");
    }
    let mut all = Vec::new();
    files(Path::new(KEPT), &mut all);
    for path in all {
        // Pictures have texts, too.
        let bytes = fs::read(&path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        for place in ["/target/release", "/target/debug", "\\target\\"] {
            assert!(!text.contains(place), "{}: {place}", path.display());
        }
    }
}
