//! Families of metrics, from values with labels.

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;
use std::fmt;
use weft_endpoint::statistics::{Counts, Histogram, Kind};

/// Upper bounds of the buckets of latencies: these powers of two of nanoseconds, 4 µs to 17 s.
const BOUNDS: [u32; 16] = [12, 14, 16, 17, 18, 19, 20, 21, 22, 23, 24, 26, 28, 30, 32, 34];

/// What a value is of.
pub type Labels = Vec<(&'static str, String)>;

pub fn gauges(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    let metric = |value| ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    family(to, (name, help, unit, MetricType::Gauge), values, metric)
}

pub fn counters(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    family(to, (name, help, unit, MetricType::Counter), values, ConstCounter::new)
}

/// Values are nanoseconds.
pub fn seconds(
    to: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    values: Vec<(Labels, u64)>,
) -> fmt::Result {
    let metric = |ns| ConstCounter::new(ns as f64 / 1e9);
    family(to, (name, help, Some(Unit::Seconds), MetricType::Counter), values, metric)
}

fn family<M: EncodeMetric>(
    to: &mut DescriptorEncoder,
    (name, help, unit, kind): (&str, &str, Option<Unit>, MetricType),
    values: Vec<(Labels, u64)>,
    metric: impl Fn(u64) -> M,
) -> fmt::Result {
    let mut family = to.encode_descriptor(name, help, unit.as_ref(), kind)?;
    for (labels, value) in values {
        metric(value).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}

/// Things with labels, and their counts.
pub type Counted<'a> = Vec<(Labels, &'a Counts)>;

/// The metrics of counts, whose names begin with `weft_` and `what`.
pub fn counted(to: &mut DescriptorEncoder, what: &str, all: &Counted) -> fmt::Result {
    let of = |value: &dyn Fn(&Counts, Kind) -> u64| {
        let each = all.iter().flat_map(|(labels, counts)| {
            Kind::ALL.map(|kind| {
                (
                    [labels.clone(), vec![("operation", word(kind).to_owned())]].concat(),
                    value(counts, kind),
                )
            })
        });
        each.collect::<Vec<_>>()
    };
    let name = |end: &str| format!("weft_{what}_{end}");
    let operations = of(&|counts, kind| counts.of(kind).operations);
    counters(to, &name("operations"), "Answered commands", None, operations)?;
    let bytes = of(&|counts, kind| counts.of(kind).bytes);
    counters(to, &name("transferred"), "Data of successful commands", Some(Unit::Bytes), bytes)?;
    counters(
        to,
        &name("errors"),
        "Commands that failed",
        None,
        of(&|counts, kind| counts.of(kind).errors),
    )?;
    let flying = all.iter().map(|(labels, counts)| (labels.clone(), counts.in_flight)).collect();
    gauges(to, &name("in_flight"), "Commands that are not answered yet", None, flying)?;
    let (full, help) = (name("latency"), "Time from receiving a command to its answer");
    let mut family =
        to.encode_descriptor(&full, help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (labels, counts) in all {
        for kind in Kind::ALL {
            let labels = [labels.clone(), vec![("operation", word(kind).to_owned())]].concat();
            let latency = &counts.of(kind).latency;
            let (sum, count, buckets) =
                (latency.sum_ns as f64 / 1e9, latency.count(), buckets(latency));
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
    }
    Ok(())
}

/// Bounds in seconds, with the number of times between each and the one before.
fn buckets(latency: &Histogram) -> Vec<(f64, u64)> {
    let mut before = 0;
    let bounded =
        BOUNDS.iter().map(|bits| ((1_u64 << bits) as f64 / 1e9, latency.below_power(*bits)));
    let all = bounded.chain([(f64::INFINITY, latency.count())]);
    all.map(|(bound, below)| (bound, below - std::mem::replace(&mut before, below))).collect()
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Read => "read",
        Kind::Write => "write",
        Kind::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_each_time_once() {
        let json = r#"{"sum_ns":0,"mean_ns":0,"p50_ns":0,"p90_ns":0,"p99_ns":0,"p999_ns":0,"buckets":[[4096,3],[8192,2],[68719476736,1]]}"#;
        let latency: Histogram = serde_json::from_str(json).unwrap();
        let buckets = buckets(&latency);
        assert_eq!(buckets.iter().map(|(_, n)| n).sum::<u64>(), 6);
        assert_eq!((buckets[0], buckets[1].1, buckets.last().unwrap().1), ((4096e-9, 3), 2, 1));
    }
}
