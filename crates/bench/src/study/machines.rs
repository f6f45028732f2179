//! Rows of several machines: which rounds count when one of them was lost, and what each of them
//! did.

use super::sample::{OfMachine, Sample};
use crate::results::{CpuPerIo, MachineShare, Processors};
use crate::stats::median;

/// The samples that make a row. Rounds with different numbers of machines are not comparable, so
/// the most frequent number of machines counts; on a tie, the larger.
pub fn counting(samples: &[Sample]) -> Vec<Sample> {
    let with =
        |machines: usize| samples.iter().filter(move |sample| sample.machines.len() == machines);
    let best = samples
        .iter()
        .map(|sample| sample.machines.len())
        .max_by_key(|machines| (with(*machines).count(), *machines));
    best.map(|machines| with(machines).cloned().collect()).unwrap_or_default()
}

/// The share of each machine in these rounds; `names` by their numbers.
pub fn shares(samples: &[Sample], names: &[String]) -> Vec<MachineShare> {
    let of = |number: u32| -> Vec<&OfMachine> {
        samples
            .iter()
            .flat_map(|sample| &sample.machines)
            .filter(|one| one.number == number)
            .collect()
    };
    let numbered = (0u32..).zip(names).map(|(number, name)| (name, of(number)));
    numbered
        .filter(|(_, rounds)| !rounds.is_empty())
        .map(|(name, rounds)| share(name, &rounds))
        .collect()
}

fn share(name: &str, rounds: &[&OfMachine]) -> MachineShare {
    let median_of = |of: fn(&OfMachine) -> f64| {
        median(&mut rounds.iter().map(|one| of(one)).collect::<Vec<_>>())
    };
    let ios = rounds.iter().map(|one| one.ios).sum::<u64>().max(1) as f64;
    let per_io = |of: fn(&OfMachine) -> core::time::Duration| {
        rounds.iter().map(|one| of(one).as_nanos() as f64).sum::<f64>() / ios
    };
    MachineShare {
        agent: name.to_owned(),
        iops: median_of(|one| one.iops),
        mean_ns: median_of(|one| one.latency.mean_ns),
        p99_ns: median_of(|one| one.latency.p99_ns),
        cpu: CpuPerIo {
            user_ns: per_io(|one| one.usage.user),
            system_ns: per_io(|one| one.usage.system),
        },
        processors: processors(rounds),
    }
}

/// The medians of all rounds; none if one of them did not tell.
fn processors(rounds: &[&OfMachine]) -> Option<Processors> {
    let all: Vec<Processors> = rounds.iter().map(|one| one.processors).collect::<Option<_>>()?;
    let of = |part: fn(&Processors) -> f64| median(&mut all.iter().map(part).collect::<Vec<_>>());
    Some(Processors {
        user: of(|one| one.user),
        system: of(|one| one.system),
        interrupts: of(|one| one.interrupts),
        soft_interrupts: of(|one| one.soft_interrupts),
        steal: of(|one| one.steal),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::measured::MeasuredDirection;
    use crate::agents::{MeasuredRun, merged};
    use crate::workload::JobSpec;
    use core::time::Duration;

    fn sample(round: u32, machines: &[u32]) -> Sample {
        let part = |ios| MeasuredDirection {
            ios,
            bytes: ios * 512,
            runtime: Duration::from_secs(1),
            latencies: vec![(1000, ios)],
        };
        let one = |number: u32| {
            let directions = [part(100 * u64::from(number + 1)), MeasuredDirection::default()];
            (number, MeasuredRun { directions, cpu_ns: [1_000_000, 0], ..MeasuredRun::default() })
        };
        let all: Vec<_> = machines.iter().copied().map(one).collect();
        let geometry = weft_block::Geometry {
            block_bytes: 512,
            blocks: 8,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: 4096,
            atomic: weft_block::Atomicity::ONE_BLOCK,
        };
        let report = merged("u", geometry, &JobSpec::default(), &all);
        let mut sample = Sample::of_run(round, &report);
        sample.machines = OfMachine::all(&report);
        sample
    }

    #[test]
    fn rounds_with_as_many_machines_make_a_row() {
        let rounds = |samples: &[Sample]| {
            counting(samples).iter().map(|sample| sample.round).collect::<Vec<_>>()
        };
        let (four, three) = ([0, 1, 2, 3], [0, 1, 3]);
        assert_eq!(rounds(&[sample(0, &four), sample(1, &four), sample(2, &three)]), [0, 1]);
        assert_eq!(rounds(&[sample(0, &four), sample(1, &three), sample(2, &three)]), [1, 2]);
        assert_eq!(rounds(&[sample(0, &four), sample(1, &three)]), [0]);
        assert!(rounds(&[]).is_empty());
    }

    #[test]
    fn shares_have_the_names_of_those_that_took_part() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let shares = shares(&[sample(0, &[0, 2]), sample(1, &[0, 2])], &names);
        let all: Vec<_> = shares
            .iter()
            .map(|share| (share.agent.as_str(), share.iops, share.cpu.user_ns))
            .collect();
        assert_eq!(all[0], ("a", 100.0, 10_000.0));
        assert_eq!((all[1].0, all[1].1, all.len()), ("c", 300.0, 2));
    }
}
