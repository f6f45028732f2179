//! The findings of a study, computed from its numbers: the figures that lead the report.
//! `sentences` puts them into words.
//!
//! First the questions of a buyer: how much later an operation ends, what it costs
//! the processors of both ends, how much of the wire is used, and how many cores a fast link takes.
//! Then shares of the device without a network.

use super::units::cores;
use crate::relation::{Estimate, does};
use crate::results::{Lane, Quantity, Results, Row, Workload};

/// The cost of one lane compared with the same device without a network and with bare TCP.
pub(crate) struct Finding<'a> {
    /// The lane.
    pub lane: &'a Lane,
    /// The same device without a network.
    pub base: Option<&'a Lane>,
    /// Share of the IOPS of that, over the patterns.
    pub of_base: Option<ShareSpan<'a>>,
    /// Share of the ceiling's IOPS, over the patterns.
    pub of_ceiling: Option<ShareSpan<'a>>,
    /// At queue depth 1.
    pub depth_one: Option<DepthOne<'a>>,
    /// Processor time.
    pub cpu: Option<Cpu<'a>>,
    /// The cost of a fast link.
    pub link: Option<ByteCost<'a>>,
    /// Patterns in which the generator was the limit.
    pub limited: Vec<&'a Workload>,
    /// Rows whose rounds lie too far apart.
    pub unstable: usize,
    /// Patterns that were measured, and all rows.
    pub patterns: usize,
    /// See `patterns`.
    pub rows: usize,
    /// Operations that failed, of all workloads.
    pub failed: u64,
}

/// A share over all patterns.
pub(crate) struct ShareSpan<'a> {
    /// The lowest, and where.
    pub low: (f64, &'a Workload),
    /// Half of the patterns have less.
    pub median: f64,
    /// The highest, and where.
    pub high: (f64, &'a Workload),
}

/// Median latency at queue depth 1 of the smallest random read, ns.
pub(crate) struct DepthOne<'a> {
    /// Of which workload.
    pub workload: &'a Workload,
    /// Over this lane.
    pub here_ns: f64,
    /// On the device without a network.
    pub base_ns: Option<f64>,
    /// Of a bare TCP exchange.
    pub ceiling_ns: Option<f64>,
    /// The time that the network adds, from measurements side by side.
    pub added: Option<Estimate>,
    /// The time that the same way adds to a device that answers at once, where that is clearly
    /// less.
    pub at_once: Option<Estimate>,
    /// A row that these are from is not steady, and nothing was measured side by side.
    pub unstable: bool,
}

/// Processor time per operation of the smallest random read, ns.
pub(crate) struct Cpu<'a> {
    /// Of which workload.
    pub workload: &'a Workload,
    /// At the initiator.
    pub initiator_ns: f64,
    /// At the target.
    pub target_ns: Option<f64>,
    /// On the device without a network.
    pub base_ns: Option<f64>,
    /// The processor time that the network adds at both ends, from measurements side by side.
    pub added: Option<Estimate>,
    /// The same in cycles.
    pub cycles: Option<Estimate>,
    /// The lane's share of bare TCP's rate, in words.
    pub of_ceiling: Option<String>,
    /// The row that these are from is not steady.
    pub unstable: bool,
}

/// Processor time per byte, ns.
pub(crate) struct ByteCost<'a> {
    /// Of which workload.
    pub workload: &'a Workload,
    /// At the initiator.
    pub initiator_ns: f64,
    /// At the target.
    pub target_ns: Option<f64>,
}

/// Links, Gbit/s.
pub(crate) const LINKS: [f64; 2] = [25.0, 100.0];

impl ByteCost<'_> {
    /// Cores of initiator and target that a link of `gigabits` Gbit/s takes, full of data one way.
    pub(crate) fn cores(&self, gigabits: f64) -> (f64, Option<f64>) {
        // A Gbit/s is an eighth of a byte in each ns.
        let bytes_per_ns = gigabits / 8.0;
        (self.initiator_ns * bytes_per_ns, self.target_ns.map(|ns| ns * bytes_per_ns))
    }

    /// Both ends in words: `1.2 + 1.3`.
    pub(crate) fn words(&self, gigabits: f64) -> String {
        let (initiator, target) = self.cores(gigabits);
        target.map_or_else(
            || cores(initiator),
            |target| format!("{} + {}", cores(initiator), cores(target)),
        )
    }
}

/// A finding for every lane over a network; those to a modelled flash device last: what the network
/// adds there is mostly what waking a processor takes, which differs between machines, and on
/// virtual ones from minute to minute.
pub(crate) fn find(results: &Results) -> Vec<Finding<'_>> {
    let remote = || results.lanes.iter().filter(|lane| !lane.is_local());
    let flash = |lane: &&Lane| lane.base() == Lane::FLASH;
    let ordered = remote().filter(|lane| !flash(lane)).chain(remote().filter(flash));
    ordered.map(|lane| of_lane(results, lane)).collect()
}

fn of_lane<'a>(results: &'a Results, lane: &'a Lane) -> Finding<'a> {
    let measured: Vec<(&Workload, &Row)> = results
        .patterns()
        .filter_map(|pattern| Some((pattern, results.row(&lane.name, &pattern.name)?)))
        .collect();
    let rows = || results.rows.iter().filter(|row| row.lane == lane.name);
    Finding {
        lane,
        base: results.base_of(lane),
        of_base: span(&measured, |row| row.share_of_local),
        of_ceiling: span(&measured, |row| row.share_of_ceiling),
        depth_one: depth_one(results, lane),
        cpu: cpu(results, lane),
        link: link(results, lane),
        limited: measured
            .iter()
            .filter(|(_, row)| row.generator_limited)
            .map(|(pattern, _)| *pattern)
            .collect(),
        unstable: rows().filter(|row| row.is_unstable()).count(),
        patterns: measured.len(),
        rows: rows().count(),
        failed: rows().map(|row| row.failed).sum(),
    }
}

fn span<'a>(
    measured: &[(&'a Workload, &Row)],
    value: fn(&Row) -> Option<f64>,
) -> Option<ShareSpan<'a>> {
    let mut shares: Vec<(f64, &Workload)> =
        measured.iter().filter_map(|(at, row)| Some((value(row)?, *at))).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (*shares.first()?, *shares.last()?);
    let (below, above) = (shares[(shares.len() - 1) / 2].0, shares[shares.len() / 2].0);
    Some(ShareSpan { low, median: f64::midpoint(below, above), high })
}

fn of_base<'a>(results: &'a Results, lane: &Lane, workload: &Workload) -> Option<&'a Row> {
    results.row(&results.base_of(lane)?.name, &workload.name)
}

fn to_base(
    results: &Results,
    lane: &Lane,
    workload: &Workload,
    quantity: Quantity,
) -> Option<Estimate> {
    results
        .relation(&lane.name, Some(&results.base_of(lane)?.name), &workload.name, quantity)
        .copied()
}

/// The time added by the lane that goes the same way to a device that answers at once, if this lane
/// goes to a modelled one.
fn at_once(results: &Results, lane: &Lane, workload: &Workload) -> Option<Estimate> {
    let name = lane.name.strip_suffix(Lane::FLASH)?.strip_suffix('-')?;
    to_base(
        results,
        results.lanes.iter().find(|other| other.name == name)?,
        workload,
        Quantity::Latency,
    )
}

fn depth_one<'a>(results: &'a Results, lane: &Lane) -> Option<DepthOne<'a>> {
    let workload = Workload::quoted(results.latencies())?;
    let ceiling = results.ceiling(&workload.name).filter(|ceiling| !ceiling.is_unstable());
    let (row, base) = (results.row(&lane.name, &workload.name)?, of_base(results, lane, workload));
    if row.latency.p50_ns <= 0.0 {
        // The load generator reported none.
        return None;
    }
    let added = to_base(results, lane, workload, Quantity::Latency);
    Some(DepthOne {
        workload,
        here_ns: row.latency.p50_ns,
        base_ns: base.map(|row| row.latency.p50_ns),
        ceiling_ns: ceiling.map(|ceiling| ceiling.latency.p50_ns),
        at_once: added
            .zip(at_once(results, lane, workload))
            .filter(|(added, other)| added.low > other.high)
            .map(|(_, other)| other),
        added,
        unstable: added.is_none() && (row.is_unstable() || base.is_some_and(Row::is_unstable)),
    })
}

fn cpu<'a>(results: &'a Results, lane: &Lane) -> Option<Cpu<'a>> {
    let workload = Workload::quoted(results.patterns())?;
    let row = results.row(&lane.name, &workload.name)?;
    Some(Cpu {
        workload,
        initiator_ns: row.initiator.total_ns(),
        target_ns: row.target.map(|cpu| cpu.total_ns()),
        base_ns: of_base(results, lane, workload).map(|row| row.initiator.total_ns()),
        added: to_base(results, lane, workload, Quantity::Cpu),
        cycles: to_base(results, lane, workload, Quantity::Cycles),
        of_ceiling: results
            .relation(&lane.name, None, &workload.name, Quantity::Rate)
            .map(|rate| does(&lane.title, "bare TCP", rate, results.took())),
        unstable: row.is_unstable(),
    })
}

fn link<'a>(results: &'a Results, lane: &Lane) -> Option<ByteCost<'a>> {
    let reads = results.patterns().filter(|pattern| pattern.rw == "read");
    ByteCost::of(results, lane, reads.max_by_key(|pattern| pattern.bs_bytes)?)
}

impl<'a> ByteCost<'a> {
    fn of(results: &'a Results, lane: &Lane, workload: &'a Workload) -> Option<ByteCost<'a>> {
        let row = results.row(&lane.name, &workload.name)?;
        let per_byte = |ns: f64| ns / f64::from(workload.bs_bytes);
        let target_ns = row.target.map(|cpu| per_byte(cpu.total_ns()));
        Some(ByteCost { workload, initiator_ns: per_byte(row.initiator.total_ns()), target_ns })
    }

    /// Those of the smallest random read, and of the largest sequential one; of the largest read at
    /// all where there is none.
    pub(crate) fn all(results: &'a Results, lane: &Lane) -> Vec<ByteCost<'a>> {
        let ends = Workload::quoted(results.patterns()).into_iter().chain(results.largest_read());
        ends.filter_map(|workload| ByteCost::of(results, lane, workload)).collect()
    }
}

impl DepthOne<'_> {
    /// The time that the network adds: over the device without it, otherwise over nothing.
    pub(crate) fn added_ns(&self) -> Option<f64> {
        self.added.map(|added| added.value).or_else(|| self.base_ns.map(|base| self.here_ns - base))
    }
}

/// A title whose size stays on one line.
pub(crate) fn title(workload: &Workload) -> String {
    workload.title.replace(" KiB", "\u{a0}KiB")
}
