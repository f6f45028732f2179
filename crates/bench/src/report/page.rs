//! The sections of the report, from the figures that matter most to the facts about the machine.

use super::findings::{Cpu, DepthOne, Finding, Span};
use super::units::{NBSP, bytes, micros, share, time};
use super::{chart, comparison as numbers, method, tables};
use crate::results::{Lane, Results, Suite};
use maud::{Markup, html};

/// The figures that lead: shares, latency, processor time.
pub(super) fn figures(finding: &Finding<'_>, lane_class: &str) -> Markup {
    html! {
        dl.figures.(lane_class) {
            @if let Some(span) = &finding.of_local {
                (figure("Share of local", html! { (share(span.median)) }, &range(span)))
            }
            @if let Some(span) = &finding.of_ceiling {
                (figure("Share of bare TCP", html! { (share(span.median)) }, &range(span)))
            }
            @if let Some(depth_one) = &finding.depth_one { (latency(depth_one)) }
            @if let Some(cpu) = &finding.cpu { (processor(cpu)) }
        }
    }
}

fn figure(name: &str, big: Markup, small: &str) -> Markup {
    html! { div { dt { (name) } dd.big { (big) } dd.small { (small) } } }
}

fn range(span: &Span<'_>) -> String {
    format!("median; from {} to {}", share(span.low.0), share(span.high.0))
}

fn latency(depth_one: &DepthOne<'_>) -> Markup {
    let title = &depth_one.workload.title;
    match depth_one.local_ns {
        Some(local) => {
            let added = depth_one.here_ns - local;
            let sign = if added < 0.0 { "−" } else { "+" };
            let small = format!("{title}, median: {} instead of {}", time(depth_one.here_ns), time(local));
            figure("Added at queue depth 1", html! { (sign) (time(added.abs())) }, &small)
        }
        None => figure("Latency at queue depth 1", html! { (time(depth_one.here_ns)) }, &format!("{title}, median")),
    }
}

fn processor(cpu: &Cpu<'_>) -> Markup {
    let big = html! {
        (micros(cpu.initiator_ns))
        @if let Some(target) = cpu.target_ns { " + " (micros(target)) }
        (NBSP) small { "µs" }
    };
    let ends = if cpu.target_ns.is_some() { "initiator + target" } else { "initiator" };
    figure("Processor time per I/O", big, &format!("{}, {ends}", cpu.workload.title))
}

/// All sections.
pub(super) fn sections(results: &Results, findings: &[Finding<'_>]) -> Markup {
    html! {
        @if results.suite == Suite::Null { (comparison(results)) }
        @else if results.patterns().next().is_some() {
            (throughput(results))
            @if findings.iter().any(|finding| finding.of_ceiling.is_some()) { (shares(results)) }
        }
        @if results.latencies().next().is_some() { (latencies(results)) }
        @if results.suite == Suite::Patterns && results.patterns().next().is_some() { (cpu(results)) }
        section.all {
            h2 { "All numbers" }
            (marks(results))
            (tables::all(results))
        }
        section { h2 { "Method" } (method::method(results)) }
        (machine(results))
    }
}

/// The null suite: the lanes, and beneath them what others have published.
fn comparison(results: &Results) -> Markup {
    let table = html! {
        thead { tr { @for (at, head) in numbers::HEADS.iter().enumerate() { th.word[at == 0] scope="col" { (head) } } } }
        tbody {
            @for line in numbers::lines(results) {
                tr.first {
                    th.word scope="row" { @if let Some(at) = line.at { span.dot.(tables::lane_class(at)) {} } (line.lane) }
                    @for cell in &line.cells { td { (cell) } }
                }
            }
        }
    };
    html! {
        section {
            h2 { "Side by side" }
            p.hint { "4 KiB at random, 70 % reads, 256 jobs with one operation each. Numbers behind the latency are per operation." }
            (tables::scrolling("Side by side", table))
            @if let Some(legend) = numbers::legend(results) { p.hint { (legend) } }
        }
    }
}

fn throughput(results: &Results) -> Markup {
    html! {
        section {
            h2 { "How many operations" }
            p.hint { "Longer is better. Small and large blocks have scales of their own." }
            ul.legend {
                (lane_keys(results))
                @if !results.ceiling.is_empty() { li { span.key.tick.lane-ink {} "bare TCP ceiling" } }
                li { span.key.whisker {} "lowest to highest round" }
            }
            div.charts { (chart::iops::figures(results)) }
            (marks(results))
            (tables::iops(results))
        }
    }
}

fn shares(results: &Results) -> Markup {
    html! {
        section {
            h2 { "How close to the ceiling" }
            p.hint { "100 % is what one TCP connection carries on this machine with the same sizes and depth, without any protocol on it." }
            ul.legend { (remote_keys(results)) li { span.key.tick.lane-ink {} "bare TCP ceiling, 100 %" } }
            div.charts { (chart::share::figures(results)) }
            (marks(results))
            (tables::shares(results))
        }
    }
}

fn latencies(results: &Results) -> Markup {
    html! {
        section {
            h2 { "How long one operation takes" }
            p.hint { "Queue depth 1: one after the other. Further left is better; each step of the scale is a multiple." }
            ul.legend {
                (lane_keys(results))
                @if !results.ceiling.is_empty() { li { span.key.lane-ink {} "bare TCP" } }
                li { span.key.sign aria-hidden="true" { "●" } "p50" }
                li { span.key.sign aria-hidden="true" { "◆" } "p99" }
                li { span.key.sign aria-hidden="true" { "┃" } "p99.9" }
            }
            div.charts {
                (chart::latency::figures(results))
                (tables::latencies(results))
            }
        }
    }
}

fn cpu(results: &Results) -> Markup {
    html! {
        section {
            h2 { "What an operation costs the processors" }
            p.hint { "Shorter is better. The strong part of a bar is user time, the pale part system time." }
            ul.legend {
                (lane_keys(results))
                li { span.key.lane-ink {} "user" }
                li { span.key.pale.lane-ink {} "system" }
            }
            div.charts { (chart::cpu::figures(results)) }
            (tables::cpu(results))
        }
    }
}

fn keys<'a>(lanes: impl Iterator<Item = (usize, &'a Lane)>) -> Markup {
    html! { @for (at, lane) in lanes { li { span.key.(tables::lane_class(at)) {} (lane.name) ": " (lane.title) } } }
}

fn lane_keys(results: &Results) -> Markup {
    keys(results.lanes.iter().enumerate())
}

fn remote_keys(results: &Results) -> Markup {
    keys(results.lanes.iter().enumerate().filter(|(_, lane)| !lane.is_local()))
}

/// What the marks mean; only those that occur.
fn marks(results: &Results) -> Markup {
    html! {
        @if results.rows.iter().any(|row| row.generator_limited) {
            p.hint { (tables::LIMITED) " The load generator was the limit: its core was full while the device’s was not. The device could do more." }
        }
        @if results.rows.iter().any(|row| row.failed > 0) {
            p.hint { (tables::FAILED) " Operations failed: do not trust this row before you know why." }
        }
    }
}

fn machine(results: &Results) -> Markup {
    let machine = &results.machine;
    let facts = [
        ("Name", machine.name.clone()),
        ("Processor", machine.cpu.clone()),
        ("Cores that the study could use", machine.cores.to_string()),
        ("Memory", bytes(machine.memory_bytes)),
        ("System", machine.system.clone()),
    ];
    html! {
        section {
            h2 { "Machine and lanes" }
            dl.facts { @for (name, value) in &facts { div { dt { (name) } dd { (value) } } } }
            (tables::scrolling("Lanes", lanes(results)))
        }
    }
}

fn lanes(results: &Results) -> Markup {
    let core = |core: Option<u32>| core.map_or_else(|| super::units::NONE.to_owned(), |core| core.to_string());
    html! {
        thead {
            tr {
                th.word scope="col" { "Lane" } th.word scope="col" { "What it is" } th.word scope="col" { "What was opened" }
                th scope="col" { "initiator’s core" } th scope="col" { "target’s core" }
            }
        }
        tbody {
            @for (at, lane) in results.lanes.iter().enumerate() {
                tr.first {
                    th.word scope="row" { (lane.name) }
                    td.word { span.dot.(tables::lane_class(at)) {} (lane.title) }
                    td.word { code { (lane.url) } }
                    td { (core(lane.initiator_cpu)) }
                    td { (core(lane.target_cpu)) }
                }
            }
        }
    }
}
