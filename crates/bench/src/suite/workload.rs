//! A workload of a suite.

use crate::limits::SUITE_IN_FLIGHT_MAX;
use crate::results::{OpenLoop, Workload};
use crate::workload::{Direction, Rw};
use serde::Deserialize;
use weft_block::units::parse_size;

/// As it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WorkloadEntry {
    name: Option<String>,
    title: Option<String>,
    /// Bytes of each operation.
    block: String,
    /// fio's.
    rw: String,
    /// Percentage of reads, of a mix.
    read: Option<u8>,
    #[serde(default = "one")]
    jobs: u32,
    #[serde(default = "one")]
    depth: u32,
    /// Part of the latency table.
    #[serde(default)]
    latency: bool,
    /// Region of each job.
    job_size: Option<String>,
    #[serde(default)]
    warm_up_rounds: u32,
    /// Open loop: the rate, in per cent of that of the slowest lane in the workload `of`.
    load: Option<u8>,
    of: Option<String>,
}

fn one() -> u32 {
    1
}

impl WorkloadEntry {
    pub(super) fn read(self) -> Result<Workload, String> {
        let rw: Rw = self.rw.parse()?;
        let read_percent = match self.read {
            _ if rw.has(Direction::Trim) => {
                return Err(format!("rw: a suite reads and writes, and does not {rw}"));
            }
            Some(percent) if rw.is_mixed() && percent <= 100 => percent,
            Some(_) => return Err("read: it is 0 to 100, and only of a mix (rw, randrw)".into()),
            None if rw.is_mixed() => 50,
            None => {
                if rw.has(Direction::Read) {
                    100
                } else {
                    0
                }
            }
        };
        let size =
            |key: &str, text: &str| parse_size(text).map_err(|problem| format!("{key}: {problem}"));
        let bytes = size("block", &self.block)?;
        let bs_bytes = u32::try_from(bytes)
            .ok()
            .filter(|bytes| (1..=weft_load::limits::BLOCK_BYTES_MAX).contains(bytes));
        let bs_bytes = bs_bytes.ok_or("block: it is too large, or nothing")?;
        for (key, value) in [("jobs", self.jobs), ("depth", self.depth)] {
            if !(1..=SUITE_IN_FLIGHT_MAX).contains(&value) {
                return Err(format!("{key}: it is 1 to {SUITE_IN_FLIGHT_MAX}"));
            }
        }
        let open = match (self.load, self.of) {
            (None, None) => None,
            (Some(percent @ 1..=100), Some(of)) => Some(OpenLoop { of, percent }),
            (Some(_), Some(_)) => return Err("load: it is 1 to 100 per cent".into()),
            (Some(_), None) => return Err("load: `of` has to name the workload".into()),
            (None, Some(_)) => return Err("of: it goes with `load`".into()),
        };
        if open.is_some() && self.latency {
            return Err("latency: that is a table of operations one after the other; one with `load` has its own".into());
        }
        let load = open.as_ref().map(|open| open.percent);
        let (jobs, depth, latency) = (self.jobs, self.depth, self.latency);
        let words = Words { bytes: bs_bytes, rw, read_percent, jobs, depth, latency, load };
        Ok(Workload {
            name: self.name.unwrap_or_else(|| words.name()),
            title: self.title.unwrap_or_else(|| words.title()),
            rw: rw.to_string(),
            bs_bytes,
            iodepth: self.depth,
            jobs: self.jobs,
            read_percent,
            latency: self.latency,
            job_bytes: self.job_size.map(|text| size("job_size", &text)).transpose()?,
            warm_up_rounds: self.warm_up_rounds,
            open,
        })
    }
}

/// Parts of the name and the title of a workload whose suite gives none.
struct Words {
    bytes: u32,
    rw: Rw,
    read_percent: u8,
    jobs: u32,
    depth: u32,
    latency: bool,
    load: Option<u8>,
}

impl Words {
    /// `4k-randread`, `8k-randrw30`, `qd1-4k-randread`, `4k-randread-16jobs`, `load50-4k-randread`.
    fn name(&self) -> String {
        let size = match self.bytes {
            bytes if bytes % (1 << 20) == 0 => format!("{}m", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => format!("{}k", bytes >> 10),
            bytes => bytes.to_string(),
        };
        let order = if self.rw.is_random() { "rand" } else { "seq" };
        let what = match (self.rw.is_mixed(), self.rw.has(Direction::Read)) {
            (true, _) => format!("rw{}", self.read_percent),
            (false, true) => "read".to_owned(),
            (false, false) => "write".to_owned(),
        };
        let prefix = match (self.latency, self.load) {
            (true, _) => "qd1-".to_owned(),
            (false, Some(percent)) => format!("load{percent}-"),
            (false, None) => String::new(),
        };
        let jobs = if self.jobs == 1 { String::new() } else { format!("-{}jobs", self.jobs) };
        format!("{prefix}{size}-{order}{what}{jobs}")
    }

    /// `4 KiB random read, 16 jobs × 32`.
    fn title(&self) -> String {
        let size = match self.bytes {
            bytes if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
            bytes if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
            bytes => format!("{bytes} B"),
        };
        let order = if self.rw.is_random() { "random" } else { "sequential" };
        let what = match (self.rw.is_mixed(), self.rw.has(Direction::Read)) {
            (true, _) => format!("{} % write", 100 - self.read_percent),
            (false, true) => "read".to_owned(),
            (false, false) => "write".to_owned(),
        };
        let jobs = match (self.jobs, self.depth) {
            _ if self.load.is_some() => format!(" at {} % load", self.load.unwrap_or(0)),
            (1, _) => String::new(),
            (jobs, 1) => format!(", {jobs} jobs"),
            (jobs, depth) => format!(", {jobs} jobs × {depth}"),
        };
        format!("{size} {order} {what}{jobs}")
    }
}
