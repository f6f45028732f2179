//! Rules for all tests: one way to be skipped, one seed, one way to find programs.

use proc_macro2::{TokenStream, TokenTree};

use crate::{demand, files, tokens};

/// The only place that prints the line by which a test counts as skipped.
const SKIP: &str = "crates/testing/src/skip.rs";

/// The first line of each block of property tests.
const SEEDED: &str = "#![proptest_config(weft_testing::properties!(";

/// Programs that tests may start by their names: every Linux system has them where `PATH` looks.
const EVERYWHERE: [&str; 9] =
    ["chmod", "chrt", "id", "ip", "nsenter", "setpriv", "sh", "sha256sum", "unshare"];

/// Returns true if a macro prints a text that begins with `skipped:`.
fn prints_skipped(stream: TokenStream) -> bool {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let prints = |window: &[TokenTree]| {
        let [TokenTree::Ident(name), TokenTree::Punct(_), TokenTree::Group(group)] = window else {
            return false;
        };
        let is_print = ["print", "println", "eprint", "eprintln"].iter().any(|it| name == it);
        let first = group.stream().into_iter().next().map(|token| token.to_string());
        is_print && first.is_some_and(|text| text.starts_with("\"skipped:"))
    };
    tokens.windows(3).any(prints)
        || tokens.into_iter().any(|token| match token {
            TokenTree::Group(group) => prints_skipped(group.stream()),
            _ => false,
        })
}

#[test]
fn tests_are_skipped_in_one_way() {
    let prints = |(path, text): &(String, String)| {
        path.starts_with("crates/")
            && path != SKIP
            && text.contains("\"skipped:")
            && prints_skipped(tokens::parse(text))
    };
    let faults = files::rust().into_iter().filter(prints).map(|(path, _)| path);
    demand("call weft_testing::skip instead of printing", faults.collect());
}

#[test]
fn what_prints_is_found() {
    let found = |source: &str| prints_skipped(tokens::parse(source));
    assert!(found("fn f() { if g() { return eprintln!(\"skipped: {why}\"); } }"));
    assert!(!found("fn f() { println!(\"{} skipped:\", n); line.strip_prefix(\"skipped: \") }"));
}

/// The blocks of a file that lack the seed, by their lines.
fn without_seed(text: &str) -> Vec<usize> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = lines.iter().enumerate().filter(|(_, line)| line.starts_with("proptest! {"));
    let lacks = |at: &usize| !lines.get(at + 1).is_some_and(|next| next.starts_with(SEEDED));
    begins.map(|(at, _)| at).filter(lacks).map(|at| at + 1).collect()
}

#[test]
fn property_tests_have_the_seed_of_all() {
    let mut blocks = 0;
    let mut faults = Vec::new();
    for (path, text) in files::below("crates", "rs") {
        blocks += text.matches(SEEDED).count();
        faults.extend(without_seed(&text).into_iter().map(|line| format!("{path}:{line}")));
    }
    assert!(blocks > 0, "there are property tests");
    demand(&format!("begin the block with {SEEDED}CASES))]"), faults);
}

#[test]
fn a_block_without_the_seed_is_found() {
    let block = |first: &str| format!("mod a {{\n    proptest! {{\n        {first}\n");
    assert_eq!(without_seed(&block("#[test]")), [2]);
    assert_eq!(without_seed(&block("#![proptest_config(ProptestConfig::default())]")), [2]);
    assert_eq!(without_seed(&block("#![proptest_config(weft_testing::properties!(64))]")), [0; 0]);
}

/// Programs that a text starts by their names, and that are not everywhere.
fn by_name(text: &str) -> Vec<&str> {
    let started = text.split("Command::new(\"").skip(1).filter_map(|rest| rest.split('"').next());
    started.filter(|program| !EVERYWHERE.contains(program)).collect()
}

#[test]
fn programs_of_others_are_found_in_one_way() {
    let in_tests = |(path, text): (String, String)| {
        let programs = by_name(&text).into_iter().map(|program| format!("{path}: {program}"));
        programs.collect::<Vec<_>>()
    };
    let of_tests = files::below("crates", "rs")
        .into_iter()
        .filter(|(path, _)| crate::layers::is_test(path) || path.starts_with("crates/testing/"));
    demand(
        "start it by weft_testing::programs::command, which finds it outside of PATH, too",
        of_tests.flat_map(in_tests).collect(),
    );
}

#[test]
fn programs_that_are_started_by_name_are_found() {
    let text = "Command::new(\"sh\"); std::process::Command::new(\"tshark\"); Command::new(it)";
    assert_eq!(by_name(text), ["tshark"]);
}
