//! A program with planted bugs holds their names, so that a test that finds none in a shipped
//! program says something. Such a program calls [`has`] and nothing else of the module, as the
//! engines do.

use weft_proto::planted::{Bug, has};

/// In two parts: in one it would be in this program anyway.
const MARK: [&str; 2] = ["planted", "-bug:"];

#[test]
fn a_program_with_a_planted_bug_holds_the_names_of_all() {
    assert!(!has(Bug::LostFlush), "no bug is planted");
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let mark = MARK.concat();
    let found = program.windows(mark.len()).filter(|window| *window == mark.as_bytes()).count();
    assert!(found >= 8, "{found} names");
}
