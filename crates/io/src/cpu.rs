//! CPU affinity: the cores that this process may use, and pinning a thread to a core.

use std::io;

/// The cores in this process's affinity mask, in order.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn allowed() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect(),
        Err(_) => (0..count()).collect(),
    }
}

/// The cores that this process may use, in order.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn allowed() -> Vec<usize> {
    (0..count()).collect()
}

fn count() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Pins the calling thread to core `cpu`.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    pin_thread_to(&[cpu])
}

/// Restricts the calling thread, and the processes that it starts, to the cores `cpus`. If there
/// are none, nothing changes.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn pin_thread_to(cpus: &[usize]) -> io::Result<()> {
    let mut set = rustix::thread::CpuSet::new();
    for cpu in cpus {
        if *cpu >= rustix::thread::CpuSet::MAX_CPU {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        set.set(*cpu);
    }
    if cpus.is_empty() {
        return Ok(());
    }
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Pins the calling thread to core `cpu`.
#[cfg(windows)]
pub fn pin_thread(cpu: usize) -> io::Result<()> {
    use windows_sys::Win32::System::Threading::{GetCurrentThread, SetThreadAffinityMask};
    let mask = 1usize.checked_shl(cpu as u32).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the pseudo handle of the calling thread is always valid.
    match unsafe { SetThreadAffinityMask(GetCurrentThread(), mask) } {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Not supported on this system.
#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
pub fn pin_thread(_: usize) -> io::Result<()> {
    Ok(())
}

/// Makes the system end sleeps of the calling thread with microsecond accuracy, instead of ending
/// several at once.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub fn be_punctual() {
    // A system that refuses ends them a little later.
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(
        crate::limits::TIMER_SLACK_NS,
    ));
}

/// Not supported on this system.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub fn be_punctual() {}
