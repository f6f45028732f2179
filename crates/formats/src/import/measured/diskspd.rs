//! DISKSPD's XML.

use super::workload::MeasuredWorkload;
use roxmltree::{Document, Node};
use weft_bench::results::Latency;

/// A result for each time span.
pub(super) fn read(text: &str) -> Result<Vec<MeasuredWorkload>, String> {
    let document = Document::parse(text).map_err(|e| e.to_string())?;
    let root = document.root_element();
    let profile = root
        .descendants()
        .find(|node| node.has_tag_name("Profile"))
        .ok_or("it has no profile, so its workload is not known")?;
    let spans: Vec<_> =
        profile.descendants().filter(|node| node.has_tag_name("TimeSpan")).collect();
    let results: Vec<_> = root.children().filter(|node| node.has_tag_name("TimeSpan")).collect();
    if spans.len() != results.len() {
        return Err(format!("it has {} time spans, and results of {}", spans.len(), results.len()));
    }
    let pairs = spans.into_iter().zip(results).enumerate();
    pairs.map(|(n, (span, result))| one(n, span, result)).collect()
}

/// The workload of a target: its order, its share of writes, and its block size.
fn workload(target: Node<'_, '_>) -> Result<(bool, u64, u64), String> {
    let whole = |name: &str| number(target, name).map(|value| value as u64);
    let is_random = match whole("RandomRatio") {
        Some(0) => false,
        Some(100) => true,
        Some(_) => return Err("a target has random and sequential operations".to_owned()),
        // Before there was a ratio.
        None => whole("Random").is_some_and(|alignment| alignment > 0),
    };
    let writes = whole("WriteRatio").unwrap_or(0).min(100);
    Ok((is_random, writes, whole("BlockSize").ok_or("a target has no block size")?))
}

/// The number in the first element of this name below a node.
fn number(node: Node<'_, '_>, name: &str) -> Option<f64> {
    node.descendants().find(|below| below.has_tag_name(name))?.text()?.trim().parse().ok()
}

/// Operations in flight, of all threads.
fn in_flight(span: Node<'_, '_>, targets: &[Node<'_, '_>]) -> f64 {
    let depth = |target: &Node<'_, '_>| number(*target, "RequestCount").unwrap_or(2.0).max(1.0);
    let Some(threads) = number(span, "ThreadCount").filter(|threads| *threads > 0.0) else {
        let of = |target: &Node<'_, '_>| number(*target, "ThreadsPerFile").unwrap_or(1.0);
        return targets.iter().map(|target| depth(target) * of(target)).sum();
    };
    // Threads that all targets share.
    let own = span.children().find(|node| node.has_tag_name("RequestCount"));
    let own = own.and_then(|node| node.text()?.trim().parse::<f64>().ok());
    let all = || targets.iter().map(depth).sum::<f64>();
    threads * own.filter(|depth| *depth > 0.0).unwrap_or_else(all)
}

fn one(n: usize, span: Node<'_, '_>, result: Node<'_, '_>) -> Result<MeasuredWorkload, String> {
    let targets: Vec<_> = span.descendants().filter(|node| node.has_tag_name("Target")).collect();
    let first = *targets.first().ok_or("a time span has no target")?;
    let (is_random, writes, bs_bytes) = workload(first)?;
    for target in &targets[1..] {
        if workload(*target)? != (is_random, writes, bs_bytes) {
            return Err("its targets have different workloads".to_owned());
        }
    }
    let seconds = number(result, "TestTimeSeconds")
        .filter(|seconds| *seconds > 0.0)
        .ok_or("a time span has no time")?;
    let in_flight = in_flight(span, &targets);
    let threads: Vec<_> = result.children().filter(|node| node.has_tag_name("Thread")).collect();
    if threads.is_empty() {
        return Err("a time span has no results of threads".to_owned());
    }
    let sum = |name: &str| -> f64 {
        let counts = threads
            .iter()
            .flat_map(|thread| thread.descendants())
            .filter(|node| node.has_tag_name(name));
        counts.filter_map(|node| node.text()?.trim().parse::<f64>().ok()).sum()
    };
    let (read, written) = (sum("ReadCount"), sum("WriteCount"));
    let busy = |name: &str| {
        let average = result.descendants().find(|node| node.has_tag_name("Average"))?;
        let processors =
            result.descendants().filter(|node| node.has_tag_name("CPU")).count().max(1);
        Some(number(average, name)? / 100.0 * processors as f64 * seconds * 1e9 / (read + written))
    };
    Ok(MeasuredWorkload {
        name: format!("time span {}", n + 1),
        is_random,
        read_percent: 100 - writes as u8,
        bs_bytes,
        in_flight: in_flight as u64,
        seconds,
        read_iops: read / seconds,
        write_iops: written / seconds,
        bytes_per_second: (sum("ReadBytes") + sum("WriteBytes")) / seconds,
        reads: latency(result, "Read"),
        writes: latency(result, "Write"),
        all: latency(result, "Total"),
        cpu_ns: busy("UserPercent").zip(busy("KernelPercent")).filter(|_| read + written > 0.0),
        remarks: vec!["CPU times are those of the whole machine.".to_owned()],
    })
}

/// The latency of reads, writes or all (`Total`); zeroes where it was not measured.
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
