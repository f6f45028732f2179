//! Two studies compared: what changed, and whether it is more than noise.
//!
//! A row has changed if the 95 % intervals of its two medians do not overlap. The rounds of two studies have nothing to do with each other, so
//! neither their order nor their number matters. Rows with fewer rounds than an interval takes are not judged.

use crate::error::Error;
use crate::report::units::{NONE, count, micros, or_none};
use crate::results::{Results, Row, SCHEMA};
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use core::fmt::Write;

/// Part by which processor time per operation may differ before it is told; it has no interval.
const CPU: f64 = 0.10;

/// Two studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
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
    /// What the intervals say.
    pub verdict: Verdict,
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
        Some(schema) if schema == u64::from(SCHEMA) => {}
        Some(schema) => {
            return Err(wrong(format!("its schema is {schema}, and this weft reads {SCHEMA}: use the weft that wrote it")));
        }
        None => return Err(wrong("it is no results.json of weft study".into())),
    }
    serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
}

/// Compares two studies, the earlier one first.
pub fn compare(before: &Results, after: &Results) -> Comparison {
    let change = |row: &Row| {
        let then = before.row(&row.lane, &row.workload)?;
        Some(Change {
            lane: row.lane.clone(),
            workload: row.workload.clone(),
            iops: (then.iops, row.iops),
            cpu_ns: (then.initiator.total_ns(), row.initiator.total_ns()),
            verdict: Verdict::of(then, row),
        })
    };
    let changes: Vec<Change> = after.rows.iter().filter_map(change).collect();
    let mut notes = circumstances(before, after);
    notes.extend(alone(before, after, "first"));
    notes.extend(alone(after, before, "second"));
    Comparison { changes, notes }
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
        let mut table = Table::new();
        table.load_style(crate::table::STYLE).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["workload", "lane", "IOPS before", "after", "change", "CPU µs before", "after", "verdict"]);
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
                Cell::new(change.verdict.words()),
            ]);
        }
        let mut out = format!("{}\n\n", table.trim_fmt());
        for sentence in self.sentences().iter().chain(&self.notes) {
            let _ = writeln!(out, "{sentence}");
        }
        // Names come from files.
        out.retain(|letter| letter == '\n' || !letter.is_control());
        out
    }

    /// What changed, in whole sentences.
    pub fn sentences(&self) -> Vec<String> {
        let of = |verdict: Verdict| self.changes.iter().filter(|change| change.verdict == verdict).count();
        let all = self.changes.len();
        let (faster, slower, noise, unknown) =
            (of(Verdict::Faster), of(Verdict::Slower), of(Verdict::Noise), of(Verdict::Unknown));
        let mut sentences = vec![format!(
            "Of {all} rows {faster} are faster and {slower} slower by more than noise (their 95 % intervals do not overlap), {noise} show no \
             difference, and {unknown} have too few rounds to tell."
        )];
        let dearer = |change: &&Change| (change.cpu_ns.1 / change.cpu_ns.0 - 1.0).abs() > CPU;
        let cpu: Vec<String> = self
            .changes
            .iter()
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
        let verdicts: Vec<Verdict> = compared.changes.iter().map(|change| change.verdict).collect();
        assert_eq!(verdicts, [Verdict::Faster, Verdict::Slower, Verdict::Noise, Verdict::Unknown]);
        let text = compared.render();
        for words in [
            "Of 4 rows 1 are faster and 1 slower by more than noise",
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

    #[test]
    fn other_files_are_refused() {
        let refused = |text: &str| read("r.json", text).unwrap_err().to_string();
        assert!(refused("{}").contains("r.json: it is no results.json"));
        assert!(refused("{\"schema\":1}").contains("its schema is 1, and this weft reads"));
        assert!(refused("x").starts_with("the results r.json: "));
    }
}
