//! Counts outside a guest: processor time and system calls of programs, and the instructions that
//! the guest itself has executed, which only the emulator knows.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tempfile::NamedTempFile;

use super::monitor::Monitor;

/// System calls by which a program gives bytes to the kernel or gets them from it.
const MOVING: [&str; 8] =
    ["read", "write", "readv", "writev", "sendto", "recvfrom", "sendmsg", "recvmsg"];

/// Instructions of the guest behind this monitor so far, without the time for which it was idle; 0
/// when its clock does not count them.
pub(super) fn instructions(monitor: &Path) -> Result<u64> {
    // It tells them also where nothing is replayed.
    let replay = Monitor::connect(monitor)?.ask("query-replay", &json!({}))?;
    replay["icount"].as_u64().with_context(|| format!("qemu does not count: {replay}"))
}

/// Nanoseconds for which the threads of a program have run.
pub(super) fn processor_time(program: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in fs::read_dir(format!("/proc/{program}/task"))? {
        let path = thread?.path().join("schedstat");
        let text = fs::read_to_string(&path)?;
        let first = text.split(' ').next().and_then(|number| number.parse::<u64>().ok());
        sum += first.with_context(|| format!("{} has no number", path.display()))?;
    }
    Ok(sum)
}

/// The system calls of a program, written down until this is ended.
pub(super) struct Trace {
    strace: Child,
    file: NamedTempFile,
}

impl Trace {
    /// Starts with what the program does next.
    pub(super) fn start(program: u32) -> Result<Self> {
        let file = NamedTempFile::new()?;
        let mut command = Command::new("strace");
        command.args(["-f", "-s", "0", "-e", "signal=none", "-p", &program.to_string(), "-o"]);
        command.arg(file.path()).stdin(Stdio::null()).stderr(Stdio::piped());
        let mut strace = command.spawn().context("cannot start strace")?;
        let said = strace.stderr.take().context("strace says nothing")?;
        let mut lines = BufReader::new(said).lines();
        let first = lines.next().transpose()?.unwrap_or_default();
        let trace = Self { strace, file };
        ensure!(first.contains("attached"), "strace cannot attach: {first}");
        thread::spawn(move || lines.for_each(drop));
        Ok(trace)
    }

    /// Lets the program go on without it; how many system calls it has made, and how many bytes
    /// they moved.
    pub(super) fn end(mut self) -> Result<(u64, u64)> {
        let Ok(id) = i32::try_from(self.strace.id()) else { bail!("strace has no number") };
        kill_process(Pid::from_raw(id).context("strace has no number")?, Signal::INT)?;
        self.strace.wait()?;
        Ok(summed(&fs::read_to_string(self.file.path())?))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        self.strace.kill().ok();
        self.strace.wait().ok();
    }
}

/// Calls and moved bytes of what strace wrote. A call that another thread interrupts has two lines.
fn summed(text: &str) -> (u64, u64) {
    let (mut calls, mut bytes) = (0, 0);
    for line in text.lines() {
        let line = line.split_once(' ').map_or("", |(_, call)| call.trim_start());
        let resumed = line.strip_prefix("<... ");
        let Some((name, rest)) = resumed.unwrap_or(line).split_once(['(', ' ']) else { continue };
        calls += u64::from(resumed.is_none());
        let got = rest.rsplit_once(" = ").and_then(|(_, got)| got.split(' ').next());
        if let Some(got) = got.and_then(|got| got.parse::<u64>().ok())
            && MOVING.contains(&name)
        {
            bytes += got;
        }
    }
    (calls, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_counts_once_and_its_bytes_when_it_has_ended() {
        let text = "\
            11 epoll_wait(4,  <unfinished ...>\n\
            12 recvmsg(9, {msg_name=NULL, msg_iov=[{iov_base=\"\"..., iov_len=8}]}, 0) = 4120\n\
            11 <... epoll_wait resumed>[{events=EPOLLIN, data={u32=1, u64=1}}], 64, -1) = 1\n\
            12 sendmsg(9, {msg_iovlen=1}, MSG_NOSIGNAL <unfinished ...>\n\
            12 <... sendmsg resumed>) = 72\n\
            11 recvmsg(9, {}, 0) = -1 EAGAIN (Resource temporarily unavailable)\n";
        assert_eq!(summed(text), (4, 4192));
    }

    #[test]
    fn own_time_is_known() {
        assert!(processor_time(std::process::id()).is_ok());
    }
}
