//! Facts about the machine, as far as it tells them without privileges.

use crate::results::Machine;
use core::time::Duration;

/// Ticks of the processors that this process may use, since the system started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Ticks {
    /// In programs, and in the system on their behalf. Interrupts are apart: the network's are those of the study itself.
    programs: u64,
    /// What the host took.
    stolen: u64,
    all: u64,
    processors: usize,
}

impl Ticks {
    /// As of now; none where the system does not count them.
    pub fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?, &weft_io::cpu::allowed())
    }

    /// A line for each processor, `cpuN user nice system idle iowait irq softirq steal …` (proc_stat(5)); guests are within user and nice.
    fn parse(text: &str, processors: &[usize]) -> Option<Self> {
        let mut sum = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("cpu")) {
            let (number, ticks) = line.split_once(' ')?;
            if !number.parse().is_ok_and(|number| processors.contains(&number)) {
                continue;
            }
            let ticks: Vec<u64> = ticks.split_whitespace().take(8).map_while(|n| n.parse().ok()).collect();
            sum.programs += ticks.iter().take(3).sum::<u64>();
            sum.stolen += ticks.get(7)?;
            sum.all += ticks.iter().sum::<u64>();
            sum.processors += 1;
        }
        (sum.processors > 0).then_some(sum)
    }

    /// The part of the time since `before` that the host took.
    pub fn stolen_since(self, before: Self) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        (all > 0).then(|| self.stolen.saturating_sub(before.stolen) as f64 / all as f64)
    }

    /// The part of the time since `before` that went to programs other than those that used `ours` of processor time in `elapsed`.
    pub fn others_since(self, before: Self, ours: Duration, elapsed: Duration) -> Option<f64> {
        let all = self.all.saturating_sub(before.all);
        let programs = self.programs.saturating_sub(before.programs) as f64 / all as f64;
        let ours = ours.as_secs_f64() / (elapsed.as_secs_f64() * self.processors as f64);
        (all > 0 && !elapsed.is_zero()).then(|| (programs - ours).clamp(0.0, 1.0))
    }
}

/// Load of the last minute.
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// What this machine is.
pub fn facts() -> Machine {
    Machine {
        name: name(),
        cpu: cpu(),
        cores: u32::try_from(weft_io::cpu::allowed().len()).unwrap_or(u32::MAX),
        memory_bytes: memory_bytes(),
        system: system(),
    }
}

/// A value from a file of `name<separator>value` lines.
#[cfg(target_os = "linux")]
fn value(path: &str, name: &str, separator: char) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = |line: &str| line.split_once(separator).filter(|(key, _)| key.trim() == name).map(|(_, v)| v.trim().to_owned());
    text.lines().find_map(line)
}

#[cfg(target_os = "linux")]
fn first_line(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
}

#[cfg(target_os = "linux")]
fn name() -> String {
    first_line("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn cpu() -> String {
    let arm = || first_line("/proc/device-tree/model").map(|model| model.trim_end_matches('\0').to_owned());
    value("/proc/cpuinfo", "model name", ':').or_else(arm).unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(target_os = "linux")]
fn memory_bytes() -> u64 {
    let text = value("/proc/meminfo", "MemTotal", ':').unwrap_or_default();
    text.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(target_os = "linux")]
fn system() -> String {
    let kernel = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
    match value("/etc/os-release", "PRETTY_NAME", '=') {
        Some(name) => format!("{}, Linux {kernel}", name.trim_matches('"')),
        None => format!("Linux {kernel}"),
    }
}

#[cfg(not(target_os = "linux"))]
fn name() -> String {
    std::env::var("COMPUTERNAME").or_else(|_| std::env::var("HOSTNAME")).unwrap_or_default()
}

#[cfg(not(target_os = "linux"))]
fn cpu() -> String {
    std::env::var("PROCESSOR_IDENTIFIER").unwrap_or_else(|_| std::env::consts::ARCH.to_owned())
}

#[cfg(not(target_os = "linux"))]
fn memory_bytes() -> u64 {
    0
}

#[cfg(not(target_os = "linux"))]
fn system() -> String {
    std::env::var("OS").unwrap_or_else(|_| std::env::consts::OS.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{Duration, Ticks};

    #[test]
    fn what_the_host_took_is_a_part_of_all_time() {
        let parse = |text: &str| Ticks::parse(text, &[1, 2]);
        let before = parse("cpu  9 9 9 9 9 9 9 9\ncpu0 9 9 9 9 9 9 9 9\ncpu1 100 0 50 800 10 0 5 35 7 0\nintr 1").unwrap();
        let after = parse("cpu  9 9 9 9 9 9 9 9\ncpu0 999 9 9 9 9 9 9 9\ncpu1 120 0 60 860 10 0 5 45 9 0\nintr 1").unwrap();
        assert_eq!(after.stolen_since(before), Some(0.1));
        assert_eq!((before.stolen_since(before), parse("cpu1 1 2 3"), parse("cpu0 1 2 3 4 5 6 7 8")), (None, None, None));
        // 30 of 100 ticks went to programs: of one processor's second, 0.3 s, of which the study used 0.2 s.
        let others = |ours| after.others_since(before, Duration::from_millis(ours), Duration::from_secs(1)).unwrap();
        assert!((others(200) - 0.1).abs() < 1e-9 && others(400) == 0.0);
        assert_eq!(before.others_since(before, Duration::ZERO, Duration::ZERO), None);
    }

    #[test]
    fn the_machine_is_something() {
        let machine = super::facts();
        assert!(machine.cores > 0 && !machine.cpu.is_empty() && !machine.system.is_empty());
        #[cfg(target_os = "linux")]
        assert!(machine.memory_bytes > 1 << 20 && machine.system.contains("Linux"), "{machine:?}");
    }
}
