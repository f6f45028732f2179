//! The thirteen patterns and the latency table.

use crate::results::Workload;
use crate::workload::Rw;

/// Operations in flight in the patterns.
const IODEPTH: u32 = 32;

/// All workloads, in the order in which they are reported.
pub fn workloads() -> Vec<Workload> {
    let mut all = Vec::new();
    for kib in [4, 64] {
        for random in [true, false] {
            all.extend([50, 100, 0].map(|read_percent| pattern(kib, random, read_percent, IODEPTH)));
        }
    }
    all.push(pattern(8, true, 30, IODEPTH));
    for kib in [4, 64] {
        all.extend([100, 0].map(|read_percent| pattern(kib, true, read_percent, 1)));
    }
    all
}

fn pattern(kib: u32, random: bool, read_percent: u8, iodepth: u32) -> Workload {
    let (rw, mix, what) = match read_percent {
        100 => (if random { Rw::RandRead } else { Rw::Read }, "read".to_owned(), "read".to_owned()),
        0 => (if random { Rw::RandWrite } else { Rw::Write }, "write".to_owned(), "write".to_owned()),
        mixed => {
            let rw = if random { Rw::RandRw } else { Rw::ReadWrite };
            (rw, format!("rw{mixed}"), format!("{} % write", 100 - mixed))
        }
    };
    let latency = iodepth == 1;
    let prefix = if latency { "qd1-" } else { "" };
    let (order, order_title) = if random { ("rand", "random") } else { ("seq", "sequential") };
    Workload {
        name: format!("{prefix}{kib}k-{order}{mix}"),
        title: format!("{kib} KiB {order_title} {what}"),
        rw: rw.to_string(),
        bs_bytes: kib << 10,
        iodepth,
        jobs: 1,
        read_percent,
        latency,
    }
}

/// What a workload does, as the engine calls it.
pub fn rw_of(workload: &Workload) -> Rw {
    workload.rw.parse().unwrap_or(Rw::RandRead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Direction;

    #[test]
    fn thirteen_patterns_and_a_latency_table() {
        let all = workloads();
        assert_eq!((all.iter().filter(|w| !w.latency).count(), all.iter().filter(|w| w.latency).count()), (13, 4));
        let names: std::collections::HashSet<_> = all.iter().map(|w| &w.name).collect();
        assert_eq!(names.len(), 17);
        assert_eq!((all[0].name.as_str(), all[12].name.as_str()), ("4k-randrw50", "8k-randrw30"));
        assert_eq!((all[12].title.as_str(), all[13].name.as_str()), ("8 KiB random 70 % write", "qd1-4k-randread"));
        for workload in &all {
            let rw = rw_of(workload);
            assert_eq!(rw.to_string(), workload.rw);
            assert_eq!(rw.has(Direction::Read), workload.read_percent > 0, "{}", workload.name);
            assert_eq!(rw.has(Direction::Write), workload.read_percent < 100, "{}", workload.name);
        }
    }
}
