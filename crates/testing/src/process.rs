//! Signals to another process, and the states of its threads.

use std::process::Command;

/// Sends a signal, for example `TERM`, through the shell: not every system has a program `kill`.
///
/// # Panics
/// If there is no such process.
pub fn signal(pid: u32, name: &str) {
    let mut kill = Command::new("sh");
    kill.args(["-c", r#"kill -"$0" "$1""#, name, &pid.to_string()]);
    assert!(kill.status().is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

/// The state of each thread that a process has, by the letter of `/proc/PID/stat`: `T` stands
/// still, `Z` and `X` have ended. None: it is gone.
#[must_use]
pub fn states(pid: u32) -> Vec<char> {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let stats = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("stat")).ok());
    stats
        .filter_map(|stat| stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()))
        .collect()
}

/// Returns whether a process has given back all that it held. Its threads end one by one, and the
/// last one gives back its files.
#[must_use]
pub fn has_ended(pid: u32) -> bool {
    states(pid).iter().all(|state| matches!(state, 'Z' | 'X'))
}

/// Returns whether a process stands still after `SIGSTOP`: each of its threads, the next time that
/// it runs.
#[must_use]
pub fn stands_still(pid: u32) -> bool {
    states(pid).iter().all(|state| *state == 'T')
}
