//! The sections of the report behind the first screen, from the charts to the facts about the
//! machine.

use super::findings::Finding;
use super::markup::{Markup, html};
use super::units::{self, NONE, bytes, or_none, rounds, seconds, share};
use super::{against, chart, comparison as numbers, machines, matrix, method, published, tables};
use crate::results::{Drawing, Lane, Results, Row};

/// The drawings of the page, in its order.
pub(super) fn drawn(results: &Results, findings: &[Finding<'_>]) -> Vec<Drawing> {
    let order = [
        Drawing::Against,
        Drawing::SideBySide,
        Drawing::Matrix,
        Drawing::Iops,
        Drawing::Shares,
        Drawing::Latency,
        Drawing::Cpu,
        Drawing::Curves,
        Drawing::Series,
        Drawing::Published,
    ];
    let there = |drawing: &Drawing| match drawing {
        Drawing::Against => against::subject(results).is_some(),
        Drawing::SideBySide | Drawing::Published | Drawing::Matrix => true,
        Drawing::Iops | Drawing::Cpu | Drawing::Series => results.patterns().next().is_some(),
        Drawing::Shares => findings.iter().any(|finding| finding.of_ceiling.is_some()),
        Drawing::Latency => results.latencies().chain(results.open_loops()).next().is_some(),
        Drawing::Curves => !results.curves.is_empty(),
    };
    order.into_iter().filter(|drawing| results.draws(*drawing) && there(drawing)).collect()
}

/// All sections.
pub(super) fn sections(results: &Results, findings: &[Finding<'_>]) -> Markup {
    html! {
        @for drawing in drawn(results, findings) {
            (match drawing {
                Drawing::Against => html! { @if let Some(subject) = against::subject(results) { (one_against_others(results, subject)) } },
                Drawing::SideBySide => comparison(results),
                Drawing::Matrix => targets_and_initiators(results),
                Drawing::Iops => throughput(results),
                Drawing::Shares => shares(results),
                Drawing::Latency => latencies(results),
                Drawing::Cpu => cpu(results),
                Drawing::Curves => curves(results),
                Drawing::Series => series(results),
                Drawing::Published => published_elsewhere(results),
            })
        }
        section.all {
            h2 { "All numbers" }
            (marks(results))
            (tables::all(results))
            (tables::commands(results))
        }
        section { h2 { "Method" } (method::method(results)) }
        section {
            h2 { "Machine and notes" }
            (machine(results))
            @if !results.notes.is_empty() {
                details { summary { "Notes on the numbers (" (results.notes.len()) ")" } ul { @for note in &results.notes { li { (note) } } } }
            }
        }
        (machines::section(results))
    }
}

/// One workload: the lanes side by side.
fn comparison(results: &Results) -> Markup {
    let table = html! {
        thead { tr { @for (at, head) in numbers::heads(results).iter().enumerate() { th.word[at == 0] scope="col" { (head) } } } }
        tbody {
            @for line in numbers::lines(results) {
                tr.first {
                    th.word scope="row" { span.dot.(tables::lane_class(line.at)) {} (line.lane) }
                    @for cell in &line.cells { td { (cell) } }
                }
            }
        }
    };
    html! {
        section {
            h2 { "Side by side" }
            @if let Some(workload) = results.workloads.first() { p.hint { (workload.title) ". Numbers behind the latency are per operation." } }
            (tables::scrolling("Side by side", table))
        }
    }
}

/// The reference against each other lane.
fn one_against_others(results: &Results, subject: &Lane) -> Markup {
    let title = format!("{} against others", subject.short_title());
    let table = html! {
        thead { tr { th.word scope="col" { "against" } @for head in against::HEADS { th scope="col" { (head.replace('\n', " ")) } } } }
        tbody {
            @for line in against::lines(results, subject) {
                tr.first {
                    th.word scope="row" { @if let Some(at) = line.at { span.dot.(tables::lane_class(at)) {} } (line.name) }
                    @for cell in &line.cells { td { (cell) } }
                }
            }
        }
    };
    html! {
        section {
            h2 { (title) }
            @for sentence in against::basis(results, subject) { p.hint { (sentence) } }
            (tables::scrolling(&title, table))
        }
    }
}

/// Each target with each initiator.
fn targets_and_initiators(results: &Results) -> Markup {
    let table = |protocol: &matrix::MatrixSection<'_>| {
        html! {
            thead { tr { @for (at, head) in matrix::HEADS.iter().enumerate() { th.word[at < 2] scope="col" { (head) } } } }
            tbody {
                @for line in &protocol.lines {
                    tr.first {
                        th.word scope="row" { @if let Some(at) = line.at { span.dot.(tables::lane_class(at)) {} } (line.target) }
                        td.word { (line.initiator) }
                        @for cell in &line.cells { td { (cell) } }
                    }
                }
            }
        }
    };
    html! {
        section {
            h2 { "Targets and initiators" }
            @if let Some(basis) = matrix::basis(results) { p.hint { (basis) } }
            @for protocol in matrix::protocols(results) {
                h3 { (protocol.name) }
                (tables::scrolling(&format!("Targets and initiators over {}", protocol.name), table(&protocol)))
            }
            @for sentence in matrix::sentences(results) { p { (sentence) } }
        }
    }
}

fn throughput(results: &Results) -> Markup {
    html! {
        section {
            h2 { "IOPS" }
            p.hint { "Longer is better. Small and large blocks have scales of their own. A row is the median of its rounds. Absolute rates are those of this machine on this day." }
            ul.legend {
                (lane_keys(results))
                @if !results.ceiling.is_empty() { li { span.key.tick."lane-ink" {} "bare TCP ceiling" } }
                li { span.key.whisker {} "lowest to highest round" }
            }
            div.charts { (chart::figures(Drawing::Iops, results)) }
            (marks(results))
            (tables::iops(results))
        }
    }
}

fn shares(results: &Results) -> Markup {
    html! {
        section {
            h2 { "Share of bare TCP" }
            p.hint { "100 % is what one TCP connection carries on this machine with the same sizes and depth, without any protocol on it." }
            ul.legend { (remote_keys(results)) li { span.key.tick."lane-ink" {} "bare TCP ceiling, 100 %" } }
            div.charts { (chart::figures(Drawing::Shares, results)) }
            (marks(results))
            (tables::shares(results))
        }
    }
}

fn latencies(results: &Results) -> Markup {
    html! {
        @if results.latencies().next().is_some() {
            section {
                h2 { "Latency at queue depth 1" }
                p.hint { "One operation after the other. " (PERCENTILES) }
                ul.legend {
                    (lane_keys(results))
                    @if !results.ceiling.is_empty() { li { span.key."lane-ink" {} "bare TCP" } }
                    (percentile_keys())
                }
                div.charts.beside {
                    (chart::depth_one(results))
                    (tables::latencies(results))
                }
            }
        }
        @if results.open_loops().next().is_some() {
            section {
                h2 { "Latency at the same rate" }
                p.hint {
                    "Operations are due at a fixed rate, the same for all lanes, however fast they answer (open loop). Latency counts from when an operation was due, so \
                     what waits behind a stall counts, too. " (PERCENTILES)
                }
                ul.legend { (lane_keys(results)) (percentile_keys()) }
                div.charts.beside {
                    (chart::open_loop(results))
                    (tables::open_loops(results))
                }
            }
        }
    }
}

const PERCENTILES: &str = "Further left is better; each step of the scale is a multiple. p99.9 stands only where the rounds had 10,000 operations together.";

fn percentile_keys() -> Markup {
    html! {
        li { span.key.sign "aria-hidden"="true" { "●" } "p50" }
        li { span.key.sign "aria-hidden"="true" { "◆" } "p99" }
        li { span.key.sign "aria-hidden"="true" { "┃" } "p99.9" }
    }
}

fn cpu(results: &Results) -> Markup {
    html! {
        section {
            h2 { "CPU per I/O" }
            p.hint { "Shorter is better. The strong part of a bar is user time, the pale part system time." }
            ul.legend {
                (lane_keys(results))
                li { span.key."lane-ink" {} "user" }
                li { span.key.pale."lane-ink" {} "system" }
            }
            div.charts { (chart::figures(Drawing::Cpu, results)) }
            (tables::cpu(results))
        }
    }
}

fn curves(results: &Results) -> Markup {
    html! {
        section {
            h2 { "IOPS and latency over the depth" }
            p.hint { "Further right and further down is better. From mark to mark the operations in flight double, until the rate no longer grows." }
            ul.legend { (lane_keys(results)) }
            div.charts { (chart::figures(Drawing::Curves, results)) }
            (tables::curves(results))
        }
    }
}

fn series(results: &Results) -> Markup {
    html! {
        section {
            h2 { "IOPS over time" }
            p.hint { "A lane that drifts, or a machine that was disturbed, is seen here. Point at a mark to read it." }
            ul.legend { (lane_keys(results)) }
            div.charts { (chart::figures(Drawing::Series, results)) }
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

/// The meaning of the marks that occur.
fn marks(results: &Results) -> Markup {
    html! {
        @if results.rows.iter().any(|row| row.generator_limited) {
            p.hint { (tables::LIMITED) " The load generator was the limit: it hardly ever waited for the device, which may do more." }
        }
        @if results.rows.iter().any(|row| row.failed > 0) {
            p.hint { (tables::FAILED) " Operations failed: do not rely on this row until you know why." }
        }
        @if results.rows.iter().any(Row::lacks_machines) {
            p.hint { (tables::FEWER) " " (tables::FEWER_LEGEND) }
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
        ("Clock governor", listed(&machine.governors)),
        ("Measures against faults of the processor", listed(&machine.mitigations)),
        ("Hypervisor", machine.hypervisor.clone().unwrap_or_else(|| NONE.to_owned())),
        (
            "Load before and after",
            format!(
                "{} and {}",
                load(results.conditions.load_before),
                load(results.conditions.load_after)
            ),
        ),
        ("Taken by other programs during the study", or_none(results.conditions.others, share)),
        ("Taken by the host during the study (steal)", or_none(results.conditions.steal, share)),
        ("Each measurement", format!("{} s, {} rounds", seconds(results), rounds(results))),
    ];
    let table = html! { tbody { @for (name, value) in &facts { tr.first { th.word scope="row" { (name) } td.word { (value) } } } } };
    html! {
        (tables::folded("What is known of the machine", "Machine", table))
        (tables::folded("The lanes", "Lanes", lanes(results)))
        @if results.lanes.iter().any(|lane| !lane.setup.is_empty()) {
            (tables::folded("Commands and configuration of the targets", "Targets", setups(results)))
        }
    }
}

fn listed(all: &[String]) -> String {
    if all.is_empty() { NONE.to_owned() } else { all.join("; ") }
}

fn load(load: Option<f64>) -> String {
    or_none(load, |load| format!("{load:.2}"))
}

fn lanes(results: &Results) -> Markup {
    let cores = |cores: &[usize]| match cores {
        [] => NONE.to_owned(),
        cores => units::numbers(cores),
    };
    html! {
        thead {
            tr {
                th.word scope="col" { "Lane" } th.word scope="col" { "What it is" } th.word scope="col" { "What was opened" }
                th scope="col" { "initiator’s cores" } th scope="col" { "target’s cores" }
            }
        }
        tbody {
            @for (at, lane) in results.lanes.iter().enumerate() {
                tr.first {
                    th.word scope="row" { (lane.name) }
                    td.word { span.dot.(tables::lane_class(at)) {} (lane.title) }
                    td.word { code { (lane.url) } }
                    td { (cores(&lane.initiator_cpus)) }
                    td { (cores(&lane.target_cpus)) }
                }
            }
        }
    }
}

/// The commands and the configuration of each target.
fn setups(results: &Results) -> Markup {
    html! {
        thead { tr { th.word scope="col" { "Lane" } th.word scope="col" { "Commands and configuration" } } }
        tbody {
            @for (at, lane) in results.lanes.iter().enumerate().filter(|(_, lane)| !lane.setup.is_empty()) {
                tr.first {
                    th.word scope="row" { span.dot.(tables::lane_class(at)) {} (lane.name) }
                    td.word { @for line in &lane.setup { p { code { (line) } } } }
                }
            }
        }
    }
}

/// Published figures.
fn published_elsewhere(results: &Results) -> Markup {
    let sources = published::sources(results);
    html! {
        @if !sources.is_empty() {
            section {
                h2 { "Published elsewhere" }
                p.hint { "Figures of others, as ratios. They were not measured here. Next to each is the same ratio of this study, if it has both lanes." }
                @for (at, (source, lines)) in sources.iter().enumerate() {
                    div.charts { (chart::figure(&chart::published::chart(at, lines))) }
                    (published_table(lines))
                    p.hint {
                        (published::PUBLISHED) " Not measured here: " (source.source) ". "
                        @if let Some(url) = &source.url { code { (url.trim_start_matches("https://")) } " " }
                        "Other machines, other programs: only the relation can be compared."
                    }
                }
                @for remark in published::remarks(results) { p { (remark) } }
            }
        }
    }
}

fn published_table(lines: &[published::PublishedRow<'_>]) -> Markup {
    tables::scrolling(
        "Published ratios",
        html! {
            thead {
                tr {
                    th.word scope="col" { "What" } th.word scope="col" { "Quantity" } th.word scope="col" { "Ratio of" }
                    th scope="col" { "published " (published::PUBLISHED) } th scope="col" { "here" }
                }
            }
            tbody {
                @for line in lines {
                    tr.first {
                        th.word scope="row" { (line.of) }
                        td.word { (line.metric.title()) }
                        td.word { @if let Some(at) = line.lane { span.dot.(tables::lane_class(at)) {} } (line.names) }
                        td { (line.published_text()) }
                        td { (line.here_text()) }
                    }
                }
            }
        },
    )
}
