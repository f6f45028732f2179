//! Agreement of another program and `weft bench`, where both measure the same device.

use super::Rounds;
use crate::relation::{Estimate, does};
use crate::results::{Cell, Lane, Quantity, Results, Workload};
use crate::study::clock::TimeSlot;
use core::time::Duration;

impl Rounds<'_> {
    /// The lane on which this process puts load on the device of a lane that another program
    /// measures.
    pub(super) fn twin_of(&self, lane: usize) -> Option<usize> {
        let lanes = &self.spec.stage.lanes;
        let twin = lanes[lane].generator.as_ref()?.twin()?;
        lanes.iter().position(|other| other.name == twin).filter(|at| *at != lane)
    }

    /// A slice of a lane, as long as its generator needs, or that of another lane on the same
    /// device: what is compared is of the same length.
    pub(super) fn slice_of(&self, lane: usize, slot: TimeSlot) -> TimeSlot {
        let lanes = &self.spec.stage.lanes;
        let with = (0..lanes.len()).filter(|at| *at == lane || self.twin_of(*at) == Some(lane));
        let shortest = with.filter_map(|at| Some(lanes[at].generator.as_ref()?.shortest())).max();
        TimeSlot { run: slot.run.max(shortest.unwrap_or_default()), ..slot }
    }
}

/// For each pair of such lanes whether they agree.
pub(super) fn notes(rounds: &Rounds<'_>, results: &Results) -> Vec<String> {
    let (lanes, took) = (&rounds.spec.stage.lanes, rounds.clock.elapsed());
    let pair = |at: usize| {
        let (by, twin) = (lanes[at].generator.as_ref()?, rounds.twin_of(at)?);
        Some((&*lanes[at].name, &*lanes[twin].name, by.title()))
    };
    let pairs = (0..lanes.len()).filter_map(pair);
    pairs.map(|(lane, twin, by)| note(results, [lane, twin], by, took)).collect()
}

/// Notes on lanes to targets of other projects: where they come from, and how one alone compares.
pub(super) fn foreign(rounds: &Rounds<'_>, results: &Results) -> Option<String> {
    let took = rounds.clock.elapsed();
    let stage = rounds.spec.stage.lanes.iter().zip(&results.lanes);
    // Lanes of initiators of the kernel are left out.
    let is_own = |cell: &Cell| cell.initiator.as_deref() == Some(Cell::OWN);
    let foreign = stage.filter(|(it, _)| {
        let is_target = it.peer.cell.as_ref().is_none_or(is_own);
        it.peer.rival.is_some() && it.generator.is_none() && is_target
    });
    let lanes: Vec<&Lane> = foreign.map(|(_, lane)| lane).collect();
    let what = "which weft configured and started to compare with. --peers none leaves";
    match &lanes[..] {
        [] => None,
        [lane] => {
            let how =
                beside_rival(results, lane, took).map_or(String::new(), |how| format!(" {how}."));
            Some(format!("{} is a target of another project, {what} it out.{how}", lane.name))
        }
        all => {
            let names: Vec<&str> = all.iter().map(|lane| &*lane.name).collect();
            Some(format!("{} are targets of other projects, {what} them out.", names.join(", ")))
        }
    }
}

/// A lane's rate compared with that of its rival, in words.
fn beside_rival(results: &Results, lane: &Lane, took: Duration) -> Option<String> {
    let workload = Workload::quoted(results.patterns())?;
    let rival = results.lanes.iter().find(|it| Some(&it.name) == lane.rival.as_ref())?;
    let ratio = results.relation(&lane.name, Some(&rival.name), &workload.name, Quantity::Rate)?;
    let said = does(lane.short_title(), rival.short_title(), ratio, took);
    Some(format!("{}: {said}", workload.title))
}

fn note(results: &Results, [lane, twin]: [&str; 2], by: &str, took: Duration) -> String {
    let title = |name: &str| {
        results
            .workloads
            .iter()
            .find(|it| it.name == name)
            .map_or(String::new(), |it| it.title.clone())
    };
    let of_pair =
        |it: &&crate::results::Relation| it.lane == lane && it.to.as_deref() == Some(twin);
    let rates = results.relations.iter().filter(of_pair).filter(|it| it.quantity == Quantity::Rate);
    let said: Vec<String> = rates
        .map(|it| format!("{}: {}", title(&it.workload), agreement(by, &it.estimate, took)))
        .collect();
    let device =
        format!("The lanes {lane} and {twin} are one device, measured by {by} and by weft bench");
    match said.is_empty() {
        true => format!(
            "{device}: there are too few rounds to say whether they agree. Give a longer --time-budget."
        ),
        false => format!("{device}. {}.", said.join("; ")),
    }
}

/// An interval that holds 1 means agreement as far as it is known; another ratio is reported as
/// it is.
fn agreement(by: &str, ratio: &Estimate, took: Duration) -> String {
    let said = does(by, "weft bench", ratio, took);
    match said.strip_prefix(&format!("{by} and weft bench are ")) {
        Some(level) => format!("{by} and weft bench agree, {level}"),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::Scale;

    #[test]
    fn a_level_ratio_agrees_and_another_is_told() {
        let said = |low: f64, high: f64| {
            let estimate = Estimate {
                scale: Scale::Ratio,
                value: (low * high).sqrt(),
                low,
                high,
                blocks: 6,
                pairs: 48,
            };
            agreement("fio", &estimate, Duration::from_secs(60)).replace('\u{a0}', " ")
        };
        assert_eq!(said(0.98, 1.02), "fio and weft bench agree, level within 2 %");
        assert_eq!(said(0.86, 0.90), "fio does 0.86 to 0.90 of weft bench’s rate");
        assert!(said(0.88, 1.09).starts_with("fio and weft bench cannot be told apart here"));
    }
}
