//! Latency at queue depth 1, and in the open loop: a line from the median to the 99.9th percentile
//! for each lane and for bare TCP, on a logarithmic scale.

use super::bars::name;
use super::canvas::{self, Axis, Canvas, HPos, Paint, VectorDrawing, text_width};
use super::drawing::{Chart, Words};
use crate::report::units::{micros, tick};
use crate::results::{Latency, Results, Workload};

const NAME_HEIGHT: i32 = 22;
const LINE_STEP: i32 = 20;
const GAP: i32 = 12;

/// The chart.
pub(super) struct Percentiles<'a> {
    words: Words,
    clusters: Vec<Cluster<'a>>,
}

struct Cluster<'a> {
    name: &'a str,
    lines: Vec<(Paint, Latency)>,
}

impl Cluster<'_> {
    fn height(&self) -> i32 {
        NAME_HEIGHT + LINE_STEP * self.lines.len() as i32 + GAP
    }
}

/// The chart of operations one after the other; none if no such latencies were measured.
pub(super) fn depth_one(results: &Results) -> Option<Percentiles<'_>> {
    let words = Words {
        id: "latency".to_owned(),
        title: "Median, 99th and 99.9th percentile".to_owned(),
        desc: "Latency of single operations, one after the other, over each lane and of a bare TCP exchange. \
               The table has the numbers."
            .to_owned(),
        ink: (!results.ceiling.is_empty()).then_some("bare TCP"),
    };
    of(results, words, results.latencies())
}

/// The chart of operations at a fixed rate; none if there was none.
pub(super) fn open_loop(results: &Results) -> Option<Percentiles<'_>> {
    let words = Words {
        id: "open-loop".to_owned(),
        title: "Median, 99th and 99.9th percentile at the same rate".to_owned(),
        desc: "Latency over each lane of operations that are due at a fixed rate, from when they were due. The table has the numbers."
            .to_owned(),
        ink: None,
    };
    of(results, words, results.open_loops())
}

fn of<'a>(
    results: &'a Results,
    words: Words,
    workloads: impl Iterator<Item = &'a Workload>,
) -> Option<Percentiles<'a>> {
    let clusters: Vec<Cluster<'_>> = workloads
        .map(|workload| cluster(results, workload))
        .filter(|cluster| !cluster.lines.is_empty())
        .collect();
    (!clusters.is_empty()).then_some(Percentiles { words, clusters })
}

fn cluster<'a>(results: &'a Results, workload: &'a Workload) -> Cluster<'a> {
    let lanes = results.lanes.iter().enumerate();
    let lanes = lanes.filter_map(|(at, lane)| {
        let latency = results.row(&lane.name, &workload.name)?.latency;
        (latency.p50_ns > 0.0).then_some((Paint::lane(at), latency))
    });
    let ceiling = results.ceiling(&workload.name).map(|ceiling| (Paint::Ink, ceiling.latency));
    Cluster { name: &workload.title, lines: lanes.chain(ceiling).collect() }
}

fn numbers(latency: &Latency) -> String {
    [Some(latency.p50_ns), Some(latency.p99_ns), latency.p999_ns]
        .into_iter()
        .flatten()
        .map(micros)
        .collect::<Vec<_>>()
        .join(" · ")
}

fn axis(clusters: &[Cluster<'_>]) -> Axis {
    let lines = || clusters.iter().flat_map(|cluster| &cluster.lines).map(|(_, latency)| latency);
    let values = || {
        lines()
            .flat_map(|l| [l.p50_ns, l.p999_ns.unwrap_or(l.p99_ns)])
            .filter(|ns| ns.is_finite() && *ns > 0.0)
            .map(|ns| ns / 1e3)
    };
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    let range = if high > 0.0 { (low / 1.25, high * 1.05) } else { (1.0, 10.0) };
    let right = lines().map(|latency| text_width(&numbers(latency))).max().unwrap_or(0) + 8;
    Axis {
        name: "latency, µs (logarithmic)".to_owned(),
        range,
        log: true,
        write: tick,
        right: right as u32,
    }
}

impl Chart for Percentiles<'_> {
    fn words(&self) -> &Words {
        &self.words
    }

    fn draw(&self, width: u32) -> VectorDrawing {
        let height: i32 = self.clusters.iter().map(Cluster::height).sum();
        canvas::draw(&axis(&self.clusters), width, height as u32, |canvas| {
            let mut top = 0;
            for cluster in &self.clusters {
                name(canvas, cluster.name, top);
                for (at, (paint, latency)) in cluster.lines.iter().enumerate() {
                    line(
                        canvas,
                        *paint,
                        latency,
                        top + NAME_HEIGHT + LINE_STEP * at as i32 + LINE_STEP / 2,
                    );
                }
                top += cluster.height();
            }
        })
    }
}

/// Circle, diamond and upright stroke: told apart without colour.
fn line(canvas: &mut Canvas, paint: Paint, latency: &Latency, y: i32) {
    let x = |ns: f64| canvas.x(ns / 1e3);
    let (p50, p99, p999) = (x(latency.p50_ns), x(latency.p99_ns), latency.p999_ns.map(x));
    let last = p999.unwrap_or(p99);
    canvas.line((p50, y), (last, y), paint, 2);
    canvas.dot((p50, y), 5, paint);
    canvas.polygon(&[(p99 - 6, y), (p99, y - 6), (p99 + 6, y), (p99, y + 6)], paint);
    if let Some(p999) = p999 {
        canvas.line((p999, y - 6), (p999, y + 6), paint, 3);
    }
    canvas.text((last + 7, y + 1), &numbers(latency), paint, HPos::Left);
}
