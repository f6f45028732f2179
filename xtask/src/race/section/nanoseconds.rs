//! Where the time of a 4 KiB read goes, at both ends: samples by `perf`, sorted by whose code they
//! fell into.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::{
    super::{
        contestant::Target,
        sample::Cost,
        setting::Setting,
        table::{Section, Table, rate},
    },
    iops, reads,
};
use crate::sh::{self, Missing};

/// Samples a second.
const FREQUENCY: &str = "4000";

/// Time from the start of the load until samples are taken.
const SETTLE: Duration = Duration::from_millis(500);

/// Whose code a sample fell into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    KernelCopies,
    KernelEntry,
    KernelTcp,
    UserCopies,
    Engine,
    Device,
    Pump,
    Loop,
    Generator,
    Rest,
}

impl Place {
    const ALL: [Self; 10] = [
        Self::KernelTcp,
        Self::KernelCopies,
        Self::KernelEntry,
        Self::UserCopies,
        Self::Engine,
        Self::Device,
        Self::Pump,
        Self::Loop,
        Self::Generator,
        Self::Rest,
    ];

    fn title(self) -> &'static str {
        match self {
            Self::KernelTcp => "kernel: TCP, IP, loopback, memory of packets",
            Self::KernelCopies => "kernel: copies from and to user space",
            Self::KernelEntry => "kernel: entry, scheduling, polling",
            Self::UserCopies => "copies in user space",
            Self::Engine => "engines (proto)",
            Self::Device => "RAM disk (block)",
            Self::Pump => "pump, source and export (endpoint)",
            Self::Loop => "event loop, sockets, buffers (io)",
            Self::Generator => "load generator (bench)",
            Self::Rest => "clock, C library and the rest",
        }
    }

    /// Where a symbol belongs; `kernel` for one of the kernel's.
    fn of(symbol: &str, kernel: bool) -> Self {
        let starts = |names: &[&str]| names.iter().any(|name| symbol.starts_with(name));
        if kernel {
            return match symbol {
                _ if starts(&[
                    "_copy_",
                    "copy_user",
                    "copyout",
                    "copyin",
                    "rep_movs",
                    "memcpy",
                ]) =>
                {
                    Self::KernelCopies
                }
                _ if starts(&[
                    "entry_",
                    "do_syscall",
                    "syscall_",
                    "x64_sys_call",
                    "finish_task_switch",
                    "schedule",
                    "__schedule",
                ]) || ["epoll", "ep_", "futex", "clock_gettime"]
                    .iter()
                    .any(|name| symbol.contains(name)) =>
                {
                    Self::KernelEntry
                }
                _ => Self::KernelTcp,
            };
        }
        // A method of a trait is named after the type that has it, so the first crate counts.
        let at = |name: &str| symbol.find(name).unwrap_or(usize::MAX);
        let crates = [
            ("weft_proto", Self::Engine),
            ("weft_block", Self::Device),
            ("weft_endpoint", Self::Pump),
            ("weft_io", Self::Loop),
            ("weft_bench", Self::Generator),
        ];
        let first = crates
            .into_iter()
            .min_by_key(|(name, _)| at(name))
            .filter(|(name, _)| symbol.contains(name));
        match first {
            Some((_, place)) => place,
            None if symbol.contains("memmove") || symbol.contains("memcpy") => Self::UserCopies,
            None => Self::Rest,
        }
    }
}

/// Takes samples of both ends under load at depth 32.
pub fn run(setting: &Setting) -> Result<Section> {
    if !sh::have("perf") {
        return Err(Missing("there is no perf (linux-perf)".into()).into());
    }
    let mut target = Target::start(setting, &format!("ram:{}", setting.memory_bytes))?;
    target.fill(setting)?;
    // A run apart tells the processor time, as sampling costs some.
    let job = |runtime: Duration| {
        let long = Setting { runtime, ..setting.clone() };
        reads(&long, 32, &[&format!("--cpus_allowed={}", setting.initiator_cpu)])
    };
    let sample = target.sample(setting, &job(setting.runtime * 3))?;
    let record = setting.runtime * 3;
    let mut load = setting.weft(&["bench", &target.url, "--output-format=json"]);
    load.args(job(record + SETTLE * 3)).stdin(Stdio::null()).stdout(Stdio::piped());
    let load = load.spawn()?;
    thread::sleep(SETTLE);
    let directory = tempfile::tempdir().context("cannot make a temporary directory")?;
    let files = ["initiator", "target"].map(|name| directory.path().join(name));
    let pids = [load.id(), target.process.pid()];
    let recorders = files
        .iter()
        .zip(pids)
        .map(|(file, pid)| perf(file, pid, record))
        .collect::<Result<Vec<_>>>()?;
    for mut recorder in recorders {
        if !recorder.wait()?.success() {
            return Err(Missing("perf may not sample here".into()).into());
        }
    }
    let report: Value = serde_json::from_slice(&load.wait_with_output()?.stdout)
        .context("weft bench printed no JSON")?;
    ensure!(iops(&report) > 0.0, "nothing was read");
    let cpu = [sample.initiator, sample.target].map(|cost| cost.as_ref().map_or(0.0, Cost::cpu_us));
    let shares = [shares(&files[0])?, shares(&files[1])?];
    let mut table = Table::new(
        "Where each nanosecond of a 4 KiB read goes",
        "4 KiB random reads at depth 32 over a RAM disk: nanoseconds of processor time for each operation, by whose code ran. \
         Inlined functions count as the one that they are part of.",
        &["where", "initiator", "target"],
    );
    for (at, place) in Place::ALL.into_iter().enumerate() {
        let cell = |end: usize| {
            format!("{:.0} ({:.0} %)", shares[end][at] * cpu[end] * 1e3, shares[end][at] * 100.0)
        };
        table.rows.push(vec![place.title().into(), cell(0), cell(1)]);
    }
    table.rows.push(vec![
        "all".into(),
        format!("{:.0}", cpu[0] * 1e3),
        format!("{:.0}", cpu[1] * 1e3),
    ]);
    table
        .notes
        .push(format!("Measured at {} operations per second without sampling.", rate(sample.iops)));
    let data = json!({ "sample": sample.json(), "initiator": shares[0], "target": shares[1] });
    Ok(Section { name: "nanoseconds", tables: vec![table], data })
}

fn perf(file: &Path, pid: u32, time: Duration) -> Result<Child> {
    let seconds = time.as_secs_f64().to_string();
    let mut command = Command::new("perf");
    command.args([
        "record",
        "--quiet",
        "--event=cpu-clock",
        "--freq",
        FREQUENCY,
        "--pid",
        &pid.to_string(),
        "--output",
    ]);
    command
        .arg(file)
        .args(["sleep", &seconds])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.spawn().context("cannot start perf")
}

/// The part of the samples of each place.
fn shares(file: &Path) -> Result<[f64; Place::ALL.len()]> {
    let mut report = Command::new("perf");
    report
        .args([
            "report",
            "--stdio",
            "--no-children",
            "--sort",
            "dso,sym",
            "--percent-limit",
            "0",
            "--input",
        ])
        .arg(file);
    let text = sh::output(report.stderr(Stdio::null()))?;
    let shares = sorted(&text);
    ensure!(shares.iter().sum::<f64>() > 0.5, "perf saw next to nothing");
    Ok(shares)
}

fn sorted(text: &str) -> [f64; Place::ALL.len()] {
    let mut shares = [0.0; Place::ALL.len()];
    for line in text.lines() {
        let Some((percent, rest)) = line.trim().split_once('%') else { continue };
        let (Ok(percent), Some((_, symbol))) = (percent.parse::<f64>(), rest.split_once('['))
        else {
            continue;
        };
        // `[kernel.kallsyms]  [k] name`, or `weft  [.] name`.
        let symbol = symbol
            .rsplit_once("[k] ")
            .or_else(|| symbol.split_once(".] "))
            .map_or(symbol, |(_, name)| name);
        let place = Place::of(symbol.trim(), rest.contains("[k] "));
        let at = Place::ALL.iter().position(|one| *one == place).unwrap_or(Place::ALL.len() - 1);
        shares[at] += percent / 100.0;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_sorted_by_owner() {
        let text = "# Overhead  Shared Object  Symbol\n\n    18.00%  libc.so.6          [.] __memmove_avx512_unaligned_erms\n    \
                    12.00%  weft               [.] <weft_block::ram::RamQueue as weft_block::device::BlockQueue>::submit\n     \
                    8.00%  [kernel.kallsyms]  [k] _copy_from_iter\n     \
                    4.00%  [kernel.kallsyms]  [k] finish_task_switch.isra.0\n     \
                    3.00%  [kernel.kallsyms]  [k] tcp_sendmsg_locked\n     \
                    2.00%  weft               [.] <weft_endpoint::a::C as weft_io::event_loop::Driver>::work\n     \
                    1.00%  [vdso]             [.] __vdso_clock_gettime\n";
        let shares = sorted(text);
        let of = |place: Place| {
            (shares[Place::ALL.iter().position(|one| *one == place).unwrap()] * 100.0).round()
        };
        let found = [
            Place::UserCopies,
            Place::Device,
            Place::KernelCopies,
            Place::KernelEntry,
            Place::KernelTcp,
            Place::Pump,
            Place::Rest,
        ];
        assert_eq!(found.map(of), [18.0, 12.0, 8.0, 4.0, 3.0, 2.0, 1.0]);
        assert_eq!(of(Place::Engine), 0.0);
    }
}
