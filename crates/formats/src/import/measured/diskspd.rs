//! DISKSPD's XML.

use super::workload::Measured;
use roxmltree::{Document, Node};
use weft_bench::results::Latency;

/// A result for each time span.
pub(super) fn read(text: &str) -> Result<Vec<Measured>, String> {
    let document = Document::parse(text).map_err(|e| e.to_string())?;
    let root = document.root_element();
    let profile = root
        .descendants()
        .find(|node| node.has_tag_name("Profile"))
        .ok_or("it has no profile, so its workload is not known")?;
    let spans = profile.descendants().filter(|node| node.has_tag_name("TimeSpan"));
    let results = root.children().filter(|node| node.has_tag_name("TimeSpan"));
    spans.zip(results).enumerate().map(|(n, (span, result))| one(n, span, result)).collect()
}

/// The number in the first element of this name below a node.
fn number(node: Node<'_, '_>, name: &str) -> Option<f64> {
    node.descendants().find(|below| below.has_tag_name(name))?.text()?.trim().parse().ok()
}

fn one(n: usize, span: Node<'_, '_>, result: Node<'_, '_>) -> Result<Measured, String> {
    let targets: Vec<_> = span.descendants().filter(|node| node.has_tag_name("Target")).collect();
    let first = *targets.first().ok_or("a time span has no target")?;
    let seconds = number(result, "TestTimeSeconds")
        .filter(|seconds| *seconds > 0.0)
        .ok_or("a time span has no time")?;
    let shared = number(span, "ThreadCount").filter(|threads| *threads > 0.0);
    let depth = |target: &Node<'_, '_>| number(*target, "RequestCount").unwrap_or(2.0).max(1.0);
    let in_flight = match shared {
        Some(threads) => threads * depth(&first),
        None => targets
            .iter()
            .map(|target| depth(target) * number(*target, "ThreadsPerFile").unwrap_or(1.0))
            .sum(),
    };
    let is_random = number(first, "Random").is_some_and(|it| it > 0.0)
        || number(first, "RandomRatio").is_some_and(|it| it > 0.0);
    let threads: Vec<_> = result.children().filter(|node| node.has_tag_name("Thread")).collect();
    let sum = |name: &str| -> f64 {
        let counts = threads
            .iter()
            .flat_map(|thread| thread.descendants())
            .filter(|node| node.has_tag_name(name));
        counts.filter_map(|node| node.text()?.trim().parse::<f64>().ok()).sum()
    };
    let (reads, writes) = (sum("ReadCount"), sum("WriteCount"));
    let busy = |name: &str| {
        let average = result.descendants().find(|node| node.has_tag_name("Average"))?;
        let processors =
            result.descendants().filter(|node| node.has_tag_name("CPU")).count().max(1);
        Some(number(average, name)? / 100.0 * processors as f64 * seconds * 1e9 / (reads + writes))
    };
    Ok(Measured {
        name: format!("time span {}", n + 1),
        is_random,
        read_percent: 100 - number(first, "WriteRatio").unwrap_or(0.0).clamp(0.0, 100.0) as u8,
        bs_bytes: number(first, "BlockSize").unwrap_or(65_536.0) as u64,
        in_flight: in_flight as u64,
        seconds,
        read_iops: reads / seconds,
        write_iops: writes / seconds,
        bytes_per_second: (sum("ReadBytes") + sum("WriteBytes")) / seconds,
        reads: latency(result, "Read"),
        writes: latency(result, "Write"),
        all: latency(result, "Total"),
        cpu_ns: busy("UserPercent").zip(busy("KernelPercent")).filter(|_| reads + writes > 0.0),
        remarks: vec!["CPU times are those of the whole machine.".to_owned()],
    })
}

/// Of reads, writes or all (`Total`); zeroes where they were not measured.
fn latency(result: Node<'_, '_>, of: &str) -> Latency {
    let name = format!("{of}Milliseconds");
    let ns = |ms: f64| ms * 1e6;
    let at = |percentile: f64| {
        let buckets = result.descendants().filter(|node| node.has_tag_name("Bucket"));
        let mut there = buckets.filter(|bucket| {
            number(*bucket, "Percentile").is_some_and(|it| (it - percentile).abs() < 1e-6)
        });
        there.next().and_then(|bucket| number(bucket, &name)).map(ns)
    };
    Latency {
        mean_ns: number(result, &format!("Average{name}")).map_or(0.0, ns),
        p50_ns: at(50.0).unwrap_or(0.0),
        p90_ns: at(90.0).unwrap_or(0.0),
        p99_ns: at(99.0).unwrap_or(0.0),
        p999_ns: at(99.9),
        p9999_ns: at(99.99),
        max_ns: at(100.0).unwrap_or(0.0),
    }
}
