//! The suite's reference against each other lane: what the network adds to the device, and what
//! another protocol or another program does with the same device.

use super::findings::{ByteCost, Finding, LINKS, title};
use super::units::{NBSP, NONE, brief, count, gigabytes, micros, time};
use crate::relation::{Estimate, does, is_narrow, narrower, times_between};
use crate::results::{Drawing, Lane, Quantity, Results, Workload};
use core::cmp::Ordering;

/// Heads of the columns behind the first, in two lines.
pub(crate) const HEADS: [&str; 4] = ["rate\n×", "latency\nµs", "CPU\nµs", "large\n×"];

/// A line: another lane, or bare TCP.
pub(crate) struct AgainstRow {
    /// The number of the lane; none: bare TCP.
    pub at: Option<usize>,
    /// The other side of the comparison.
    pub name: String,
    /// The relations of the reference to it.
    pub cells: [String; HEADS.len()],
}

/// The lane that is compared with all others, if the study is about one.
pub(crate) fn subject(results: &Results) -> Option<&Lane> {
    let lane = results.reference_lane().filter(|_| results.draws(Drawing::Against))?;
    results.rows.iter().any(|row| row.lane == lane.name).then_some(lane)
}

/// The others: to the same device, so not to a modelled one.
fn others<'a>(
    results: &'a Results,
    subject: &'a Lane,
) -> impl Iterator<Item = (usize, &'a Lane)> + 'a {
    let is_other = move |lane: &Lane| {
        lane.name != subject.name && lane.name != Lane::FLASH && lane.base() == subject.base()
    };
    results.lanes.iter().enumerate().filter(move |(_, lane)| is_other(lane))
}

/// The subject in relation to another lane, or to bare TCP.
pub(crate) fn relation(
    results: &Results,
    subject: &Lane,
    to: Option<&Lane>,
    workload: &Workload,
    quantity: Quantity,
) -> Option<Estimate> {
    let name = to.map(|to| to.name.as_str());
    let inverse = || {
        results
            .relation(&to?.name, Some(&subject.name), &workload.name, quantity)
            .map(Estimate::inverse)
    };
    results.relation(&subject.name, name, &workload.name, quantity).copied().or_else(inverse)
}

/// The comparisons of the columns.
fn compared(results: &Results) -> [(Option<&Workload>, Quantity); HEADS.len()] {
    let pattern = Workload::quoted(results.patterns());
    [
        (pattern, Quantity::Rate),
        (Workload::quoted(results.latencies()), Quantity::Latency),
        (pattern, Quantity::Cpu),
        (results.largest_read(), Quantity::Rate),
    ]
}

/// A line for each lane that the subject is compared with, and for bare TCP.
pub(crate) fn lines(results: &Results, subject: &Lane) -> Vec<AgainstRow> {
    let cells = |to: Option<&Lane>| {
        compared(results).map(|(workload, quantity)| {
            let found = workload.and_then(|it| relation(results, subject, to, it, quantity));
            found.map_or_else(|| NONE.to_owned(), |it| brief(&it))
        })
    };
    let name = |lane: &Lane| match lane.is_local() {
        true => "the device, without a network".to_owned(),
        false => lane.short_title().to_owned(),
    };
    let lanes = others(results, subject).map(|(at, lane)| AgainstRow {
        at: Some(at),
        name: name(lane),
        cells: cells(Some(lane)),
    });
    let bare = (!results.ceiling.is_empty()).then(|| AgainstRow {
        at: None,
        name: "bare TCP".to_owned(),
        cells: cells(None),
    });
    lanes.chain(bare).collect()
}

/// The figures of the subject, and the meaning of the columns.
pub(crate) fn basis(results: &Results, subject: &Lane) -> Vec<String> {
    let [(pattern, _), (single, _), _, (largest, _)] = compared(results);
    let of = |workload: Option<&Workload>| results.row(&subject.name, &workload?.name);
    let rate = pattern.zip(of(pattern)).map(|(pattern, row)| {
        let target =
            row.target.map_or_else(String::new, |cpu| format!(" + {}", micros(cpu.total_ns())));
        let initiator = micros(row.initiator.total_ns());
        format!(
            "{} {}s a second at {initiator}{target}{NBSP}µs of CPU",
            count(row.iops),
            title(pattern)
        )
    });
    let latency = single
        .zip(of(single))
        .map(|(single, row)| format!("{} for a {} alone", time(row.latency.p50_ns), title(single)));
    let large = largest.zip(of(largest)).map(|(large, row)| {
        format!("{}{NBSP}GB/s of {}s", gigabytes(row.bytes_per_second), title(large))
    });
    let figures: Vec<String> = [rate, latency, large].into_iter().flatten().collect();
    let own = format!("{}: {}.", subject.short_title(), figures.join(", "));
    let small = pattern.map_or_else(String::new, title);
    let large = largest.map_or_else(String::new, title);
    let columns = format!(
        "{}, divided by the other (×) or less the other (µs): rate of {small}s, median latency of one alone, CPU time of both ends, rate of {large}s; \
         ± is the larger half of the 95{NBSP}% interval.",
        subject.short_title()
    );
    vec![own, columns]
}

/// Another protocol of weft.
pub(crate) fn other_protocol<'a>(results: &'a Results, subject: &'a Lane) -> Option<&'a Lane> {
    let is_it = |lane: &&Lane| !lane.is_local() && lane.rival.is_none();
    others(results, subject).map(|(_, lane)| lane).find(is_it)
}

/// The other project's target that does the most.
pub(crate) fn best_peer<'a>(results: &'a Results, subject: &'a Lane) -> Option<&'a Lane> {
    let pattern = Workload::quoted(results.patterns())?;
    let rate = |lane: &Lane| results.row(&lane.name, &pattern.name).map_or(0.0, |row| row.iops);
    let peers = others(results, subject).map(|(_, lane)| lane).filter(|lane| lane.rival.is_some());
    peers.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// The answers: what the network adds, the other protocol, the best of the other projects' targets,
/// the cores of a fast link, and what the network adds to a modelled device.
pub(crate) fn sentences(results: &Results, findings: &[Finding<'_>]) -> Vec<String> {
    let Some(subject) = subject(results) else { return Vec::new() };
    let own = findings.iter().find(|finding| finding.lane.name == subject.name);
    let adds = own.map(|finding| {
        let added = finding.depth_one.as_ref().and_then(|at| at.added.as_ref());
        let wide = added.filter(|added| !is_narrow(added));
        let times = wide.and_then(|_| times_as_long(results, subject));
        let times = times.map_or_else(String::new, |times| format!("; {times}"));
        format!("{}{times}.", finding.headline())
    });
    let compared = [other_protocol(results, subject), best_peer(results, subject)];
    let compared = compared.map(|to| against(results, subject, to?));
    let links = links(results, subject);
    let flash = findings.iter().filter(|finding| finding.lane.base() == Lane::FLASH);
    let flash = flash.map(|finding| format!("{}.", finding.headline()));
    adds.into_iter().chain(compared.into_iter().flatten()).chain(links).chain(flash).collect()
}

/// The factor by which a single operation takes longer than at the device. A time changes with the
/// clock of the processor, and this does not.
fn times_as_long(results: &Results, subject: &Lane) -> Option<String> {
    let (_, device) = others(results, subject).find(|(_, lane)| lane.is_local())?;
    let single = Workload::quoted(results.latencies())?;
    let times = relation(results, device, Some(subject), single, Quantity::Rate)?;
    let wide = narrower(&times, results.took());
    let wide = wide.map_or_else(String::new, |wide| format!("; {wide}"));
    Some(format!("it takes {} as long as at the device{wide}", times_between(&times)))
}

/// The subject's rate and processor time against another lane's.
fn against(results: &Results, subject: &Lane, to: &Lane) -> Option<String> {
    let pattern = Workload::quoted(results.patterns())?;
    let of = |quantity| relation(results, subject, Some(to), pattern, quantity);
    let (name, other) = (subject.short_title(), to.short_title());
    let rate = of(Quantity::Rate)?;
    let known = rate.direction().and_then(|_| narrower(&rate, results.took()));
    let wide = known.map_or_else(String::new, |wide| format!("; {wide}"));
    let rate = does(name, other, &rate, results.took());
    let cpu = of(Quantity::Cpu).map_or_else(String::new, |cpu| match cpu.direction() {
        Some(Ordering::Less) => format!("; each takes {} less CPU time", time(-cpu.value)),
        Some(_) => format!("; each takes {} more CPU time", time(cpu.value)),
        None => "; the CPU time of each cannot be told apart".to_owned(),
    });
    Some(format!("{}s: {rate}{cpu}{wide}.", title(pattern)))
}

fn links(results: &Results, subject: &Lane) -> Option<String> {
    let link = ByteCost::all(results, subject).into_iter().last()?;
    let [small, large] = LINKS.map(|gigabits| link.words(gigabits));
    let ends = if link.target_ns.is_some() { "initiator + target" } else { "initiator" };
    Some(format!(
        "At the CPU time of {}s a full 25{NBSP}GbE link takes {small} cores, a 100{NBSP}GbE link {large} ({ends}).",
        title(link.workload)
    ))
}
