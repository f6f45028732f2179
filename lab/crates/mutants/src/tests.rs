use std::collections::VecDeque;

use clap::Parser;
use lab_edited::Texts;

use super::{
    MutantsArgs,
    draw::{plant, row, rows, take},
    find::{Candidate, Kind, candidates},
};

fn changes(body: &str) -> Vec<(Kind, String, String)> {
    let text = format!("// é\nfn f(&self) -> bool {{\n{body}\n}}\n");
    let found = candidates("crates/io/src/lib.rs", &text.replace("&self", "")).unwrap();
    found.into_iter().map(|one| (one.kind, one.text, one.changed)).collect()
}

fn change(kind: Kind, text: &str, changed: &str) -> (Kind, String, String) {
    (kind, text.into(), changed.into())
}

#[test]
fn each_kind_of_change_is_found() {
    use Kind::{Answer, Call, Comparison, Condition, Constant, Logic, Sum};
    assert_eq!(
        changes("if a < 2 { self.stop(a); }"),
        [
            change(Condition, "a < 2", "!(a < 2)"),
            change(Comparison, "a < 2", "a <= 2"),
            change(Constant, "2", "2 + 1"),
            change(Call, "self.stop(a);", ""),
        ]
    );
    assert_eq!(
        changes("b += LIMIT;\na && b"),
        [
            change(Sum, "b += LIMIT", "b -= LIMIT"),
            change(Constant, "LIMIT", "LIMIT + 1"),
            change(Answer, "a && b", "!(a && b)"),
            change(Logic, "a && b", "a || b"),
        ]
    );
    assert_eq!(changes("return is_open;"), [change(Answer, "is_open", "!(is_open)")]);
}

#[test]
fn what_the_compiler_runs_and_what_cannot_be_asked_is_left_alone() {
    let nothing: Vec<(Kind, String, String)> = Vec::new();
    assert_eq!(changes("if let Some(a) = b && let Ok(c) = d { g(); }"), nothing);
    assert_eq!(changes("const A: u8 = 1 + 2;\nlet a: [u8; 3] = [b; 4];"), nothing);
    assert_eq!(changes("match a { 1 | A => b, _ => c };"), nothing);
    assert_eq!(changes("println!(\"{}\", 1 + 2);"), nothing);
    let hidden = "const fn f() -> u8 { 1 + 2 }\n#[cfg(test)]\nmod tests { fn f() { g(1); } }\n";
    assert_eq!(candidates("crates/io/src/lib.rs", hidden).unwrap(), []);
}

#[test]
fn a_mutant_is_asked_for_by_its_number() {
    let text = "//! é\nfn f(a: u8) -> u8 { a + b }\nimpl A { fn g(&self) { self.h(); } }\n";
    let path = "crates/io/src/lib.rs".to_owned();
    let sources = Texts::from([(path.clone(), text.into())]);
    let found = candidates(&path, text).unwrap().into_iter().enumerate();
    let numbered: Vec<_> = found.map(|(place, one)| (place + 4, one)).collect();
    let changed = plant(&sources, &numbered).unwrap();
    assert_eq!(
        changed[&path],
        "#![allow(arithmetic_overflow, unconditional_panic)] //! é\n\
         fn f(a: u8) -> u8 { (if crate::mutant::M4.is() { a - b } else { a + b }) }\n\
         impl A { fn g(&self) { if !crate::mutant::M5.is() { self.h(); } } }\n\nmod mutant;\n"
    );
    let module = &changed["crates/io/src/mutant.rs"];
    assert!(module.contains("pub(crate) static M4: Mutant = Mutant::new(4);\n"), "{module}");
    assert!(syn::parse_file(module).is_ok());
}

fn drawn(sources: &Texts, seed: u64, count: usize) -> Vec<Candidate> {
    let (mut row, mut taken) = (VecDeque::from(row(sources, seed).unwrap()), Vec::new());
    take(&mut row, &mut taken, count);
    taken
}

#[test]
fn what_is_drawn_depends_on_the_seed_and_not_on_the_place() {
    let text: String = (0..40)
        .map(|n| format!("fn f{n}() {{\n    g(a{n} + b);\n    h(c < d{n});\n}}\n"))
        .collect();
    let here = Texts::from([("crates/io/src/lib.rs".into(), text.clone())]);
    let moved = Texts::from([("crates/block/src/a.rs".into(), format!("// more\n\n{text}"))]);
    let names = |of: Vec<Candidate>| Vec::from_iter(of.into_iter().map(|one| one.text));
    assert_eq!(names(drawn(&here, 1, 10)), names(drawn(&moved, 1, 10)));
    assert_ne!(names(drawn(&here, 1, 10)), names(drawn(&here, 2, 10)));
    let of_both = names(rows(&here, &[1, 2]).unwrap());
    let of_each = [1, 2].map(|seed| names(row(&here, seed).unwrap()));
    assert_eq!(
        of_both[..4],
        [0, 1].map(|nth| of_each.each_ref().map(|of| of[nth].clone())).concat()
    );
}

#[test]
fn sixty_mutants_of_the_sources_are_still_rust() {
    let sources = lab_edited::sources().unwrap();
    let taken = drawn(&sources, 1, 60);
    assert_eq!(taken.len(), 60);
    let numbered: Vec<_> = taken.into_iter().enumerate().collect();
    for (path, text) in plant(&sources, &numbered).unwrap() {
        if let Err(error) = syn::parse_file(&text) {
            panic!("{path} with its mutants is no Rust any more: {error}");
        }
    }
}

#[test]
fn commands_in_the_documents_are_understood() {
    let parse = |words: &[String]| {
        MutantsArgs::try_parse_from(words).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(xtask::commands::faults("mutants", parse), Vec::<String>::new());
}
