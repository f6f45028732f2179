//! Results of two runs of other tools, compared.

use super::MeasuredWorkload;
use weft_bench::compare::{ComparedRow, Comparison, RateVerdict};

/// The workloads that both runs of a tool have. A single measurement has no interval, so no change
/// is judged.
///
/// # Errors
/// They have no workload in common.
pub fn compared(
    tool: &str,
    before: &[MeasuredWorkload],
    after: &[MeasuredWorkload],
) -> Result<Comparison, String> {
    let pairs: Vec<(&MeasuredWorkload, &MeasuredWorkload)> = before
        .iter()
        .filter_map(|one| after.iter().find(|other| is_same(one, other)).map(|other| (one, other)))
        .collect();
    if pairs.is_empty() {
        return Err("the two have no workload of the same name, block size, order, share of reads and operations in flight".into());
    }
    let alone = |of: &[MeasuredWorkload], others: &[MeasuredWorkload], which: &str| {
        let alone: Vec<String> = of
            .iter()
            .filter(|one| !others.iter().any(|other| is_same(one, other)))
            .map(named)
            .collect();
        (!alone.is_empty()).then(|| format!("Only the {which} file has {}.", alone.join(", ")))
    };
    let mut notes: Vec<String> =
        pairs.iter().filter_map(|(one, other)| latency(one, other)).collect();
    notes.extend(alone(before, after, "first"));
    notes.extend(alone(after, before, "second"));
    let remarks = pairs.iter().flat_map(|(one, other)| [one, other]).flat_map(|it| &it.remarks);
    for remark in remarks {
        if !notes.contains(remark) {
            notes.push(remark.clone());
        }
    }
    let changes = pairs.iter().map(|(one, other)| ComparedRow {
        lane: tool.to_owned(),
        workload: named(one),
        iops: (rate(one), rate(other)),
        intervals: [None, None],
        cpu_ns: (cpu(one), cpu(other)),
        verdict: RateVerdict::Unknown,
    });
    Ok(Comparison { relations: Vec::new(), changes: changes.collect(), notes })
}

fn is_same(one: &MeasuredWorkload, other: &MeasuredWorkload) -> bool {
    let of = |it: &MeasuredWorkload| (it.is_random, it.read_percent, it.bs_bytes, it.in_flight);
    one.name == other.name && of(one) == of(other)
}

/// The name, and what was done.
fn named(of: &MeasuredWorkload) -> String {
    let order = if of.is_random { "random" } else { "sequential" };
    let bytes = weft_block::units::format_size(of.bs_bytes);
    format!("{}: {bytes} {order}, {} % reads, {} in flight", of.name, of.read_percent, of.in_flight)
}

fn rate(of: &MeasuredWorkload) -> f64 {
    of.read_iops + of.write_iops
}

/// CPU time of an operation; not a number where the tool does not tell.
fn cpu(of: &MeasuredWorkload) -> f64 {
    of.cpu_ns.map_or(f64::NAN, |(user, system)| user + system)
}

/// The median latencies, where both are known.
fn latency(one: &MeasuredWorkload, other: &MeasuredWorkload) -> Option<String> {
    let is_known = one.all.p50_ns > 0.0 && other.all.p50_ns > 0.0;
    let us = |it: &MeasuredWorkload| it.all.p50_ns / 1e3;
    is_known.then(|| {
        format!("Median latency of {}: {:.1} µs, and {:.1} µs.", one.name, us(one), us(other))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_bench::results::Latency;

    fn measured(name: &str, bs_bytes: u64, read_iops: f64) -> MeasuredWorkload {
        let all = Latency { p50_ns: 1e9 / read_iops, ..Latency::default() };
        let (is_random, read_percent, in_flight) = (true, 100, 32);
        let name = name.into();
        MeasuredWorkload {
            name,
            is_random,
            read_percent,
            bs_bytes,
            in_flight,
            read_iops,
            all,
            ..MeasuredWorkload::default()
        }
    }

    #[test]
    fn what_both_have_is_compared_and_not_judged() {
        let before = [measured("a", 4096, 1000.0), measured("b", 4096, 7.0)];
        let after = [measured("a", 4096, 1250.0), measured("b", 8192, 7.0)];
        let found = compared("fio", &before, &after).unwrap();
        assert_eq!(found.changes.len(), 1);
        assert_eq!(
            (found.changes[0].iops, found.changes[0].verdict),
            ((1000.0, 1250.0), RateVerdict::Unknown)
        );
        let said = found.render();
        for part in [
            "a: 4KiB random, 100 % reads, 32 in flight",
            "+25.0 %",
            "Only the first file has b: 4KiB",
        ] {
            assert!(said.contains(part), "{said}");
        }
        assert!(compared("fio", &before[1..], &after).unwrap_err().contains("no workload"));
    }
}
