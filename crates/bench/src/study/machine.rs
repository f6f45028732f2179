//! Facts about the machine, as far as it tells them without privileges.

use crate::results::{Machine, Nic};

/// Load of the last minute.
pub fn load() -> Option<f64> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Facts about this machine.
pub fn facts() -> Machine {
    Machine {
        name: name(),
        cpu: cpu(),
        cores: u32::try_from(weft_io::cpu::allowed().len()).unwrap_or(u32::MAX),
        memory_bytes: memory_bytes(),
        system: system(),
        governors: governors(),
        mitigations: mitigations(),
        nics: nics(),
        hypervisor: hypervisor(),
    }
}

/// The text of a file of one line.
fn line(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()?.lines().next().map(|line| line.trim().to_owned())
}

/// Names in a directory, in order; none where there is no such directory.
fn names(path: &str) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The text of the file of a name in `cpufreq`, for each core that may be used.
fn of_cores(name: &str) -> Vec<String> {
    let of = |core: usize| line(&format!("/sys/devices/system/cpu/cpu{core}/cpufreq/{name}"));
    weft_io::cpu::allowed().into_iter().filter_map(of).collect()
}

/// The different frequency governors.
fn governors() -> Vec<String> {
    let mut governors = of_cores("scaling_governor");
    governors.sort();
    governors.dedup();
    governors
}

/// Lowest and highest frequency of the cores now, MHz.
pub fn mhz() -> Option<(f64, f64)> {
    let all: Vec<f64> = of_cores("scaling_cur_freq")
        .iter()
        .filter_map(|khz| Some(khz.parse::<f64>().ok()? / 1e3))
        .collect();
    let (low, high) =
        all.iter().fold((f64::MAX, 0.0f64), |(low, high), mhz| (low.min(*mhz), high.max(*mhz)));
    (!all.is_empty()).then_some((low, high))
}

/// Faults of the processor that the kernel mitigates.
fn mitigations() -> Vec<String> {
    const PLACE: &str = "/sys/devices/system/cpu/vulnerabilities";
    let of = |name: String| {
        let state = line(&format!("{PLACE}/{name}"))?;
        state
            .starts_with("Mitigation")
            .then(|| format!("{name}: {}", state.trim_start_matches("Mitigation: ")))
    };
    names(PLACE).into_iter().filter_map(of).collect()
}

/// Network interfaces that are up, and the loopback.
fn nics() -> Vec<Nic> {
    const PLACE: &str = "/sys/class/net";
    let of = |name: String| {
        let file = |file: &str| line(&format!("{PLACE}/{name}/{file}"));
        let up = file("operstate").is_some_and(|state| state == "up") || name == "lo";
        let driver = std::fs::read_link(format!("{PLACE}/{name}/device/driver")).ok();
        let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
        let (mtu, mbits) = (
            file("mtu").and_then(|mtu| mtu.parse().ok()),
            file("speed").and_then(|speed| speed.parse().ok()),
        );
        up.then_some(Nic { driver, mtu, mbits, name })
    };
    names(PLACE).into_iter().filter_map(of).collect()
}

/// The maker of the machine, if its processor says that it is a virtual one.
fn hypervisor() -> Option<String> {
    let flags = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let is_virtual = flags
        .lines()
        .find(|line| line.starts_with("flags"))
        .is_some_and(|line| line.split(' ').any(|f| f == "hypervisor"));
    is_virtual
        .then(|| line("/sys/class/dmi/id/sys_vendor").unwrap_or_else(|| "a hypervisor".to_owned()))
}

/// A value from a file of `name<separator>value` lines.
#[cfg(target_os = "linux")]
fn value(path: &str, name: &str, separator: char) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = |line: &str| {
        line.split_once(separator)
            .filter(|(key, _)| key.trim() == name)
            .map(|(_, v)| v.trim().to_owned())
    };
    text.lines().find_map(line)
}

#[cfg(target_os = "linux")]
fn name() -> String {
    line("/proc/sys/kernel/hostname").unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn cpu() -> String {
    let arm =
        || line("/proc/device-tree/model").map(|model| model.trim_end_matches('\0').to_owned());
    value("/proc/cpuinfo", "model name", ':')
        .or_else(arm)
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(target_os = "linux")]
fn memory_bytes() -> u64 {
    let text = value("/proc/meminfo", "MemTotal", ':').unwrap_or_default();
    text.split(' ').next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(target_os = "linux")]
fn system() -> String {
    let kernel = line("/proc/sys/kernel/osrelease").unwrap_or_default();
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

    #[test]
    fn the_loopback_is_an_interface() {
        let machine = super::facts();
        let linux = cfg!(target_os = "linux") && std::path::Path::new("/sys/class/net/lo").exists();
        assert_eq!(machine.nics.iter().any(|nic| nic.name == "lo" && nic.mtu.is_some()), linux);
        assert!(machine.mitigations.iter().all(|fault| fault.contains(": ")));
        assert!(super::mhz().is_none_or(|(low, high)| 0.0 < low && low <= high));
    }
}
