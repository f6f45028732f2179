//! Files of modules: a module with files of its own is a directory with a `mod.rs`.

use std::collections::BTreeSet;

use crate::{demand, files};

#[test]
fn a_module_with_files_is_a_directory() {
    let paths: Vec<String> = files::rust().into_iter().map(|(path, _)| path).collect();
    let directories: BTreeSet<&str> =
        paths.iter().filter_map(|path| Some(path.rsplit_once('/')?.0)).collect();
    let faults = paths.iter().filter(|path| {
        let stem = path.strip_suffix(".rs").unwrap_or(path);
        directories.contains(stem)
    });
    let told = faults.map(|path| format!("{path}: move it to {}/mod.rs", &path[..path.len() - 3]));
    demand("a module with files of its own is a directory with a mod.rs", told.collect());
}

/// A poisoned mutex is not an error here: see `crates/base/src/lock.rs`.
#[test]
fn locks_have_one_home() {
    let is_ours = |path: &str| path.starts_with("crates/") && !path.starts_with("crates/base/");
    let all = files::rust().into_iter().filter(|(path, _)| is_ours(path));
    let faults = all.filter(|(_, text)| text.contains("PoisonError"));
    demand("lock by weft_base::lock", faults.map(|(path, _)| path).collect());
}
