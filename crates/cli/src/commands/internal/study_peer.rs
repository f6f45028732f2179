//! `weft study-peer`: runs a target of another project for a study, and ends it with everything
//! that it has started as soon as standard input closes. The study may be killed at any time, so this
//! process, which is in a process group of its own, cleans up after it.
//!
//! It prints `ended: REASON` if the target ends by itself.

use super::child::wait_for_end_of_input;
use crate::limits::{LINE_CHARS_MAX, PEER_END_MS};
use crate::process::exit::{Failure, printed};
use crate::process::signals::on_interrupt;
use clap::Args;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::Duration;
use weft_block::ErrorKind;
use weft_server::programs;
use weft_server::values::cores;

/// Time between two looks for processes that are left.
const LOOK: Duration = Duration::from_millis(20);

/// Looks, after SIGKILL, before the processes count as stuck in the kernel.
const LOOKS_MAX: u32 = 250;

/// Options of `weft study-peer`.
#[derive(Args, Debug)]
pub struct StudyPeerArgs {
    /// Directory of the target; it is removed at the end
    #[arg(long)]
    directory: PathBuf,
    /// Cores to run it on
    #[arg(long = "cpus_allowed", value_parser = cores::parse)]
    cpus_allowed: Option<::std::vec::Vec<usize>>,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Reasons to stop waiting.
enum Event {
    /// Standard input closed, or a signal arrived.
    Asked,
    /// No process is left; how the target ended.
    Gone(Option<WaitStatus>),
}

/// Runs the target until it ends, or until it is told to.
pub fn run(args: &StudyPeerArgs) -> Result<(), Failure> {
    let outcome = supervise(args);
    // The study removes the directory, too; there may be nothing left of it.
    let _ = std::fs::remove_dir_all(&args.directory);
    outcome
}

fn supervise(args: &StudyPeerArgs) -> Result<(), Failure> {
    // A server that becomes a daemon stays a descendant.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(std::io::Error::from)?;
    weft_io::cpu::pin_thread_to(args.cpus_allowed.as_deref().unwrap_or_default())?;
    let (give, events) = mpsc::channel();
    let asked = give.clone();
    on_interrupt(move || drop(asked.send(Event::Asked)))?;
    let (target, said) = start(args)?;
    watch(give, target);
    match events.recv() {
        Ok(Event::Gone(status)) => {
            let line = said.recv_timeout(LOOK).ok().flatten();
            printed(writeln!(std::io::stdout(), "ended: {}", reason(status, line)))
        }
        _ => end(&events),
    }
}

/// Starts the target. Returns its process id, and its last line on standard error once that is
/// closed.
fn start(args: &StudyPeerArgs) -> Result<(u32, Receiver<Option<String>>), Failure> {
    let [program, arguments @ ..] = &args.command[..] else {
        return Err(Failure::of(ErrorKind::Usage, "the program is missing"));
    };
    let mut command = programs::system(&program.to_string_lossy());
    command.args(arguments).current_dir(&args.directory).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (give, said) = mpsc::channel();
    if let Some(err) = child.stderr.take() {
        std::thread::spawn(move || drop(give.send(last_line(err))));
    }
    // It is waited for together with its descendants.
    Ok((child.id(), said))
}

/// The last line that is not empty, once the pipe is closed. A line without an end takes no more
/// memory than any other.
fn last_line(pipe: impl Read) -> Option<String> {
    let (mut pipe, mut last) = (BufReader::new(pipe), None);
    loop {
        let mut bytes = Vec::new();
        match pipe.by_ref().take(LINE_CHARS_MAX as u64).read_until(b'\n', &mut bytes) {
            Ok(1..) => {}
            _ => return last,
        }
        let line = String::from_utf8_lossy(&bytes);
        let printable: String = line.trim().chars().filter(|letter| !letter.is_control()).collect();
        last = Some(printable).filter(|line| !line.is_empty()).or(last);
    }
}

/// Reports the end of standard input, and that of all processes.
fn watch(give: Sender<Event>, target: u32) {
    let asked = give.clone();
    std::thread::spawn(move || {
        wait_for_end_of_input();
        let _ = asked.send(Event::Asked);
    });
    std::thread::spawn(move || drop(give.send(Event::Gone(wait_for_all(target)))));
}

/// Waits until no descendant is left. Returns how the target ended, or what it left behind when it
/// became a daemon.
fn wait_for_all(target: u32) -> Option<WaitStatus> {
    let mut status = None;
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, of_it))) => {
                let is_target = pid.as_raw_pid().unsigned_abs() == target;
                if is_target || of_it.exit_status() != Some(0) {
                    status = Some(of_it);
                }
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return status,
        }
    }
}

fn reason(status: Option<WaitStatus>, line: Option<String>) -> String {
    let how = match status {
        Some(status) => match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => "it ended by itself".to_owned(),
            (Some(code), _) => format!("it ended with status {code}"),
            (None, Some(signal)) => format!("signal {signal} ended it"),
            (None, None) => "it ended".to_owned(),
        },
        None => "it ended".to_owned(),
    };
    line.map_or(how.clone(), |line| format!("{how}: {line}"))
}

/// Ends all processes: by SIGTERM, and those that are left after [`PEER_END_MS`] by SIGKILL.
fn end(events: &Receiver<Event>) -> Result<(), Failure> {
    signal_all(Signal::TERM);
    // One that the study has stopped gets it now.
    signal_all(Signal::CONT);
    let mut patience = Duration::from_millis(PEER_END_MS);
    for _ in 0..LOOKS_MAX {
        match events.recv_timeout(patience) {
            Ok(Event::Gone(_)) => return Ok(()),
            Ok(Event::Asked) | Err(_) => signal_all(Signal::KILL),
        }
        patience = LOOK;
    }
    Err(Failure::of(ErrorKind::TimedOut, "the target does not end"))
}

fn signal_all(signal: Signal) {
    for pid in descendants(std::process::id()) {
        if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// The children of a process, their children, and so on.
pub fn descendants(pid: u32) -> Vec<u32> {
    let mut all = Vec::new();
    let mut next = vec![pid];
    while let Some(of) = next.pop() {
        let Ok(threads) = std::fs::read_dir(format!("/proc/{of}/task")) else { continue };
        for thread in threads.flatten() {
            // It may have ended meanwhile.
            let text = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
            let children = text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok());
            let new: Vec<u32> = children.filter(|child| !all.contains(child)).collect();
            all.extend(&new);
            next.extend(new);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_the_reason() {
        let line = |text: &[u8]| last_line(text);
        assert_eq!(line(b"one\ntwo\n\n").as_deref(), Some("two"));
        assert_eq!(line(b"").as_deref(), None);
        let long = vec![b'x'; 3 * LINE_CHARS_MAX + 7];
        assert_eq!(
            line(&long).map(|line| line.len()),
            Some(7),
            "the rest of a line without an end"
        );
        assert_eq!(reason(None, None), "it ended");
        assert_eq!(reason(None, Some("no room".into())), "it ended: no room");
    }

    #[test]
    fn children_of_children_are_found() {
        let mut child = programs::system("sh");
        child.args(["-c", "sh -c 'echo ready; read x' ; true"]);
        let mut child = child.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(descendants(std::process::id()).contains(&child.id()));
        assert_eq!(descendants(child.id()).len(), 1);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(descendants(child.id()).is_empty());
    }
}
