//! One workload in numbers and words: the lanes side by side, and what made the difference between
//! two of them, from what was counted.

use super::units::{NONE, count, micros, or_none, percent, time};
use crate::relation::does;
use crate::results::{CpuPerIo, Drawing, Lane, MeasuredCounts, Quantity, Results, Row};

/// Heads of the columns behind the lane's.
const HEADS: [&str; 15] = [
    "reads/s",
    "writes/s",
    "×",
    "% of bare TCP",
    "read mean ms",
    "write mean ms",
    "read p90 ms",
    "write p90 ms",
    "init. CPU µs",
    "target CPU µs",
    "IOPS per % of CPU",
    "bytes on the wire",
    "init. calls",
    "target calls",
    "bytes copied",
];

/// A line of the table.
pub(crate) struct ComparisonRow {
    /// The lane.
    pub lane: String,
    /// The number of the lane.
    pub at: usize,
    /// The columns behind the lane.
    pub cells: [String; HEADS.len()],
}

/// Heads of the columns; the first is the lane's.
pub(crate) fn heads(results: &Results) -> Vec<String> {
    let times = |head: &str| match (head, &results.reference) {
        ("×", Some(reference)) => format!("× {reference}"),
        _ => head.to_owned(),
    };
    core::iter::once("lane".to_owned()).chain(HEADS.iter().map(|head| times(head))).collect()
}

/// A line for each lane that was measured.
pub(crate) fn lines(results: &Results) -> Vec<ComparisonRow> {
    let base =
        results.reference.as_ref().and_then(|name| row_of(results, name)).map(|row| row.iops);
    let lanes = results.lanes.iter().enumerate();
    lanes.filter_map(|(at, lane)| Some(measured(at, row_of(results, &lane.name)?, base))).collect()
}

/// The row of the suite's one workload.
fn row_of<'a>(results: &'a Results, lane: &str) -> Option<&'a Row> {
    results.row(lane, &results.workloads.first()?.name)
}

fn measured(at: usize, row: &Row, base: Option<f64>) -> ComparisonRow {
    let counts = row.counts.as_ref();
    let target = counts.and_then(|counts| counts.target.as_ref());
    ComparisonRow {
        lane: row.lane.clone(),
        at,
        cells: [
            count(row.read_iops),
            count(row.write_iops),
            or_none(base.map(|base| row.iops / base), times),
            or_none(row.share_of_ceiling, percent),
            millis(row.reads.mean_ns),
            millis(row.writes.mean_ns),
            millis(row.reads.p90_ns),
            millis(row.writes.p90_ns),
            micros(row.initiator.total_ns()),
            or_none(row.target.map(|cpu| cpu.total_ns()), micros),
            or_none(row.target.map(|cpu| per_percent(row.initiator, cpu)), whole),
            or_none(counts.map(|counts| counts.wire_bytes), whole),
            or_none(counts.map(|counts| counts.initiator.system_calls), calls),
            or_none(target.map(|target| target.system_calls), calls),
            or_none(counts.and_then(copied), whole),
        ],
    }
}

/// Operations a second for each per cent of a core, that both ends spend together.
fn per_percent(initiator: CpuPerIo, target: CpuPerIo) -> f64 {
    1e7 / (initiator.total_ns() + target.total_ns())
}

fn copied(counts: &MeasuredCounts) -> Option<f64> {
    counts.both(|end| end.copied_bytes)
}

fn times(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { NONE.to_owned() }
}

fn millis(ns: f64) -> String {
    if ns.is_finite() { format!("{:.2}", ns / 1e6) } else { NONE.to_owned() }
}

fn whole(value: f64) -> String {
    if value.is_finite() { format!("{value:.0}") } else { NONE.to_owned() }
}

fn calls(value: f64) -> String {
    if value.is_finite() { format!("{value:.3}") } else { NONE.to_owned() }
}

/// The lane that is compared with the reference; none if all are.
pub(crate) fn compared(results: &Results) -> Option<&str> {
    let is_one = ![Drawing::Matrix, Drawing::Against].iter().any(|it| results.draws(*it));
    pair(results).filter(|_| is_one).map(|pair| pair.row.lane.as_str())
}

/// The result in one line, without a full stop.
pub(crate) fn headline(results: &Results) -> String {
    match pair(results) {
        Some(pair) => pair.rate(results).unwrap_or_else(|| {
            format!(
                "{} does {} times the operations of {}",
                pair.name,
                times(pair.faster()),
                pair.base_name
            )
        }),
        None => results.title.clone(),
    }
}

/// The result and its reasons, in whole sentences.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let Some(pair) = pair(results) else { return Vec::new() };
    let all = [Some(pair.result()), pair.counted(), pair.processor(), Some(pair.verdict())];
    all.into_iter().flatten().collect()
}

/// Reads and their latency, writes and theirs.
fn figures(reads: f64, read_ns: f64, writes: f64, write_ns: f64) -> String {
    format!(
        "{} reads a second at {} and {} writes at {}",
        count(reads),
        time(read_ns),
        count(writes),
        time(write_ns)
    )
}

/// The two lanes that the words are about.
struct Pair<'a> {
    /// The row of the reference.
    base: &'a Row,
    base_name: &'a str,
    row: &'a Row,
    name: &'a str,
}

/// The reference, and the lane that the published figures compare it with; without any, the last
/// one over a network.
fn pair(results: &Results) -> Option<Pair<'_>> {
    let reference = results.reference.as_deref()?;
    let is_other = |name: &str| name != reference && row_of(results, name).is_some();
    let figures = results.published.iter().flat_map(|published| &published.figures);
    let published = figures.filter_map(|figure| figure.lane.as_deref()).find(|name| is_other(name));
    let last = || {
        results
            .lanes
            .iter()
            .rev()
            .filter(|lane| !lane.is_local())
            .map(|lane| lane.name.as_str())
            .find(|name| is_other(name))
    };
    let other = published.or_else(last)?;
    let name =
        |name: &str| results.lanes.iter().find(|lane| lane.name == name).map(Lane::short_title);
    Some(Pair {
        base: row_of(results, reference)?,
        base_name: name(reference)?,
        row: row_of(results, other)?,
        name: name(other)?,
    })
}

/// Numbers that lie closer together than this part are called the same.
const SAME: f64 = 0.03;

impl Pair<'_> {
    /// The relation of the rates in words, if they were measured side by side.
    fn rate(&self, results: &Results) -> Option<String> {
        let ratio = results.relation(
            &self.row.lane,
            Some(&self.base.lane),
            &self.row.workload,
            Quantity::Rate,
        )?;
        Some(does(self.name, self.base_name, ratio, results.took()))
    }

    fn faster(&self) -> f64 {
        self.row.iops / self.base.iops
    }

    fn result(&self) -> String {
        let of = |row: &Row| {
            figures(row.read_iops, row.reads.mean_ns, row.write_iops, row.writes.mean_ns)
        };
        format!(
            "{} did {} times the operations of {}: {} (means), against {}.",
            self.name,
            times(self.faster()),
            self.base_name,
            of(self.row),
            of(self.base),
        )
    }

    /// The counts of a run with a fixed number of operations, the reference last.
    fn counted(&self) -> Option<String> {
        let (row, base) = (self.row.counts.as_ref()?, self.base.counts.as_ref()?);
        let both = |of: fn(&MeasuredCounts) -> Option<f64>, write: fn(f64) -> String| {
            Some((write(of(row)?), write(of(base)?)))
        };
        let wire = both(|counts| Some(counts.wire_bytes), whole);
        let calls = both(|counts| counts.both(|end| end.system_calls), calls);
        let copies = both(copied, whole);
        let part = |what: &str, numbers: Option<(String, String)>| {
            numbers.map(|(row, base)| {
                format!("{row} {what} over {} and {base} over {}", self.name, self.base_name)
            })
        };
        let parts: Vec<String> = [
            part("bytes on the wire", wire),
            part("system calls of both ends", calls),
            part("bytes copied in user space at both ends", copies),
        ]
        .into_iter()
        .flatten()
        .collect();
        Some(format!("Counted over {} operations each, one takes {}.", row.ios, parts.join("; ")))
    }

    /// Processor time of both ends together, the reference last.
    fn processor(&self) -> Option<String> {
        let part = |row: &Row, of: fn(&CpuPerIo) -> f64| {
            Some(of(&row.initiator) + of(row.target.as_ref()?))
        };
        let both = |of: fn(&CpuPerIo) -> f64| {
            Some((time(part(self.row, of)?), time(part(self.base, of)?)))
        };
        let (row, base) = both(CpuPerIo::total_ns)?;
        let (row_user, base_user) = both(|cpu| cpu.user_ns)?;
        let (row_kernel, base_kernel) = both(|cpu| cpu.system_ns)?;
        let (name, base_name) = (self.name, self.base_name);
        Some(format!(
            "It takes {row} of processor time at both ends together over {name} and {base} over {base_name}: {row_user} and {base_user} \
             in user space, {row_kernel} and {base_kernel} in the kernel."
        ))
    }

    /// The cost of an operation over the reference as a multiple of that over the other lane, for
    /// everything that is known for both.
    fn factors(&self) -> Vec<(&'static str, f64)> {
        let counts = |of: fn(&MeasuredCounts) -> Option<f64>| {
            Some((of(self.base.counts.as_ref()?)?, of(self.row.counts.as_ref()?)?))
        };
        let of = [
            ("processor time", self.base.cpu_of_both_ns().zip(self.row.cpu_of_both_ns())),
            ("system calls", counts(|counts| counts.both(|end| end.system_calls))),
            ("copying", counts(copied)),
            ("bytes on the wire", counts(|counts| Some(counts.wire_bytes))),
        ];
        let factor = |(what, numbers): (&'static str, Option<(f64, f64)>)| {
            let (base, row) = numbers?;
            let factor = if base == row { 1.0 } else { base / row };
            factor.is_finite().then_some((what, factor))
        };
        of.into_iter().filter_map(factor).collect()
    }

    /// The quantities that differ, and those that do not.
    fn verdict(&self) -> String {
        let (same, differ): (Vec<_>, Vec<_>) =
            self.factors().into_iter().partition(|(_, factor)| (factor - 1.0).abs() <= SAME);
        let differ: Vec<String> = differ
            .iter()
            .map(|(what, factor)| {
                format!("{what} ({} takes {} times as much)", self.base_name, times(*factor))
            })
            .collect();
        let same: Vec<&str> = same.iter().map(|(what, _)| *what).collect();
        let made = if differ.is_empty() {
            "Nothing that was counted differs".to_owned()
        } else {
            format!("What differs is {}", differ.join(", "))
        };
        let rest = if same.is_empty() {
            String::new()
        } else {
            format!("; what does not is {}", same.join(", "))
        };
        format!(
            "{made}{rest}. Both lanes ran in the same program on the same event loop, over as many connections, with one loop at \
             each end, so none of the difference comes from threads, queues or drivers, as it does where the two have \
             implementations that have nothing in common."
        )
    }
}
