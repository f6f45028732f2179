//! Lanes on which another program puts the load.

use super::*;
use crate::workload::{Direction, JobSpec, Progress, RunReport, run_until};

/// Another program that does not write, and knows no latencies.
struct Reader(Arc<dyn BlockDevice>);

impl Generator for Reader {
    fn title(&self) -> &'static str {
        "a reader"
    }

    fn run(
        &self,
        _: Purpose,
        spec: &JobSpec,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<RunReport, Error> {
        let device = Arc::clone(&self.0);
        let mut report = run_until(device, spec, stop, progress)?;
        for direction in report.jobs.iter_mut().flat_map(|job| &mut job.directions) {
            direction.total = crate::stats::Latencies::unused();
        }
        Ok(report)
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn is_here(&self) -> bool {
        true
    }

    fn cannot(&self, spec: &JobSpec) -> Option<String> {
        spec.rw.has(Direction::Write).then(|| "it only reads.".into())
    }
}

#[test]
fn a_generator_has_no_rows_for_what_it_cannot_do_and_no_latencies_that_it_does_not_know() {
    let device = || lane("theirs", "ram:16MiB");
    let reader = StudyLane {
        generator: Some(Rc::new(Reader(device().device))),
        peer: LanePeer { rival: Some("ours".into()), ..LanePeer::default() },
        ..device()
    };
    let mut spec = spec(vec![lane("ours", "ram:16MiB"), reader], None);
    // An interval takes two blocks.
    spec.suite.times.iter_mut().for_each(|times| times.rounds = Some(4));
    let results = run(spec, &mut |_| ()).unwrap();
    let rows: Vec<&str> = results
        .rows
        .iter()
        .filter(|row| row.lane == "theirs")
        .map(|row| row.workload.as_str())
        .collect();
    assert_eq!(rows, ["64k-seqread"], "{:?}", results.notes);
    let told = results.notes.iter().filter(|note| *note == "theirs: it only reads.");
    assert_eq!(told.count(), 1, "{:?}", results.notes);
    let related: Vec<_> = results
        .relations
        .iter()
        .filter(|it| it.lane == "theirs" && it.to.as_deref() == Some("ours"))
        .map(|it| it.quantity)
        .collect();
    // Neither its latencies nor the processor time of its target are known.
    assert_eq!(related, [results::Quantity::Rate]);
    assert_eq!(results.lanes[1].rival.as_deref(), Some("ours"));
}
