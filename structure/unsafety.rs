//! Places of unsafe code: in `io`, and in single rooms of `block`, `tls`, `ceph`, `capi` and the
//! binding of Python that state the reason.

use syn::{Attribute, Meta};

use crate::{demand, files};

/// The roots of the crates in which no file may allow unsafe code, besides the tools of the lab.
const FORBIDDEN: [&str; 18] = [
    "crates/base/src/lib.rs",
    "crates/proto/src/lib.rs",
    "crates/connection/src/lib.rs",
    "crates/initiator/src/lib.rs",
    "crates/target/src/lib.rs",
    "crates/endpoint/src/lib.rs",
    "crates/server/src/lib.rs",
    "crates/load/src/lib.rs",
    "crates/bench/src/lib.rs",
    "crates/extras/src/lib.rs",
    "crates/copy/src/lib.rs",
    "crates/formats/src/lib.rs",
    "crates/cli/src/lib.rs",
    "crates/cli/src/main.rs",
    "crates/sim/src/lib.rs",
    "crates/sim/src/main.rs",
    "xtask/src/lib.rs",
    "xtask/src/main.rs",
];

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
    let tools = files::below("lab/crates", "rs").into_iter().map(|(path, _)| path);
    let is_root = |path: &String| path.ends_with("/src/main.rs") || path.ends_with("/src/lib.rs");
    let roots = FORBIDDEN.map(str::to_owned).into_iter().chain(tools.filter(is_root));
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
