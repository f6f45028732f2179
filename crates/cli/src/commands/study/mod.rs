//! `weft study`: measures the cost of the fabric on this machine.

mod agents;
mod composed;
mod distance;
mod fio;
mod gating;
mod imported;
mod lanes;
mod lateness;
#[cfg(target_os = "linux")]
mod netem;
mod options;
mod packing;
#[cfg(target_os = "linux")]
mod peers;
pub mod program;
mod reading;
mod serving;
mod setup;
mod shape;
mod site;
mod watched;

use crate::agents::fleet::Fleet;
use crate::output::progress::Bar;
use crate::process::exit::{Failure, tell};
use crate::process::signals::watch;
use crate::version;
use lateness::Lateness;
pub use options::StudyArgs;
use serving::Cores;
use setup::Setup;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_bench::results::Skipped;
use weft_bench::study::{LaneSet, SetUp, StudyProgress, StudySpec, run as run_study};
use weft_bench::suite::Suite;
use weft_block::ErrorKind;
use weft_endpoint::Control;
use weft_endpoint::limits::IN_CAPSULE_BYTES;
use weft_endpoint::url::without_secret;

/// Runs the study, prints the table and writes the report.
pub fn run(args: StudyArgs, control: &Control) -> Result<(), Failure> {
    if let Some(command) = &args.command {
        return command.run();
    }
    if args.list_suites {
        return list();
    }
    let suite = Suite::named(&args.suite)?;
    if args.print {
        std::io::stdout().lock().write_all(suite.text.as_bytes())?;
        return Ok(());
    }
    let publisher = args.publishing.prepare()?;
    let imports = imported::read(&args.imports)?;
    let cores = Cores::choose(suite.threads);
    let lateness = Lateness::default();
    let Scene { stage, skipped, fleet } = args.scene(&suite, &cores, control, &lateness)?;
    let again = fleet.is_none().then(|| args.again(suite.clone(), &cores, control, &lateness));
    let stop = stopped_by_signals();
    let spec = StudySpec {
        suite,
        mode: args.mode(),
        budget: args.time_budget,
        seed: args.seed.unwrap_or_else(seed_of_now),
        commit: version::commit().map(str::to_owned),
        command: command_line(std::env::args()),
        stage,
        set_up: again,
        skipped,
        ceiling_cpu: cores.initiator.first().copied(),
        in_capsule_bytes: IN_CAPSULE_BYTES,
        stop,
    };
    let stopped = Arc::clone(&spec.stop);
    let mut bar = Bar::new();
    eprintln!("{}", announced(&spec));
    let mut results =
        run_study(spec, &mut |p| bar.set("study", p.fraction, Some(p.eta), &shown(&p)))?;
    bar.finish();
    fleet.iter().for_each(|fleet| fleet.add_to(&mut results));
    results.notes.extend(args.shape().note(&lateness));
    let added = weft_formats::import::measured::add(&mut results, &imports);
    // What was measured is published, whatever else cannot be added to it.
    publisher.publish(&results)?;
    added.map_err(|e| Failure::of(ErrorKind::Usage, e.to_string()))?;
    if stopped.load(Ordering::Relaxed) {
        return Err(Failure::new(
            Failure::INTERRUPTED,
            "interrupted; the report covers the time until then",
        ));
    }
    Ok(())
}

/// What a signal sets. A study is no command that ends soon: its report is the work of hours.
fn stopped_by_signals() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let signalled = Arc::clone(&stop);
    let end = move || {
        tell(
            "weft: the study ends with a report of what was measured; a second signal ends it at once",
        );
        signalled.store(true, Ordering::Relaxed);
    };
    // Without the handler a signal ends the study without a report; that is no reason to refuse to
    // run.
    let _ = watch(end, None::<fn()>);
    stop
}

/// What is measured, and what it takes.
struct Scene {
    stage: LaneSet,
    skipped: Vec<Skipped>,
    fleet: Option<Rc<Fleet>>,
}

/// How long a study is likely to take, in one line.
fn announced(spec: &StudySpec<'_>) -> String {
    let (least, most) = spec.expected();
    let seconds = |time: Duration| format!("{:.0} s", time.as_secs_f64().ceil());
    if least == most {
        return format!("weft study: about {}", seconds(most));
    }
    let percent = spec.within() * 100.0;
    format!(
        "weft study: {} to {}, until the headline is within ±{percent} %",
        seconds(least),
        seconds(most)
    )
}

/// What the progress line says: the headline so far, as soon as there is one.
fn shown(progress: &StudyProgress<'_>) -> String {
    match progress.so_far {
        "" => format!("{}, {}", progress.name, progress.what),
        so_far => so_far.to_owned(),
    }
}

/// The suites that ship with weft.
fn list() -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for suite in Suite::shipped() {
        let lanes: Vec<&str> = suite.lanes.iter().map(|lane| lane.name.as_str()).collect();
        writeln!(
            out,
            "{:<12}{}\n{:<12}lanes: {}; {} workloads",
            suite.name,
            suite.title,
            "",
            lanes.join(", "),
            suite.workloads.len()
        )?;
    }
    Ok(())
}

fn seed_of_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}

/// The command line by its program's name: where it was built says nothing to anybody else.
fn command_line(mut args: impl Iterator<Item = String>) -> Vec<String> {
    let program = args.next().unwrap_or_default();
    let name = Path::new(&program).file_name().unwrap_or_default();
    let name = name.to_string_lossy().into_owned();
    core::iter::once(name).chain(args.map(|arg| masked(&arg))).collect()
}

/// An argument without what may be a secret: that of an option `NAME=URL` as well.
fn masked(arg: &str) -> String {
    match arg.split_once('=') {
        Some((name, url)) if !name.contains("://") => format!("{name}={}", masked(url)),
        _ => without_secret(arg),
    }
}

impl StudyArgs {
    fn scene(
        &self,
        suite: &Suite,
        cores: &Cores,
        control: &Control,
        lateness: &Lateness,
    ) -> Result<Scene, Failure> {
        if !self.agents.is_empty() {
            let agents::Elsewheres { lanes, fleet } = agents::set_up(self, suite)?;
            let stage = LaneSet { lanes, ceiling: None, missing: Vec::new() };
            return Ok(Scene { stage, skipped: Vec::new(), fleet: Some(fleet) });
        }
        let set_up = Setup::start(self, suite, cores, control, lateness)?;
        let stage = set_up.into_measured()?;
        Ok(Scene { skipped: stage.missing.clone(), stage, fleet: None })
    }

    /// Sets the same up again.
    fn again<'a>(
        &'a self,
        suite: Suite,
        cores: &'a Cores,
        control: &'a Control,
        lateness: &'a Lateness,
    ) -> SetUp<'a> {
        Box::new(move || {
            let again = Setup::start(self, &suite, cores, control, lateness);
            let again = again.and_then(Setup::into_measured);
            again.map_err(|failure| {
                weft_block::Error::new(ErrorKind::Io, failure.to_string()).into()
            })
        })
    }
}
