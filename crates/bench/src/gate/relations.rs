//! Relations that both studies have.

use super::check::{Check, CheckVerdict, percent};
use crate::relation::{Estimate, Scale, stated};
use crate::report::tables::CEILING;
use crate::report::units::{Unit, count};
use crate::results::{Quantity, Relation, Results};
use std::collections::HashMap;

/// A relation: its lane, the other lane, its workload, and what is compared.
type Key<'a> = (&'a str, Option<&'a str>, &'a str, &'static str);

/// The relations of a study.
pub(super) struct Relations<'a>(HashMap<Key<'a>, (Quantity, Estimate)>);

impl<'a> Relations<'a> {
    pub(super) fn of(results: &'a Results) -> Self {
        let mut all = HashMap::new();
        for it in &results.relations {
            let key = (&*it.lane, it.to.as_deref(), &*it.workload, it.quantity.title());
            all.entry(key).or_insert((it.quantity, it.estimate));
        }
        Self(all)
    }

    fn has(&self, lane: &str, to: Option<&str>, workload: &str, quantity: Quantity) -> bool {
        self.0.contains_key(&(lane, to, workload, quantity.title()))
    }
}

/// The checks of all relations of the later study that the baseline has too, in its order.
pub(super) fn checks(
    before: &Relations<'_>,
    after: &Relations<'_>,
    results: &Results,
    lose: f64,
) -> Vec<Check> {
    let mut checks = Vec::new();
    for it in &results.relations {
        let key = (&*it.lane, it.to.as_deref(), &*it.workload, it.quantity.title());
        let (lane, to, workload, what) = key;
        // Cycles do not change with the clock, so they say more than the time.
        let both = |quantity| {
            before.has(lane, to, workload, quantity) && after.has(lane, to, workload, quantity)
        };
        if it.quantity == Quantity::Cpu && both(Quantity::Cycles) {
            continue;
        }
        let Some((_, then)) = before.0.get(&key) else { continue };
        let Some(change) = it.estimate.since(then) else { continue };
        let unit = Unit::of(it.quantity);
        let judged = Judged::of(it.quantity, then, &change, lose);
        checks.push(Check {
            lane: lane.to_owned(),
            workload: workload.to_owned(),
            what,
            to: Some(to.unwrap_or(CEILING).to_owned()),
            before: stated(then, unit),
            after: stated(&it.estimate, unit),
            change: judged.words(&change, unit),
            half: judged.half(),
            verdict: judged.verdict,
        });
    }
    checks
}

/// Names of a relation as a check: its own, and that of the other one of time and cycles, of which
/// one is compared.
pub(super) fn names(it: &Relation) -> Vec<String> {
    let others: &[Quantity] = match it.quantity {
        Quantity::Cpu => &[Quantity::Cycles],
        Quantity::Cycles => &[Quantity::Cpu],
        _ => &[],
    };
    let to = it.to.as_deref().unwrap_or(CEILING);
    let quantities = core::iter::once(&it.quantity).chain(others);
    quantities.map(|quantity| Check::named(quantity.title(), Some(to))).collect()
}

/// A change, in parts of what there was.
struct Judged {
    /// Estimate and interval, more than before being greater than 0; none where there is no part of
    /// what there was, as it may be nothing.
    parts: Option<[f64; 3]>,
    verdict: CheckVerdict,
}

impl Judged {
    fn of(quantity: Quantity, before: &Estimate, change: &Estimate, lose: f64) -> Self {
        let values = [change.value, change.low, change.high];
        // Of a difference that may be nothing there is no part. Then it must have left the interval
        // that it had.
        let (scaled, is_part, limit) = match change.scale {
            Scale::Ratio => (values.map(|value| value - 1.0), true, lose),
            Scale::Difference if before.direction().is_some() && before.value != 0.0 => {
                (values.map(|value| value / before.value.abs()), true, lose)
            }
            Scale::Difference => (values, false, before.low.abs().max(before.high.abs())),
        };
        let [_, low, high] = scaled;
        // More is better for a rate, and worse for what an operation costs.
        let (low, high) = if quantity == Quantity::Rate { (-high, -low) } else { (low, high) };
        let verdict = match () {
            () if low > limit => CheckVerdict::Worse,
            () if high < 0.0 => CheckVerdict::Better,
            () if high <= limit => CheckVerdict::Kept,
            () => CheckVerdict::Unclear,
        };
        Self { parts: is_part.then_some(scaled), verdict }
    }

    fn words(&self, change: &Estimate, unit: Unit) -> String {
        let values = [change.value, change.low, change.high];
        let signed = |value: f64| match unit {
            // The name of the quantity says already that these are cycles.
            Unit::Cycles if value < 0.0 => format!("−{}", count(-value)),
            Unit::Cycles => format!("+{}", count(value)),
            Unit::Nanoseconds => unit.signed(value),
        };
        let [value, low, high] =
            self.parts.map_or_else(|| values.map(signed), |parts| parts.map(percent));
        format!("{value} ({low} to {high})")
    }

    fn half(&self) -> Option<f64> {
        self.parts.map(|[_, low, high]| (high - low) / 2.0)
    }
}
