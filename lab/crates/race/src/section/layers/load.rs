//! Loads of mirrors, as job files of `weft bench`: a pass that marks regions, and what is measured.

use std::{fmt::Write, time::Duration};

use super::{
    super::super::setting::Setting,
    ranges::{JobOption, Ranges},
};

/// Time after which a pass ends, and the measurement begins.
pub fn longest_pass(setting: &Setting) -> Duration {
    Duration::from_secs(if setting.small { 1 } else { 60 })
}

/// Name of the job that marks regions.
pub const PASS: &str = "pass";

/// Name of the job that is measured.
pub const MEASURED: &str = "measured";

/// A load: loads of one kind share a row of the distance to a leg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// For people: `4 KiB random reads`.
    pub kind: &'static str,
    /// Differs within the kind: `depth 1`.
    pub label: &'static str,
    /// Ratio to a leg that a mirror of two legs aims at.
    pub aim: Option<&'static str>,
    rw: &'static str,
    bytes: u32,
    iodepth: u32,
    /// Measured in the small form as well.
    quick: bool,
}

const READS: &str = "4 KiB random reads";
const WRITES: &str = "4 KiB random writes";
const MIXED: &str = "4 KiB random, 70:30";
const ORDERED: &str = "64 KiB sequential, depth 32";

impl Load {
    const fn new(kind: &'static str, label: &'static str, rw: &'static str, iodepth: u32) -> Self {
        Self { kind, label, aim: None, rw, bytes: 4096, iodepth, quick: false }
    }

    const fn in_order(label: &'static str, rw: &'static str) -> Self {
        Self { bytes: 64 << 10, ..Self::new(ORDERED, label, rw, 32) }
    }

    const fn aims_at(self, aim: &'static str) -> Self {
        Self { aim: Some(aim), ..self }
    }

    const fn quick(self) -> Self {
        Self { quick: true, ..self }
    }

    /// For people: the kind and the label.
    pub fn title(&self) -> String {
        format!("{}, {}", self.kind, self.label)
    }

    pub fn is_random(&self) -> bool {
        self.rw.starts_with("rand")
    }

    pub fn writes(&self) -> bool {
        self.rw != "randread" && self.rw != "read"
    }
}

const LOADS: [Load; 8] = [
    Load::new(READS, "depth 1", "randread", 1).aims_at("0.9"),
    Load::new(READS, "depth 32", "randread", 32).aims_at("0.9").quick(),
    Load::new(WRITES, "depth 1", "randwrite", 1).aims_at("0.5"),
    Load::new(WRITES, "depth 32", "randwrite", 32).aims_at("0.42").quick(),
    Load::new(MIXED, "depth 1", "randrw", 1),
    Load::new(MIXED, "depth 32", "randrw", 32),
    Load::in_order("reads", "read"),
    Load::in_order("writes", "write").quick(),
];

/// The loads that are measured.
pub fn loads(setting: &Setting) -> Vec<Load> {
    LOADS.into_iter().filter(|load| load.quick || !setting.small).collect()
}

/// Ranges of a disk that loads use, and the distance of the writes that mark its regions.
pub struct Place {
    /// Ranges of random operations.
    pub random: Ranges,
    /// Ranges of sequential operations.
    pub sequential: Ranges,
    /// Bytes from one write of the pass to the next one.
    pub step: u64,
}

/// A job file. The measurement begins `wait` after the pass; loads that only read have no pass.
pub fn job_file(setting: &Setting, load: &Load, place: &Place, wait: Duration) -> String {
    let ranges = if load.is_random() { place.random } else { place.sequential };
    let mut text = String::new();
    let cpu = ("cpus_allowed", setting.initiator_cpu.to_string());
    if load.writes() {
        let end = ("runtime", milliseconds(longest_pass(setting)));
        section(&mut text, PASS, [ranges.pass(place.step), vec![cpu.clone(), end]].concat());
    }
    let mut options = vec![
        ("rw", load.rw.to_owned()),
        ("bs", load.bytes.to_string()),
        ("iodepth", load.iodepth.to_string()),
        ("time_based", "1".into()),
        ("runtime", milliseconds(setting.runtime)),
        ("ramp_time", milliseconds(setting.ramp)),
        cpu,
    ];
    if load.rw == "randrw" {
        options.push(("rwmixread", "70".into()));
    }
    if load.writes() {
        options.push(("startdelay", milliseconds(wait)));
    }
    options.extend(if load.is_random() { ranges.at_random() } else { ranges.in_order() });
    section(&mut text, MEASURED, options);
    text
}

fn section(text: &mut String, name: &str, options: Vec<JobOption>) {
    let _ = writeln!(text, "[{name}]");
    for (option, value) in options {
        let _ = writeln!(text, "{option}={value}");
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{}ms", time.as_millis().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting() -> Setting {
        Setting {
            weft: "weft".into(),
            target_cpu: 0,
            initiator_cpu: 1,
            memory_bytes: 1 << 20,
            runtime: Duration::from_secs(1),
            ramp: Duration::from_millis(250),
            rounds: 1,
            small: false,
        }
    }

    fn place() -> Place {
        Place {
            random: Ranges::spread(1 << 30, 2, 64 << 20, 1 << 16),
            sequential: Ranges::spread(1 << 30, 1, u64::MAX, 4096),
            step: 1 << 20,
        }
    }

    #[test]
    fn writes_follow_a_pass_over_the_same_ranges() {
        let text = job_file(&setting(), &LOADS[3], &place(), Duration::from_secs(3));
        let (pass, measured) = text.split_once("[measured]\n").unwrap();
        assert!(
            pass.starts_with("[pass]\nrw=write:1044480\nbs=4096\niodepth=32\nio_size=524288\n")
        );
        assert!(pass.contains("zonerange=67108864\n") && pass.contains("runtime=60000ms\n"));
        let expected = "rw=randwrite\nbs=4096\niodepth=32\ntime_based=1\nruntime=1000ms\nramp_time=250ms\ncpus_allowed=1\nstartdelay=3000ms\nnorandommap=1\nblockalign=65536\nsize=1071644672\nrandom_distribution=zoned_abs:50/67108864:0/468713472:50/67108864:0/468713472\n";
        assert_eq!(measured, expected);
    }

    #[test]
    fn reads_have_no_pass() {
        let text = job_file(&setting(), &LOADS[6], &place(), Duration::ZERO);
        assert!(text.starts_with("[measured]\nrw=read\nbs=65536\niodepth=32\n"), "{text}");
        assert!(!text.contains("startdelay") && !text.contains("blockalign"), "{text}");
    }

    #[test]
    fn the_small_form_has_a_load_of_each_sort() {
        let small = loads(&Setting { small: true, ..setting() });
        let names: Vec<&str> = small.iter().map(|load| load.rw).collect();
        assert_eq!(names, ["randread", "randwrite", "write"]);
        assert_eq!(loads(&setting()).len(), LOADS.len());
    }
}
