//! The workspace's test programs: each starts as soon as cargo has built it, several at a time.

mod build;
mod part;
mod program;

use std::{
    collections::BTreeSet,
    fs,
    sync::{
        Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::{Context, Result, bail, ensure};
pub use part::Part;
use program::{Job, Program};

use crate::{
    sh,
    steps::{Results, interrupted, run_command},
};

/// Builds the programs and runs a part of their tests, with a row for each program.
///
/// # Errors
/// If a program does not list its tests, or `xtask/apart.txt` names tests that do not exist.
pub fn run(step: &str, part: Part, results: &Results) -> Result<()> {
    let (apart, queue) = (Apart::read()?, Queue::new());
    let (fault, all_built) = (Mutex::new(Ok(())), AtomicBool::new(false));
    let keep = |outcome: Result<()>| {
        let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
        if fault.is_ok() {
            *fault = outcome;
        }
    };
    thread::scope(|scope| {
        for _ in 0..part.width() {
            scope.spawn(|| {
                while let Some(job) = queue.next() {
                    keep(run_job(&job, results));
                    queue.done();
                }
            });
        }
        let found = |program: Program| match apart.jobs(&program, part) {
            Ok(jobs) => {
                jobs.into_iter().for_each(|job| queue.push(results.took(&job.name), job));
            }
            Err(error) => keep(Err(error)),
        };
        match build::build(step, part, results, found) {
            Ok(complete) => all_built.store(complete, Ordering::Relaxed),
            Err(error) => keep(Err(error)),
        }
        queue.close();
        results.set_built();
    });
    if all_built.into_inner() && !interrupted() && part != Part::Tools {
        keep(apart.all_exist());
    }
    fault.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn run_job(job: &Job, results: &Results) -> Result<()> {
    if interrupted() {
        return Ok(());
    }
    run_command(&job.name, job.command(), results)
}

// The order in which programs run: the longest first, one while cargo still builds.

/// Programs that wait to be run.
#[derive(Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// With the seconds that each took the last time, if that is known.
    waiting: Vec<(Option<f64>, Job)>,
    running: usize,
    /// All programs are built.
    closed: bool,
}

impl Queue {
    fn new() -> Self {
        Self::default()
    }

    /// Adds a program, with the seconds that it took the last time.
    fn push(&self, took: Option<f64>, job: Job) {
        self.lock().waiting.push((took, job));
        self.changed.notify_all();
    }

    /// Declares that all programs are built.
    fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Takes the next program, or waits for one; none if there will be no other one. While cargo
    /// builds, which keeps the processors busy, one runs at a time.
    fn next(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(at) =
                (state.closed || state.running == 0).then(|| state.longest()).flatten()
            {
                state.running += 1;
                return Some(state.waiting.swap_remove(at).1);
            }
            if state.closed && state.waiting.is_empty() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reports the end of a program that was taken.
    fn done(&self) {
        self.lock().running -= 1;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The index of the program that probably takes longest, of those that may run. Where it is not
    /// known how long they take, the largest file holds the most tests of whole programs.
    fn longest(&self) -> Option<usize> {
        let may_run = |(_, job): &&(Option<f64>, Job)| self.closed || job.part != Part::Built;
        let weight = |(took, job): &(Option<f64>, Job)| (took.unwrap_or(0.0), job.program.bytes());
        let waiting = self.waiting.iter().enumerate().filter(|(_, it)| may_run(it));
        let weights = waiting.map(|(index, it)| (index, weight(it)));
        let longest = weights.max_by(|(_, a), (_, b)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        longest.map(|(index, _)| index)
    }
}

// `xtask/apart.txt`: tests that run apart from the others of `cargo xtask test`, and the reasons.

/// Reasons with which an entry may begin.
const REASONS: [&str; 6] = ["packages", "minutes", "emulation", "clock", "process", "cargo"];

/// The entries of the file.
struct Apart {
    entries: Vec<Entry>,
    /// The entries that name tests, by their indexes.
    met: Mutex<BTreeSet<usize>>,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    program: String,
    /// The beginning of the names of its tests; empty for all of them.
    prefix: String,
    part: Part,
}

impl Apart {
    fn read() -> Result<Self> {
        let path = sh::root().join("xtask/apart.txt");
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text)
    }

    /// Parses lines of a program, the beginning of its tests' names or `*`, a part, and a reason.
    fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let entries = lines.filter(|line| !line.starts_with('#')).map(entry);
        Ok(Self { entries: entries.collect::<Result<_>>()?, met: Mutex::default() })
    }

    /// The tests of a program that belong to a part of the run, in processes: none, one, or two if
    /// some of those that run together must wait until everything is built.
    fn jobs(&self, program: &Program, part: Part) -> Result<Vec<Job>> {
        let entries: Vec<(usize, &Entry)> =
            self.entries.iter().enumerate().filter(|(_, it)| it.program == program.name).collect();
        if entries.is_empty() {
            let is_all = [Part::Together, Part::Tools].contains(&part);
            let together = is_all.then(|| Job::new(program, part, None));
            return Ok(together.into_iter().collect());
        }
        let all = program.tests()?;
        let parts = match part {
            Part::Together => vec![Part::Together, Part::Built],
            other => vec![other],
        };
        let mut jobs = Vec::new();
        for part in parts {
            let tests: BTreeSet<String> =
                all.iter().filter(|test| self.part_of(test, &entries) == part).cloned().collect();
            if !tests.is_empty() {
                let some = (tests.len() < all.len()).then_some(tests);
                jobs.push(Job::new(program, part, some));
            }
        }
        Ok(jobs)
    }

    /// The part of a test by the entries of its program: the longest of several that its name begins
    /// with decides.
    fn part_of(&self, test: &str, entries: &[(usize, &Entry)]) -> Part {
        let found = entries.iter().filter(|(_, entry)| test.starts_with(&entry.prefix));
        match found.max_by_key(|(_, entry)| entry.prefix.len()) {
            Some((index, entry)) => {
                self.met.lock().unwrap_or_else(PoisonError::into_inner).insert(*index);
                entry.part
            }
            None => Part::Together,
        }
    }

    /// Refuses entries that name no test, once all programs are known. Other systems have fewer.
    fn all_exist(&self) -> Result<()> {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = (0..self.entries.len()).find(|index| !met.contains(index));
        match missing.filter(|_| cfg!(target_os = "linux")) {
            Some(index) => {
                let Entry { program, prefix, .. } = &self.entries[index];
                bail!("xtask/apart.txt: {program} has no test that begins with {prefix:?}")
            }
            None => Ok(()),
        }
    }
}

fn entry(line: &str) -> Result<Entry> {
    let mut words = line.split_whitespace();
    let (program, prefix, part) = (words.next(), words.next(), words.next());
    let reason = words.next().unwrap_or_default().trim_end_matches(':');
    let part = part.and_then(|part| Part::ALL.iter().find(|(name, _)| *name == part));
    let (Some(program), Some(prefix), Some((_, part))) = (program, prefix, part) else {
        bail!("xtask/apart.txt: `{line}` is not PROGRAM TESTS PART REASON");
    };
    ensure!(
        REASONS.contains(&reason) && words.next().is_some(),
        "xtask/apart.txt: the reason in `{line}` must begin with {}, and a colon",
        REASONS.join(", ")
    );
    let prefix = if prefix == "*" { "" } else { prefix };
    Ok(Entry { program: program.into(), prefix: prefix.into(), part: *part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_state_a_known_reason() {
        let apart =
            Apart::parse("# a comment\n\nweft/cli gateways:: rest packages: Ceph\n").unwrap();
        let [entry] = &apart.entries[..] else { panic!("{:?}", apart.entries) };
        assert_eq!((entry.prefix.as_str(), entry.part), ("gateways::", Part::Rest));
        assert!(Apart::parse("weft/cli a:: rest because: of it").is_err());
        assert!(Apart::parse("weft/cli a:: rest packages:").is_err());
        assert!(Apart::parse("weft/cli a:: later packages: Ceph").is_err());
        assert!(apart.all_exist().is_err() || cfg!(not(target_os = "linux")));
    }

    #[test]
    fn the_file_is_in_order() {
        assert!(!Apart::read().unwrap().entries.is_empty());
    }
}
