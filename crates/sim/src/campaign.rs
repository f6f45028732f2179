//! Many seeds on several threads, or one with its trace.

use crate::Cli;
use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weft_base::lock::Lock;
use weft_sim::journal::SimJournal;
use weft_sim::run::{SimReport, run};
use weft_sim::wanted::Wanted;

thread_local! {
    /// What the last panic of this thread said.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// A seed, and other choices than its own.
pub type Which = (u64, Wanted);

/// Runs a seed; a panic is a violation.
pub fn guarded((seed, wanted): Which, listening: bool) -> SimReport {
    let journal = SimJournal::new(listening);
    catch_unwind(AssertUnwindSafe(|| run(seed, wanted, &journal))).unwrap_or_else(|_| SimReport {
        violation: Some(PANIC.take()),
        trace: journal.take_lines(),
        ..SimReport::nothing(seed, wanted)
    })
}

pub fn keep_panics() {
    std::panic::set_hook(Box::new(|info| {
        let text = format!("{info}").replace('\n', ": ");
        PANIC.with_borrow_mut(|last| last.push_str(&text));
    }));
}

/// Runs one seed and prints what happens.
pub fn replay(which: Which, commit: &str) -> ExitCode {
    keep_panics();
    let report = guarded(which, true);
    let mut out = std::io::stdout().lock();
    for line in &report.trace {
        // Whoever reads it may stop reading.
        if writeln!(out, "{line}").is_err() {
            break;
        }
    }
    tell(&report, which, commit);
    println!("trace hash {:016x}", report.hash);
    if report.violation.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn tell(report: &SimReport, (_, wanted): Which, commit: &str) {
    let SimReport { seed, setup, violation, operations: [ended, failed], opened, span, .. } =
        report;
    match violation {
        None => println!(
            "seed {seed}: passed, {ended} operations ({failed} failed), {opened} devices, {span:.1?}: {setup}"
        ),
        Some(text) => {
            println!("seed {seed}: FAILED at commit {commit}: {text}");
            println!("  {setup}");
            println!("  replay: cargo xtask sim --seed {seed}{wanted}");
        }
    }
}

/// Runs many.
pub fn all(cli: &Cli) -> ExitCode {
    keep_panics();
    let by_time = || {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() * 1_000_000)
    };
    let from = cli.from.unwrap_or_else(by_time);
    let mut seeds = cli.seeds.as_deref().map(kept).unwrap_or_default();
    println!(
        "{} kept seeds, then {} from {from}, at commit {}",
        seeds.len(),
        cli.count,
        cli.commit
    );
    seeds.extend((from..from + cli.count).map(|seed| (seed, cli.wanted())));
    let (next, stop, sums) =
        (AtomicUsize::new(0), AtomicBool::new(false), Lock::new(Sums::default()));
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..cli.jobs.max(1) {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed)
                    && let Some(which) = seeds.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let report = guarded(*which, false);
                    let failed = report.violation.is_some();
                    if failed {
                        tell(&report, *which, &cli.commit);
                        stop.store(!cli.keep_going, Ordering::Relaxed);
                    }
                    sums.lock().add(&report);
                }
            });
        }
    });
    let sums = sums.into_inner();
    let minutes = start.elapsed().as_secs_f64() / 60.0;
    let Sums { runs, failed, operations: [ended, without], opened, losses, virtual_s, longest } =
        sums;
    if let Some((seed, [took, allowed])) = longest {
        println!(
            "the longest operation after everything healed took {took:.1?} of the {allowed:.1?} that its options allow (seed {seed})"
        );
    }
    if losses > 0 {
        println!("{losses} gateways ended because they had lost the cluster");
    }
    println!(
        "{runs} runs, {failed} failed; {ended} operations ({without} without success), {opened} devices opened, {:.1} h of virtual time; {:.0} runs a minute with {} jobs",
        virtual_s / 3600.0,
        runs as f64 / minutes,
        cli.jobs
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The seeds of a file: a number, perhaps a scene and a transport on a line, and comments.
pub fn kept(path: &std::path::Path) -> Vec<Which> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let which = |line: &str| {
        let mut words = line.split('#').next()?.split_whitespace();
        let seed = words.next()?.parse().ok()?;
        let wanted = words.fold(Wanted::default(), |wanted, name| Wanted {
            scene: name.parse().ok().or(wanted.scene),
            transport: name.parse().ok().or(wanted.transport),
        });
        Some((seed, wanted))
    };
    text.lines().filter_map(which).collect()
}

#[derive(Default)]
struct Sums {
    runs: u64,
    failed: u64,
    operations: [u64; 2],
    opened: u64,
    losses: u64,
    virtual_s: f64,
    /// The operation that came closest to what its options allow, and its seed.
    longest: Option<(u64, [Duration; 2])>,
}

impl Sums {
    fn add(&mut self, report: &SimReport) {
        self.runs += 1;
        self.failed += u64::from(report.violation.is_some());
        self.operations = [0, 1].map(|n| self.operations[n] + report.operations[n]);
        self.opened += report.opened;
        self.losses += report.losses;
        self.virtual_s += report.span.as_secs_f64();
        let share =
            |[took, allowed]: [Duration; 2]| took.as_secs_f64() / allowed.as_secs_f64().max(1.0);
        if self.longest.is_none_or(|(_, before)| share(report.longest) > share(before)) {
            self.longest = Some((report.seed, report.longest));
        }
    }
}
