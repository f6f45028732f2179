//! `spdk_nvme_perf` of SPDK: NVMe/TCP. It polls.

use super::load::Load;
use super::peer::{PeerProgram, words};
use super::spdk::cores;
use super::tool::{Tool, ToolResult, is_plain, seconds};
use weft_bench::JobSpec;
use weft_bench::suite::Through;
use weft_endpoint::url::{NvmeUrl, without_secret};

pub const LOAD: Load = Load {
    name: TOOL.name,
    program: PeerProgram { name: TOOL.program, package: None },
    disks: false,
    reaches: |through| through == Through::NvmeTcp,
    lacks: |_| None,
    on: |subject| Ok(TOOL.on(subject)?),
};

static TOOL: Tool =
    Tool { name: "spdk-perf", program: "spdk_nvme_perf", arguments, read, cannot, polls: true };

/// MiB of memory for its buffers.
const MEMORY_MIB: &str = "512";

/// Its name as a host: without one targets may refuse it.
const HOST: &str = "nqn.2014-08.org.example:spdk-perf";

/// Most ranges of a histogram that are read: more than it has.
const RANGES_MAX: usize = 64 << 10;

fn arguments(url: &str, _: u32, spec: &JobSpec) -> Vec<String> {
    let (depth, bytes, time) =
        (spec.iodepth.to_string(), spec.bs_bytes.to_string(), seconds(spec).to_string());
    let mut all = words(&["-q", &depth, "-o", &bytes, "-w", &spec.rw.to_string(), "-t", &time]);
    // A histogram, no huge pages.
    all.extend(words(&["-c", &cores(&spec.cpus_allowed), "-LL", "--no-huge", "-s", MEMORY_MIB]));
    all.extend(words(&["-r", &place(url)]));
    all
}

/// The target of a URL, as SPDK names it.
fn place(url: &str) -> String {
    let Ok(NvmeUrl { address, subsystem: Some(name), .. }) = NvmeUrl::parse(url) else {
        return without_secret(url);
    };
    let family = if address.host().contains(':') { "IPv6" } else { "IPv4" };
    let (host, port) = (address.host(), address.port());
    format!("trtype:TCP adrfam:{family} traddr:{host} trsvcid:{port} subnqn:{name} hostnqn:{HOST}")
}

/// The line `Total : IOPS MiB/s average min max`, and lines `12.0 - 12.5: 45.6% ( 789)` of the
/// histogram, in µs.
fn read(output: &str) -> Option<ToolResult> {
    let total = output.lines().find_map(|line| line.trim_start().strip_prefix("Total"))?;
    let rate = total.split_once(':')?.1.split_ascii_whitespace().next()?.parse().ok()?;
    let latencies = output.lines().filter_map(range).take(RANGES_MAX).collect();
    Some(ToolResult { iops: rate, latencies })
}

/// The middle of a range, ns, and the number of operations in it.
fn range(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(':')?;
    let (from, to) = range.split_once(" - ")?;
    let micros = |text: &str| text.trim().parse::<f64>().ok().filter(|us| *us >= 0.0);
    let count = rest.split_once('(')?.1.split_once(')')?.0.trim().parse().ok()?;
    Some((((micros(from)? + micros(to)?) * 500.0) as u64, count))
}

fn cannot(spec: &JobSpec) -> Option<String> {
    (!is_plain(spec)).then(|| {
        "spdk_nvme_perf reads or writes as fast as it can, as one job: it has no row for other workloads."
            .to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_rate_and_histogram_are_read() {
        let text = "\
Device Information : IOPS MiB/s Average min max
TCP  (addr:127.0.0.1 subnqn:n) NSID 1 from core  1:   99000.00     386.72     323.00      50.00    9000.00
========================================================
Total                                             :   99500.50     388.67     321.46      50.10    9000.00

Summary latency data for TCP  (addr:127.0.0.1 subnqn:n) NSID 1 from core 1:
  1.00000% :   120.000us
Latency histogram for TCP  (addr:127.0.0.1 subnqn:n) NSID 1 from core 1:
       Range in us     Cumulative    IO count
   50.000 -    51.000:    0.0010%  (        1)
  320.000 -   322.000:   99.0000%  (    99000)
";
        let found = read(text).unwrap();
        assert_eq!(
            found,
            ToolResult { iops: 99500.5, latencies: vec![(50_500, 1), (321_000, 99_000)] }
        );
        for wrong in ["", "Total", "Total : x", "no rate"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_target_is_named_as_spdk_does() {
        let said = place("nvme+tcp://127.0.0.1:4421/nqn.2014-08.org.example:a");
        assert_eq!(
            said,
            "trtype:TCP adrfam:IPv4 traddr:127.0.0.1 trsvcid:4421 \
             subnqn:nqn.2014-08.org.example:a hostnqn:nqn.2014-08.org.example:spdk-perf"
        );
        assert!(place("nvme+tcp://[::1]:4421/nqn.2014-08.org.example:a").contains("adrfam:IPv6"));
    }
}
