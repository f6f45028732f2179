//! The tables of the report: one beneath each chart with the chart's numbers, and one with all.

use super::markup::{Markup, html};
use super::theme::LANE_COLOURS;
use super::units::{self, NONE, cores, count, gigabytes, micros, or_none, percent};
use crate::results::{Ceiling, Lane, Latency, Results, Row, Workload};

/// The mark of a row in which the load generator was the limit.
pub(crate) const LIMITED: &str = "*";

/// The mark of a row with failed operations.
pub(crate) const FAILED: &str = "!";

/// The mark of a row for which a machine was lost.
pub(crate) const FEWER: &str = "#";

/// What [`FEWER`] means.
pub(crate) const FEWER_LEGEND: &str = "A machine that was to put load on was lost: the row is without it, or without the rounds after that. The notes name it.";

/// What the ceiling is called where a lane stands.
pub(crate) const CEILING: &str = "bare TCP";

/// The marks of a row.
pub(crate) fn marks(row: &Row) -> String {
    let all =
        [(row.generator_limited, LIMITED), (row.failed > 0, FAILED), (row.lacks_machines(), FEWER)];
    all.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect()
}

/// The class that gives an element the colour of a lane.
pub(super) fn lane_class(at: usize) -> String {
    format!("lane-{}", at % LANE_COLOURS)
}

/// A table that scrolls inside its own frame, whatever the width of the page.
pub(super) fn scrolling(label: &str, table: Markup) -> Markup {
    html! { div.scroll tabindex="0" role="region" "aria-label"=(label) { table { (table) } } }
}

/// The same behind a line of text; `label` is a name that no other table of the page has.
pub(super) fn folded(summary: &str, label: &str, table: Markup) -> Markup {
    html! { details { summary { (summary) } (scrolling(label, table)) } }
}

fn number(text: &str) -> Markup {
    html! { td { (text) } }
}

/// The lane's cell, with its colour and its marks.
fn lane_cell(at: usize, lane: &Lane, row: Option<&Row>) -> Markup {
    html! {
        td.word {
            span.dot.(lane_class(at)) {}
            (lane.name)
            @if row.is_some_and(|row| row.generator_limited) { abbr title="the load generator was the limit" { (LIMITED) } }
            @if row.is_some_and(|row| row.failed > 0) { abbr title="operations failed" { (FAILED) } }
            @if row.is_some_and(Row::lacks_machines) { abbr title="a machine was lost" { (FEWER) } }
        }
    }
}

/// The rows of a workload: one per lane, then the ceiling; the first names the workload.
fn rows_of(
    results: &Results,
    workload: &Workload,
    of_row: &dyn Fn(&Row) -> Markup,
    of_ceiling: Option<&dyn Fn(&Ceiling) -> Markup>,
    columns: usize,
) -> Markup {
    let measured = results.ceiling(&workload.name);
    let ceiling = of_ceiling.and_then(|write| Some(write(measured?)));
    let lines = results.lanes.len() + usize::from(ceiling.is_some());
    html! {
        @for (at, lane) in results.lanes.iter().enumerate() {
            @let row = results.row(&lane.name, &workload.name);
            tr.first[at == 0] {
                @if at == 0 { th scope="rowgroup" rowspan=(lines) { (workload.title) } }
                (lane_cell(at, lane, row))
                @if let Some(row) = row { (of_row(row)) } @else { @for _ in 0..columns { (number(NONE)) } }
            }
        }
        @if let Some(ceiling) = ceiling {
            tr.first[results.lanes.is_empty()] {
                @if results.lanes.is_empty() { th scope="rowgroup" rowspan="1" { (workload.title) } }
                td.word { span.dot."lane-ink" {} (CEILING) }
                (ceiling)
            }
        }
    }
}

fn head(columns: &[&str]) -> Markup {
    html! { thead { tr { th.word scope="col" { "Pattern" } th.word scope="col" { "Lane" } @for name in columns { th scope="col" { (name) } } } } }
}

/// The numbers of the IOPS charts.
pub(super) fn iops(results: &Results) -> Markup {
    let row = |row: &Row| html! { (number(&count(row.iops))) (number(&range(row.spread))) };
    let ceiling = |ceiling: &Ceiling| html! { (number(&count(ceiling.iops))) (number(&range(ceiling.spread))) };
    let body = results.patterns().map(|pattern| rows_of(results, pattern, &row, Some(&ceiling), 2));
    folded(
        "Numbers of these charts",
        "IOPS",
        html! { (head(&["IOPS", "lowest to highest"])) tbody { @for rows in body { (rows) } } },
    )
}

/// The numbers of the charts of shares.
pub(super) fn shares(results: &Results) -> Markup {
    let row = |row: &Row| html! { (number(&or_none(row.share_of_local, percent))) (number(&or_none(row.share_of_ceiling, percent))) };
    let body = results.patterns().map(|pattern| rows_of(results, pattern, &row, None, 2));
    folded(
        "Numbers of these charts",
        "Share of bare TCP",
        html! { (head(&["share of the device, %", "share of bare TCP, %"])) tbody { @for rows in body { (rows) } } },
    )
}

/// The numbers of the charts of processor time.
pub(super) fn cpu(results: &Results) -> Markup {
    let body = results.patterns().map(|pattern| rows_of(results, pattern, &cpu_cells, None, 4));
    folded(
        "Numbers of these charts",
        "CPU per I/O",
        html! {
            thead {
                tr {
                    th.word scope="col" rowspan="2" { "Pattern" } th.word scope="col" rowspan="2" { "Lane" }
                    th scope="colgroup" colspan="2" { "initiator, µs" } th scope="colgroup" colspan="2" { "target, µs" }
                }
                tr { @for _ in 0..2 { th scope="col" { "user" } th scope="col" { "system" } } }
            }
            tbody { @for rows in body { (rows) } }
        },
    )
}

/// The numbers of the curves.
pub(super) fn curves(results: &Results) -> Markup {
    let heads = ["in flight", "IOPS", "mean µs", "p99 µs", "generator busy, %", "target’s cores"];
    let title = |name: &str| {
        results
            .workloads
            .iter()
            .find(|workload| workload.name == name)
            .map_or(String::new(), |w| w.title.clone())
    };
    let at = |name: &str| results.lanes.iter().position(|lane| lane.name == name).unwrap_or(0);
    folded(
        "Numbers of these charts",
        "IOPS and latency over the depth",
        html! {
            (head(&heads))
            tbody {
                @for curve in &results.curves {
                    @for (place, point) in curve.points.iter().enumerate() {
                        tr.first[place == 0] {
                            @if place == 0 { th scope="rowgroup" rowspan=(curve.points.len()) { (title(&curve.workload)) } }
                            td.word { span.dot.(lane_class(at(&curve.lane))) {} (curve.lane) }
                            (number_of(point.in_flight))
                            (number(&count(point.iops)))
                            (number(&micros(point.latency.mean_ns)))
                            (number(&micros(point.latency.p99_ns)))
                            (number(&percent(point.generator)))
                            (number(&or_none(point.target_cores, cores)))
                        }
                    }
                }
            }
        },
    )
}

fn number_of(value: u32) -> Markup {
    number(&value.to_string())
}

/// Four cells.
fn cpu_cells(row: &Row) -> Markup {
    let target =
        |part: fn(&crate::results::CpuPerIo) -> f64| or_none(row.target.as_ref().map(part), micros);
    html! {
        (number(&micros(row.initiator.user_ns))) (number(&micros(row.initiator.system_ns)))
        (number(&target(|cpu| cpu.user_ns))) (number(&target(|cpu| cpu.system_ns)))
    }
}

/// Four cells.
fn latency_cells(latency: &Latency) -> Markup {
    html! {
        @for ns in [latency.mean_ns, latency.p50_ns, latency.p99_ns] { (number(&units::latency(ns))) }
        (number(&or_none(latency.p999_ns, micros)))
    }
}

/// The latencies at queue depth 1, in sight beside their chart.
pub(super) fn latencies(results: &Results) -> Markup {
    let row = |row: &Row| latency_cells(&row.latency);
    let ceiling = |ceiling: &Ceiling| latency_cells(&ceiling.latency);
    let body =
        results.latencies().map(|workload| rows_of(results, workload, &row, Some(&ceiling), 4));
    let table = html! {
        thead {
            tr {
                th.word scope="col" rowspan="2" { "Operation" } th.word scope="col" rowspan="2" { "Lane" }
                th scope="colgroup" colspan="4" { "latency, µs" }
            }
            tr { @for name in ["mean", "p50", "p99", "p99.9"] { th scope="col" { (name) } } }
        }
        tbody { @for rows in body { (rows) } }
    };
    scrolling("Latency at queue depth 1", table)
}

/// The latencies in the open loop, in sight beside their chart.
pub(super) fn open_loops(results: &Results) -> Markup {
    let row = |row: &Row| html! { (number(&or_none(row.offered_iops, count))) (number(&count(row.iops))) (latency_cells(&row.latency)) };
    let body = results.open_loops().map(|workload| rows_of(results, workload, &row, None, 6));
    let table = html! {
        thead {
            tr {
                th.word scope="col" rowspan="2" { "Operation" } th.word scope="col" rowspan="2" { "Lane" }
                th scope="colgroup" colspan="2" { "IOPS" } th scope="colgroup" colspan="4" { "latency, µs" }
            }
            tr { @for name in ["due", "done", "mean", "p50", "p99", "p99.9"] { th scope="col" { (name) } } }
        }
        tbody { @for rows in body { (rows) } }
    };
    scrolling("Latency at the same rate", table)
}

fn range((low, high): (f64, f64)) -> String {
    format!("{}–{}", count(low), count(high))
}

/// Cells of a line of the whole table behind its lane, without those that are there only when
/// needed.
const ALL_COLUMNS: usize = 14;

/// A column that most studies can do without: it would say 0 in every row.
#[derive(Clone, Copy)]
struct Extra {
    failed: bool,
}

impl Extra {
    fn of(results: &Results) -> Extra {
        Extra { failed: results.rows.iter().any(|row| row.failed > 0) }
    }

    fn columns(self) -> usize {
        usize::from(self.failed)
    }
}

/// Everything that was measured.
pub(super) fn all(results: &Results) -> Markup {
    let extra = Extra::of(results);
    let columns = ALL_COLUMNS + extra.columns();
    let row = |row: &Row| row_cells(row, extra);
    let ceiling = |ceiling: &Ceiling| ceiling_cells(ceiling, extra);
    let part = |title: &str, workloads: Vec<&Workload>| {
        html! {
            @if !workloads.is_empty() {
                tbody.part {
                    tr { th.part.word colspan=(columns + 2) scope="rowgroup" { (title) } }
                    @for workload in workloads { (rows_of(results, workload, &row, Some(&ceiling), columns)) }
                }
            }
        }
    };
    let table = html! {
        (all_head(extra))
        (part("Patterns", results.patterns().collect()))
        (part("Queue depth 1", results.latencies().collect()))
        (part("Fixed rate", results.open_loops().collect()))
    };
    scrolling("All numbers", table)
}

fn all_head(extra: Extra) -> Markup {
    html! {
        thead {
            tr {
                th.word scope="col" rowspan="2" { "Pattern" }
                th.word scope="col" rowspan="2" { "Lane" }
                th scope="col" rowspan="2" { "IOPS" }
                th scope="col" rowspan="2" { "lowest to" br; "highest" }
                th scope="col" rowspan="2" { "95 %" br; "interval" }
                th scope="col" rowspan="2" { "GB/s" }
                th scope="colgroup" colspan="4" { "latency, µs" }
                th scope="colgroup" colspan="2" { "CPU, µs/IO" }
                th scope="col" rowspan="2" { "calls" br; "/IO" }
                th scope="colgroup" colspan="2" { "share of, %" }
                th scope="col" rowspan="2" { "rounds" br; "× s" }
                @if extra.failed { th scope="col" rowspan="2" { "failed" } }
            }
            tr { @for name in ["mean", "p50", "p99", "p99.9", "init.", "target", "device", "TCP"] { th scope="col" { (name) } } }
        }
    }
}

fn row_cells(row: &Row, extra: Extra) -> Markup {
    html! {
        td.strong { (count(row.iops)) }
        (number(&range(row.spread)))
        (number(&interval(row.interval)))
        (number(&gigabytes(row.bytes_per_second)))
        (latency_cells(&row.latency))
        (number(&micros(row.initiator.total_ns())))
        (number(&or_none(row.target.map(|cpu| cpu.total_ns()), micros)))
        (number(&count(row.system_calls_per_io)))
        (number(&or_none(row.share_of_local, percent)))
        (number(&or_none(row.share_of_ceiling, percent)))
        (number(&format!("{} × {:.2}", row.rounds, row.seconds)))
        @if extra.failed { (number(&row.failed.to_string())) }
    }
}

fn interval(interval: Option<(f64, f64)>) -> String {
    interval.map_or_else(|| NONE.to_owned(), range)
}

fn ceiling_cells(ceiling: &Ceiling, extra: Extra) -> Markup {
    html! {
        td.strong { (count(ceiling.iops)) }
        (number(&range(ceiling.spread)))
        (number(&interval(ceiling.interval)))
        (number(&gigabytes(ceiling.bytes_per_second)))
        (latency_cells(&ceiling.latency))
        @for _ in 0..5 { (number(NONE)) }
        (number(&format!("{}", ceiling.rounds)))
        @for _ in 0..extra.columns() { (number(NONE)) }
    }
}

/// The command that measures a row again.
pub(super) fn commands(results: &Results) -> Markup {
    let rows = || results.rows.iter().filter(|row| !row.command.is_empty());
    html! {
        @if rows().next().is_some() {
            (folded("The command of each number", "Commands", html! {
                thead { tr { @for name in ["Pattern", "Lane", "Command"] { th.word scope="col" { (name) } } } }
                tbody {
                    @for row in rows() {
                        tr.first { th.word scope="row" { (row.workload) } td.word { (row.lane) } td.word { code { (row.command) } } }
                    }
                }
            }))
        }
    }
}
