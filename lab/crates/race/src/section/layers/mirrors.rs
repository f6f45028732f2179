//! Mirrors of two and three legs at the sizes of real disks, relative to a single leg of the same
//! kind.

use std::{cell::Cell, fs, path::Path, time::Duration};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    super::super::{
        contestant::Target,
        process,
        sample::{Sample, until_done},
        setting::Setting,
        table::Table,
    },
    load::{self, Load, MEASURED, PASS, Place, longest_pass},
    measured::{self, Measured},
    ranges::{PAGE_BYTES, Ranges, align_for, in_words, power_of_two, ram_disk},
    serve::{serve, serve_sparse},
};

/// Disks of a target: the single leg, and the three legs of mirrors.
const DISKS: u64 = 4;

/// Bytes of a sparse disk.
const SPARSE_BYTES: u64 = 1 << 40;

/// Working set of the study: ten ranges of 10 GiB.
const RANGES: (u64, u64) = (10, 10 << 30);

/// The hot set in which these ranges fit, with the regions at their ends.
const HOT: &str = "104GiB";

/// Ranges of sequential operations where all of a disk is used.
const WINDOWS: u64 = 64;

/// Memory of a disk in the small form.
const SMALL_BYTES: u64 = 32 << 20;

/// Least distance of the writes of a pass: the shortest region of a mirror.
const LEAST_STEP: u64 = 64 << 10;

/// A disk has at most 2^16 regions; a pass writes to each of them 16 times.
const STEPS_LOG2: u32 = 20;

/// A way to use the disks: the number of legs, and whether there is a state file. One leg is used
/// without a mirror.
#[derive(Clone, Copy)]
struct Way {
    name: &'static str,
    legs: usize,
    has_state: bool,
}

const WAYS: [Way; 5] = [
    Way { name: "leg", legs: 1, has_state: false },
    Way { name: "two legs", legs: 2, has_state: false },
    Way { name: "two legs, state file", legs: 2, has_state: true },
    Way { name: "three legs", legs: 3, has_state: false },
    Way { name: "three legs, state file", legs: 3, has_state: true },
];

/// A size of disks.
struct Kind {
    /// Name in the results file.
    name: &'static str,
    /// Bytes of a disk.
    bytes: u64,
    is_sparse: bool,
    has_aims: bool,
    /// The option `hot` of mirrors. With it, only random writes and mixes are measured.
    hot: Option<&'static str>,
    place: Place,
}

/// The sizes, with ranges for which `memory` bytes a disk suffice.
fn kinds(memory: u64) -> [Kind; 4] {
    let full = power_of_two(memory).min(2 << 30);
    let whole = Ranges::spread(full, 1, u64::MAX, PAGE_BYTES);
    // Half of it for random operations, half for sequential ones.
    let half = memory / 2;
    let window = |count| power_of_two(half / count);
    let (count, bytes) = RANGES;
    let spread = |count, bytes, align| Ranges::spread(SPARSE_BYTES, count, bytes, align);
    let step = |bytes: u64| (bytes >> STEPS_LOG2).max(LEAST_STEP);
    let sparse = |name, has_aims, random, sequential| {
        let place = Place { random, sequential, step: step(SPARSE_BYTES) };
        Kind { name, bytes: SPARSE_BYTES, is_sparse: true, has_aims, hot: None, place }
    };
    let ranges = |name| {
        let random = spread(count, bytes, align_for(count * bytes, half));
        sparse(name, true, random, spread(count, window(count), PAGE_BYTES))
    };
    [
        Kind {
            name: "whole",
            bytes: full,
            is_sparse: false,
            has_aims: true,
            hot: None,
            place: Place { random: whole, sequential: whole, step: step(full) },
        },
        ranges("ranges"),
        Kind { hot: Some(HOT), ..ranges("ranges_hot") },
        sparse(
            "sparse",
            false,
            spread(1, u64::MAX, align_for(SPARSE_BYTES, half)),
            spread(WINDOWS, window(WINDOWS), PAGE_BYTES),
        ),
    ]
}

/// Memory of the machine, in bytes.
struct Memory {
    total: u64,
    /// That a disk may take: half of what is available, for all disks of a target.
    of_disk: u64,
}

impl Memory {
    fn read(setting: &Setting) -> Result<Self> {
        let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
        let field = |name: &str| {
            meminfo(&text, name).with_context(|| format!("no {name} in /proc/meminfo"))
        };
        let available = field("MemAvailable")? / 2 / DISKS;
        let of_disk = if setting.small { SMALL_BYTES.min(available) } else { available };
        Ok(Self { total: field("MemTotal")?, of_disk })
    }
}

/// A field of `/proc/meminfo`, in bytes.
fn meminfo(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
}

/// The disks of a target, filled, and where state files and job files are.
struct Bench<'a> {
    setting: &'a Setting,
    kind: &'a Kind,
    /// The single leg, and the legs of mirrors.
    disks: Vec<String>,
    directory: TempDir,
    /// Measurements that began before their pass was over.
    early: Cell<u32>,
    /// Serves the disks.
    _target: Target,
}

impl<'a> Bench<'a> {
    fn new(setting: &'a Setting, kind: &'a Kind, total: u64) -> Result<Self> {
        let source = ram_disk(kind.bytes, total);
        let sources = vec![source.as_str(); DISKS as usize];
        let target = match kind.is_sparse {
            true => serve_sparse(setting, &sources)?,
            false => serve(setting, &sources, &[])?,
        };
        let disks = (1..=DISKS).map(|nsid| format!("{}/{nsid}", target.url)).collect();
        // In memory: what a disk takes to keep it is not measured.
        let memory = Some(Path::new("/dev/shm")).filter(|memory| memory.is_dir());
        let directory = memory.map_or_else(tempfile::tempdir, tempfile::tempdir_in);
        let directory = directory.context("a directory for a mirror's state")?;
        let early = Cell::new(0);
        let bench = Self { setting, kind, disks, directory, early, _target: target };
        bench.disks.iter().try_for_each(|disk| bench.fill(disk))?;
        Ok(bench)
    }

    /// Writes all blocks once that measurements use: fresh pages cost page faults.
    fn fill(&self, disk: &str) -> Result<()> {
        let place = &self.kind.place;
        let mut passes = vec![place.sequential.filled()];
        if self.kind.is_sparse {
            passes.push(place.random.pass(PAGE_BYTES));
        }
        for options in passes {
            let mut command = self.setting.weft(&["bench", disk, "--output-format=json"]);
            command.args(options.iter().map(|(name, value)| format!("--{name}={value}")));
            process::output(&mut command)?;
        }
        Ok(())
    }

    /// The URL of a way. A mirror is made again each time, as all mirrors use the same legs.
    fn prepare(&self, way: Way) -> Result<String> {
        let [leg, legs @ ..] = &self.disks[..] else { return Ok(String::new()) };
        if way.legs == 1 {
            return Ok(leg.clone());
        }
        let legs: Vec<&str> = legs[..way.legs].iter().map(String::as_str).collect();
        let state = self.directory.path().join("mirror.state");
        let state = state.to_str().context("the name of a temporary directory")?;
        let mut create = vec!["mirror", "create", "--assume-clean", "--destroy-data"];
        if way.has_state {
            create.extend(["--state", state]);
        }
        create.extend(&legs);
        process::output(&mut self.setting.weft(&create))?;
        let state = if way.has_state { format!("state={state},") } else { String::new() };
        let hot = self.kind.hot.map(|hot| format!("hot={hot},")).unwrap_or_default();
        Ok(format!("mirror:{state}{hot}{}", legs.join(",")))
    }

    /// Measures a load, after a pass that has ended. Waits longer for the pass where `wait` was too
    /// short.
    fn measure(&self, way: Way, load: &Load, wait: &mut Duration) -> Result<Sample> {
        let longest = longest_pass(self.setting);
        loop {
            let (sample, took) =
                until_done(self.setting, |setting| self.once(setting, way, load, *wait))?;
            match took {
                Some(took) if took > *wait && *wait < longest => {
                    *wait = longer(took).min(longest);
                }
                took => {
                    let is_early = took.is_some_and(|took| took >= longest);
                    self.early.set(self.early.get() + u32::from(is_early));
                    return Ok(sample);
                }
            }
        }
    }

    /// Measures once; the time that the pass took.
    fn once(
        &self,
        setting: &Setting,
        way: Way,
        load: &Load,
        wait: Duration,
    ) -> Result<(Sample, Option<Duration>)> {
        let url = self.prepare(way)?;
        let path = self.directory.path().join("load.fio");
        fs::write(&path, load::job_file(setting, load, &self.kind.place, wait))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let path = path.to_str().context("the name of a temporary directory")?;
        let mut command =
            setting.weft(&["bench", &url, "--fio", path, "--output-format=json", "--destroy-data"]);
        let report: Value = serde_json::from_str(&process::output(&mut command)?)
            .with_context(|| format!("weft bench {url} printed no JSON"))?;
        outcome(&report)
    }
}

/// Time to wait for a pass that took `took` while the measurement ran beside it.
fn longer(took: Duration) -> Duration {
    took.mul_f64(1.25)
}

/// The sample of a report, and the time that the pass took, where there was one.
fn outcome(report: &Value) -> Result<(Sample, Option<Duration>)> {
    let jobs = report["jobs"].as_array().context("no jobs in the report")?;
    let named = |name: &str| jobs.iter().find(|job| job["jobname"] == name);
    let took = match named(PASS) {
        Some(pass) => {
            ensure!(pass["error"].as_u64() == Some(0), "the pass failed: {}", pass["error"]);
            let took = pass["job_runtime"].as_u64().context("no duration of the pass")?;
            Some(Duration::from_millis(took))
        }
        None => None,
    };
    let measured = named(MEASURED).context("no measured job in the report")?;
    Ok((Sample::of_fio(&json!({ "jobs": [measured] }))?, took))
}

/// Measures mirrors of all sizes. The last table has rows for the page of distances.
pub fn run(setting: &Setting) -> Result<(Vec<Table>, Value)> {
    let memory = Memory::read(setting)?;
    let kinds = kinds(memory.of_disk);
    let (mut tables, mut data) = (Vec::new(), serde_json::Map::new());
    let head = ["what", "before", "aim", "now", "command"];
    let text = "Rows of `docs/performance/distance.md`, ratios to one leg.";
    let mut distance = Table::new("Distance of mirrors to one leg", text, &head);
    for kind in &kinds {
        let mut loads = load::loads(setting);
        loads.retain(|load| kind.hot.is_none() || load.writes() && load.is_random());
        let bench = Bench::new(setting, kind, memory.total)?;
        let all = measure(&bench, &loads)?;
        let early = bench.early.get();
        tables.push(table(setting, kind, &all, early));
        distance.rows.extend(rows(kind, &all, &loads));
        data.insert(kind.name.into(), measured::json(&all, &WAYS.map(|way| way.name)));
    }
    tables.push(distance);
    Ok((tables, data.into()))
}

/// Measures all loads in all ways.
fn measure(bench: &Bench<'_>, loads: &[Load]) -> Result<Vec<Measured>> {
    let (setting, kind) = (bench.setting, bench.kind);
    let first = if setting.small { 100 } else { 1000 };
    let mut waits = [Duration::from_millis(first); WAYS.len()];
    let of_load = |load: &Load| {
        eprintln!("mirrors, {}: {}", kind.title(), load.title());
        let measure = |at: usize| {
            let (way, wait) = (WAYS[at], &mut waits[at]);
            bench
                .measure(way, load, wait)
                .with_context(|| format!("{}, {}", kind.title(), way.name))
        };
        Measured::of(setting, load.title(), WAYS.len(), measure)
    };
    loads.iter().map(of_load).collect()
}

impl Kind {
    /// For people: the size, and what of it is used.
    fn title(&self) -> String {
        let used = self.place.random;
        let hot = self.hot.map(|hot| format!(", `hot={hot}`")).unwrap_or_default();
        format!("{}, {used}{hot}", in_words(self.bytes))
    }
}

fn table(setting: &Setting, kind: &Kind, all: &[Measured], early: u32) -> Table {
    let place = &kind.place;
    let pages = if kind.is_sparse { "pages of 4 KiB" } else { "huge pages" };
    let text = format!(
        "Mirrors over RAM disks of {} in {pages}, compared with one such disk: all disks on one target with one loop on one core, the initiator on the other one. Random operations: {}. Sequential operations: {}. All of these blocks were written before. A pass with a write each {} precedes the measurement of writes and mixes, and is over unless it takes more than {} s. Medians of {} rounds, with the least and the greatest; mirrors as ratios to the leg in the same round.",
        in_words(kind.bytes),
        place.random.random_in_words(),
        place.sequential,
        in_words(place.step),
        longest_pass(setting).as_secs(),
        setting.rounds
    );
    let head = ["load", "leg, operations per second"].into_iter();
    let head: Vec<&str> = head.chain(WAYS[1..].iter().map(|way| way.name)).collect();
    let mut table = Table::new(&format!("Mirrors: {}", kind.title()), &text, &head);
    table.rows.extend(all.iter().map(Measured::row));
    // The terminal shows no introduction.
    table.notes.push(format!(
        "Random: {}. Sequential: {}.",
        place.random.random_in_words(),
        place.sequential
    ));
    if early > 0 {
        table.notes.push(format!(
            "{early} measurements of writes and mixes began after {} s, before the pass was over.",
            longest_pass(setting).as_secs()
        ));
    }
    table
}

/// Rows of the page of distances: one for each kind of load, with all of its labels.
fn rows(kind: &Kind, all: &[Measured], loads: &[Load]) -> Vec<Vec<String>> {
    let both: Vec<(&Load, &Measured)> = loads.iter().zip(all).collect();
    let of_one = both.chunk_by(|a, b| a.0.kind == b.0.kind);
    let row = |same: &[(&Load, &Measured)]| {
        let first = same.first()?.0;
        let labels: Vec<&str> = same.iter().map(|(load, _)| load.label).collect();
        let aims: Option<Vec<&str>> =
            same.iter().map(|(load, _)| load.aim.filter(|_| kind.has_aims)).collect();
        let aims = aims.map_or("–".into(), |aims| format!("two legs: {}", aims.join(", ")));
        let of_way = |at: usize| {
            let ratios =
                same.iter().map(|(_, one)| one.ratio(|round| round[at].iops / round[0].iops));
            format!("{}: {}", WAYS[at].name, ratios.collect::<Vec<_>>().join(", "))
        };
        let now: Vec<String> = (1..WAYS.len()).map(of_way).collect();
        let what = format!("mirrors of {}; {}: {}", kind.title(), first.kind, labels.join(", "));
        let command = "`cargo xtask race --layers`".to_owned();
        Some(vec![what, "–".into(), aims, now.join("; "), command])
    };
    of_one.filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_as_dense_as_memory_allows() {
        let [whole, ranges, hot, sparse] = kinds(5 << 29);
        assert_eq!(whole.title(), "2 GiB, all of it");
        assert_eq!(ranges.title(), "1 TiB, 10 ranges of 10 GiB");
        assert_eq!(hot.title(), "1 TiB, 10 ranges of 10 GiB, `hot=104GiB`");
        let words = ranges.place.random.random_in_words();
        assert_eq!(words, "10 ranges of 10 GiB, at multiples of 512 KiB");
        assert_eq!(ranges.place.sequential.to_string(), "10 ranges of 128 MiB");
        assert_eq!(sparse.place.random.random_in_words(), "all of it, at multiples of 8 MiB");
        assert_eq!(sparse.place.sequential.to_string(), "64 ranges of 16 MiB");
        let steps = [&whole, &ranges, &sparse].map(|kind| kind.place.step);
        assert_eq!(steps, [64 << 10, 1 << 20, 1 << 20]);
        assert_eq!(kinds(SMALL_BYTES)[0].bytes, SMALL_BYTES);
    }

    #[test]
    fn fields_of_meminfo_are_bytes() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   19000000 kB\n";
        assert_eq!(meminfo(text, "MemAvailable"), Some(19_000_000 << 10));
        assert_eq!(
            (meminfo(text, "MemTotal"), meminfo(text, "Mem")),
            (Some(24_000_000 << 10), None)
        );
    }

    #[test]
    fn only_the_measured_job_counts() {
        let pass =
            json!({ "jobname": PASS, "error": 0, "job_runtime": 2500, "write": { "iops": 9.0 } });
        let measured = json!({ "jobname": MEASURED, "error": 0, "write": { "iops": 7.0 } });
        let (sample, took) = outcome(&json!({ "jobs": [pass, measured] })).unwrap();
        assert_eq!((sample.iops, took), (7.0, Some(Duration::from_millis(2500))));
        let (_, took) = outcome(&json!({ "jobs": [measured] })).unwrap();
        assert_eq!(took, None);
        let failed = json!({ "jobname": PASS, "error": 5, "job_runtime": 1 });
        assert!(outcome(&json!({ "jobs": [failed, measured] })).is_err());
    }

    #[test]
    fn loads_of_one_kind_share_a_row() {
        let setting = Setting {
            weft: "weft".into(),
            target_cpu: 0,
            initiator_cpu: 1,
            memory_bytes: 1 << 20,
            runtime: Duration::from_secs(1),
            ramp: Duration::ZERO,
            rounds: 1,
            small: false,
        };
        let loads = load::loads(&setting);
        let all: Vec<Measured> = loads
            .iter()
            .map(|load| {
                let sample =
                    |at: usize| Ok(Sample { iops: 10.0 / (at + 1) as f64, ..Sample::default() });
                Measured::of(&setting, load.title(), WAYS.len(), sample).unwrap()
            })
            .collect();
        let [whole, .., sparse] = kinds(5 << 29);
        let rows_of_whole = rows(&whole, &all, &loads);
        assert_eq!(rows_of_whole.len(), 4);
        let [what, _, aim, now, _] = &rows_of_whole[1][..] else { panic!("{rows_of_whole:?}") };
        assert_eq!(what, "mirrors of 2 GiB, all of it; 4 KiB random writes: depth 1, depth 32");
        assert_eq!(aim, "two legs: 0.5, 0.42");
        assert!(
            now.starts_with("two legs: 0.50 (0.50–0.50), 0.50 (0.50–0.50); two legs, state"),
            "{now}"
        );
        assert_eq!(rows(&sparse, &all, &loads)[1][2], "–");
    }
}
