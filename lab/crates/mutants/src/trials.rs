//! The tests that reach each mutant, and trials of a mutant with these.
//!
//! Each test runs in a process of its own, without a mutant first: the mutants that its code comes
//! by, in that process or in one that it starts, each leave a file (`WEFT_MUTANTS_REACHED`).

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use xtask::{
    sh,
    steps::{Ended, Limit, interrupted, run_limited},
};

use super::programs::Program;

/// Longer than any test takes.
const LIMIT: Duration = Duration::from_secs(30 * 60);

/// Tests at a time: most of them wait for something most of the time.
const TESTS_PER_CORE: usize = 3;

/// A test that passes without a mutant.
struct Test {
    name: String,
    program: Program,
    takes: Duration,
    /// The mutants that it reaches; `None`: all may be.
    reaches: Option<BTreeSet<usize>>,
}

/// All tests.
pub struct Tests {
    all: Vec<Test>,
    logs: PathBuf,
    /// Tests that fail without a mutant.
    pub failing: Vec<String>,
}

/// The end of a trial.
pub enum Verdict {
    /// The test that has caught the mutant.
    Caught(String),
    /// The number of tests that reach the mutant and pass.
    Survived(usize),
}

impl Tests {
    /// Runs all tests of these programs without a mutant.
    pub fn read(programs: &[Program], logs: PathBuf) -> Result<Self> {
        let mut named = Vec::new();
        for program in programs {
            named.extend(program.tests()?.into_iter().map(|name| (program, name)));
        }
        let found = side_by_side(named.len(), |nth| {
            let (program, name) = &named[nth];
            let reached = logs.join(format!("reached-{nth}"));
            let _ = fs::remove_dir_all(&reached);
            fs::create_dir_all(&reached)?;
            let ended = run(program, name, (0, nth), (Some(&reached), LIMIT), &logs)?;
            let reaches = if passes(&ended) {
                Some(numbers(&reached)?)
            } else {
                // It failed once, perhaps because it lets nothing write files.
                if !passes(&run(program, name, (0, nth), (None, LIMIT), &logs)?) {
                    return Ok(None);
                }
                None
            };
            fs::remove_dir_all(&reached)?;
            let (program, name) = ((*program).clone(), name.clone());
            Ok(Some(Test { name, program, takes: ended.elapsed, reaches }))
        })?;
        let failed = named.iter().zip(&found).filter(|(_, found)| found.is_none());
        let failing = failed.map(|((program, name), _)| format!("{} {name}", program.name));
        let failing = failing.collect();
        let mut all: Vec<Test> = found.into_iter().flatten().collect();
        all.sort_by_key(|test| test.takes);
        Ok(Self { all, logs, failing })
    }

    /// The number of tests that pass without a mutant.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Runs the tests that reach a mutant, the quickest first, until one fails twice.
    pub fn trial(&self, mutant: usize) -> Result<Verdict> {
        let reaches = |test: &&Test| test.reaches.as_ref().is_none_or(|of| of.contains(&mutant));
        let tests: Vec<&Test> = self.all.iter().filter(reaches).collect();
        let caught = Mutex::new(None);
        let caught_by = || caught.lock().unwrap_or_else(PoisonError::into_inner);
        side_by_side(tests.len(), |nth| {
            let Test { name, program, takes, .. } = tests[nth];
            // Other work on the machine must not be a reason.
            let limit = Duration::from_secs(60) + *takes * 4;
            for _ in 0..2 {
                if caught_by().is_some() {
                    return Ok(());
                }
                let ended = run(program, name, (mutant, nth), (None, limit), &self.logs)?;
                match ended.status {
                    Some(status) if status.success() => return Ok(()),
                    Some(_) => {}
                    None => {
                        let by = format!("{} {name}, which hangs", program.name);
                        caught_by().get_or_insert(by);
                        return Ok(());
                    }
                }
            }
            caught_by().get_or_insert(format!("{} {name}", program.name));
            Ok(())
        })?;
        let by = caught.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(by.map_or(Verdict::Survived(tests.len()), Verdict::Caught))
    }
}

fn passes(ended: &Ended) -> bool {
    ended.status.is_some_and(|status| status.success())
}

/// Runs one test with this mutant, and what it reaches in that directory.
fn run(
    program: &Program,
    test: &str,
    (mutant, nth): (usize, usize),
    (reached, limit): (Option<&Path>, Duration),
    logs: &Path,
) -> Result<Ended> {
    let mut command = program.command(mutant);
    command.args(["--exact", test]);
    if let Some(reached) = reached {
        command.env("WEFT_MUTANTS_REACHED", reached);
    }
    let log = logs.join(format!("{mutant}-{nth}.log"));
    let name = format!("{} {test}", program.name);
    let ended = run_limited(&name, command, Limit::Time(limit), &log)?;
    if interrupted() {
        bail!("interrupted");
    }
    if passes(&ended) {
        fs::remove_file(log)?;
    }
    Ok(ended)
}

/// The numbers that are the names of the files in a directory.
fn numbers(directory: &Path) -> Result<BTreeSet<usize>> {
    let files =
        fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
    let number = |file: std::io::Result<fs::DirEntry>| {
        file?.file_name().to_string_lossy().parse().context("a mutant's number")
    };
    files.map(number).collect()
}

/// Does something for each number below `count`, several at a time; gives the results in order.
fn side_by_side<T: Send>(count: usize, work: impl Fn(usize) -> Result<T> + Sync) -> Result<Vec<T>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let one_after_the_other = || -> Result<()> {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                return Ok(());
            }
            let result = work(nth)?;
            done.lock().unwrap_or_else(PoisonError::into_inner).push((nth, result));
        }
    };
    thread::scope(|scope| {
        let workers = 0..(TESTS_PER_CORE * sh::cores()).min(count);
        let workers: Vec<_> = workers.map(|_| scope.spawn(one_after_the_other)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("a worker does not panic"))
    })?;
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(nth, _)| *nth);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_several_at_a_time_are_in_order() {
        let doubled = side_by_side(50, |nth| Ok(2 * nth)).unwrap();
        assert_eq!(doubled, (0..50).map(|nth| 2 * nth).collect::<Vec<_>>());
        assert!(side_by_side(50, |nth| if nth == 7 { bail!("no") } else { Ok(()) }).is_err());
    }
}
