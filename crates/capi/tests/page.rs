//! The programs of `docs/libweft.md` are compiled and run.

use crate::built::{compile, here, library, scratch, succeeds, with_names};
use std::process::Command;

/// The blocks of C of a page.
fn blocks(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(here().join("../../docs").join(page)).unwrap();
    let blocks = text.split("```c\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.map(str::to_owned).collect()
}

#[test]
fn programs_of_the_page_work() {
    let Some(library) = library() else { return };
    let all: Vec<String> = ["libweft.md", "library.md"].into_iter().flat_map(blocks).collect();
    assert!(all.len() >= 3);
    for (n, text) in all.iter().enumerate() {
        let source = scratch().join(format!("page-{n}.c"));
        std::fs::write(&source, text).unwrap();
        let program = compile(&source, &format!("page-{n}"), library);
        // Each takes the URLs of devices, and has defaults in memory.
        succeeds(&mut with_names(Command::new(program)));
    }
}
