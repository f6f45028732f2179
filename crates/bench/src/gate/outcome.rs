//! The whole of a gate: all checks, what could not be compared, and what else differs.

use super::check::{Check, CheckKind, CheckVerdict, percent};
use super::relations::Relations;
use super::{counts, relations};
use crate::compare::{differences, same_work, single_block};
use crate::error::Error;
use crate::results::{Lane, Results, Row};
use std::collections::{BTreeSet, HashMap};

/// The outcome of a gate.
#[derive(Clone, Debug, PartialEq)]
pub struct GateOutcome {
    /// Name of the later study's suite.
    pub suite: String,
    /// The rule that was applied.
    pub rule: Rule,
    /// Everything that both studies have, row by row.
    pub checks: Vec<Check>,
    /// Rows and checks that only the baseline has, by name.
    pub missing: Vec<RowName>,
    /// Rows and checks that only the later study has.
    pub added: Vec<RowName>,
    /// Other differences, in whole sentences.
    pub notes: Vec<String>,
}

/// Name of a row, or of one thing in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowName {
    /// Lane.
    pub lane: String,
    /// Workload.
    pub workload: String,
    /// [`Check::name`]; none: the whole row.
    pub what: Option<String>,
}

impl GateOutcome {
    /// Returns whether the study fails.
    pub fn fails(&self) -> bool {
        let is_strict = self.rule.strict;
        let fails = |check: &Check| match check.verdict {
            CheckVerdict::Worse => true,
            CheckVerdict::Unclear => is_strict,
            CheckVerdict::Kept | CheckVerdict::Better | CheckVerdict::Shown => false,
        };
        self.checks.iter().any(fails) || is_strict && !self.missing.is_empty()
    }

    /// Number of checks with a verdict.
    pub fn of(&self, verdict: CheckVerdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }

    /// `5 %`.
    pub fn lose(&self) -> String {
        format!("{} %", (self.rule.lose * 1e4).round() / 1e2)
    }

    /// The outcome in whole sentences: the first one is the verdict.
    pub fn sentences(&self) -> Vec<String> {
        let verdict = if self.fails() { "Failed" } else { "Passed" };
        let of = |kind| self.checks.iter().filter(|check| check.kind() == kind).count();
        let (all, worse) = (self.checks.len(), self.of(CheckVerdict::Worse));
        let kinds = [(of(CheckKind::Relation), "relation"), (of(CheckKind::Count), "count")];
        let kinds = kinds
            .iter()
            .filter(|(many, _)| *many > 0)
            .map(|(many, kind)| format!("{many} {kind}{}", if *many == 1 { "" } else { "s" }));
        let kinds = kinds.collect::<Vec<_>>().join(" and ");
        let lose = self.lose();
        let worse = match worse {
            0 => "none is".to_owned(),
            1 => "1 is".to_owned(),
            _ => format!("{worse} are"),
        };
        let unclear = match self.of(CheckVerdict::Unclear) {
            0 => String::new(),
            many if many == all => ", and all are unclear".to_owned(),
            many => format!(", and {many} unclear"),
        };
        let mut said =
            vec![format!("{verdict}: of {kinds} {worse} worse by more than {lose}{unclear}.")];
        if self.rule.strict && !unclear.is_empty() {
            said.push("That fails, as --strict is given.".to_owned());
        }
        said.extend(self.width());
        let missing = if self.rule.strict && !self.missing.is_empty() {
            "Only in the baseline, which fails as --strict is given"
        } else {
            "Only in the baseline"
        };
        said.extend(named(missing, &self.missing));
        said.extend(named("Only in the later study", &self.added));
        said.extend(self.notes.iter().cloned());
        said
    }

    /// The precision of the study.
    fn width(&self) -> Option<String> {
        let mut halves: Vec<f64> = self.checks.iter().filter_map(|check| check.half).collect();
        halves.sort_by(f64::total_cmp);
        let (middle, most) = (halves.get(halves.len() / 2)?, halves.last()?);
        let percent = |half: &f64| percent(*half).replace('+', "±");
        Some(format!(
            "The 95 % interval of a change is {} at the median, and {} at most.",
            percent(middle),
            percent(most)
        ))
    }
}

/// Most names in a sentence.
const NAMED_MAX: usize = 12;

fn named(lead: &str, names: &[RowName]) -> Option<String> {
    let name = |name: &RowName| match &name.what {
        Some(what) => format!("{} {} ({what})", name.lane, name.workload),
        None => format!("{} {}", name.lane, name.workload),
    };
    let mut list: Vec<String> = names.iter().take(NAMED_MAX).map(name).collect();
    if names.len() > NAMED_MAX {
        list.push(format!("and {} more", names.len() - NAMED_MAX));
    }
    (!list.is_empty()).then(|| format!("{lead}: {}.", list.join(", ")))
}

/// Judges a study by an earlier one.
///
/// # Errors
/// Neither study has a lane that was asked for, or the two have nothing in common that could be
/// judged.
pub fn judge(before: &Results, after: &Results, rule: &Rule) -> Result<GateOutcome, Error> {
    let known = |name: &&String| {
        [before, after].iter().any(|of| of.lanes.iter().any(|lane| lane.name == **name))
    };
    if let Some(unknown) = rule.lanes.iter().find(|name| !known(name)) {
        return Err(Error::option("--lanes", format!("neither study has the lane {unknown}")));
    }
    let checks = checks(before, after, rule);
    if !checks.iter().any(|check| check.verdict != CheckVerdict::Shown) {
        let what = if rule.counts_only { "count" } else { "relation or count" };
        let problem = format!(
            "the two studies have no {what} of the same lane and workload, so nothing can be judged"
        );
        return Err(Error::option("--baseline", problem));
    }
    let compared: BTreeSet<RowName> = checks.iter().map(name_of).collect();
    let relations = before.relations.iter().chain(&after.relations).map(|it| &it.estimate);
    let single = single_block(relations).filter(|_| !rule.counts_only);
    Ok(GateOutcome {
        suite: after.suite.clone(),
        missing: alone(before, after, rule, &compared),
        added: alone(after, before, rule, &compared),
        notes: differences(before, after).into_iter().chain(single).collect(),
        rule: rule.clone(),
        checks,
    })
}

/// The rows of a study, by lane and workload.
type Rows<'a> = HashMap<(&'a str, &'a str), &'a Row>;

fn rows(of: &Results) -> Rows<'_> {
    of.rows.iter().map(|row| ((&*row.lane, &*row.workload), row)).collect()
}

fn checks(before: &Results, after: &Results, rule: &Rule) -> Vec<Check> {
    let mut checks = Vec::new();
    if !rule.counts_only {
        let [then, now] = [before, after].map(Relations::of);
        checks.extend(relations::checks(&then, &now, after, rule.lose));
    }
    let then = rows(before);
    for row in &after.rows {
        if let Some(then) = then.get(&(&*row.lane, &*row.workload)) {
            checks.extend(counts::checks(then, row, after, rule.lose));
        }
    }
    let same: HashMap<&str, bool> =
        after.workloads.iter().map(|it| (&*it.name, same_work(before, after, &it.name))).collect();
    checks.retain(|check| {
        rule.judges(after, &check.lane) && same.get(&*check.workload).copied().unwrap_or(true)
    });
    // Row by row, in the order of the study.
    let order: HashMap<(&str, &str), usize> =
        after.rows.iter().enumerate().map(|(at, row)| ((&*row.lane, &*row.workload), at)).collect();
    checks.sort_by_key(|check| order.get(&(&*check.lane, &*check.workload)).copied());
    checks
}

fn name_of(check: &Check) -> RowName {
    let (lane, workload) = (check.lane.clone(), check.workload.clone());
    RowName { lane, workload, what: Some(check.name()) }
}

/// Rows and checks of a study that the gate has not compared. A row that the other study lacks is
/// named as a whole.
fn alone(of: &Results, other: &Results, rule: &Rule, compared: &BTreeSet<RowName>) -> Vec<RowName> {
    let there = rows(other);
    let mut names = BTreeSet::new();
    let mut add = |lane: &str, workload: &str, aliases: &[String]| {
        let name = |what: Option<&String>| RowName {
            lane: lane.to_owned(),
            workload: workload.to_owned(),
            what: what.cloned(),
        };
        if !there.contains_key(&(lane, workload)) {
            names.insert(name(None));
        } else if !aliases.iter().any(|what| compared.contains(&name(Some(what)))) {
            names.extend(aliases.first().map(|what| name(Some(what))));
        }
    };
    for row in of.rows.iter().filter(|row| rule.judges(of, &row.lane)) {
        add(&row.lane, &row.workload, &[]);
        counts::names(row).for_each(|what| add(&row.lane, &row.workload, &[what.to_owned()]));
    }
    if !rule.counts_only {
        for it in of.relations.iter().filter(|it| rule.judges(of, &it.lane)) {
            add(&it.lane, &it.workload, &relations::names(it));
        }
    }
    names.into_iter().collect()
}

/// The conditions under which a study fails.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    /// Part by which a relation or a count may be worse: 0.05 are 5 %.
    pub lose: f64,
    /// Lanes to judge; empty: each that has a network and weft's target, or one that the user named.
    pub lanes: Vec<String>,
    /// Look at counts only.
    pub counts_only: bool,
    /// A verdict of `unclear` fails, and so does what only the baseline has.
    pub strict: bool,
}

impl Rule {
    /// Returns whether a lane of a study is judged. The rest are references of others: a device
    /// without a network, and targets of other projects, whose relation becomes worse when the lane
    /// next to them becomes better.
    fn judges(&self, results: &Results, lane: &str) -> bool {
        if !self.lanes.is_empty() {
            return self.lanes.iter().any(|name| name == lane);
        }
        let is_measure = |it: &Lane| it.is_local() || it.rival.is_some();
        !results.lanes.iter().any(|it| it.name == lane && is_measure(it))
    }
}
