//! DISKSPD's text, which it prints without `-Rxml`.

use super::workload::MeasuredWorkload;
use weft_bench::results::Latency;
use weft_block::units::parse_size;

/// The text before the results of each time span; the number of the span follows.
pub(super) const RESULTS: &str = "Results for timespan ";

/// A result for each time span.
pub(super) fn read(text: &str) -> Result<Vec<MeasuredWorkload>, String> {
    let mut parts = text.split(RESULTS);
    let profile = parts.next().unwrap_or_default();
    let (_, profile) = profile
        .split_once("Input parameters:")
        .ok_or("it has no input parameters, so its workload is not known")?;
    let profile = profile.split("System information:").next().unwrap_or_default();
    let spans: Vec<&str> = profile.split("timespan:").skip(1).collect();
    let results: Vec<&str> = parts.collect();
    if spans.len() != results.len() {
        return Err(format!("it has {} time spans, and results of {}", spans.len(), results.len()));
    }
    let pairs = spans.into_iter().zip(results).enumerate();
    pairs.map(|(n, (span, result))| one(n + 1, span, result)).collect()
}

/// The workload of a time span.
struct Workload {
    is_random: bool,
    read_percent: u8,
    bs_bytes: u64,
    in_flight: u64,
}

/// The value of a line `name: value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':').map(str::trim))
}

fn workload(n: usize, span: &str) -> Result<Workload, String> {
    let wrong = |what: &str| format!("time span {n}: {what}");
    let targets: Vec<&str> = span.split("path:").skip(1).collect();
    let [first, rest @ ..] = &targets[..] else { return Err(wrong("it has no target")) };
    let of = |target: &str| {
        let mix = target.lines().find_map(|line| {
            line.trim().strip_prefix("performing mix test (read/write ratio: ")?.split_once('/')
        });
        let read_percent = match mix {
            Some((reads, _)) => reads.trim().parse::<u8>().ok().filter(|reads| *reads <= 100)?,
            None if target.contains("performing read test") => 100,
            None if target.contains("performing write test") => 0,
            None => return None,
        };
        let is_random = match () {
            () if target.contains("using random I/O") => true,
            () if target.contains("using sequential I/O") => false,
            () if target.contains("using interlocked sequential I/O") => false,
            () => return None,
        };
        Some((is_random, read_percent, parse_size(value(target, "block size")?).ok()?))
    };
    let (is_random, read_percent, bs_bytes) =
        of(first).ok_or_else(|| wrong("its order, share of reads or block size is not told"))?;
    if rest.iter().any(|target| of(target) != of(first)) {
        return Err(wrong("its targets have different workloads"));
    }
    let depth = |text: &str| {
        let name = "number of outstanding I/O operations";
        let depth = value(text, &format!("{name} per thread")).or(value(text, name));
        depth.and_then(|depth| depth.parse::<u64>().ok())
    };
    let in_each = |target: &&str| {
        depth(target)?.checked_mul(value(target, "threads per file")?.parse().ok()?)
    };
    let pool = span.lines().find_map(|line| {
        line.trim().strip_prefix("thread pool with ")?.strip_suffix(" threads")?.parse::<u64>().ok()
    });
    let in_flight = match pool {
        Some(threads) => depth(span).and_then(|depth| depth.checked_mul(threads)),
        None => targets.iter().map(in_each).sum::<Option<u64>>(),
    };
    let in_flight = in_flight.ok_or_else(|| wrong("the operations in flight are not told"))?;
    Ok(Workload { is_random, read_percent, bs_bytes, in_flight })
}

fn one(n: usize, span: &str, result: &str) -> Result<MeasuredWorkload, String> {
    let Workload { is_random, read_percent, bs_bytes, in_flight } = workload(n, span)?;
    let missing = |what: &str| format!("time span {n}: {what} is missing");
    let seconds = value(result, "actual test time").and_then(|time| time.strip_suffix('s'));
    let seconds = seconds
        .and_then(|time| time.trim().parse::<f64>().ok())
        .filter(|seconds| *seconds > 0.0)
        .ok_or_else(|| missing("the time"))?;
    let total = |name: &str| Total::of(result, name).ok_or_else(|| missing(name));
    let [all, reads, writes] = [total("Total IO")?, total("Read IO")?, total("Write IO")?];
    let cpu = cpu(result).filter(|_| all.ios > 0.0);
    let cpu_ns = cpu.map(|(user, system, processors)| {
        let ns = |percent: f64| percent / 100.0 * processors * seconds * 1e9 / all.ios;
        (ns(user), ns(system))
    });
    let limited = span.lines().find(|line| line.contains("throughput rate-limited to"));
    let mut remarks = vec!["CPU times are those of the whole machine.".to_owned()];
    remarks.extend(limited.map(|_| "Its rate was limited.".to_owned()));
    Ok(MeasuredWorkload {
        name: format!("time span {n}"),
        is_random,
        read_percent,
        bs_bytes,
        in_flight,
        seconds,
        read_iops: reads.ios / seconds,
        write_iops: writes.ios / seconds,
        bytes_per_second: all.bytes / seconds,
        reads: latency(result, 0, reads.mean_ms),
        writes: latency(result, 1, writes.mean_ms),
        all: latency(result, 2, all.mean_ms),
        cpu_ns,
        remarks,
    })
}

/// The line `total:` of a table.
struct Total {
    bytes: f64,
    ios: f64,
    /// None without `-L`.
    mean_ms: Option<f64>,
}

impl Total {
    fn of(result: &str, table: &str) -> Option<Self> {
        let mut lines = result.lines().skip_while(|line| line.trim() != table).skip(1);
        let heads: Vec<&str> = lines.next()?.split('|').map(str::trim).collect();
        let total = lines.find_map(|line| line.trim().strip_prefix("total:"))?;
        let cells: Vec<&str> = total.split('|').map(str::trim).collect();
        let at = |name: &str| heads.iter().position(|head| *head == name)?.checked_sub(1);
        let number = |name: &str| cells.get(at(name)?)?.parse::<f64>().ok();
        Some(Self { bytes: number("bytes")?, ios: number("I/Os")?, mean_ms: number("AvgLat") })
    }
}

/// User and kernel time in per cent, and the processors.
fn cpu(result: &str) -> Option<(f64, f64, f64)> {
    let head = result.lines().find(|line| line.contains("CPU |") && line.contains("Usage |"))?;
    let heads: Vec<&str> = head.split('|').map(str::trim).collect();
    let mut lines = result.lines().skip_while(|line| *line != head).skip(2);
    let processors = lines.by_ref().take_while(|line| line.contains('%')).count();
    let average = lines.find(|line| line.trim().starts_with("avg."))?;
    let cells: Vec<&str> = average.split('|').map(str::trim).collect();
    // Its first cell stands for all columns before the usage.
    let from = heads.iter().position(|head| *head == "Usage")?.checked_sub(1)?;
    let number = |name: &str| {
        let at = heads.iter().position(|head| *head == name)?.checked_sub(from)?;
        cells.get(at)?.strip_suffix('%')?.trim().parse::<f64>().ok()
    };
    Some((number("User")?, number("Kernel")?, processors as f64))
}

/// The latency of a column of the distribution: reads, writes, or all.
fn latency(result: &str, column: usize, mean_ms: Option<f64>) -> Latency {
    let at = |name: &str| {
        let mut lines = result.lines().skip_while(|line| !line.trim().starts_with("%-ile"));
        let line = lines.find(|line| line.split('|').next().is_some_and(|it| it.trim() == name))?;
        line.split('|').nth(column + 1)?.trim().parse::<f64>().ok().map(|ms| ms * 1e6)
    };
    Latency {
        mean_ns: mean_ms.unwrap_or(0.0) * 1e6,
        p50_ns: at("50th").unwrap_or(0.0),
        p90_ns: at("90th").unwrap_or(0.0),
        p99_ns: at("99th").unwrap_or(0.0),
        p999_ns: at("3-nines"),
        p9999_ns: at("4-nines"),
        max_ns: at("max").unwrap_or(0.0),
    }
}
