use super::*;

fn sources(texts: &[(&str, &str)]) -> Texts {
    texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
}

fn one(text: &str) -> Vec<Bug> {
    vec![Bug::parse("lost", text).unwrap()]
}

const NOTHING: &str = "pub const ALL: &[Bug] = &[];\nconst CRATES: &[fn(Option<usize>)] = &[];\n";

#[test]
fn every_bug_applies_to_the_sources_and_is_still_rust() {
    let bugs = bug::all().unwrap();
    assert!(!bugs.is_empty());
    match edit(&lab_edited::sources().unwrap(), &bugs) {
        Ok(changed) => changed.iter().for_each(|(path, text)| {
            if let Err(error) = syn::parse_file(text) {
                panic!("{path} with its planted bugs is no Rust any more: {error}");
            }
        }),
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn a_bug_is_found_whatever_its_white_space_and_asked_for_by_number() {
    let bugs = one("Nobody stops.\n\nscene: stops\n\n--- crates/io\n\
         if a\n  { b } // é\n+++\nif a && !PLANTED { b }\n");
    let texts = [
        ("crates/io/src/lib.rs", "// é\nfn f() { if a { b } // é\n}\n"),
        ("crates/ion/src/lib.rs", "fn f() { if a { b } // é\n}\n"),
        (TOLD, NOTHING),
    ];
    let changed = edit(&sources(&texts), &bugs).unwrap();
    assert_eq!(
        changed["crates/io/src/lib.rs"],
        "// é\nfn f() { if a && !crate::planted::is(0) { b }\n}\n\n\
         #[doc(hidden)]\npub mod planted;\n"
    );
    assert_eq!(changed["crates/io/src/planted.rs"], CHOICE);
    assert_eq!(
        changed[TOLD],
        "pub const ALL: &[Bug] = &[\n    Bug { name: \"lost\", scene: Some(\"stops\") },\n];\n\
         const CRATES: &[fn(Option<usize>)] = &[\n    weft_io::planted::plant,\n];\n"
    );
    assert_eq!(changed.len(), 3);
}

#[test]
fn a_bug_whose_text_is_gone_says_so() {
    let bugs = one("Nobody stops.\n\n--- crates/io/src/a.rs\nfn a() {}\n+++\nfn a() { PLANTED }\n");
    let error = |texts: &[(&str, &str)]| format!("{:#}", edit(&sources(texts), &bugs).unwrap_err());
    let head = "crates/sim/planted/lost.edit does not apply: the text is";
    assert_eq!(
        error(&[("crates/io/src/a.rs", "fn b() {}")]),
        format!("{head} no longer there; search for its new form:\nfn a() {{}}\n")
    );
    assert_eq!(
        error(&[("crates/io/src/b.rs", "fn a() {}")]),
        format!("{head} in crates/io/src/b.rs now:\nfn a() {{}}\n")
    );
    assert_eq!(
        error(&[("crates/io/src/a.rs", "fn a() {} fn a() {}")]),
        format!(
            "{head} there twice, in crates/io/src/a.rs and in crates/io/src/a.rs:\nfn a() {{}}\n"
        )
    );
}

#[test]
fn a_bug_has_a_sentence_and_asks_whether_it_is_chosen() {
    let error = |text: &str| Bug::parse("lost", text).unwrap_err().to_string();
    assert!(error("--- crates/io\na\n+++\nPLANTED\n").contains("begins with a sentence"));
    assert!(error("Nobody stops.\n").contains("has no edit"));
    assert!(error("Nobody stops.\n\n--- crates/io\na\n+++\nb\n").contains("asks PLANTED"));
}
