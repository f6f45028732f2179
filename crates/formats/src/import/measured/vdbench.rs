//! vdbench's flat file: a table with a header, whose lines `avg_…` are the averages of runs.

use super::workload::MeasuredWorkload;
use weft_bench::results::Latency;
use weft_block::units::parse_size;

/// Why a summary is refused.
pub(super) const SUMMARY: &str = "it is vdbench's summary, which does not tell the order and the number of operations in flight: \
     import flatfile.html from the same directory";

/// Returns whether a text is `summary.html`, or `totals.html`.
pub(super) fn is_summary(text: &str) -> bool {
    text.contains("Starting RD=") || text.contains("1024**2") && text.contains("interval")
}

/// A result for each run.
pub(super) fn read(text: &str) -> Result<Vec<MeasuredWorkload>, String> {
    let mut columns: Vec<String> = Vec::new();
    let mut found = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_average = fields.iter().any(|field| field.starts_with("avg_"));
        if fields.contains(&"reqrate") && fields.contains(&"rate") {
            columns = fields.iter().map(|field| field.to_ascii_lowercase()).collect();
        } else if is_average && fields.len() != columns.len() {
            return Err(format!(
                "a line of averages has {} columns, and its head {}",
                fields.len(),
                columns.len()
            ));
        } else if is_average {
            let get =
                |name: &str| columns.iter().position(|column| column == name).map(|at| fields[at]);
            found.push(one(&get)?);
        }
    }
    Ok(found)
}

fn one<'a>(get: &impl Fn(&str) -> Option<&'a str>) -> Result<MeasuredWorkload, String> {
    let number = |name: &str| get(name).and_then(|text| text.parse::<f64>().ok());
    let needed = |name: &str| {
        number(name).ok_or_else(|| format!("the column {name} is missing or holds no number"))
    };
    let rate = needed("rate")?;
    let reads = number("read%").map_or_else(|| needed("rdpct"), Ok)?.clamp(0.0, 100.0);
    let size = get("xfersize").unwrap_or_default();
    let bs_bytes = size
        .parse()
        .ok()
        .or_else(|| parse_size(size).ok())
        .or(number("bytes/io").map(|bytes| bytes as u64));
    let latency = |mean: &str, max: &str| Latency {
        mean_ns: number(mean).unwrap_or(0.0) * 1e6,
        max_ns: number(max).unwrap_or(0.0) * 1e6,
        ..Latency::default()
    };
    let busy = |name: &str| Some(number(name)? / 100.0 * 1e9 / rate);
    Ok(MeasuredWorkload {
        name: get("run").unwrap_or_default().to_owned(),
        is_random: needed("seekpct")? > 0.0,
        read_percent: number("rdpct").unwrap_or(reads) as u8,
        bs_bytes: bs_bytes.ok_or("the size of operations is not told")?,
        in_flight: needed("threads")? as u64,
        seconds: 0.0,
        read_iops: rate * reads / 100.0,
        write_iops: rate * (100.0 - reads) / 100.0,
        bytes_per_second: needed("mb/sec")? * f64::from(1 << 20),
        reads: latency("read_resp", "read_max"),
        writes: latency("write_resp", "write_max"),
        all: Latency { mean_ns: needed("resp")? * 1e6, ..latency("resp", "resp_max") },
        cpu_ns: busy("cpu_user").zip(busy("cpu_kernel")).filter(|_| rate > 0.0),
        remarks: vec!["vdbench tells no percentiles; its CPU times are those of one processor of the whole machine.".to_owned()],
    })
}
