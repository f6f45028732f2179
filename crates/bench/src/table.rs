//! The tables that `weft study` prints: the thirteen patterns, the latencies at queue depth 1, and
//! what they say in words.
//!
//! A column is dropped, the least telling first, while the table is wider than the terminal; the
//! legend names what is missing.

use crate::report::tables::{CEILING, FAILED, FEWER, FEWER_LEGEND, LIMITED, marks};
use crate::report::units::{
    NONE, count, gigabytes, latency, micros, or_none, percent, rounds, seconds, share,
};
use crate::report::{against, closing, comparison, matrix, published};
use crate::results::{Ceiling, Drawing, Lane, Results, Row, Workload, uncertainty};
use crate::text_table::{self, Align, paragraphs, widest, wrap};

/// Columns of a terminal that does not say how wide it is, or of a file.
const WIDTH: usize = 80;

/// Minimum width for wrapping words; a narrower terminal wraps by itself.
const WIDTH_MIN: usize = 40;

/// The tables of the suite and at most five sentences as lines of text, for a terminal with `width`
/// columns (`None`: 80).
///
/// From 80 columns on, every line fits `width`, except for a single word that is longer.
pub fn render(results: &Results, width: Option<usize>) -> String {
    let width = width.unwrap_or(WIDTH).max(WIDTH_MIN);
    let mut out = if results.draws(Drawing::SideBySide) {
        side_by_side(results, width)
    } else if results.draws(Drawing::Matrix) {
        targets_and_initiators(results, width)
    } else if let Some(subject) = against::subject(results) {
        one_against_others(results, subject, width)
    } else {
        patterns(results, width)
    };
    if results.draws(Drawing::Published) {
        out += &of_others(results, width);
    }
    out += &paragraphs(&closing::sentences(results), width);
    // Names come from peers and URLs; they must not steer the terminal.
    out.retain(|letter| letter == '\n' || !letter.is_control());
    out
}

fn patterns(results: &Results, width: usize) -> String {
    let mut out = String::new();
    let patterns: Vec<_> = results.patterns().collect();
    if !patterns.is_empty() {
        let lines = patterns.iter().flat_map(|pattern| lines_of(results, pattern)).collect();
        out += &section("", &PATTERN_COLUMNS, lines, width);
    }
    let latencies: Vec<_> = results.latencies().collect();
    if !latencies.is_empty() {
        let lines =
            latencies.iter().flat_map(|workload| latency_lines_of(results, workload)).collect();
        out += &section("Latency at queue depth 1", &LATENCY_COLUMNS, lines, width);
    }
    let open: Vec<_> = results.open_loops().collect();
    if !open.is_empty() {
        let lines = open.iter().flat_map(|workload| lines_of(results, workload)).collect();
        out += &section(
            "Latency at the same rate, from when operations were due",
            &OPEN_LOOP_COLUMNS,
            lines,
            width,
        );
    }
    out + &legend(results, width)
}

/// One lane against the others: a line for each of them.
fn one_against_others(results: &Results, subject: &Lane, width: usize) -> String {
    let head = [format!("{}\nagainst", subject.short_title())];
    let heads = head.into_iter().chain(against::HEADS.map(str::to_owned)).collect();
    let row = |line: against::AgainstRow| [line.name].into_iter().chain(line.cells).collect();
    let lines = against::lines(results, subject).into_iter().map(row);
    let rows: Vec<Vec<String>> = [heads].into_iter().chain(lines).collect();
    let columns: Vec<Align> =
        [Align::Left].into_iter().chain(against::HEADS.map(|_| Align::Right)).collect();
    let basis = against::basis(results, subject);
    format!("{}\n\n{}", text_table::draw(&columns, &rows), paragraphs(&basis, width))
}

/// One workload: a column for each lane, as there are more numbers than lanes. Those that do not
/// fit stand in a table below.
fn side_by_side(results: &Results, width: usize) -> String {
    let lines = comparison::lines(results);
    let title = results.workloads.first().map_or("", |workload| workload.title.as_str());
    let mut out = format!("{title}; from CPU on per operation\n\n");
    let mut rest = &lines[..];
    while !rest.is_empty() {
        let tables =
            (1..=rest.len()).rev().map(|count| (count, lanes_beside(results, &rest[..count])));
        let mut fitting = tables.skip_while(|(count, table)| *count > 1 && widest(table) > width);
        let Some((count, table)) = fitting.next() else { break };
        out += &format!("{table}\n\n");
        rest = &rest[count..];
    }
    out
}

/// A table with a column for each of these lanes.
fn lanes_beside(results: &Results, lines: &[comparison::ComparisonRow]) -> String {
    let row = |name: &str, cell: &dyn Fn(&comparison::ComparisonRow) -> String| {
        [name.to_owned()].into_iter().chain(lines.iter().map(cell)).collect::<Vec<_>>()
    };
    let mut rows = vec![row("", &|line| line.lane.clone())];
    for (at, name) in comparison::heads(results).iter().skip(1).enumerate() {
        // What no lane has is not worth a line.
        if lines.iter().all(|line| line.cells[at] == NONE) {
            continue;
        }
        rows.push(row(name, &|line| line.cells[at].clone()));
    }
    let columns: Vec<Align> =
        [Align::Left].into_iter().chain(lines.iter().map(|_| Align::Right)).collect();
    text_table::draw(&columns, &rows)
}

/// Each target with each initiator: a line for each pair.
fn targets_and_initiators(results: &Results, width: usize) -> String {
    let basis: Vec<String> = matrix::basis(results).into_iter().collect();
    let mut out = paragraphs(&basis, width);
    let columns = [Align::Left, Align::Left].into_iter().chain([Align::Right; 4]);
    let columns: Vec<Align> = columns.collect();
    for protocol in matrix::protocols(results) {
        let head = matrix::HEADS.map(two_lines).to_vec();
        let of = |line: &matrix::MatrixRow<'_>| {
            let names = [line.target, line.initiator].map(str::to_owned).into_iter();
            names.chain(line.cells.iter().cloned()).collect::<Vec<_>>()
        };
        let rows: Vec<_> = [head].into_iter().chain(protocol.lines.iter().map(of)).collect();
        out += &format!("{}\n\n{}\n\n", protocol.name, text_table::draw(&columns, &rows));
    }
    out + &paragraphs(&matrix::sentences(results), width)
}

/// A head with its unit in a second line.
fn two_lines(head: &str) -> String {
    head.split_once(' ')
        .map_or_else(|| format!("\n{head}"), |(name, unit)| format!("{name}\n{unit}"))
}

/// What others have published, as relations.
fn of_others(results: &Results, width: usize) -> String {
    let mut out = String::new();
    for (source, lines) in published::sources(results) {
        let mut texts: Vec<String> = lines
            .iter()
            .map(|line| {
                let (of, what, mark) = (line.of, line.metric.title(), published::PUBLISHED);
                let here =
                    line.here.map_or_else(String::new, |_| format!("; here {}", line.here_text()));
                format!("{of}, {what}, {}: {}{mark}{here}.", line.names, line.published_text())
            })
            .collect();
        texts.push(published::legend(source));
        out += &paragraphs(&texts, width);
    }
    out + &paragraphs(&published::remarks(results), width)
}

/// What a line of a table is made from.
struct Line<'a> {
    workload: &'a Workload,
    /// The first of its workload, which alone names it.
    first: bool,
    lane: &'a str,
    data: Data<'a>,
}

#[derive(Clone, Copy)]
enum Data<'a> {
    Row(&'a Row),
    Ceiling(&'a Ceiling),
    Missing,
}

impl<'a> Data<'a> {
    fn row(self) -> Option<&'a Row> {
        match self {
            Data::Row(row) => Some(row),
            Data::Ceiling(_) | Data::Missing => None,
        }
    }

    /// A number that a row and a ceiling both have.
    fn both(self, of_row: fn(&Row) -> f64, of_ceiling: fn(&Ceiling) -> f64) -> Option<f64> {
        match self {
            Data::Row(row) => Some(of_row(row)),
            Data::Ceiling(ceiling) => Some(of_ceiling(ceiling)),
            Data::Missing => None,
        }
    }
}

/// A column: its head (two lines), what it says, and how soon it is given up: 0 never, then the
/// greatest first.
struct Column {
    head: &'static str,
    name: &'static str,
    rank: u8,
    text: fn(&Line<'_>) -> String,
}

const fn column(
    head: &'static str,
    name: &'static str,
    rank: u8,
    text: fn(&Line<'_>) -> String,
) -> Column {
    Column { head, name, rank, text }
}

const PATTERN_COLUMNS: [Column; 13] = [
    column("\npattern", "pattern", 0, pattern),
    column("\nlane", "lane", 0, lane),
    column("\nIOPS", "IOPS", 0, iops),
    column("95 %\n±%", "95 % interval", 4, interval),
    column("\nGB/s", "GB/s", 1, gigabytes_of),
    column("mean\nµs", "mean", 5, mean),
    column("p50\nµs", "p50", 2, p50),
    column("p99\nµs", "p99", 0, p99),
    column("p99.9\nµs", "p99.9", 3, p999),
    column("init.\nCPU µs", "CPU of the initiator", 1, initiator),
    column("target\nCPU µs", "CPU of the target", 1, target),
    column("% of\ndevice", "share of the device", 0, of_local),
    column("% of\nTCP", "share of bare TCP", 0, of_ceiling),
];

const LATENCY_COLUMNS: [Column; 9] = [
    column("\noperation", "operation", 0, title),
    column("\nlane", "lane", 0, lane),
    column("mean\nµs", "mean", 4, mean),
    column("p50\nµs", "p50", 0, p50),
    column("p99\nµs", "p99", 0, p99),
    column("p99.9\nµs", "p99.9", 0, p999),
    column("\nIOPS", "IOPS", 3, iops),
    column("init.\nCPU µs", "CPU of the initiator", 2, initiator),
    column("target\nCPU µs", "CPU of the target", 2, target),
];

const OPEN_LOOP_COLUMNS: [Column; 8] = [
    column("\noperation", "operation", 0, title),
    column("\nlane", "lane", 0, lane),
    column("IOPS\ndue", "IOPS that are due", 1, offered),
    column("IOPS\ndone", "IOPS", 0, iops),
    column("mean\nµs", "mean", 4, mean),
    column("p50\nµs", "p50", 0, p50),
    column("p99\nµs", "p99", 0, p99),
    column("p99.9\nµs", "p99.9", 2, p999),
];

fn pattern(line: &Line<'_>) -> String {
    if line.first { line.workload.name.clone() } else { String::new() }
}

fn title(line: &Line<'_>) -> String {
    if line.first { line.workload.title.clone() } else { String::new() }
}

fn lane(line: &Line<'_>) -> String {
    let marks = match line.data {
        Data::Row(row) => marks(row),
        Data::Ceiling(_) | Data::Missing => String::new(),
    };
    format!("{}{marks}", line.lane)
}

fn iops(line: &Line<'_>) -> String {
    or_none(line.data.both(|row| row.iops, |ceiling| ceiling.iops), count)
}

fn offered(line: &Line<'_>) -> String {
    or_none(line.data.row().and_then(|row| row.offered_iops), count)
}

/// How far the interval of the median reaches.
fn interval(line: &Line<'_>) -> String {
    let row = line.data.row().and_then(|row| Some(uncertainty(row.interval?, row.iops)));
    or_none(row, percent)
}

fn gigabytes_of(line: &Line<'_>) -> String {
    or_none(line.data.row().map(|row| row.bytes_per_second), gigabytes)
}

fn mean(line: &Line<'_>) -> String {
    or_none(line.data.both(|row| row.latency.mean_ns, |ceiling| ceiling.latency.mean_ns), latency)
}

fn p50(line: &Line<'_>) -> String {
    or_none(line.data.both(|row| row.latency.p50_ns, |ceiling| ceiling.latency.p50_ns), latency)
}

fn p99(line: &Line<'_>) -> String {
    or_none(line.data.both(|row| row.latency.p99_ns, |ceiling| ceiling.latency.p99_ns), latency)
}

fn p999(line: &Line<'_>) -> String {
    let p999 = match line.data {
        Data::Row(row) => row.latency.p999_ns,
        Data::Ceiling(ceiling) => ceiling.latency.p999_ns,
        Data::Missing => None,
    };
    or_none(p999, micros)
}

fn initiator(line: &Line<'_>) -> String {
    or_none(line.data.row().map(|row| row.initiator.total_ns()), micros)
}

fn target(line: &Line<'_>) -> String {
    or_none(line.data.row().and_then(|row| row.target).map(|cpu| cpu.total_ns()), micros)
}

fn of_local(line: &Line<'_>) -> String {
    or_none(line.data.row().and_then(|row| row.share_of_local), percent)
}

fn of_ceiling(line: &Line<'_>) -> String {
    or_none(line.data.row().and_then(|row| row.share_of_ceiling), percent)
}

fn lines_of<'a>(results: &'a Results, workload: &'a Workload) -> Vec<Line<'a>> {
    let data = |name: &str| results.row(name, &workload.name).map_or(Data::Missing, Data::Row);
    let lanes = results.lanes.iter().enumerate();
    lanes
        .map(|(at, lane)| Line {
            workload,
            first: at == 0,
            lane: &lane.name,
            data: data(&lane.name),
        })
        .collect()
}

fn latency_lines_of<'a>(results: &'a Results, workload: &'a Workload) -> Vec<Line<'a>> {
    let mut lines = lines_of(results, workload);
    if let Some(ceiling) = results.ceiling(&workload.name) {
        lines.push(Line {
            workload,
            first: lines.is_empty(),
            lane: CEILING,
            data: Data::Ceiling(ceiling),
        });
    }
    lines
}

/// A table with its heading and with a line on the columns that were given up.
fn section(heading: &str, columns: &[Column], lines: Vec<Line<'_>>, width: usize) -> String {
    let mut kept: Vec<&Column> = columns.iter().collect();
    let mut table = draw(&kept, &lines);
    let mut dropped = Vec::new();
    while widest(&table) > width {
        let Some((at, last)) = kept
            .iter()
            .enumerate()
            .filter(|(_, column)| column.rank > 0)
            .max_by_key(|(_, column)| column.rank)
        else {
            break;
        };
        dropped.push(last.name);
        kept.remove(at);
        table = draw(&kept, &lines);
    }
    let heading = if heading.is_empty() { String::new() } else { format!("{heading}\n\n") };
    let note = if dropped.is_empty() {
        String::new()
    } else {
        wrap(&format!("In a wider terminal also: {}.", dropped.join(", ")), width)
    };
    format!("{heading}{table}\n{note}\n")
}

fn draw(columns: &[&Column], lines: &[Line<'_>]) -> String {
    let aligns: Vec<Align> = columns
        .iter()
        .map(|column| match column.name {
            "pattern" | "operation" | "lane" => Align::Left,
            _ => Align::Right,
        })
        .collect();
    let head = columns.iter().map(|column| column.head.to_owned()).collect();
    let of = |line| columns.iter().map(|column| (column.text)(line)).collect();
    let rows: Vec<Vec<String>> = [head].into_iter().chain(lines.iter().map(of)).collect();
    text_table::draw(&aligns, &rows)
}

/// What the marks and the shares mean; only what occurs.
fn legend(results: &Results, width: usize) -> String {
    let mut lines = vec![circumstances(results)];
    if results.rows.iter().any(|row| row.generator_limited) {
        lines.push(format!(
            "{LIMITED} The load generator was the limit: it hardly ever waited for the device, which may do more."
        ));
    }
    if results.rows.iter().any(|row| row.failed > 0) {
        lines.push(format!(
            "{FAILED} Operations failed: do not rely on this row until you know why."
        ));
    }
    if results.rows.iter().any(Row::lacks_machines) {
        lines.push(format!("{FEWER} {FEWER_LEGEND}"));
    }
    if !results.ceiling.is_empty() {
        lines.push("Bare TCP: the same number of bytes over one TCP connection, without protocol or device.".to_owned());
    }
    paragraphs(&lines, width)
}

/// How long and how often was measured, and what else the machine did.
fn circumstances(results: &Results) -> String {
    let at = &results.conditions;
    let load = at.load_before.map(|load| format!("; load before it {load:.2}"));
    let steal =
        at.steal.map(|steal| format!("; the host took {} of the time (steal)", share(steal)));
    let others =
        at.others.map(|others| format!("; other programs took {} of the time", share(others)));
    let more: String = load.into_iter().chain(others).chain(steal).collect();
    format!("Medians of {} rounds of {} s each{more}.", rounds(results), seconds(results))
}
