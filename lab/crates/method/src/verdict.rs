//! Results of the studies of each trial, as a table of docs/study/method.md.

use std::fmt::Write;

use anyhow::Result;
use serde_json::Value;

use super::{record::Record, trials::Trial};

/// An interval of a relation.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Interval {
    value: f64,
    low: f64,
    high: f64,
    /// Blocks that it is from.
    blocks: u64,
}

impl Interval {
    fn of(relation: &Value) -> Option<Self> {
        let estimate = &relation["estimate"];
        let number = |key: &str| estimate[key].as_f64();
        Some(Self {
            value: number("value")?,
            low: number("low")?,
            high: number("high")?,
            blocks: estimate["blocks"].as_u64()?,
        })
    }

    fn holds(&self, truth: f64) -> bool {
        (self.low..=self.high).contains(&truth)
    }

    /// Half of the width of a ratio, as a part of it.
    fn half_ratio(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }

    fn half(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Half of the width as a part of the value.
    fn relative(&self) -> f64 {
        self.half() / self.value.abs()
    }
}

/// The relation of a study with these properties.
fn relation(study: &Value, lane: &str, workload: &str, quantity: &str) -> Option<Interval> {
    let all = study["relations"].as_array()?;
    let is = |one: &&Value| {
        one["lane"] == lane
            && one["workload"] == workload
            && one["quantity"] == quantity
            && !one["to"].is_null()
    };
    Interval::of(all.iter().find(is)?)
}

fn same(study: &Value) -> Option<Interval> {
    relation(study, "b", "4k-randread", "rate")
}

/// Two lanes of each target of another project.
fn peers(study: &Value) -> [Option<Interval>; 2] {
    ["spdk-2", "tgt-2"].map(|lane| relation(study, lane, "4k-randread", "rate"))
}

fn slower(study: &Value) -> Option<Interval> {
    relation(study, "b", "qd1-4k-randread", "rate")
}

/// What the headline of the study that runs by default has: added latency and cycles on the RAM
/// disk.
fn headline(study: &Value) -> Option<[Interval; 2]> {
    Some([
        relation(study, "nvme+tcp", "qd1-4k-randread", "latency")?,
        relation(study, "nvme+tcp", "4k-randread", "cycles")?,
    ])
}

/// The other sides of the relations on the first screen of that study.
const HEADLINES: [&str; 3] = ["the device", "iSCSI", "another target"];

/// Half of the width of an interval that counts as narrow.
const NARROW: f64 = 0.15;

/// The intervals of these relations, as parts of their values.
fn widths(study: &Value) -> [Option<f64>; 3] {
    let rates = |one: &&Value| one["quantity"] == "rate" && one["workload"] == "4k-randread";
    let all = || study["relations"].as_array().into_iter().flatten();
    let rate = |is: &dyn Fn(&Value) -> bool| {
        let one = all().filter(rates).find(|one| is(one))?;
        Interval::of(one).map(|it| it.half_ratio())
    };
    let own = ["local", "nvme+tcp", "iscsi"];
    let is_other = |name: &Value| name.as_str().is_some_and(|name| !own.contains(&name));
    [
        relation(study, "nvme+tcp", "qd1-4k-randread", "latency").map(|it| it.relative()),
        rate(&|one| one["lane"] == "iscsi" && one["to"] == "nvme+tcp"),
        rate(&|one| is_other(&one["lane"]) && one["to"] == "nvme+tcp"),
    ]
}

fn of_headlines(studies: &[Value]) -> String {
    let all: Vec<[Option<f64>; 3]> = studies.iter().map(widths).collect();
    let of = |at: usize| {
        let mut known: Vec<f64> = all.iter().filter_map(|it| it[at]).collect();
        let narrow = known.iter().filter(|it| **it <= NARROW).count();
        let count = known.len();
        let median = median(&mut known) * 100.0;
        format!("{} {narrow} of {count}, median ±{median:.1} %", HEADLINES[at])
    };
    format!("within ±{:.0} %: {}", NARROW * 100.0, [0, 1, 2].map(of).join("; "))
}

/// One study in words.
pub(super) fn of_study(trial: &Trial, study: &Value) -> String {
    let of = match trial.name {
        "same" => same(study),
        "slower" => slower(study),
        "peers" => peers(study)[0],
        "slices" => relation(study, "nvme+tcp", "4k-randread", "rate"),
        _ => headline(study).map(|[latency, _]| latency),
    };
    let took = study["took_s"].as_f64().unwrap_or(0.0);
    of.map_or_else(
        || "no relation".to_owned(),
        |it| {
            format!(
                "{:.4} ({:.4} to {:.4}), {} blocks, {took:.1} s",
                it.value, it.low, it.high, it.blocks
            )
        },
    )
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The table of everything that is kept.
pub(super) fn table() -> Result<String> {
    let mut out = String::from("| trial | studies | what came out |\n|---|---:|---|\n");
    let studies = |name| Ok::<_, anyhow::Error>(Record::kept(name)?.studies);
    let mut line = |name: &str, count: usize, words: String| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "| {name} | {count} | {words} |");
    };
    let all: Vec<Interval> = studies("same")?.iter().filter_map(same).collect();
    line("A/A", all.len(), of_same(&all));
    line("A/B on data", all.len(), of_data(&all));
    let all: Vec<Interval> = studies("peers")?.iter().flat_map(peers).flatten().collect();
    line("A/A, SPDK and tgt", all.len(), of_same(&all));
    let all: Vec<Interval> = studies("slower")?.iter().filter_map(slower).collect();
    line("A/B for real", all.len(), of_slower(&all));
    for name in ["quiet", "busy"] {
        let kept = studies(name)?;
        line(&format!("headlines, {name}"), kept.len(), of_headlines(&kept));
        let all: Vec<[Interval; 2]> = kept.iter().filter_map(headline).collect();
        // Each ten ran on a day of their own: what two machines differ by is not for their
        // intervals to hold.
        for ten in all.chunks(10) {
            line(&format!("default, {name}"), ten.len(), of_default(ten));
        }
    }
    for study in studies("slices")? {
        let slice = study["slice"].as_str().unwrap_or_default().to_owned();
        line(&format!("24 slices in {slice}"), 1, of_slices(&study));
    }
    Ok(out)
}

fn of_same(all: &[Interval]) -> String {
    let holds = all.iter().filter(|it| it.holds(1.0)).count();
    let half = median(&mut all.iter().map(Interval::half_ratio).collect::<Vec<_>>());
    format!("1.0 is inside in {holds}; median half-width {:.2} %", half * 100.0)
}

/// One lane's slices 5 % slower: each ratio is 0.95 of what it was, and so are the ends of its
/// interval.
fn of_data(all: &[Interval]) -> String {
    let slower = |it: &Interval| Interval {
        value: it.value * 0.95,
        low: it.low * 0.95,
        high: it.high * 0.95,
        ..*it
    };
    of_slower(&all.iter().map(slower).collect::<Vec<_>>())
}

/// The rate of the slower lane as a part of the other's.
fn of_slower(all: &[Interval]) -> String {
    let right = all.iter().filter(|it| it.high < 1.0).count();
    let wrong = all.iter().filter(|it| it.low > 1.0).count();
    format!("the right direction in {right}, the wrong one in {wrong}")
}

fn of_default(all: &[[Interval; 2]]) -> String {
    let narrow = all.iter().filter(|both| both.iter().all(|it| it.relative() <= 0.05)).count();
    let mut agree = [0; 2];
    let mut pairs = 0;
    for (at, first) in all.iter().enumerate() {
        for second in &all[at + 1..] {
            pairs += 1;
            for of in 0..2 {
                let apart = (first[of].value - second[of].value).abs();
                agree[of] += usize::from(apart <= first[of].half().hypot(second[of].half()));
            }
        }
    }
    let median_of = |of: usize| {
        median(&mut all.iter().map(|both| both[of].relative() * 100.0).collect::<Vec<_>>())
    };
    format!(
        "latency and CPU within ±5 % in {narrow}; median half-widths {:.1} % and {:.1} %; of {pairs} pairs {} and {} agree",
        median_of(0),
        median_of(1),
        agree[0],
        agree[1]
    )
}

fn of_slices(study: &Value) -> String {
    let words = |lane: &str, workload: &str, quantity: &str, unit: f64| {
        relation(study, lane, workload, quantity).map_or_else(
            || "–".to_owned(),
            |it| format!("{:.3} ({:.3} to {:.3})", it.value / unit, it.low / unit, it.high / unit),
        )
    };
    format!(
        "NVMe/TCP of local’s rate {}; adds, µs, {}; CPU, µs, {}",
        words("nvme+tcp", "4k-randread", "rate", 1.0),
        words("nvme+tcp", "qd1-4k-randread", "latency", 1000.0),
        words("nvme+tcp", "4k-randread", "cpu", 1000.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(value: f64, half: f64) -> Interval {
        Interval { value, low: value - half, high: value + half, blocks: 12 }
    }

    #[test]
    fn what_came_out_is_counted() {
        let all = [at(1.0, 0.02), at(1.03, 0.02), at(0.98, 0.04)];
        assert!(
            of_same(&all).starts_with("1.0 is inside in 2; median half-width 2.0"),
            "{}",
            of_same(&all)
        );
        // 1.05 × 0.95 is below 1, and so is 1.02 × 0.95.
        assert_eq!(of_data(&all), "the right direction in 3, the wrong one in 0");
        let two = [[at(100.0, 4.0), at(10.0, 0.4)], [at(105.0, 4.0), at(12.0, 0.7)]];
        assert!(
            of_default(&two).contains("±5 % in 1;")
                && of_default(&two).ends_with("of 1 pairs 1 and 0 agree"),
            "{}",
            of_default(&two)
        );
    }
}
