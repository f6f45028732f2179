//! Examples in the documentation of a crate are run as tests. A crate without examples switches
//! this off, because looking for them takes as long as compiling the crate.

use std::path::Path;

use crate::{demand, files, layers};

#[test]
fn crates_with_examples_run_them() {
    let sources = files::rust();
    let mut faults = Vec::new();
    for package in layers::packages() {
        let targets = package["targets"].as_array().into_iter().flatten();
        let Some(library) = targets.into_iter().find(|it| it["kind"][0] == "lib") else { continue };
        let manifest = package["manifest_path"].as_str().expect("a package has a manifest");
        let here = Path::new(manifest).with_file_name("src");
        let is_here = |path: &str| files::root().join(path).starts_with(&here);
        let mut of_crate = sources.iter().filter(|(path, _)| is_here(path));
        let has_examples = of_crate.any(|(_, text)| has_example(text));
        if library["doctest"].as_bool() != Some(has_examples) {
            faults.push(format!("{manifest}: `doctest` of its library is not {has_examples}"));
        }
    }
    demand("a crate has examples in its documentation, and `doctest` says so", faults);
}

/// Returns whether a comment of the documentation has a block of Rust.
fn has_example(text: &str) -> bool {
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or(line.strip_prefix("//!"))
    });
    let mut is_inside = false;
    comments.filter_map(|line| line.trim_start().strip_prefix("```")).any(|language| {
        is_inside = !is_inside;
        is_inside && !["text", "sh", "console", "toml", "json"].contains(&language.trim())
    })
}

#[test]
fn examples_are_blocks_of_rust() {
    assert!(has_example("/// ```\n/// run();\n/// ```\n"));
    assert!(has_example("//! ```no_run\n//! run();\n//! ```\n"));
    assert!(!has_example("/// ```text\n/// a  b\n/// ```\nlet fence = \"```\";\n"));
}
