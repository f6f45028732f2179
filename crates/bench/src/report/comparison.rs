//! The null suite in numbers and words: the lanes side by side, what was published elsewhere beside them, and what made the
//! difference, from what was counted.

use super::units::{NONE, count, micros, or_none, percent, time};
use crate::results::{Counts, CpuPerIo, Lane, Published, Results, Row};

/// The mark of figures that were not measured here.
pub(crate) const PUBLISHED: &str = "†";

/// Heads of the columns; the first is the lane's.
pub(crate) const HEADS: [&str; 14] = [
    "lane",
    "reads/s",
    "writes/s",
    "× iSCSI",
    "% of bare TCP",
    "read mean ms",
    "write mean ms",
    "init. CPU µs",
    "target CPU µs",
    "IOPS per % of CPU",
    "bytes on the wire",
    "init. calls",
    "target calls",
    "bytes copied",
];

/// A line of the table.
pub(crate) struct Line {
    /// The lane, with its mark.
    pub lane: String,
    /// The number of the lane; none for figures that were not measured here.
    pub at: Option<usize>,
    /// What stands in the columns behind the lane.
    pub cells: [String; 13],
}

/// All lines: the lanes that were measured, then what was published.
pub(crate) fn lines(results: &Results) -> Vec<Line> {
    let base = row_of(results, Lane::ISCSI).map(|row| row.iops);
    let lanes = results.lanes.iter().enumerate();
    let measured = lanes.filter_map(|(at, lane)| Some(measured(at, row_of(results, &lane.name)?, base)));
    let published_base = results.published.iter().find(|p| p.lane == Lane::ISCSI).map(iops);
    measured.chain(results.published.iter().map(|p| published(p, published_base))).collect()
}

/// The row of the suite's one workload.
fn row_of<'a>(results: &'a Results, lane: &str) -> Option<&'a Row> {
    results.row(lane, &results.workloads.first()?.name)
}

fn iops(published: &Published) -> f64 {
    published.read_iops + published.write_iops
}

fn measured(at: usize, row: &Row, base: Option<f64>) -> Line {
    let counts = row.counts.as_ref();
    let target = counts.and_then(|counts| counts.target.as_ref());
    Line {
        lane: row.lane.clone(),
        at: Some(at),
        cells: [
            count(row.read_iops),
            count(row.write_iops),
            or_none(base.map(|base| row.iops / base), times),
            or_none(row.share_of_ceiling, percent),
            millis(row.read_mean_ns),
            millis(row.write_mean_ns),
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

fn published(published: &Published, base: Option<f64>) -> Line {
    let mut cells = [NONE; 13].map(str::to_owned);
    cells[0] = count(published.read_iops);
    cells[1] = count(published.write_iops);
    cells[2] = or_none(base.map(|base| iops(published) / base), times);
    cells[4] = millis(published.read_mean_ns);
    cells[5] = millis(published.write_mean_ns);
    Line { lane: format!("{}{PUBLISHED}", published.lane), at: None, cells }
}

/// Operations a second for each per cent of a core, that both ends spend together.
fn per_percent(initiator: CpuPerIo, target: CpuPerIo) -> f64 {
    1e7 / (initiator.total_ns() + target.total_ns())
}

fn copied(counts: &Counts) -> Option<f64> {
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

/// What the dagger means, and whose the figures are.
pub(crate) fn legend(results: &Results) -> Option<String> {
    let first = results.published.first()?;
    Some(format!("{PUBLISHED} Not measured here: {}, on other machines and with other programs at both ends.", first.source))
}

/// The result in one line, without a full stop.
pub(crate) fn headline(results: &Results) -> String {
    match pair(results) {
        Some(_) if !results.is_steady() => super::findings::unsteady(results),
        Some(pair) => {
            format!("NVMe/TCP does {} times the operations of iSCSI on a device that does nothing", times(pair.faster()))
        }
        None => "What the protocols cost on a device that does nothing".to_owned(),
    }
}

/// The result and its reasons, in whole sentences.
pub(crate) fn sentences(results: &Results) -> Vec<String> {
    let Some(pair) = pair(results) else { return Vec::new() };
    let all = [Some(pair.result()), published_ratio(results), pair.counted(), pair.processor(), Some(pair.verdict())];
    all.into_iter().flatten().collect()
}

fn published_ratio(results: &Results) -> Option<String> {
    let of = |lane: &str| results.published.iter().find(|p| p.lane == lane);
    let (iscsi, nvme) = (of(Lane::ISCSI)?, of(Lane::NVME_TCP)?);
    Some(format!(
        "Published elsewhere, and not measured here, are {:.1} times: {} against {}.",
        iops(nvme) / iops(iscsi),
        figures(nvme.read_iops, nvme.read_mean_ns, nvme.write_iops, nvme.write_mean_ns),
        figures(iscsi.read_iops, iscsi.read_mean_ns, iscsi.write_iops, iscsi.write_mean_ns),
    ))
}

/// Reads and their latency, writes and theirs.
fn figures(reads: f64, read_ns: f64, writes: f64, write_ns: f64) -> String {
    format!("{} reads a second at {} and {} writes at {}", count(reads), time(read_ns), count(writes), time(write_ns))
}

/// The two lanes that the words are about.
struct Pair<'a> {
    iscsi: &'a Row,
    nvme: &'a Row,
}

fn pair(results: &Results) -> Option<Pair<'_>> {
    Some(Pair { iscsi: row_of(results, Lane::ISCSI)?, nvme: row_of(results, Lane::NVME_TCP)? })
}

/// Numbers that lie closer together than this part are called the same.
const SAME: f64 = 0.03;

impl Pair<'_> {
    fn faster(&self) -> f64 {
        self.nvme.iops / self.iscsi.iops
    }

    fn result(&self) -> String {
        let (nvme, iscsi) = (self.nvme, self.iscsi);
        format!(
            "NVMe/TCP did {} times the operations of iSCSI: {} (means), against {}.",
            times(self.faster()),
            figures(nvme.read_iops, nvme.read_mean_ns, nvme.write_iops, nvme.write_mean_ns),
            figures(iscsi.read_iops, iscsi.read_mean_ns, iscsi.write_iops, iscsi.write_mean_ns),
        )
    }

    /// What a run of so many operations counted, NVMe/TCP first.
    fn counted(&self) -> Option<String> {
        let (nvme, iscsi) = (self.nvme.counts.as_ref()?, self.iscsi.counts.as_ref()?);
        let both = |of: fn(&Counts) -> Option<f64>, write: fn(f64) -> String| Some((write(of(nvme)?), write(of(iscsi)?)));
        let wire = both(|counts| Some(counts.wire_bytes), whole);
        let calls = both(|counts| counts.both(|end| end.system_calls), calls);
        let copies = both(copied, whole);
        let part = |what: &str, numbers: Option<(String, String)>| {
            numbers.map(|(nvme, iscsi)| format!("{nvme} {what} over NVMe/TCP and {iscsi} over iSCSI"))
        };
        let parts: Vec<String> = [
            part("bytes on the wire, of which 4096 are data,", wire),
            part("system calls of both ends", calls),
            part("bytes copied in user space at both ends", copies),
        ]
        .into_iter()
        .flatten()
        .collect();
        Some(format!("Counted over {} operations each, one takes {}.", nvme.ios, parts.join("; ")))
    }

    /// Processor time of both ends together, NVMe/TCP first.
    fn processor(&self) -> Option<String> {
        let part = |row: &Row, of: fn(&CpuPerIo) -> f64| Some(of(&row.initiator) + of(row.target.as_ref()?));
        let both = |of: fn(&CpuPerIo) -> f64| Some((time(part(self.nvme, of)?), time(part(self.iscsi, of)?)));
        let (nvme, iscsi) = both(CpuPerIo::total_ns)?;
        let (nvme_user, iscsi_user) = both(|cpu| cpu.user_ns)?;
        let (nvme_kernel, iscsi_kernel) = both(|cpu| cpu.system_ns)?;
        Some(format!(
            "It takes {nvme} of processor time at both ends together over NVMe/TCP and {iscsi} over iSCSI: {nvme_user} and {iscsi_user} \
             in user space, {nvme_kernel} and {iscsi_kernel} in the kernel."
        ))
    }

    /// How many times as much an operation takes over iSCSI, of everything that is known for both.
    fn factors(&self) -> Vec<(&'static str, f64)> {
        let counts = |of: fn(&Counts) -> Option<f64>| Some((of(self.iscsi.counts.as_ref()?)?, of(self.nvme.counts.as_ref()?)?));
        let of = [
            ("processor time", self.iscsi.cpu_of_both_ns().zip(self.nvme.cpu_of_both_ns())),
            ("system calls", counts(|counts| counts.both(|end| end.system_calls))),
            ("copying", counts(copied)),
            ("bytes on the wire", counts(|counts| Some(counts.wire_bytes))),
        ];
        let factor = |(what, numbers): (&'static str, Option<(f64, f64)>)| {
            let (iscsi, nvme) = numbers?;
            let factor = if iscsi == nvme { 1.0 } else { iscsi / nvme };
            factor.is_finite().then_some((what, factor))
        };
        of.into_iter().filter_map(factor).collect()
    }

    /// What differs and what does not.
    fn verdict(&self) -> String {
        let (same, differ): (Vec<_>, Vec<_>) = self.factors().into_iter().partition(|(_, factor)| (factor - 1.0).abs() <= SAME);
        let differ: Vec<String> =
            differ.iter().map(|(what, factor)| format!("{what} (iSCSI takes {} times as much)", times(*factor))).collect();
        let same: Vec<&str> = same.iter().map(|(what, _)| *what).collect();
        let made = if differ.is_empty() {
            "Nothing that was counted differs".to_owned()
        } else {
            format!("What differs is {}", differ.join(", "))
        };
        let rest = if same.is_empty() { String::new() } else { format!("; what does not is {}", same.join(", ")) };
        format!(
            "{made}{rest}. Both protocols ran in the same program on the same event loop, over as many connections, with one loop at \
             each end, so none of the difference comes from threads, queues or drivers, as it does where the two have \
             implementations that have nothing in common."
        )
    }
}
