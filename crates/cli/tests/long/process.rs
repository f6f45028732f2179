//! Resources that a process holds and has spent, as Linux reports them.

use std::time::Duration;
use weft_endpoint::loops::{Loops, LoopsConfig};

/// Resources that a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holds {
    pub descriptors: usize,
    pub threads: usize,
    /// Memory that is its own (anonymous), KiB.
    pub memory_kib: u64,
}

/// This process.
pub fn own() -> u32 {
    std::process::id()
}

impl Holds {
    pub fn of(pid: u32) -> Self {
        let count = |what: &str| {
            std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count)
        };
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let memory = status.lines().find_map(|line| {
            line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse().ok()
        });
        Self { descriptors: count("fd"), threads: count("task"), memory_kib: memory.unwrap_or(0) }
    }
}

/// The descriptors of a process: a path each, or a kind and a number.
pub fn descriptors_of(pid: u32) -> Vec<String> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

/// Sockets of a process.
pub fn sockets(pid: u32) -> usize {
    descriptors_of(pid).iter().filter(|link| link.starts_with("socket:")).count()
}

/// Processor time of a process, user and system.
pub fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name, in parentheses, may hold anything; `utime` and `stime` are the 14th and 15th field,
    // in ticks of 10 ms.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace();
    Duration::from_millis(
        fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>() * 10,
    )
}

/// Makes sure that this process, and those that it starts, may have `needed` descriptors; otherwise
/// returns the reason why not.
pub fn descriptors(needed: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < needed) {
        let most = limit.maximum.unwrap_or(0);
        return Err(format!(
            "{needed} open files are needed, and the hard limit is {most} (ulimit -Hn)"
        ));
    }
    if limit.current.is_none_or(|now| now >= needed) {
        return Ok(());
    }
    setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit })
        .map_err(|e| format!("cannot have {needed} open files: {e}"))
}

/// Event loops of this process.
pub fn loops(threads: usize) -> Loops {
    Loops::start(&LoopsConfig { threads: Some(threads), ..LoopsConfig::default() }).unwrap()
}
