//! Bound by bare TCP: one connection's operations are divided over two, as by a stripe, or done on
//! both, as by a mirror. No layer can reach more on the same cores.

use anyhow::{Context, Result};
use serde_json::Value;

use super::{
    super::super::{
        contestant::Ceiling,
        point::{POINTS, Point},
        sample::Sample,
        setting::Setting,
        table::Table,
    },
    measured::{self, Measured},
};

/// What is compared: its title, the point of one connection, what each of two has, and the part of
/// their operations that counts.
struct Bound {
    title: &'static str,
    one: &'static str,
    depth: u32,
    counts: f64,
}

const BOUNDS: [Bound; 4] = [
    Bound { title: "reads, divided over two", one: "4k-randread-32", depth: 16, counts: 1.0 },
    Bound { title: "writes, divided over two", one: "4k-randwrite-32", depth: 16, counts: 1.0 },
    Bound { title: "writes, done on both", one: "4k-randwrite-1", depth: 1, counts: 0.5 },
    Bound { title: "writes, done on both", one: "4k-randwrite-32", depth: 32, counts: 0.5 },
];

/// Measures one connection and two in turn.
pub fn run(setting: &Setting) -> Result<(Table, Value)> {
    let mut ceiling = Ceiling::start(setting)?;
    let text = format!(
        "The bare ceiling over one connection and over two, each end on one core: 4 KiB, medians of {} rounds, with the least and the greatest. Where both connections do the same writes, half of them count.",
        setting.rounds
    );
    let head = ["point", "one connection, operations per second", "two connections, of that"];
    let mut table = Table::new("What two connections leave of one", &text, &head);
    let mut all = Vec::new();
    for bound in &BOUNDS {
        let one = POINTS.into_iter().find(|point| point.name == bound.one);
        let one = one.context("a point of the race")?;
        let two = Point { connections: 2, iodepth: bound.depth, ..one };
        let ways = [(one, 1.0), (two, bound.counts)];
        let point = format!("{}, depth {}", bound.title, one.iodepth);
        all.push(Measured::of(setting, point, ways.len(), |at| {
            let (point, counts) = ways[at];
            let sample = ceiling.as_weft(setting, &point)?;
            Ok(Sample { iops: sample.iops * counts, ..sample })
        })?);
    }
    table.rows.extend(all.iter().map(Measured::row));
    Ok((table, measured::json(&all, &["one", "two"])))
}
