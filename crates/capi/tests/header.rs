//! The header: it compiles alone, has the layouts that programs were compiled with, and is what
//! cbindgen makes.

use crate::built::{WARNINGS, here, scratch, succeeds};
use std::process::Command;
use weft_testing::programs;

/// Compilers, with their standards and languages.
const COMPILERS: [(&str, &str, &str); 6] = [
    ("gcc", "-std=c99", "c"),
    ("gcc", "-std=c17", "c"),
    ("g++", "-std=c++17", "c++"),
    ("clang", "-std=c99", "c"),
    ("clang", "-std=c17", "c"),
    ("clang++", "-std=c++17", "c++"),
];

/// Sizes and offsets, which no later version may change.
const LAYOUTS: &str = "\
#include <stddef.h>
#include \"weft.h\"
#define SAME(a, b) typedef char same_##a[(b) ? 1 : -1]
SAME(completion, sizeof(struct weft_completion) == 24);
SAME(user, offsetof(struct weft_completion, user) == 0);
SAME(result, offsetof(struct weft_completion, result) == 8);
SAME(flags, offsetof(struct weft_completion, flags) == 12);
SAME(protocol, offsetof(struct weft_completion, protocol) == 16);
SAME(status, offsetof(struct weft_completion, status) == 20);
SAME(usage, WEFT_ERROR_OK == 0 && WEFT_ERROR_USAGE == 1);
SAME(io, WEFT_ERROR_IO == 10 && WEFT_ERROR_DIFFERS == 16 && WEFT_ERROR_INTERNAL == 20);
SAME(fua, WEFT_FUA == 1 && WEFT_MAY_UNMAP == 2);
SAME(executed, WEFT_MAY_HAVE_EXECUTED == 1 && WEFT_MAY_STILL_EXECUTE == 2);
SAME(protocols, WEFT_PROTOCOL_NVME == 1 && WEFT_PROTOCOL_SYSTEM == 4);
";

#[test]
fn compiles_alone_and_has_the_same_layouts() {
    let source = scratch().join("layouts.c");
    std::fs::write(&source, LAYOUTS).unwrap();
    let there: Vec<_> =
        COMPILERS.iter().filter(|(compiler, ..)| programs::find(compiler).is_some()).collect();
    for (compiler, standard, language) in &there {
        let mut compile = programs::command(compiler);
        compile.args([standard, "-x", language, "-fsyntax-only"]).args(WARNINGS);
        // In C++ and C17 an unused type at the top of a file is no warning either.
        succeeds(compile.arg("-I").arg(here().join("include")).arg(&source));
    }
    let missing = COMPILERS.iter().map(|(compiler, ..)| *compiler).collect::<Vec<_>>();
    if there.len() < COMPILERS.len() {
        let _ = programs::have(&missing);
    }
}

/// `declarations.rs` compares the functions alone, in every run.
#[test]
#[ignore = "builds cbindgen: cargo xtask long capi-header"]
fn is_what_cbindgen_makes() {
    // Debian's is older than the attribute with which functions are exported.
    let root = scratch().join("cbindgen");
    let mut install = Command::new(env!("CARGO"));
    install.args(["install", "--quiet", "--locked", "cbindgen", "--version", "0.29.4"]);
    succeeds(install.arg("--root").arg(&root));
    let mut cbindgen = Command::new(root.join("bin/cbindgen"));
    let made = succeeds(cbindgen.current_dir(here()).args(["--config", "cbindgen.toml", "."]));
    let header = std::fs::read_to_string(here().join("include/weft.h")).unwrap();
    let made = String::from_utf8(made.stdout).unwrap();
    assert!(
        header == made,
        "run cbindgen --config cbindgen.toml --output include/weft.h in crates/capi"
    );
    println!("crates/capi/include/weft.h is what cbindgen 0.29.4 makes.");
}
