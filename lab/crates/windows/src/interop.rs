//! Promises of weft for Windows, tried under Wine: its sockets, its study, and that the Windows and
//! the Linux build speak with each other in both directions.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context, Result, ensure};
use lab_windows::{
    cache::Cache,
    toolchain::{built, cargo},
    wine,
};
use serde_json::Value;
use xtask::{
    built::{release_build, without_optimization},
    sh, times,
};

use super::{gateway, managed, packaged, server::Server, service, verified};

/// The crates whose own tests run under Wine beside the unit tests of the program: those with code
/// for Windows alone below it.
const TESTED: [&str; 2] = ["io", "block"];

/// Tests of what is the same on every system, and is tested on this one: the simulated network and
/// disk, filters and stripes above a device, devices in memory, and the mirror's engine. They take
/// long under Wine. One starts seven processes, of which a loaded Wine refuses one now and then with
/// "Internal error".
const ELSEWHERE: [&str; 10] = [
    "--skip=a_filter",
    "--skip=a_stripe",
    "--skip=conformance::a_time_limit",
    "--skip=conformance::null",
    "--skip=conformance::ram",
    "--skip=process::defect::tests::the_process_ends_with_a_thread_that_it_needs",
    "--skip=fault::tests",
    "--skip=mirror::engine",
    "--skip=sim::",
    "--skip=switch::tests",
];

/// The two builds of the program.
struct Programs<'a> {
    cache: &'a Cache,
    windows: PathBuf,
    linux: PathBuf,
}

/// Builds all that [`run`] runs.
pub fn build_tests(cache: &Cache) -> Result<()> {
    let selected = selected()?;
    build(cache, &selected)?;
    sh::run(step(cache, "test", &selected)?.args(["--lib", "--no-run"]))
}

/// Builds both programs and tries everything; a failure does not keep the rest from being tried.
pub fn run(cache: &Cache) -> Result<()> {
    let selected = selected()?;
    let programs = build(cache, &selected)?;
    wine::keep_server(cache)?;
    let mut tests = step(cache, "test", &selected)?;
    let tests =
        tests.args(["--lib", "--no-fail-fast", "--", "--show-output"]).args(ELSEWHERE).status()?;
    let trials = try_all(&programs, &[]);
    ensure!(tests.success(), "the crates' own tests failed under Wine");
    trials
}

/// Builds both programs, and tries what has one of these words in its name.
pub fn run_trials(cache: &Cache, words: &[String]) -> Result<()> {
    let programs = build(cache, &["--package=weft".to_owned()])?;
    wine::keep_server(cache)?;
    try_all(&programs, words)
}

/// Tries what has one of these words in its name; without words everything.
fn try_all(programs: &Programs<'_>, words: &[String]) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let (scratch, cache) = (scratch.path(), programs.cache);
    let (windows, linux) = (|| programs.windows(), || programs.linux());
    let trials: [(&str, &dyn Fn() -> Result<()>); 7] = [
        ("study_under_wine", &|| study(programs, scratch)),
        ("windows_host_on_linux_target", &|| talk(linux(), windows())),
        ("linux_host_on_windows_target", &|| talk(windows(), linux())),
        ("a_running_windows_target_is_managed", &|| managed::run(&windows, scratch)),
        ("a_server_is_a_service", &|| service::run(&windows, &linux, cache, scratch)),
        ("a_package_is_signed_and_complete", &|| packaged::run(cache, &programs.windows, scratch)),
        ("linux_target_through_windows_gateway", &|| gateway::run(windows(), scratch)),
    ];
    let (mut passed, mut failed) = (0, 0);
    for (name, run) in trials {
        if !words.is_empty() && !words.iter().any(|word| name.contains(word)) {
            continue;
        }
        let start = Instant::now();
        let (counter, word) = match run() {
            Ok(()) => (&mut passed, "ok".to_owned()),
            Err(error) => (&mut failed, format!("FAILED: {error:#}")),
        };
        *counter += 1;
        println!("{}", times::line(name, &word, start.elapsed()));
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    ensure!(failed == 0, "{failed} of {} trials failed", passed + failed);
    ensure!(passed > 0, "no trial has {} in its name", words.join(" or "));
    Ok(())
}

/// What both commands of cargo select: the program, and the crates that are tested with their
/// tests. The same for both, since what is selected decides which features dependencies have: with
/// other features they would be built twice.
fn selected() -> Result<Vec<String>> {
    let programs = test_programs("cli")?;
    let mut selected = vec!["--package=weft".to_owned()];
    for tested in TESTED {
        selected.push(format!("--package=weft-{tested}"));
        for test in test_programs(tested)? {
            ensure!(
                !programs.contains(&test),
                "crates/cli and crates/{tested} both have a test program {test}: rename one of them"
            );
            selected.push(format!("--test={test}"));
        }
    }
    Ok(selected)
}

/// The names of a crate's test programs, as its manifest has them.
fn test_programs(name: &str) -> Result<Vec<String>> {
    let mut command = sh::cargo("metadata");
    command.args(["--format-version=1", "--no-deps", "--locked"]);
    let metadata: Value = serde_json::from_str(&sh::output(&mut command)?)?;
    let manifest = Path::new("crates").join(name).join("Cargo.toml");
    let is_named = |package: &&Value| {
        package["manifest_path"].as_str().is_some_and(|path| Path::new(path).ends_with(&manifest))
    };
    let package = metadata["packages"].as_array().and_then(|all| all.iter().find(is_named));
    let targets = package.and_then(|package| package["targets"].as_array());
    let targets = targets.with_context(|| format!("cargo knows no crate {name}"))?;
    let tests = targets.iter().filter(|target| target["kind"][0] == "test");
    Ok(tests.filter_map(|test| test["name"].as_str().map(str::to_owned)).collect())
}

/// A cargo command of this step. Nobody reads lines of the source from what it builds, and writing
/// them is much of the linker's work.
fn step(cache: &Cache, subcommand: &str, selected: &[String]) -> Result<Command> {
    let mut command = cargo(cache, subcommand)?;
    command.args(selected).args(without_optimization()?).env("CARGO_PROFILE_DEV_DEBUG", "false");
    Ok(command)
}

/// Builds weft for Windows, in the profile of the tests, which need most of it anyway, and for this
/// machine, in that of the race.
fn build<'a>(cache: &'a Cache, selected: &[String]) -> Result<Programs<'a>> {
    sh::run(step(cache, "build", selected)?.args(["--bin", "weft"]))?;
    Ok(Programs { cache, windows: built("debug"), linux: release_build()? })
}

impl Programs<'_> {
    /// A command that starts the Windows build.
    fn windows(&self) -> Command {
        wine::program(self.cache, &self.windows)
    }

    /// A command that starts this machine's build.
    fn linux(&self) -> Command {
        Command::new(&self.linux)
    }
}

/// The quick study, run where it may leave its report.
fn study(programs: &Programs<'_>, scratch: &Path) -> Result<()> {
    sh::run(programs.windows().args(["study", "--quick"]).current_dir(scratch))?;
    for name in ["report.html", "results.json"] {
        let size = fs::metadata(scratch.join(name)).with_context(|| format!("no {name}"))?.len();
        ensure!(size > 0, "{name} is empty");
    }
    Ok(())
}

/// Writes to a served RAM disk and reads everything back.
fn talk(target: Command, host: Command) -> Result<()> {
    let server = Server::serve(target, "ram:64MiB", &["nvme+tcp://127.0.0.1:0"])?;
    verified::io(host, &server.url("nvme+tcp://")?)?;
    server.stop()
}
