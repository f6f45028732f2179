//! The study as Markdown, for issues and documents, and as CSV, for spreadsheets.

use super::units::{self, count, date, micros, or_none, percent};
use super::{against, comparison, findings, matrix, published, tables};
use crate::results::{Drawing, Lane, Results};
use core::fmt::Write;

/// The study in Markdown: words, a table of all rows, what was published, and notes.
pub fn markdown(results: &Results) -> String {
    let mut out = format!("# {}\n\n", text(heading(results)));
    let facts = &results.machine;
    let _ = writeln!(
        out,
        "{}, {}: {}, {} cores, {}.\n",
        text(&facts.name),
        date(results.started_s),
        text(&facts.cpu),
        facts.cores,
        text(&facts.system)
    );
    for sentence in words(results) {
        let _ = writeln!(out, "- {}", text(&sentence));
    }
    if results.draws(Drawing::Matrix) {
        targets_and_initiators(results, &mut out);
    }
    if let Some(subject) = against::subject(results) {
        one_against_others(results, subject, &mut out);
    }
    out += "\n| workload | lane | IOPS | 95 % interval | p50 µs | p99 µs | init. CPU µs | target CPU µs | % of device | % of TCP |\n\
            |---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n";
    for row in &results.rows {
        let cells = [
            text(&row.workload),
            format!("{}{}", text(&row.lane), tables::marks(row).replace('*', "\\*")),
            count(row.iops),
            units::interval(row),
            units::latency(row.latency.p50_ns),
            units::latency(row.latency.p99_ns),
            micros(row.initiator.total_ns()),
            or_none(row.target.map(|cpu| cpu.total_ns()), micros),
            or_none(row.share_of_local, percent),
            or_none(row.share_of_ceiling, percent),
        ];
        let _ = writeln!(out, "| {} |", cells.join(" | "));
    }
    published(results, &mut out);
    setups(results, &mut out);
    if !results.notes.is_empty() {
        out += "\n## Notes\n\n";
        for note in &results.notes {
            let _ = writeln!(out, "- {}", text(note));
        }
    }
    out
}

/// The reference against each other lane.
fn one_against_others(results: &Results, subject: &Lane, out: &mut String) {
    for sentence in against::basis(results, subject) {
        let _ = writeln!(out, "- {}", text(&sentence));
    }
    let (name, heads) =
        (text(subject.short_title()), against::HEADS.join(" | ").replace('\n', " "));
    let _ = writeln!(out, "\n| {name} against | {heads} |\n|---|---:|---:|---:|---:|");
    for line in against::lines(results, subject) {
        let _ = writeln!(out, "| {} | {} |", text(&line.name), line.cells.join(" | "));
    }
}

/// Each target with each initiator, and the reasons for those that were not measured.
fn targets_and_initiators(results: &Results, out: &mut String) {
    for protocol in matrix::protocols(results) {
        let heads = matrix::HEADS.join(" | ");
        let _ = writeln!(
            out,
            "\n## {}\n\n| {heads} |\n|---|---|---:|---:|---:|---:|",
            text(protocol.name)
        );
        for line in &protocol.lines {
            let cells = line.cells.join(" | ");
            let _ = writeln!(out, "| {} | {} | {cells} |", text(line.target), text(line.initiator));
        }
    }
    *out += "\n";
    for sentence in matrix::sentences(results) {
        let _ = writeln!(out, "- {}", text(&sentence));
    }
}

/// The commands and the configuration of each target.
fn setups(results: &Results, out: &mut String) {
    let lanes = || results.lanes.iter().filter(|lane| !lane.setup.is_empty());
    if lanes().next().is_some() {
        *out += "\n## Commands and configuration of the targets\n\n";
    }
    for lane in lanes() {
        for line in &lane.setup {
            let _ = writeln!(out, "- {}: {}", text(&lane.name), text(line));
        }
    }
}

fn heading(results: &Results) -> &str {
    if results.title.is_empty() { "weft study" } else { &results.title }
}

fn words(results: &Results) -> Vec<String> {
    let sentences = if results.draws(Drawing::SideBySide) {
        comparison::sentences(results)
    } else if results.draws(Drawing::Matrix) {
        std::iter::once(format!("{}.", matrix::headline(results)))
            .chain(matrix::basis(results))
            .collect()
    } else {
        let findings = findings::find(results);
        match against::sentences(results, &findings) {
            said if said.is_empty() => {
                findings.iter().flat_map(findings::Finding::sentences).collect()
            }
            said => said,
        }
    };
    super::of_all_lanes(results).into_iter().chain(sentences).collect()
}

fn published(results: &Results, out: &mut String) {
    for (source, lines) in published::sources(results) {
        *out += "\n| published † | quantity | ratio of | † | here |\n|---|---|---|---:|---:|\n";
        for line in lines {
            let (of, names, here) = (text(line.of), text(&line.names), line.here_text());
            let _ = writeln!(
                out,
                "| {of} | {} | {names} | {} | {here} |",
                line.metric.title(),
                line.published_text()
            );
        }
        let _ = writeln!(out, "\n{}", text(&published::legend(source)));
    }
}

/// Names come from peers and files: they must not become markup, or end a cell or a line.
pub(crate) fn text(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '|' | '*' | '_' | '`' | '[' | ']' | '\\' | '#' => out.extend(['\\', letter]),
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// Heads of the columns of [`csv`].
const COLUMNS: [&str; 27] = [
    "suite",
    "lane",
    "workload",
    "iops",
    "interval_low",
    "interval_high",
    "steady",
    "rounds",
    "seconds",
    "bytes_per_second",
    "read_iops",
    "write_iops",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p99.9_ns",
    "p99.99_ns",
    "max_ns",
    "initiator_user_ns",
    "initiator_system_ns",
    "target_user_ns",
    "target_system_ns",
    "system_calls_per_io",
    "share_of_local",
    "share_of_ceiling",
    "failed",
];

/// The rows as comma-separated values after RFC 4180: a line for each, numbers in full, nothing
/// where there is none.
pub fn csv(results: &Results) -> String {
    let mut out = COLUMNS.join(",") + "\r\n";
    let number = |value: f64| if value.is_finite() { value.to_string() } else { String::new() };
    let optional = |value: Option<f64>| value.map_or_else(String::new, number);
    for row in &results.rows {
        let target = row.target;
        let cells: [String; COLUMNS.len()] = [
            quoted(&results.suite),
            quoted(&row.lane),
            quoted(&row.workload),
            number(row.iops),
            optional(row.interval.map(|interval| interval.0)),
            optional(row.interval.map(|interval| interval.1)),
            (!row.is_unstable()).to_string(),
            row.rounds.to_string(),
            number(row.seconds),
            number(row.bytes_per_second),
            number(row.read_iops),
            number(row.write_iops),
            number(row.latency.mean_ns),
            number(row.latency.p50_ns),
            number(row.latency.p90_ns),
            number(row.latency.p99_ns),
            optional(row.latency.p999_ns),
            optional(row.latency.p9999_ns),
            number(row.latency.max_ns),
            number(row.initiator.user_ns),
            number(row.initiator.system_ns),
            optional(target.map(|cpu| cpu.user_ns)),
            optional(target.map(|cpu| cpu.system_ns)),
            number(row.system_calls_per_io),
            optional(row.share_of_local),
            optional(row.share_of_ceiling),
            row.failed.to_string(),
        ];
        out += &(cells.join(",") + "\r\n");
    }
    out
}

/// A text as a field. What a spreadsheet would take for a formula begins with an apostrophe.
fn quoted(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}
