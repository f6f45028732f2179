//! `iscsi-perf` of libiscsi: reads over iSCSI. It reports a rate and no latencies.

use super::load::Load;
use super::peer::{PeerProgram, words};
use super::tool::{Tool, ToolResult, is_plain, seconds};
use weft_bench::suite::Through;
use weft_bench::{Direction, JobSpec};

pub const LOAD: Load = Load {
    name: TOOL.name,
    program: PeerProgram { name: TOOL.program, package: Some("libiscsi-bin") },
    disks: false,
    reaches: |through| through == Through::Iscsi,
    lacks: |_| None,
    on: |subject| Ok(TOOL.on(subject)?),
};

static TOOL: Tool = Tool {
    name: "iscsi-perf",
    program: "iscsi-perf",
    arguments,
    read: |output| Some(ToolResult { iops: iops(output)? as f64, latencies: Vec::new() }),
    cannot,
    polls: false,
};

fn arguments(url: &str, block_bytes: u32, spec: &JobSpec) -> Vec<String> {
    let blocks = spec.bs_bytes / block_bytes.max(1);
    let (depth, blocks, time) =
        (spec.iodepth.to_string(), blocks.to_string(), seconds(spec).to_string());
    let mut arguments = words(&["-m", &depth, "-b", &blocks, "-t", &time]);
    if spec.rw.is_random() {
        arguments.push("-r".to_owned());
    }
    arguments.push(url.to_owned());
    arguments
}

/// The mean rate of a run.
fn iops(output: &str) -> Option<u64> {
    let last = output.rsplit("iops average ").next().filter(|rest| rest.len() < output.len())?;
    last.split_ascii_whitespace().next()?.parse().ok().filter(|iops| *iops > 0)
}

fn cannot(spec: &JobSpec) -> Option<String> {
    let suits = is_plain(spec) && spec.rw.has(Direction::Read);
    (!suits).then(|| {
        "iscsi-perf reads as fast as it can, as one job: it has no row for other workloads."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_rate_is_read() {
        let text = "connected to iscsi://h/t/1\n\r00:00:01 - lba 53066, iops current 41075 (160 MB/s), \
                    iops average 41075 (160 MB/s), in_flight 32, busy 0        \riops average 41323 (161 MB/s)   \n\nfinished.\n";
        assert_eq!(iops(text), Some(41323));
        for wrong in ["", "iops average ", "iops average x", "iops average 0 (0 MB/s)", "41323"] {
            assert_eq!(iops(wrong), None, "{wrong}");
        }
    }
}
