//! Facts about the machine, as far as it tells them without privileges.

use crate::results::Machine;

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
    #[test]
    fn the_machine_is_something() {
        let machine = super::facts();
        assert!(machine.cores > 0 && !machine.cpu.is_empty() && !machine.system.is_empty());
        #[cfg(target_os = "linux")]
        assert!(machine.memory_bytes > 1 << 20 && machine.system.contains("Linux"), "{machine:?}");
    }
}
