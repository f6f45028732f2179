//! Resource usage of threads and processes: CPU time, context switches, page faults.
//!
//! Values are cumulative since the start of the thread or process; take two and call
//! [`Usage::since`].

use core::time::Duration;
use std::io;

/// CPU time and related counts, cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Context switches, voluntary or not; 0 if unknown.
    pub context_switches: u64,
    /// Page faults that needed I/O; 0 if unknown.
    pub major_faults: u64,
    /// Page faults that needed no I/O; 0 if unknown.
    pub minor_faults: u64,
}

impl Usage {
    /// CPU time in user mode and in the kernel.
    pub fn total(&self) -> Duration {
        self.user + self.system
    }

    /// The usage since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            context_switches: self.context_switches.saturating_sub(earlier.context_switches),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
        }
    }

    /// The sum of two.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
            context_switches: self.context_switches + other.context_switches,
            major_faults: self.major_faults + other.major_faults,
            minor_faults: self.minor_faults + other.minor_faults,
        }
    }
}

pub use system::{of_process, process, thread};

#[cfg(unix)]
mod system {
    use super::{Duration, Usage, io};

    /// Usage of the calling thread; of the process on systems without accounting per thread.
    pub fn thread() -> Usage {
        #[cfg(any(
            target_os = "linux",
            target_os = "android",
            target_os = "freebsd",
            target_os = "openbsd"
        ))]
        return rusage(libc::RUSAGE_THREAD);
        #[cfg(not(any(
            target_os = "linux",
            target_os = "android",
            target_os = "freebsd",
            target_os = "openbsd"
        )))]
        process()
    }

    /// Usage of this process, all threads.
    pub fn process() -> Usage {
        rusage(libc::RUSAGE_SELF)
    }

    fn rusage(who: libc::c_int) -> Usage {
        // SAFETY: all-zero bytes are a valid `rusage`: it holds integers only.
        let mut usage: libc::rusage = unsafe { core::mem::zeroed() };
        // SAFETY: `usage` is valid for the call to write to. It cannot fail: `who` is known and the
        // pointer good.
        unsafe { libc::getrusage(who, &raw mut usage) };
        Usage {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            context_switches: count(usage.ru_nvcsw) + count(usage.ru_nivcsw),
            major_faults: count(usage.ru_majflt),
            minor_faults: count(usage.ru_minflt),
        }
    }

    fn duration(time: libc::timeval) -> Duration {
        Duration::new(count(time.tv_sec), u32::try_from(time.tv_usec).unwrap_or(0) * 1000)
    }

    fn count<N: TryInto<u64>>(n: N) -> u64 {
        n.try_into().unwrap_or(0)
    }

    /// Usage of another process, all threads.
    ///
    /// # Errors
    /// `NotFound` if there is no such process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub fn of_process(pid: u32) -> io::Result<Usage> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let ticks_per_second = rustix::param::clock_ticks_per_second();
        let mut usage = parse_stat(&stat, ticks_per_second).ok_or(io::ErrorKind::InvalidData)?;
        // Ticks are 10 ms; the process's own clock is exact, though it does not tell user time from
        // system time.
        if let Some(total) = clock_of(pid) {
            usage.user = total.saturating_sub(usage.system);
        }
        Ok(usage)
    }

    /// Usage of another process: not supported on this system.
    ///
    /// # Errors
    /// Always `Unsupported`.
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    pub fn of_process(_: u32) -> io::Result<Usage> {
        Err(io::ErrorKind::Unsupported.into())
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn clock_of(pid: u32) -> Option<Duration> {
        let mut clock: libc::clockid_t = 0;
        // SAFETY: `clock` is valid for the call to write to.
        let failed =
            unsafe { libc::clock_getcpuclockid(libc::pid_t::try_from(pid).ok()?, &raw mut clock) };
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid for the call to write to.
        if failed != 0 || unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
            return None;
        }
        Some(Duration::new(count(time.tv_sec), u32::try_from(time.tv_nsec).ok()?))
    }

    /// Reads `/proc/PID/stat`. The second field, a name in parentheses, may hold anything, so
    /// fields count from the last `)`.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn parse_stat(stat: &str, ticks_per_second: u64) -> Option<Usage> {
        let fields: Vec<&str> =
            stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let time = |number: usize| {
            Some(Duration::from_nanos(field(number)? * (1_000_000_000 / ticks_per_second.max(1))))
        };
        Some(Usage {
            user: time(14)?,
            system: time(15)?,
            context_switches: 0,
            minor_faults: field(10)?,
            major_faults: field(12)?,
        })
    }
}

#[cfg(windows)]
mod system {
    use super::{Duration, Usage, io};
    use windows_sys::Win32::Foundation::{CloseHandle, FILETIME, HANDLE};
    use windows_sys::Win32::System::Threading::{
        GetCurrentProcess, GetCurrentThread, GetProcessTimes, GetThreadTimes, OpenProcess,
        PROCESS_QUERY_LIMITED_INFORMATION,
    };

    const ZERO: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };

    /// Usage of the calling thread.
    pub fn thread() -> Usage {
        let (mut created, mut exited, mut system, mut user) = (ZERO, ZERO, ZERO, ZERO);
        // SAFETY: the pseudo handle of the calling thread is always valid, and so are the four
        // pointers.
        unsafe {
            GetThreadTimes(
                GetCurrentThread(),
                &raw mut created,
                &raw mut exited,
                &raw mut system,
                &raw mut user,
            )
        };
        usage(user, system)
    }

    /// Usage of this process, all threads.
    pub fn process() -> Usage {
        // SAFETY: the pseudo handle of the calling process is always valid.
        times(unsafe { GetCurrentProcess() }).unwrap_or_default()
    }

    /// Usage of another process, all threads.
    ///
    /// # Errors
    /// The system's error, if there is no such process or access is denied.
    pub fn of_process(pid: u32) -> io::Result<Usage> {
        // SAFETY: no pointer is passed; a null handle is checked.
        let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
        if process.is_null() {
            return Err(io::Error::last_os_error());
        }
        let usage = times(process);
        // SAFETY: the handle is open and closed here once.
        unsafe { CloseHandle(process) };
        usage
    }

    fn times(process: HANDLE) -> io::Result<Usage> {
        let (mut created, mut exited, mut system, mut user) = (ZERO, ZERO, ZERO, ZERO);
        // SAFETY: the handle is valid, as the callers say, and so are the four pointers.
        match unsafe {
            GetProcessTimes(
                process,
                &raw mut created,
                &raw mut exited,
                &raw mut system,
                &raw mut user,
            )
        } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(usage(user, system)),
        }
    }

    fn usage(user: FILETIME, system: FILETIME) -> Usage {
        Usage { user: duration(user), system: duration(system), ..Usage::default() }
    }

    /// A `FILETIME` counts 100 ns.
    fn duration(time: FILETIME) -> Duration {
        let hundreds = u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime);
        Duration::from_nanos(hundreds.saturating_mul(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work() -> u64 {
        (0..20_000_000u64).fold(1, |a, b| core::hint::black_box(a.wrapping_mul(31) ^ b))
    }

    #[test]
    fn work_costs_time() {
        let before = (thread(), process());
        while thread().since(&before.0).total() < Duration::from_millis(40) {
            core::hint::black_box(work());
        }
        let process_used = process().since(&before.1).total();
        assert!(process_used >= Duration::from_millis(30), "{process_used:?}");
    }

    #[test]
    #[cfg(any(target_os = "linux", windows))]
    fn another_process_is_seen_as_it_sees_itself() {
        core::hint::black_box(work());
        let inside = process();
        let outside = of_process(std::process::id()).unwrap();
        assert!(
            outside.total() + Duration::from_millis(100) > inside.total(),
            "{outside:?} {inside:?}"
        );
        assert!(of_process(u32::MAX / 2 - 1).is_err());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_name_may_hold_parentheses_and_blanks() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 70 8 90 10 250 150 0 0 20 0 1 0 5";
        let usage = system::parse_stat(stat, 100).unwrap();
        assert_eq!(
            (usage.user, usage.system),
            (Duration::from_millis(2500), Duration::from_millis(1500))
        );
        assert_eq!((usage.minor_faults, usage.major_faults), (70, 90));
        assert_eq!(system::parse_stat("12 (x) S 1", 100), None);
    }
}
