//! Puts results of other tools into a study.

use super::{MeasuredWorkload, read};
use crate::import::ImportError;
use weft_bench::results::{CpuPerIo, Lane, Latency, Results, Row, Workload};
use weft_bench::stats::{median, median_interval};

/// A lane of results of another tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Name of the lane.
    pub lane: String,
    /// Its files, with their names; each is a round.
    pub files: Vec<(String, String)>,
}

/// Adds lanes to a study.
///
/// # Errors
/// A file that is not the result of a tool, a name that a lane has already.
pub fn add(results: &mut Results, imports: &[Import]) -> Result<(), ImportError> {
    for import in imports {
        if results.lanes.iter().any(|lane| lane.name == import.lane) {
            return Err(ImportError::wrong(
                &import.lane,
                "the study has a lane of this name; choose another one",
            ));
        }
        let (mut tools, mut all, mut left_out) = (Vec::<String>::new(), Vec::new(), Vec::new());
        for (place, text) in &import.files {
            let (tool, measured) = read(place, text)?;
            if !tools.contains(&tool) {
                tools.push(tool);
            }
            for one in measured {
                match results.workloads.iter().find(|workload| is_of(&one, workload)) {
                    Some(workload) => all.push((workload.name.clone(), one)),
                    None => left_out.push(format!("{} of {place}", one.name)),
                }
            }
        }
        for workload in &results.workloads {
            let rounds: Vec<&MeasuredWorkload> =
                all.iter().filter(|(name, _)| *name == workload.name).map(|(_, one)| one).collect();
            if !rounds.is_empty() {
                results.rows.push(row(&import.lane, &workload.name, &rounds, &tools.join(", ")));
            }
        }
        if !left_out.is_empty() {
            let text = "were left out, as the study has no workload with their block size, order, share of reads and depth.";
            results.notes.push(format!("Lane {}: {} {text}", import.lane, left_out.join(", ")));
        }
        let files: Vec<&str> = import.files.iter().map(|(place, _)| place.as_str()).collect();
        results.lanes.push(Lane {
            name: import.lane.clone(),
            title: format!("Measured by {}", tools.join(", ")),
            url: files.join(", "),
            initiator_cpus: Vec::new(),
            target_cpus: Vec::new(),
            base: None,
            real: true,
            agents: Vec::new(),
            rival: None,
            setup: Vec::new(),
            cell: None,
        });
    }
    Ok(())
}

fn is_of(one: &MeasuredWorkload, workload: &Workload) -> bool {
    one.bs_bytes == u64::from(workload.bs_bytes)
        && one.is_random == workload.rw.starts_with("rand")
        && one.read_percent == workload.read_percent
        && one.in_flight == u64::from(workload.jobs) * u64::from(workload.iodepth)
}

/// The medians of the files.
fn row(lane: &str, workload: &str, rounds: &[&MeasuredWorkload], tools: &str) -> Row {
    let of = |value: fn(&MeasuredWorkload) -> f64| {
        median(&mut rounds.iter().map(|one| value(one)).collect::<Vec<_>>())
    };
    let middle = rounds[rounds.len() / 2];
    let rates: Vec<f64> = rounds.iter().map(|one| one.read_iops + one.write_iops).collect();
    let iops = median(&mut rates.clone());
    let spread = rates
        .iter()
        .fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    let cpu = |(user_ns, system_ns)| CpuPerIo { user_ns, system_ns };
    let latency = |latency: fn(&MeasuredWorkload) -> Latency| Latency {
        mean_ns: median(&mut rounds.iter().map(|one| latency(one).mean_ns).collect::<Vec<_>>()),
        ..latency(middle)
    };
    Row {
        lane: lane.to_owned(),
        workload: workload.to_owned(),
        iops,
        offered_iops: None,
        read_iops: of(|one| one.read_iops),
        write_iops: of(|one| one.write_iops),
        bytes_per_second: of(|one| one.bytes_per_second),
        latency: latency(|one| one.all),
        reads: latency(|one| one.reads),
        writes: latency(|one| one.writes),
        initiator: middle.cpu_ns.map(cpu).unwrap_or_default(),
        target: None,
        share_of_local: None,
        share_of_ceiling: None,
        spread,
        rounds: rounds.len() as u32,
        seconds: of(|one| one.seconds),
        interval: median_interval(&rates),
        iops_of_rounds: rates,
        at_s: Vec::new(),
        series: Vec::new(),
        steal: None,
        processors: None,
        context_switches_per_io: 0.0,
        system_calls_per_io: 0.0,
        generator_limited: false,
        p99_interval: None,
        p50_interval: None,
        cpu_interval: None,
        failed: 0,
        command: format!("imported from {tools}"),
        remarks: remarks(rounds, tools),
        counts: None,
        machines: Vec::new(),
        left_out: 0,
        missing: 0,
    }
}

fn remarks(rounds: &[&MeasuredWorkload], tools: &str) -> Vec<String> {
    let mut remarks = vec![format!(
        "It was measured by {tools}, perhaps on another machine or day, and not interleaved with the other lanes."
    )];
    for remark in rounds.iter().flat_map(|one| &one.remarks) {
        if !remarks.contains(remark) {
            remarks.push(remark.clone());
        }
    }
    remarks
}
