//! Results of a study, from its samples.

use super::Rounds;
use super::agreement;
use super::running::{Load, command_of};
use crate::results::{self, Ceiling, Drawing, Results, Row, Skipped, Workload};
use crate::study::machines;
use crate::study::notes;
use crate::study::sample;
use crate::study::study_spec::StudyLane;

/// A lane that did this part of what was due kept up.
const DUE: f64 = 0.98;

impl Rounds<'_> {
    pub fn lanes(&self) -> Vec<results::Lane> {
        self.spec.stage.lanes.iter().map(StudyLane::facts).collect()
    }

    pub fn workloads(&self) -> Vec<Workload> {
        self.workloads.clone()
    }

    pub fn rows(&self) -> Vec<Row> {
        let lanes = &self.spec.stage.lanes;
        let mut rows = Vec::new();
        for (number, (workload, series)) in self.workloads.iter().zip(&self.samples).enumerate() {
            for (at, (lane, samples)) in
                lanes.iter().zip(series).enumerate().filter(|(_, (_, samples))| !samples.is_empty())
            {
                let (all, names) = (samples.len(), lane.facts().agents);
                let samples = &machines::counting(samples)[..];
                let mut row = sample::row(&lane.name, &workload.name, samples);
                if lane.generator.is_none() {
                    self.tails[number][at].put(&mut row);
                }
                row.left_out = u32::try_from(all - samples.len()).unwrap_or(u32::MAX);
                row.machines = machines::shares(samples, &names);
                row.missing = u32::try_from(names.len().saturating_sub(row.machines.len()))
                    .unwrap_or(u32::MAX);
                row.counts = self.counts[number][at];
                let rate = self.rates[number];
                row.offered_iops = rate.map(f64::from);
                // Whoever polls until an operation is due is busy, and does what was asked all the
                // same.
                row.generator_limited &=
                    row.offered_iops.is_none_or(|offered| row.iops < offered * DUE);
                row.command = command_of(
                    workload,
                    lane,
                    Load { rate, ..Load::of(workload) },
                    self.size,
                    sample::slot_of(samples),
                );
                if !lane.facts().is_local() {
                    row.share_of_local =
                        self.base_of(at).and_then(|base| sample::share(samples, &series[base]));
                }
                let ceiling = &series[lanes.len()];
                if !lane.facts().is_local() && !ceiling.is_empty() {
                    row.share_of_ceiling = sample::share(samples, ceiling);
                }
                rows.push(row);
            }
        }
        rows
    }

    pub fn ceilings(&self) -> Vec<Ceiling> {
        let last = self.spec.stage.lanes.len();
        let measured =
            self.workloads.iter().zip(&self.samples).filter(|(_, series)| !series[last].is_empty());
        measured.map(|(workload, series)| sample::ceiling(&workload.name, &series[last])).collect()
    }

    /// Notes that a reader should know.
    pub fn notes(&mut self, results: &Results) -> Vec<String> {
        let mut notes = core::mem::take(&mut self.notes);
        if self.stopped() {
            notes.push("The study was ended early: there are fewer rounds, or none, of what would have come later.".into());
        }
        for lane in &self.spec.stage.lanes {
            if !lane.device.features().write {
                notes.push(format!(
                    "{} cannot be written: only the reading patterns were measured.",
                    lane.name
                ));
            }
        }
        // A matrix says itself why cells are empty.
        let is_matrix = results.draws(Drawing::Matrix);
        let told = |skipped: &&Skipped| skipped.cell.is_none() || !is_matrix;
        for skipped in results.skipped.iter().filter(told) {
            let note = format!("Lane {} was skipped: {}", skipped.lane, skipped.why);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        // A load generator elsewhere shares its processors with nothing here.
        if self.spec.stage.lanes.iter().any(|lane| !lane.is_elsewhere()) {
            notes.extend(notes::cores(results));
        }
        notes.extend(agreement::foreign(self, results));
        notes.extend(agreement::notes(self, results));
        notes.extend(notes::conditions(results));
        notes.extend(notes::limited(results));
        notes.extend(notes::preconditioned(results));
        notes.extend(notes::frequency(results));
        notes.push(notes::blocks(
            self.block + 1,
            self.spec.set_up.is_some(),
            self.spec.fixed().is_some(),
        ));
        notes
    }
}
