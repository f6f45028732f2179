//! Programs in C, linked with the library.

use crate::built::{compile, here, library, succeeds, with_names};
use std::process::Command;
use weft_testing::programs;

/// Compiles and runs a program; whether that is possible here.
fn run(name: &str) -> bool {
    let Some(library) = library() else { return false };
    let program = compile(&here().join(format!("tests/c/{name}.c")), name, library);
    let mut started = with_names(Command::new(program));
    succeeds(started.arg(library.join("libweft.so.1")));
    true
}

#[test]
fn blocking_calls_on_memory() {
    run("ram");
}

#[test]
fn operations_in_flight() {
    run("queue");
}

#[test]
fn a_target_in_the_process_over_nvme_tcp() {
    run("target");
}

#[test]
fn forked_children_are_refused() {
    run("fork");
}

#[test]
fn closing_the_library_while_its_threads_end() {
    run("unload");
}

/// Valgrind finds no error and no memory that is lost.
fn is_clean(name: &str) {
    if !programs::have(&["valgrind"]) {
        return;
    }
    let Some(library) = library() else { return };
    let source = here().join(format!("tests/c/{name}.c"));
    let program = compile(&source, &format!("{name}-valgrind"), library);
    let mut valgrind = with_names(programs::command("valgrind"));
    valgrind.args(["-q", "--error-exitcode=9", "--leak-check=full"]);
    valgrind.args(["--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"]);
    succeeds(valgrind.arg(program));
}

#[test]
fn valgrind_finds_nothing_in_blocking_calls() {
    is_clean("ram");
}

#[test]
fn valgrind_finds_nothing_in_queues() {
    is_clean("queue");
}
