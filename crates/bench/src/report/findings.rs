//! What a study says, computed from its numbers: the figures that lead the report and the sentences under the table.

use super::units::{share, time};
use crate::results::{Lane, Results, Row, Workload};

/// What one lane costs against the local device and against bare TCP.
pub(crate) struct Finding<'a> {
    /// The lane.
    pub lane: &'a Lane,
    /// Share of the local device's IOPS, over the patterns.
    pub of_local: Option<Span<'a>>,
    /// Share of the ceiling's IOPS, over the patterns.
    pub of_ceiling: Option<Span<'a>>,
    /// At queue depth 1.
    pub depth_one: Option<DepthOne<'a>>,
    /// Processor time.
    pub cpu: Option<Cpu<'a>>,
    /// Patterns in which the generator was the limit.
    pub limited: Vec<&'a Workload>,
    /// Patterns that were measured.
    pub patterns: usize,
    /// Operations that failed, of all workloads.
    pub failed: u64,
}

/// A share over all patterns.
pub(crate) struct Span<'a> {
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
    /// On the local device.
    pub local_ns: Option<f64>,
    /// Of a bare TCP exchange.
    pub ceiling_ns: Option<f64>,
}

/// Processor time per operation of the smallest random read, ns.
pub(crate) struct Cpu<'a> {
    /// Of which workload.
    pub workload: &'a Workload,
    /// At the initiator.
    pub initiator_ns: f64,
    /// At the target.
    pub target_ns: Option<f64>,
    /// On the local device.
    pub local_ns: Option<f64>,
}

/// A finding for every lane but the local one.
pub(crate) fn find(results: &Results) -> Vec<Finding<'_>> {
    results.lanes.iter().filter(|lane| !lane.is_local()).map(|lane| of_lane(results, lane)).collect()
}

fn of_lane<'a>(results: &'a Results, lane: &'a Lane) -> Finding<'a> {
    let measured: Vec<(&Workload, &Row)> =
        results.patterns().filter_map(|pattern| Some((pattern, results.row(&lane.name, &pattern.name)?))).collect();
    Finding {
        lane,
        of_local: span(&measured, |row| row.share_of_local),
        of_ceiling: span(&measured, |row| row.share_of_ceiling),
        depth_one: depth_one(results, lane),
        cpu: cpu(results, lane),
        limited: measured.iter().filter(|(_, row)| row.generator_limited).map(|(pattern, _)| *pattern).collect(),
        patterns: measured.len(),
        failed: results.rows.iter().filter(|row| row.lane == lane.name).map(|row| row.failed).sum(),
    }
}

fn span<'a>(measured: &[(&'a Workload, &Row)], value: fn(&Row) -> Option<f64>) -> Option<Span<'a>> {
    let mut shares: Vec<(f64, &Workload)> = measured.iter().filter_map(|(at, row)| Some((value(row)?, *at))).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (*shares.first()?, *shares.last()?);
    let (below, above) = (shares[(shares.len() - 1) / 2].0, shares[shares.len() / 2].0);
    Some(Span { low, median: f64::midpoint(below, above), high })
}

/// The workload that is quoted: the smallest random read, else the first.
fn quoted<'a>(workloads: impl Iterator<Item = &'a Workload>) -> Option<&'a Workload> {
    workloads.min_by_key(|workload| (workload.rw != "randread", workload.bs_bytes))
}

fn of_local<'a>(results: &'a Results, workload: &Workload) -> Option<&'a Row> {
    results.row(&results.local()?.name, &workload.name)
}

fn depth_one<'a>(results: &'a Results, lane: &Lane) -> Option<DepthOne<'a>> {
    let workload = quoted(results.latencies())?;
    Some(DepthOne {
        workload,
        here_ns: results.row(&lane.name, &workload.name)?.latency.p50_ns,
        local_ns: of_local(results, workload).map(|row| row.latency.p50_ns),
        ceiling_ns: results.ceiling(&workload.name).map(|ceiling| ceiling.latency.p50_ns),
    })
}

fn cpu<'a>(results: &'a Results, lane: &Lane) -> Option<Cpu<'a>> {
    let workload = quoted(results.patterns())?;
    let row = results.row(&lane.name, &workload.name)?;
    Some(Cpu {
        workload,
        initiator_ns: row.initiator.total_ns(),
        target_ns: row.target.map(|cpu| cpu.total_ns()),
        local_ns: of_local(results, workload).map(|row| row.initiator.total_ns()),
    })
}

impl Finding<'_> {
    /// The finding in one line, for a headline; without a full stop.
    pub(crate) fn headline(&self) -> String {
        let title = &self.lane.title;
        match (&self.of_local, &self.of_ceiling) {
            (Some(local), _) => format!("{title} keeps {} of the local device’s IOPS", share(local.median)),
            (None, Some(ceiling)) => format!("{title} reaches {} of what bare TCP allows", share(ceiling.median)),
            (None, None) => title.clone(),
        }
    }

    /// The finding in whole sentences, the most telling first.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let all = [self.shares(), self.ranges(), self.latency(), self.processor(), self.limits(), self.failures()];
        all.into_iter().flatten().collect()
    }

    fn shares(&self) -> Option<String> {
        let local = self.of_local.as_ref().map(|span| format!("{} of the local device’s IOPS", share(span.median)));
        let ceiling =
            self.of_ceiling.as_ref().map(|span| format!("{} of what a bare TCP connection carries", share(span.median)));
        let parts: Vec<String> = local.into_iter().chain(ceiling).collect();
        (!parts.is_empty())
            .then(|| format!("{}: half of the patterns reach at least {}.", self.lane.title, parts.join(", half at least ")))
    }

    fn ranges(&self) -> Option<String> {
        let local = self.of_local.as_ref().and_then(|span| span.range("the local device"));
        let ceiling = self.of_ceiling.as_ref().and_then(|span| span.range("bare TCP"));
        let parts: Vec<String> = local.into_iter().chain(ceiling).collect();
        (!parts.is_empty()).then(|| format!("They lie {}.", parts.join(", and ")))
    }

    fn latency(&self) -> Option<String> {
        let DepthOne { workload, here_ns, local_ns, ceiling_ns } = self.depth_one.as_ref()?;
        let against = |other: Option<f64>, what: &str| {
            let other = other?;
            let word = if *here_ns < other { "less" } else { "more" };
            Some(format!("{} {word} than {what} ({})", time((here_ns - other).abs()), time(other)))
        };
        let parts: Vec<String> =
            against(*local_ns, "locally").into_iter().chain(against(*ceiling_ns, "a bare TCP exchange")).collect();
        let compared = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", and ")) };
        Some(format!("At queue depth 1 half of all {} operations take at most {}{compared}.", title(workload), time(*here_ns)))
    }

    fn processor(&self) -> Option<String> {
        let cpu = self.cpu.as_ref()?;
        let target = cpu.target_ns.map_or_else(String::new, |ns| format!(" and {} at the target", time(ns)));
        let local = cpu.local_ns.map_or_else(String::new, |ns| format!("; the local device costs {}", time(ns)));
        let initiator = time(cpu.initiator_ns);
        Some(format!("A {} costs {initiator} of processor time at the initiator{target}{local}.", title(cpu.workload)))
    }

    fn limits(&self) -> Option<String> {
        let names: Vec<String> = self.limited.iter().map(|pattern| title(pattern)).collect();
        (!names.is_empty()).then(|| {
            format!(
                "In {} of {} patterns the load generator was the limit, so the device could do more than the row says: {}.",
                names.len(),
                self.patterns,
                names.join(", ")
            )
        })
    }

    fn failures(&self) -> Option<String> {
        let (verb, count) = (if self.failed == 1 { "operation" } else { "operations" }, self.failed);
        (count > 0)
            .then(|| format!("{count} {verb} failed over {}: do not trust these numbers before you know why.", self.lane.title))
    }
}

impl Span<'_> {
    fn range(&self, of: &str) -> Option<String> {
        let ((low, least), (high, most)) = (self.low, self.high);
        (least.name != most.name)
            .then(|| format!("between {} ({}) and {} ({}) of {of}", share(low), title(least), share(high), title(most)))
    }
}

/// A title whose size stays on one line.
fn title(workload: &Workload) -> String {
    workload.title.replace(" KiB", "\u{a0}KiB")
}
