//! What a study says, computed from its numbers: the figures that lead the report and the sentences
//! under the table.
//!
//! First what somebody asks who is about to buy: how much later an operation ends, what it costs
//! the processors of both ends, how much of the wire is used, and how many cores a fast link takes.
//! Then shares of the device without a network.

use super::units::{NBSP, Unit, between, cores, share, time};
use crate::relation::{Estimate, adds, does};
use crate::results::{Lane, Quantity, Results, Row, STEADY_WITHIN, Workload};
use core::cmp::Ordering;

/// What one lane costs against the same device without a network and against bare TCP.
pub(crate) struct Finding<'a> {
    /// The lane.
    pub lane: &'a Lane,
    /// The same device without a network.
    pub base: Option<&'a Lane>,
    /// Share of the IOPS of that, over the patterns.
    pub of_base: Option<Span<'a>>,
    /// Share of the ceiling's IOPS, over the patterns.
    pub of_ceiling: Option<Span<'a>>,
    /// At queue depth 1.
    pub depth_one: Option<DepthOne<'a>>,
    /// Processor time.
    pub cpu: Option<Cpu<'a>>,
    /// What a fast link takes.
    pub link: Option<Link<'a>>,
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
    /// On the device without a network.
    pub base_ns: Option<f64>,
    /// Of a bare TCP exchange.
    pub ceiling_ns: Option<f64>,
    /// What the network adds, from measurements side by side.
    pub added: Option<Estimate>,
    /// What the same way adds to a device that answers at once, where that is clearly less.
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
    /// What the network adds at both ends, from measurements side by side.
    pub added: Option<Estimate>,
    /// The same in cycles.
    pub cycles: Option<Estimate>,
    /// What the lane does of bare TCP's rate, in words.
    pub of_ceiling: Option<String>,
    /// The row that these are from is not steady.
    pub unstable: bool,
}

/// Processor time per byte, ns.
pub(crate) struct Link<'a> {
    /// Of which workload.
    pub workload: &'a Workload,
    /// At the initiator.
    pub initiator_ns: f64,
    /// At the target.
    pub target_ns: Option<f64>,
}

/// Links, Gbit/s.
pub(crate) const LINKS: [f64; 2] = [25.0, 100.0];

impl Link<'_> {
    /// Cores of initiator and target that a link of so many Gbit/s takes, full of data one way.
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

fn span<'a>(measured: &[(&'a Workload, &Row)], value: fn(&Row) -> Option<f64>) -> Option<Span<'a>> {
    let mut shares: Vec<(f64, &Workload)> =
        measured.iter().filter_map(|(at, row)| Some((value(row)?, *at))).collect();
    shares.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (*shares.first()?, *shares.last()?);
    let (below, above) = (shares[(shares.len() - 1) / 2].0, shares[shares.len() / 2].0);
    Some(Span { low, median: f64::midpoint(below, above), high })
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

/// What the lane adds that goes the same way to a device that answers at once, if this one goes to
/// a modelled one.
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

fn link<'a>(results: &'a Results, lane: &Lane) -> Option<Link<'a>> {
    let reads = results.patterns().filter(|pattern| pattern.rw == "read");
    Link::of(results, lane, reads.max_by_key(|pattern| pattern.bs_bytes)?)
}

impl<'a> Link<'a> {
    fn of(results: &'a Results, lane: &Lane, workload: &'a Workload) -> Option<Link<'a>> {
        let row = results.row(&lane.name, &workload.name)?;
        let per_byte = |ns: f64| ns / f64::from(workload.bs_bytes);
        let target_ns = row.target.map(|cpu| per_byte(cpu.total_ns()));
        Some(Link { workload, initiator_ns: per_byte(row.initiator.total_ns()), target_ns })
    }

    /// Those of the smallest random read, and of the largest sequential one; of the largest read at
    /// all where there is none.
    pub(crate) fn all(results: &'a Results, lane: &Lane) -> Vec<Link<'a>> {
        let ends = Workload::quoted(results.patterns()).into_iter().chain(results.largest_read());
        ends.filter_map(|workload| Link::of(results, lane, workload)).collect()
    }
}

impl DepthOne<'_> {
    /// What the network adds, and against what: the device without it, else nothing.
    pub(crate) fn added_ns(&self) -> Option<f64> {
        self.added.map(|added| added.value).or_else(|| self.base_ns.map(|base| self.here_ns - base))
    }
}

impl Finding<'_> {
    /// The finding in one line, for a headline, without a full stop. How sure it is stands in it.
    pub(crate) fn headline(&self) -> String {
        let lane = &self.lane.title;
        let is_more = |added: &&Estimate| added.direction() == Some(Ordering::Greater);
        let adds_more =
            self.depth_one.as_ref().is_some_and(|at| at.added.as_ref().filter(is_more).is_some());
        let cost = self.cpu.as_ref().map(|cpu| {
            if let Some(added) = cpu.cycles.as_ref().filter(is_more).filter(|_| adds_more) {
                return format!(
                    "{} at both ends ({})",
                    Unit::Cycles.show(added.value),
                    Unit::Cycles.between(added.interval())
                );
            }
            if let Some(added) = cpu.added.as_ref().filter(is_more).filter(|_| adds_more) {
                return format!(
                    "{} of processor time at both ends ({})",
                    time(added.value),
                    between(added.interval())
                );
            }
            let target = cpu.target_ns.map_or_else(String::new, |ns| format!(" + {}", time(ns)));
            format!(
                "costs {}{}{target} of CPU per I/O",
                about(cpu.unstable && cpu.added.is_none()),
                time(cpu.initiator_ns)
            )
        });
        let added = self.depth_one.as_ref().map(|at| {
            let (to, about) = (format!("a {}", title(at.workload)), about(at.unstable));
            match (&at.added, at.added_ns()) {
                (Some(added), _) => adds(&to, added),
                (None, Some(added)) if added >= 0.0 => {
                    format!("adds {about}{} to {to}", time(added))
                }
                _ => format!("takes {about}{} for {to}", time(at.here_ns)),
            }
        });
        let parts: Vec<String> = added.into_iter().chain(cost).collect();
        if parts.is_empty() { lane.clone() } else { format!("{lane} {}", parts.join(" and ")) }
    }

    /// The finding in whole sentences, the most telling first.
    pub(crate) fn sentences(&self) -> Vec<String> {
        let numbers = [
            self.latency(),
            self.processor(),
            self.rate(),
            self.wire(),
            self.links(),
            self.shares(),
            self.limits(),
        ];
        numbers.into_iter().chain([self.instability(), self.failures()]).flatten().collect()
    }

    /// Whether the lane goes to a modelled flash device: what that does is the limit then, so that
    /// bare TCP is no measure of it.
    fn is_to_flash(&self) -> bool {
        self.lane.base() == Lane::FLASH
    }

    fn latency(&self) -> Option<String> {
        let DepthOne { workload, here_ns, base_ns, ceiling_ns, added, .. } =
            self.depth_one.as_ref()?;
        let against = |other: Option<f64>, added: Option<Estimate>, what: &str| {
            let other = other?;
            let more = added.map_or(here_ns - other, |added| added.value);
            let word = if more < 0.0 { "less" } else { "more" };
            Some(format!(
                "{} {word} than {what} ({}{})",
                time(more.abs()),
                time(other),
                interval(added)
            ))
        };
        let base = against(*base_ns, *added, "without a network");
        let parts: Vec<String> =
            base.into_iter().chain(against(*ceiling_ns, None, "a bare TCP exchange")).collect();
        let compared =
            if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", and ")) };
        let lane = &self.lane.title;
        let waking = self.waking().map_or_else(String::new, |waking| format!(" {waking}"));
        Some(format!(
            "{lane}: half of all {} operations take at most {} at queue depth 1{compared}.{waking}",
            title(workload),
            time(*here_ns)
        ))
    }

    /// Why the same network adds more to a device that takes its time.
    pub(crate) fn waking(&self) -> Option<String> {
        let at_once = self.depth_one.as_ref()?.at_once?;
        Some(format!(
            "To a device that answers at once the same network adds {}; the rest of what it adds to the modelled flash device is waking ends \
             that sleep while the device works.",
            time(at_once.value)
        ))
    }

    fn processor(&self) -> Option<String> {
        let cpu = self.cpu.as_ref()?;
        let target =
            cpu.target_ns.map_or_else(String::new, |ns| format!(" and {} at the target", time(ns)));
        let base = cpu
            .base_ns
            .map_or_else(String::new, |ns| format!("; without a network it costs {}", time(ns)));
        let added = cpu.added.map(|added| {
            format!(", and the network adds {} ({})", time(added.value), between(added.interval()))
        });
        let clock = cpu
            .added
            .zip(cpu.cycles)
            .map(|(time, cycles)| cycles.value / time.value)
            .filter(|clock| *clock > 0.0);
        let clock = clock.map(|clock| format!(" at a clock of {clock:.2}{NBSP}GHz"));
        let base = base + &added.unwrap_or_default() + &clock.unwrap_or_default();
        let initiator = time(cpu.initiator_ns);
        let title = title(cpu.workload);
        Some(format!(
            "A {title} costs {initiator} of processor time at the initiator{target}{base}."
        ))
    }

    fn rate(&self) -> Option<String> {
        if self.is_to_flash() {
            return None;
        }
        let cpu = self.cpu.as_ref()?;
        Some(format!("{}: {}.", title(cpu.workload), cpu.of_ceiling.as_ref()?))
    }

    fn wire(&self) -> Option<String> {
        if self.is_to_flash() {
            return None;
        }
        let span = self.of_ceiling.as_ref()?;
        let range = span
            .range("of it")
            .map_or_else(String::new, |range| format!("; the patterns lie {range}"));
        Some(format!(
            "It carries {} of what a bare TCP connection carries, in the median of the patterns{range}.",
            share(span.median)
        ))
    }

    fn links(&self) -> Option<String> {
        let link = self.link.as_ref()?;
        let [small, large] = LINKS.map(|gigabits| link.words(gigabits));
        let ends = if link.target_ns.is_some() { "initiator + target" } else { "initiator" };
        Some(format!(
            "By the processor time of a {}, a full 25 GbE link takes {small} cores and a full 100 GbE link {large} ({ends}).",
            title(link.workload)
        ))
    }

    fn shares(&self) -> Option<String> {
        let (span, base) = (self.of_base.as_ref()?, self.base?);
        let range = span
            .range("of them")
            .map_or_else(String::new, |range| format!("; the patterns lie {range}"));
        Some(format!(
            "It keeps {} of the IOPS of {}, in the median of the patterns{range}.",
            share(span.median),
            base.name
        ))
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

    fn instability(&self) -> Option<String> {
        let (unstable, rows) = (self.unstable, self.rows);
        (unstable > 0).then(|| {
            let lane = &self.lane.title;
            format!(
                "{lane}: absolute rates depend on what else the machine does; the 95{NBSP}% interval of {unstable} of {rows} reaches further than \
                 ±{:.0}{NBSP}%.",
                STEADY_WITHIN * 100.0
            )
        })
    }

    fn failures(&self) -> Option<String> {
        let (verb, count) =
            (if self.failed == 1 { "operation" } else { "operations" }, self.failed);
        (count > 0).then(|| {
            format!(
                "{count} {verb} failed over {}: do not trust these numbers before you know why.",
                self.lane.title
            )
        })
    }
}

impl Span<'_> {
    fn range(&self, of: &str) -> Option<String> {
        let ((low, least), (high, most)) = (self.low, self.high);
        (least.name != most.name).then(|| {
            format!(
                "between {} ({}) and {} {of} ({})",
                share(low),
                title(least),
                share(high),
                title(most)
            )
        })
    }
}

/// The interval behind a number.
fn interval(of: Option<Estimate>) -> String {
    of.map_or_else(String::new, |of| {
        format!("; 95{NBSP}% interval of the difference {}", between(of.interval()))
    })
}

/// Before a number whose rounds lie far apart, where there is no interval of it.
fn about(unstable: bool) -> &'static str {
    if unstable { "about " } else { "" }
}

/// A title whose size stays on one line.
pub(crate) fn title(workload: &Workload) -> String {
    workload.title.replace(" KiB", "\u{a0}KiB")
}
