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
fn queues_on_a_loop_of_the_program() {
    run("loop");
}

#[test]
fn opening_is_cancelled_by_another_thread() {
    run("cancel");
}

#[test]
fn the_log_goes_to_a_function_of_the_program() {
    run("log");
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

/// A program, and a tool of Valgrind that runs it. `None`: something for it is missing, and the
/// calling test counts as skipped.
fn under_valgrind(name: &str, tool: &str, options: &[&str]) -> Option<Command> {
    if !programs::have(&["valgrind"]) {
        return None;
    }
    let library = library()?;
    let source = here().join(format!("tests/c/{name}.c"));
    let program = compile(&source, &format!("{name}-{tool}"), library);
    let mut valgrind = with_names(programs::command("valgrind"));
    valgrind.args(["-q", "--error-exitcode=9"]).arg(format!("--tool={tool}")).args(options);
    valgrind.arg(program);
    Some(valgrind)
}

/// Memcheck, which reports errors, and memory that is lost or may be.
fn memcheck(name: &str) -> Option<Command> {
    let kinds =
        ["--show-leak-kinds=definite,possible", "--errors-for-leak-kinds=definite,possible"];
    under_valgrind(name, "memcheck", &["--leak-check=full", kinds[0], kinds[1]])
}

/// Helgrind, which reports accesses of the program that are not ordered with those of the library.
fn helgrind(name: &str) -> Option<Command> {
    if cfg!(not(target_arch = "x86_64")) {
        weft_testing::skip("the library gives Helgrind the order of threads on x86-64 only");
        return None;
    }
    let suppressions = format!("--suppressions={}", here().join("libweft.supp").display());
    under_valgrind(name, "helgrind", &["--history-level=none", &suppressions])
}

fn is_clean(valgrind: Option<Command>) {
    let Some(mut valgrind) = valgrind else { return };
    let said = succeeds(&mut valgrind).stderr;
    assert_eq!(String::from_utf8_lossy(&said), "");
}

#[test]
fn memcheck_finds_nothing_in_blocking_calls() {
    is_clean(memcheck("ram"));
}

#[test]
fn memcheck_finds_nothing_in_queues() {
    is_clean(memcheck("queue"));
}

#[test]
fn memcheck_finds_nothing_in_a_loop_of_the_program() {
    is_clean(memcheck("loop"));
}

#[test]
fn helgrind_finds_nothing_in_blocking_calls() {
    is_clean(helgrind("ram"));
}

#[test]
fn helgrind_finds_nothing_in_queues() {
    is_clean(helgrind("queue"));
}

#[test]
fn helgrind_finds_a_buffer_that_is_read_too_early() {
    let Some(mut valgrind) = helgrind("early") else { return };
    let output = valgrind.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(9) && said.contains("early.c"), "{said}");
}

/// Maximum time of opening a RAM disk, in times of starting and ending a thread.
const OPEN_THREADS_MAX: u64 = 10;

/// The medians of the times of opening a RAM disk, and of a thread, in nanoseconds.
fn opening() -> Option<(u64, u64)> {
    let program = compile(&here().join("tests/c/open.c"), "open", library()?);
    let said = succeeds(&mut with_names(Command::new(program))).stdout;
    let said = String::from_utf8(said).unwrap();
    let (open, thread) = said.trim().split_once(' ').expect("two numbers");
    Some((open.parse().unwrap(), thread.parse().unwrap()))
}

/// It starts threads, and waits for nothing else.
#[test]
fn a_ram_disk_opens_in_the_time_of_some_threads() {
    let Some((open, thread)) = opening() else { return };
    assert!(open < OPEN_THREADS_MAX * thread, "{open} ns, and {thread} ns for a thread");
}

#[test]
#[ignore = "a measurement: cargo xtask long capi-open"]
fn how_long_a_ram_disk_opens() {
    let Some((open, thread)) = opening() else { return };
    let us = open as f64 / 1000.0;
    let times = open as f64 / thread as f64;
    println!("weft_open(\"ram:1MiB\") takes {us:.0} µs, {times:.1} times as long as a thread.");
}
