//! Places of unsafe code: in `io`, and in single modules of `block`, `tls`, `ceph`, `capi`,
//! `testing` and the binding of Python that state the reason. All other crates forbid it.

use syn::{Attribute, Meta};

use crate::{demand, files};

/// The root of the crate that has unsafe code in many files.
const PERMITTED: &str = "crates/io/src/lib.rs";

/// The roots of the crates in which a file may, with a reason.
const DENIED: [&str; 6] = [
    "bindings/python/src/lib.rs",
    "crates/block/src/lib.rs",
    "crates/capi/src/lib.rs",
    "crates/ceph/src/lib.rs",
    "crates/testing/src/lib.rs",
    "crates/tls/src/lib.rs",
];

/// Returns whether an attribute is `level(unsafe_code)`, whatever else stands in the parentheses.
fn sets(attribute: &Attribute, level: &str) -> bool {
    match &attribute.meta {
        Meta::List(list) => {
            list.path.is_ident(level) && list.tokens.to_string().contains("unsafe_code")
        }
        _ => false,
    }
}

fn root_has(path: &str, levels: &[&str]) -> bool {
    let text = std::fs::read_to_string(files::root().join(path)).unwrap_or_default();
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    file.attrs.iter().any(|attribute| levels.iter().any(|level| sets(attribute, level)))
}

#[test]
fn crates_without_unsafe_code_forbid_it() {
    let is_root = |path: &String| path.ends_with("/src/main.rs") || path.ends_with("/src/lib.rs");
    let all = ["crates", "lab/crates", "xtask"].map(|directory| files::below(directory, "rs"));
    let paths = all.into_iter().flatten().map(|(path, _)| path).filter(is_root);
    let roots = paths.filter(|path| path != PERMITTED && !DENIED.contains(&path.as_str()));
    let faults = roots.filter(|path| !root_has(path, &["forbid"]));
    demand("#![forbid(unsafe_code)] is missing", faults.collect());
}

#[test]
fn crates_with_little_unsafe_code_deny_it() {
    let faults = DENIED.iter().filter(|path| !root_has(path, &["deny", "forbid"]));
    demand("#![deny(unsafe_code)] is missing", faults.map(ToString::to_string).collect());
}

#[test]
fn exceptions_give_their_reason() {
    let mut faults = Vec::new();
    for (path, text) in files::rust() {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            let allows = ["#[allow(", "#![allow(", "#[expect(", "#![expect("]
                .iter()
                .any(|start| line.starts_with(start));
            if allows && line.contains("unsafe_code") && !line.contains("reason") {
                faults.push(format!("{path}:{}", number + 1));
            }
        }
    }
    demand("an exception to the denied unsafe code needs `reason = \"…\"` on its line", faults);
}
