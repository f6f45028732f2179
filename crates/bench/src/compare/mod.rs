//! Two studies compared: what changed, and whether it is more than noise.
//!
//! What both have as a relation of lanes is compared by that ([`Moved`]). A row without one has changed if the 95 % intervals of its two medians do not
//! overlap; rows with fewer rounds than an interval takes are not judged. That holds for one machine only.

mod moved;

pub use moved::Moved;

use crate::error::Error;
use crate::relation::Scale;
use crate::report::units::{NONE, count, micros, or_none};
use crate::results::{Results, Row, SCHEMA, SCHEMA_OLDEST};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use core::cmp::Ordering;
use core::fmt::Write;

/// Part by which processor time per operation may differ before it is told; it has no interval.
const CPU: f64 = 0.10;

/// Two studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// Relations that both have.
    pub moved: Vec<Moved>,
    /// Rows that both have.
    pub changes: Vec<Change>,
    /// What else differs, in whole sentences.
    pub notes: Vec<String>,
}

/// A row in both studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Lane.
    pub lane: String,
    /// Workload.
    pub workload: String,
    /// IOPS before and after.
    pub iops: (f64, f64),
    /// CPU time per operation of the initiator before and after, nanoseconds.
    pub cpu_ns: (f64, f64),
    /// What the intervals say; none where a relation of the lane says it.
    pub verdict: Option<Verdict>,
}

/// Whether a difference is more than noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// The intervals overlap.
    Noise,
    /// One of the two has no interval.
    Unknown,
}

impl Verdict {
    fn of(before: &Row, after: &Row) -> Self {
        match before.interval.zip(after.interval) {
            None => Self::Unknown,
            Some((before, after)) if after.0 > before.1 => Self::Faster,
            Some((before, after)) if after.1 < before.0 => Self::Slower,
            Some(_) => Self::Noise,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Noise => "no more than noise",
            Self::Unknown => "too few rounds",
        }
    }
}

/// Reads the content of a `results.json`.
///
/// # Errors
/// Another format, or another version of it.
pub fn read(place: &str, text: &str) -> Result<Results, Error> {
    let wrong = |problem: String| Error::Results { place: place.to_owned(), problem };
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    match value["schema"].as_u64() {
        Some(schema) if (u64::from(SCHEMA_OLDEST)..=u64::from(SCHEMA)).contains(&schema) => {}
        Some(schema) => {
            return Err(wrong(format!(
                "its schema is {schema}, and this weft reads {SCHEMA_OLDEST} to {SCHEMA}: use the weft that wrote it"
            )));
        }
        None => return Err(wrong("it is no results.json of weft study".into())),
    }
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

/// Compares two studies, the earlier one first.
pub fn compare(before: &Results, after: &Results) -> Comparison {
    let moved = moved::all(before, after);
    let change = |row: &Row| {
        let is = |moved: &Moved| moved.lane == row.lane && moved.workload == row.workload && moved.change.scale == Scale::Ratio;
        let then = before.row(&row.lane, &row.workload)?;
        Some(Change {
            lane: row.lane.clone(),
            workload: row.workload.clone(),
            iops: (then.iops, row.iops),
            cpu_ns: (then.initiator.total_ns(), row.initiator.total_ns()),
            verdict: (!moved.iter().any(is)).then(|| Verdict::of(then, row)),
        })
    };
    let changes: Vec<Change> = after.rows.iter().filter_map(change).collect();
    let mut notes = circumstances(before, after);
    notes.extend(alone(before, after, "first"));
    notes.extend(alone(after, before, "second"));
    Comparison { moved, changes, notes }
}

/// Facts that differ and may be the reason of a change.
fn circumstances(before: &Results, after: &Results) -> Vec<String> {
    let facts = |of: &Results| {
        [
            ("weft", of.commit.clone().map_or_else(|| of.weft.clone(), |commit| format!("{} ({commit})", of.weft))),
            ("suite", of.suite.clone()),
            ("machine", of.machine.name.clone()),
            ("processor", of.machine.cpu.clone()),
            ("cores", of.machine.cores.to_string()),
            ("system", of.machine.system.clone()),
            ("governor", of.machine.governors.join(", ")),
            ("mitigations", of.machine.mitigations.join("; ")),
        ]
    };
    let pairs = facts(before).into_iter().zip(facts(after));
    let differ = pairs.filter(|((_, before), (_, after))| before != after);
    let mut notes: Vec<String> =
        differ.map(|((what, before), (_, after))| format!("Different {what}: {before:?}, then {after:?}.")).collect();
    let steal = |of: &Results| of.conditions.steal.unwrap_or(0.0).max(of.conditions.others.unwrap_or(0.0));
    if steal(before).max(steal(after)) > 0.05 {
        notes.push("The machine was not idle in one of the studies: a change may be that of its load.".into());
    }
    if before.quick || after.quick {
        notes.push("One of the studies was a quick one.".into());
    }
    notes
}

/// Rows that only one of the two has.
fn alone(of: &Results, other: &Results, which: &str) -> Option<String> {
    let rows = of.rows.iter().filter(|row| other.row(&row.lane, &row.workload).is_none());
    let names: Vec<String> = rows.map(|row| format!("{} {}", row.lane, row.workload)).collect();
    (!names.is_empty()).then(|| format!("Only in the {which} study: {}.", names.join(", ")))
}

impl Comparison {
    /// As lines of text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        if !self.moved.is_empty() {
            let _ = writeln!(out, "{}\n", self.relations().trim_fmt());
        }
        let _ = writeln!(out, "{}\n", self.figures().trim_fmt());
        for sentence in self.sentences().iter().chain(&self.notes) {
            let _ = writeln!(out, "{sentence}");
        }
        // Names come from files.
        out.retain(|letter| letter == '\n' || !letter.is_control());
        out
    }

    /// What lanes are beside others.
    fn relations(&self) -> Table {
        let mut table = table(["workload", "lane", "beside", "of", "before", "after", "verdict"]);
        let right = |text: &str| Cell::new(text).set_alignment(CellAlignment::Right);
        for moved in &self.moved {
            let [before, after] = moved.shown();
            table.add_row([
                Cell::new(&moved.workload),
                Cell::new(&moved.lane),
                Cell::new(moved.to.as_deref().unwrap_or("bare TCP")),
                Cell::new(moved.what()),
                right(&before),
                right(&after),
                Cell::new(moved.verdict()),
            ]);
        }
        table
    }

    /// Absolute figures.
    fn figures(&self) -> Table {
        let mut table = table(["workload", "lane", "IOPS before", "after", "change", "CPU µs before", "after", "verdict"]);
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        for change in &self.changes {
            table.add_row([
                Cell::new(&change.workload),
                Cell::new(&change.lane),
                right(count(change.iops.0)),
                right(count(change.iops.1)),
                right(percent(change.iops)),
                right(micros(change.cpu_ns.0)),
                right(micros(change.cpu_ns.1)),
                Cell::new(change.verdict.map_or("see its relation", Verdict::words)),
            ]);
        }
        table
    }

    /// What changed, in whole sentences.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if !self.moved.is_empty() {
            let of = |direction| self.moved.iter().filter(|moved| moved.change.direction() == direction).count();
            let (all, more, less) = (self.moved.len(), of(Some(Ordering::Greater)), of(Some(Ordering::Less)));
            sentences.push(format!(
                "Of {all} relations that both studies have {more} are more and {less} are less by more than both are unsure of; the others are level or \
                 cannot be told apart. Rates, latencies and CPU times by themselves change with the machine and the day."
            ));
        }
        sentences.extend(self.absolute());
        sentences
    }

    /// What the rows say that have no relation.
    fn absolute(&self) -> Vec<String> {
        let judged: Vec<&Change> = self.changes.iter().filter(|change| change.verdict.is_some()).collect();
        let of = |verdict: Verdict| judged.iter().filter(|change| change.verdict == Some(verdict)).count();
        let all = judged.len();
        if all == 0 && !self.moved.is_empty() {
            return Vec::new();
        }
        let (faster, slower, noise, unknown) =
            (of(Verdict::Faster), of(Verdict::Slower), of(Verdict::Noise), of(Verdict::Unknown));
        let mut sentences = vec![format!(
            "Of {all} rows without a relation {faster} are faster and {slower} slower by more than noise (their 95 % intervals do not overlap), {noise} show no \
             difference, and {unknown} have too few rounds to tell."
        )];
        let dearer = |change: &&Change| (change.cpu_ns.1 / change.cpu_ns.0 - 1.0).abs() > CPU;
        let cpu: Vec<String> = judged
            .iter()
            .copied()
            .filter(dearer)
            .map(|change| format!("{} {} ({})", change.lane, change.workload, percent(change.cpu_ns)))
            .collect();
        if !cpu.is_empty() {
            let percent = CPU * 100.0;
            sentences.push(format!(
                "CPU time per operation, which has no interval, differs by more than {percent:.0} % in: {}.",
                cpu.join(", ")
            ));
        }
        sentences
    }
}

/// An empty table with such columns.
fn table<const N: usize>(columns: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(crate::table::STYLE).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(columns);
    table
}

/// `+4.2 %`.
fn percent((before, after): (f64, f64)) -> String {
    let change = after / before - 1.0;
    or_none(change.is_finite().then_some(change), |change| format!("{:+.1} %", change * 100.0)).replace("NaN", NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload, its IOPS and their interval.
    type Measured<'a> = (&'a str, f64, Option<(f64, f64)>);

    fn results(rows: &[Measured<'_>]) -> Results {
        let row = |(workload, iops, interval): &Measured<'_>| {
            serde_json::json!({ "lane": "l", "workload": workload, "iops": iops, "bytes_per_second": 0.0,
                "latency": { "mean_ns": 0.0, "p50_ns": 0.0, "p99_ns": 0.0, "p999_ns": null },
                "initiator": { "user_ns": 500.0, "system_ns": iops }, "target": null, "share_of_local": null, "share_of_ceiling": null,
                "spread": [0.0, 0.0], "rounds": 6, "interval": interval, "system_calls_per_io": 0.0, "generator_limited": false, "failed": 0 })
        };
        let value = serde_json::json!({ "schema": SCHEMA, "weft": "1", "started_s": 0, "took_s": 0.0, "quick": false, "suite": "s",
            "machine": { "name": "m", "cpu": "c", "cores": 2, "memory_bytes": 0, "system": "x" }, "lanes": [], "workloads": [],
            "rows": rows.iter().map(row).collect::<Vec<_>>(), "ceiling": [], "notes": [] });
        read("r.json", &value.to_string()).unwrap()
    }

    #[test]
    fn intervals_decide() {
        let before = results(&[
            ("up", 100.0, Some((98.0, 102.0))),
            ("down", 100.0, Some((98.0, 102.0))),
            ("same", 100.0, Some((98.0, 102.0))),
            ("few", 100.0, None),
            ("gone", 1.0, None),
        ]);
        let mut after = results(&[
            ("up", 110.0, Some((105.0, 112.0))),
            ("down", 90.0, Some((88.0, 97.0))),
            ("same", 103.0, Some((101.0, 105.0))),
            ("few", 300.0, Some((299.0, 301.0))),
            ("new", 1.0, None),
        ]);
        after.machine.system = "y".into();
        let compared = compare(&before, &after);
        let verdicts: Vec<Verdict> = compared.changes.iter().filter_map(|change| change.verdict).collect();
        assert_eq!(verdicts, [Verdict::Faster, Verdict::Slower, Verdict::Noise, Verdict::Unknown]);
        let text = compared.render();
        for words in [
            "Of 4 rows without a relation 1 are faster and 1 slower by more than noise",
            "+10.0 %",
            "-10.0 %",
            "Different system: \"x\", then \"y\".",
            "Only in the first study: l gone.",
            "Only in the second study: l new.",
            "l few (+33.3 %)",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
    }

    /// What machines and days change is not what lanes are beside each other.
    #[test]
    fn relations_decide_where_there_are_any() {
        let relation = |quantity: &str, scale: &str, (value, half): (f64, f64)| {
            serde_json::json!({ "lane": "l", "to": "local", "workload": "w", "quantity": quantity, "estimate": { "scale": scale,
                "value": value, "low": value - half, "high": value + half, "blocks": 6, "pairs": 12 } })
        };
        let with = |iops: f64, rate: (f64, f64), latency: (f64, f64)| {
            let mut results = results(&[("w", iops, Some((iops * 0.99, iops * 1.01)))]);
            let all = [relation("rate", "ratio", rate), relation("latency", "difference", latency)];
            results.relations = all.map(|one| serde_json::from_value(one).unwrap()).to_vec();
            results
        };
        let before = with(100.0, (0.5, 0.01), (9000.0, 200.0));
        let twice_as_fast = compare(&before, &with(200.0, (0.505, 0.01), (8000.0, 200.0)));
        assert_eq!((twice_as_fast.moved.len(), twice_as_fast.changes[0].verdict), (2, None));
        let text = twice_as_fast.render().replace('\u{a0}', " ");
        for words in [
            "level within 5 %",
            "less, by 0.72 µs to 1.28 µs",
            "+9.00 µs (+8.80 µs to +9.20 µs)",
            "Of 2 relations that both studies have 0 are more and 1 are less",
            "see its relation",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let unsure = compare(&before, &with(100.0, (0.53, 0.1), (9100.0, 300.0))).render().replace('\u{a0}', " ");
        assert!(unsure.contains("cannot be told apart: between −13 % and +28 %"), "{unsure}");
        assert!(unsure.contains("cannot be told apart: −0.26 µs to +0.46 µs"), "{unsure}");
    }

    /// A study that weft wrote before relations and blocks.
    #[test]
    fn the_version_before_is_read() {
        let text = include_str!("../../../../docs/study/reports/null/results.json");
        let mut old: serde_json::Value = serde_json::from_str(text).unwrap();
        old["schema"] = SCHEMA_OLDEST.into();
        old.as_object_mut().unwrap().remove("relations");
        let old = read("r.json", &old.to_string()).unwrap();
        assert!(old.relations.is_empty() && compare(&old, &old).moved.is_empty());
        assert!(compare(&old, &old).render().contains("rows without a relation 0 are faster and 0 slower"));
    }

    #[test]
    fn other_files_are_refused() {
        let refused = |text: &str| read("r.json", text).unwrap_err().to_string();
        assert!(refused("{}").contains("r.json: it is no results.json"));
        assert!(refused("{\"schema\":1}").contains("its schema is 1, and this weft reads"));
        assert!(refused("x").starts_with("the results r.json: "));
    }
}
