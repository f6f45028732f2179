//! Use of the processors, as the kernel counts it in ticks.

use crate::results::Processors;
use core::time::Duration;

/// Ticks of the processors that this process may use, since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    user: u64,
    system: u64,
    interrupts: u64,
    soft_interrupts: u64,
    /// Ticks that the host took.
    stolen: u64,
    all: u64,
    processors: usize,
}

impl Ticks {
    /// As of now; none where the system does not count them.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?, &weft_io::cpu::allowed())
    }

    /// A line for each processor, `cpuN user nice system idle iowait irq softirq steal …`
    /// (proc_stat(5)); guests are within user and nice.
    fn parse(text: &str, processors: &[usize]) -> Option<Self> {
        let mut sum = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("cpu")) {
            let (number, ticks) = line.split_once(' ')?;
            if !number.parse().is_ok_and(|number| processors.contains(&number)) {
                continue;
            }
            let ticks: Vec<u64> =
                ticks.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
            let [user, nice, system, _idle, _wait, interrupts, soft_interrupts, stolen] = ticks[..]
            else {
                return None;
            };
            sum.user += user + nice;
            sum.system += system;
            sum.interrupts += interrupts;
            sum.soft_interrupts += soft_interrupts;
            sum.stolen += stolen;
            sum.all += ticks.iter().sum::<u64>();
            sum.processors += 1;
        }
        (sum.processors > 0).then_some(sum)
    }

    /// The ticks since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            soft_interrupts: self.soft_interrupts.saturating_sub(before.soft_interrupts),
            stolen: self.stolen.saturating_sub(before.stolen),
            all: self.all.saturating_sub(before.all),
            processors: self.processors,
        }
    }

    /// The sum of the ticks of two spans of time.
    pub fn plus(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
            interrupts: self.interrupts + other.interrupts,
            soft_interrupts: self.soft_interrupts + other.soft_interrupts,
            stolen: self.stolen + other.stolen,
            all: self.all + other.all,
            processors: self.processors.max(other.processors),
        }
    }

    /// Of ticks of a span of time: what they were spent on.
    pub fn parts(self) -> Option<Processors> {
        let part = |ticks: u64| ticks as f64 / self.all as f64;
        (self.all > 0).then(|| Processors {
            user: part(self.user),
            system: part(self.system),
            interrupts: part(self.interrupts),
            soft_interrupts: part(self.soft_interrupts),
            steal: part(self.stolen),
        })
    }

    /// The part of the time since `before` that the host took.
    pub fn stolen_since(self, before: Self) -> Option<f64> {
        self.since(before).parts().map(|parts| parts.steal)
    }

    /// The part of the time since `before` that went to programs other than those that used `ours`
    /// of processor time in `elapsed`.
    pub fn others_since(self, before: Self, ours: Duration, elapsed: Duration) -> Option<f64> {
        // Interrupts are apart: the network's are those of the study itself.
        let programs = self.since(before).parts().map(|parts| parts.user + parts.system)?;
        let ours = ours.as_secs_f64() / (elapsed.as_secs_f64() * self.processors as f64);
        (!elapsed.is_zero()).then(|| (programs - ours).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Ticks};

    #[test]
    fn what_the_host_took_is_a_part_of_all_time() {
        let parse = |text: &str| Ticks::parse(text, &[1, 2]);
        let before = parse(
            "cpu  9 9 9 9 9 9 9 9\ncpu0 9 9 9 9 9 9 9 9\ncpu1 100 0 50 800 10 0 5 35 7 0\nintr 1",
        )
        .unwrap();
        let after = parse(
            "cpu  9 9 9 9 9 9 9 9\ncpu0 999 9 9 9 9 9 9 9\ncpu1 120 0 60 860 10 0 5 45 9 0\nintr 1",
        )
        .unwrap();
        assert_eq!(after.stolen_since(before), Some(0.1));
        let parts = after.since(before).plus(Ticks::default()).parts().unwrap();
        assert_eq!((parts.user, parts.system, parts.soft_interrupts), (0.2, 0.1, 0.0));
        assert!((parts.busy() - 0.3).abs() < 1e-9 && (parts.kernel() - 0.1).abs() < 1e-9);
        assert_eq!(
            (before.stolen_since(before), parse("cpu1 1 2 3"), parse("cpu0 1 2 3 4 5 6 7 8")),
            (None, None, None)
        );
        // 30 of 100 ticks went to programs: of one processor's second, 0.3 s, of which the study
        // used 0.2 s.
        let others = |ours| {
            after.others_since(before, Duration::from_millis(ours), Duration::from_secs(1)).unwrap()
        };
        assert!((others(200) - 0.1).abs() < 1e-9 && others(400) == 0.0);
        assert_eq!(before.others_since(before, Duration::ZERO, Duration::ZERO), None);
    }
}
