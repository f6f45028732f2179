//! Words that stand for work not done, and files that nobody compiles.

use crate::{demand, files};

/// Written in pieces so that this file does not hold them.
const BANNED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("unimple", "mented!"),
    concat!("to", "do!"),
    concat!("db", "g!"),
];

/// Returns whether the word stands in the line by itself and not as part of a longer one.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        ![before, after]
            .into_iter()
            .flatten()
            .any(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[test]
fn nothing_is_left_for_later() {
    let mut faults = Vec::new();
    for (path, text) in files::rust() {
        for (number, line) in text.lines().enumerate() {
            faults.extend(
                BANNED
                    .iter()
                    .filter(|word| holds(line, word))
                    .map(|word| format!("{path}:{}: {word}", number + 1)),
            );
        }
    }
    demand("finish it, or open an issue", faults);
}

#[test]
fn ignored_tests_say_why() {
    let bare = concat!("#[ign", "ore]");
    let faults =
        files::rust().into_iter().filter(|(_, text)| text.lines().any(|line| line.trim() == bare));
    demand(
        "a test that runs only when asked for says why in its attribute",
        faults.map(|(path, _)| path).collect(),
    );
}

#[test]
fn every_file_is_compiled() {
    let sources = files::rust();
    let manifests = [files::below("crates", "toml"), files::below("lab/crates", "toml")].concat();
    let faults = sources.iter().map(|(path, _)| path).filter(|path| {
        let is_ours = path.contains("/src/") || path.contains("/tests/");
        is_ours && !is_declared(path, &sources) && !is_program(path, &manifests)
    });
    demand("no module declares the file", faults.cloned().collect());
}

/// Returns whether a file below `tests` is a program of its own: the manifest says so, or says
/// nothing.
fn is_program(path: &str, manifests: &[(String, String)]) -> bool {
    let Some((krate, test)) = path.split_once("/tests/") else { return false };
    let manifest = manifests.iter().find(|(path, _)| *path == format!("{krate}/Cargo.toml"));
    manifest.is_some_and(|(_, text)| {
        let is_found = !text.contains("autotests = false") && !test.contains('/');
        is_found || text.contains(&format!("path = \"tests/{test}\""))
    })
}

/// Returns whether a parent module of the file declares it.
fn is_declared(path: &str, sources: &[(String, String)]) -> bool {
    let (directory, file) = path.rsplit_once('/').unwrap();
    let (directory, module) = match file {
        "lib.rs" | "main.rs" => return true,
        "mod.rs" => directory.rsplit_once('/').unwrap(),
        _ => (directory, file.trim_end_matches(".rs")),
    };
    if directory.ends_with("/src/bin") {
        return true;
    }
    let parents = ["mod.rs", "lib.rs", "main.rs"].map(|name| format!("{directory}/{name}"));
    let beside = format!("{directory}.rs");
    let (declaration, pointer) = (format!("mod {module};"), format!("#[path = \"{file}\"]"));
    // Tests of a directory may have their helpers in another one.
    let krate = path.split("/tests/").next().unwrap();
    let end = path.match_indices('/').nth_back(1).map_or(path, |(at, _)| &path[at + 1..]);
    let far_pointer = format!("{end}\"]");
    sources.iter().any(|(other, text)| {
        let is_parent = parents.contains(other) || *other == beside;
        let is_sibling = other.rsplit_once('/').is_some_and(|(place, _)| place == directory);
        let is_near = path.contains("/tests/") && other.starts_with(krate);
        is_parent && text.contains(&declaration)
            || is_sibling && text.contains(&pointer)
            || is_near && text.contains(&far_pointer)
    })
}

#[test]
fn words_are_whole() {
    assert!(holds(concat!("// TO", "DO: later"), BANNED[0]));
    assert!(!holds(concat!("MASTO", "DON"), BANNED[0]));
}
