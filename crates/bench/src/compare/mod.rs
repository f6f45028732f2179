//! Two studies compared: what changed, and whether it is more than noise.
//!
//! Machines and days differ, and what a lane does by itself differs with them. So a lane is
//! compared by its relations, which both studies have measured side by side: to bare TCP, to the
//! device without a network, or to the suite's reference ([`Related`]). Rates are shown next to
//! them, and decide only where there is no relation in common: then a row has changed if the 95 %
//! intervals of its two medians do not overlap, and rows with fewer rounds than an interval takes
//! are not judged.

mod circumstances;
mod reading;
mod related;
#[cfg(test)]
mod tests;

use core::{cmp::Ordering, fmt::Write};

pub(crate) use circumstances::{differences, same_work, single_block};
pub use reading::read;
pub use related::Related;

use crate::{
    relation::{level, stated},
    report::units::{NONE, count, micros, or_none},
    results::{Quantity, Results, Row},
    text_table::{Align, draw},
};

/// Two studies.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The relations that both have.
    pub relations: Vec<Related>,
    /// Rows that both have.
    pub changes: Vec<ComparedRow>,
    /// Other differences, in whole sentences.
    pub notes: Vec<String>,
}

/// A row in both studies.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedRow {
    /// Lane.
    pub lane: String,
    /// Workload.
    pub workload: String,
    /// IOPS before and after.
    pub iops: (f64, f64),
    /// The 95 % intervals of these.
    pub intervals: [Option<(f64, f64)>; 2],
    /// CPU time per operation of the initiator before and after, nanoseconds.
    pub cpu_ns: (f64, f64),
    /// The verdict of the intervals.
    pub verdict: RateVerdict,
}

/// The verdict on the difference of two rates: more than noise, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateVerdict {
    /// Its relations decide.
    Related,
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// The intervals overlap.
    Noise,
    /// One of the two has no interval.
    Unknown,
}

impl RateVerdict {
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
            Self::Related => "see its relations",
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Noise => "no more than noise",
            Self::Unknown => "too few rounds",
        }
    }
}

/// Compares two studies, the earlier one first.
pub fn compare(before: &Results, after: &Results) -> Comparison {
    let mut relations = Vec::new();
    let mut changes = Vec::new();
    for row in
        after.rows.iter().filter(|row| circumstances::same_work(before, after, &row.workload))
    {
        let Some(then) = before.row(&row.lane, &row.workload) else { continue };
        let of_row = related::of_row(before, after, row);
        let verdict =
            if of_row.is_empty() { RateVerdict::of(then, row) } else { RateVerdict::Related };
        changes.push(ComparedRow {
            lane: row.lane.clone(),
            workload: row.workload.clone(),
            iops: (then.iops, row.iops),
            intervals: [then.interval, row.interval],
            cpu_ns: (then.initiator.total_ns(), row.initiator.total_ns()),
            verdict,
        });
        relations.extend(of_row);
    }
    Comparison { notes: circumstances::notes(before, after, &relations), relations, changes }
}

/// Part by which processor time per operation may differ without being reported, where no relation
/// has it with its interval.
const CPU: f64 = 0.10;

impl Comparison {
    /// As lines of text.
    pub fn render(&self) -> String {
        let mut out = String::new();
        if !self.relations.is_empty() {
            let _ = writeln!(
                out,
                "By relations, each with its 95 % interval\n\n{}\n",
                self.by_relations()
            );
            let _ =
                writeln!(out, "Rates and CPU time by themselves: machines and days may differ\n");
        }
        let _ = writeln!(out, "{}\n", self.by_themselves());
        for sentence in self.sentences().iter().chain(&self.notes) {
            let _ = writeln!(out, "{sentence}");
        }
        // Names come from files.
        out.retain(|letter| letter == '\n' || !letter.is_control());
        out
    }

    fn by_relations(&self) -> String {
        use Align::{Left, Right};
        let head = ["workload", "lane", "what", "in relation to", "before", "after", "change"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.relations.iter().map(|it| {
            let (before, after) = (stated(&it.before, it.unit()), stated(&it.after, it.unit()));
            let names = [&it.workload, &it.lane, it.what(), it.other()].map(str::to_owned);
            names.into_iter().chain([before, after, it.words().to_owned()]).collect()
        }));
        draw(&[Left, Left, Left, Left, Right, Right, Left], &rows)
    }

    fn by_themselves(&self) -> String {
        use Align::{Left, Right};
        let head = [
            "workload",
            "lane",
            "IOPS before",
            "after",
            "change",
            "CPU µs before",
            "after",
            "verdict",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.changes.iter().map(|change| {
            let [before, after] = change.intervals.map(interval);
            vec![
                change.workload.clone(),
                change.lane.clone(),
                count(change.iops.0) + &before,
                count(change.iops.1) + &after,
                percent(change.iops),
                micros(change.cpu_ns.0),
                micros(change.cpu_ns.1),
                change.verdict.words().to_owned(),
            ]
        }));
        draw(&[Left, Left, Right, Right, Right, Right, Right, Left], &rows)
    }

    /// The changes, in whole sentences.
    pub fn sentences(&self) -> Vec<String> {
        [self.of_relations(), self.of_rates(), self.of_cpu()].into_iter().flatten().collect()
    }

    fn of_relations(&self) -> Option<String> {
        let of =
            |wanted: fn(&Related) -> bool| self.relations.iter().filter(|it| wanted(it)).count();
        let all = self.relations.len();
        let (more, less) = (
            of(|it| it.change.direction() == Some(Ordering::Greater)),
            of(|it| it.change.direction() == Some(Ordering::Less)),
        );
        let level =
            of(|it| it.change.direction().is_none() && level(&it.change, &it.before).is_some());
        let unclear = all - more - less - level;
        (all > 0).then(|| {
            format!(
                "{all} relations are in both studies: {more} are more, {less} less, {level} level, and {unclear} cannot be told apart; a 95 % \
                 interval leaves out the truth once in twenty times."
            )
        })
    }

    fn of_rates(&self) -> Option<String> {
        let of = |verdict: RateVerdict| {
            self.changes.iter().filter(|change| change.verdict == verdict).count()
        };
        let (faster, slower, noise, unknown) = (
            of(RateVerdict::Faster),
            of(RateVerdict::Slower),
            of(RateVerdict::Noise),
            of(RateVerdict::Unknown),
        );
        let all = self.changes.len() - of(RateVerdict::Related);
        (all > 0 || self.relations.is_empty()).then(|| {
            format!(
                "{all} rows have no relation in common: {faster} are faster and {slower} slower by more than noise (their 95 % intervals do not \
                 overlap), {noise} show no difference, and {unknown} have too few rounds to tell; machines and days may differ."
            )
        })
    }

    fn of_cpu(&self) -> Option<String> {
        let judged = |change: &ComparedRow| {
            let of_row = |it: &&Related| it.lane == change.lane && it.workload == change.workload;
            self.relations
                .iter()
                .filter(of_row)
                .any(|it| matches!(it.quantity, Quantity::Cpu | Quantity::Cycles))
        };
        let differs = |change: &&ComparedRow| {
            !judged(change) && (change.cpu_ns.1 / change.cpu_ns.0 - 1.0).abs() > CPU
        };
        let name = |change: &ComparedRow| {
            format!("{} {} ({})", change.lane, change.workload, percent(change.cpu_ns))
        };
        let names: Vec<String> = self.changes.iter().filter(differs).map(name).collect();
        let percent = CPU * 100.0;
        (!names.is_empty()).then(|| {
            let names = names.join(", ");
            format!("CPU time per operation by itself, which has no interval, differs by more than {percent:.0} % in: {names}.")
        })
    }
}

/// ` (98.0k to 102k)`.
fn interval(of: Option<(f64, f64)>) -> String {
    of.map_or_else(String::new, |(low, high)| format!(" ({} to {})", count(low), count(high)))
}

/// `+4.2 %`.
fn percent((before, after): (f64, f64)) -> String {
    let change = after / before - 1.0;
    or_none(change.is_finite().then_some(change), |change| format!("{:+.1} %", change * 100.0))
        .replace("NaN", NONE)
}
