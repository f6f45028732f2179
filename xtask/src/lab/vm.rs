//! The virtual machine: qemu's command line, and running a script to its end in it.
//!
//! The script's output comes over a virtio port, the kernel's console over the serial line; qemu
//! writes them to its standard output and standard error, which are pipes to here.

use std::{
    env, fs,
    io::{self, Read, Write},
    os::fd::AsRawFd,
    path::Path,
    process::{Child, Command, ExitCode, ExitStatus, Stdio},
    sync::{
        Mutex,
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, Result};

use super::{guest::Guest, output::Splitter, plan::Plan};

/// Lines of the console that explain a virtual machine that ended by itself.
const CONSOLE_TAIL_LINES: usize = 60;

/// Kernel parameters. A panic or an oops ends the machine; what only costs time under emulation
/// is off; grace periods of RCU are short, as mounting and module loading wait for many.
const KERNEL_PARAMETERS: &str = "console=ttyS0 panic=-1 oops=panic quiet loglevel=4 \
    mitigations=off audit=0 apparmor=0 nokaslr rcupdate.rcu_expedited=1";

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The script ended with this status.
    Exited(u8),
    /// The time was up; with the end of the kernel's console.
    TimedOut(Duration, String),
    /// The machine ended before the script did; with the end of the kernel's console.
    Died(String),
}

impl Outcome {
    /// The script's own status, 124 when its time was up, 125 when the machine died.
    pub fn exit_status(&self) -> u8 {
        match self {
            Self::Exited(status) => *status,
            Self::TimedOut(..) => 124,
            Self::Died(_) => 125,
        }
    }

    /// What to tell about a run that the script did not end itself.
    pub fn explanation(&self) -> Option<String> {
        match self {
            Self::Exited(_) => None,
            Self::TimedOut(limit, console) => {
                Some(format!("the time of {} s was up; the end of the console:\n{console}", limit.as_secs()))
            }
            Self::Died(console) => {
                Some(format!("the virtual machine ended before the script did; the end of the console:\n{console}"))
            }
        }
    }
}

/// Boots, writes the script's output to `sink` as it comes, and returns how it ended.
pub(super) fn run(plan: &Plan, guest: &Guest, sink: &mut dyn Write) -> Result<Outcome> {
    let mut command = qemu(plan, guest)?;
    command
        .args(["-chardev", "file,id=console,path=/dev/stderr", "-serial", "chardev:console"])
        .args(["-chardev", "file,id=out,path=/dev/stdout", "-device", "virtio-serial-pci"])
        .args(["-device", "virtserialport,chardev=out,nr=1"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().context("cannot start qemu")?;
    let output = child.stdout.take().context("qemu has no output")?;
    let mut errors = child.stderr.take().context("qemu has no console")?;
    let child = Mutex::new(child);
    let (ended, end) = mpsc::channel();
    thread::scope(|scope| {
        let console = scope.spawn(move || {
            let mut text = Vec::new();
            errors.read_to_end(&mut text).map(|_| String::from_utf8_lossy(&text).into_owned())
        });
        let timer = scope.spawn(|| expire(&child, plan.timeout, end));
        let status = copy_output(output, sink);
        drop(ended);
        kill(&child);
        let timed_out = timer.join().expect("the timer does not panic");
        let console = console.join().expect("the console's reader does not panic")?;
        if let Some(path) = &plan.console {
            fs::write(path, &console)?;
        }
        Ok(match status? {
            Some(status) => Outcome::Exited(status),
            None if timed_out => Outcome::TimedOut(plan.timeout, tail(&console)),
            None => Outcome::Died(tail(&console)),
        })
    })
}

/// An interactive shell on this terminal.
pub(super) fn shell(plan: &Plan, guest: &Guest) -> Result<ExitCode> {
    let status: ExitStatus = qemu(plan, guest)?.args(["-serial", "mon:stdio"]).status().context("cannot start qemu")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(125) })
}

/// Everything but where the serial line and the output go. qemu dies with the thread that starts it.
fn qemu(plan: &Plan, guest: &Guest) -> Result<Command> {
    // The image has no name of its own; this one works as long as this process lives.
    let image = format!("/proc/{}/fd/{}", std::process::id(), guest.image.as_raw_fd());
    // While it unpacks, the kernel holds the image twice.
    let mem_mib = plan.mem_mib.max(256 + 3 * (guest.image_bytes >> 20));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(["-no-reboot", "-nodefaults", "-no-user-config", "-display", "none"]);
    match env::var("WEFT_LAB_ACCEL").as_deref() {
        Ok("kvm") => command.args(["-accel", "kvm", "-cpu", "host"]),
        _ => command.args(["-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max"]),
    };
    command.args(["-smp", &plan.smp.to_string(), "-m", &mem_mib.to_string()]);
    command.arg("-kernel").arg(&guest.kernel);
    command.args(["-initrd", &image, "-append", KERNEL_PARAMETERS, "-device", "virtio-rng-pci"]);
    if plan.net {
        let forward = plan.forward.map(|(here, there)| format!(",hostfwd=tcp:127.0.0.1:{here}-:{there}"));
        command.args(["-netdev", &format!("user,id=net0{}", forward.unwrap_or_default())]);
        command.args(["-device", "virtio-net-pci,netdev=net0,romfile="]);
    }
    if let Some(share) = &plan.share {
        command.args(["-virtfs", &shared(share)?]);
    }
    Ok(command)
}

fn shared(dir: &Path) -> Result<String> {
    fs::create_dir_all(dir)?;
    let dir = dir.canonicalize()?;
    // a comma separates qemu's options unless it is doubled
    let path = dir.to_string_lossy().replace(',', ",,");
    Ok(format!("local,path={path},mount_tag=share,security_model=none"))
}

/// Copies until the exit mark or the end; returns the status in the mark.
fn copy_output(mut from: impl Read, sink: &mut dyn Write) -> Result<Option<u8>> {
    let mut splitter = Splitter::default();
    let mut buffer = [0; 16 << 10];
    loop {
        let len = match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if len == 0 {
            sink.write_all(&splitter.rest())?;
            return Ok(None);
        }
        let (output, status) = splitter.push(&buffer[..len]);
        sink.write_all(&output)?;
        sink.flush()?;
        if status.is_some() {
            return Ok(status);
        }
    }
}

/// Ends the machine when the time is up before the other end of `end` goes; says whether it did.
fn expire(child: &Mutex<Child>, after: Duration, end: mpsc::Receiver<()>) -> bool {
    let timed_out = end.recv_timeout(after) == Err(RecvTimeoutError::Timeout);
    if timed_out {
        kill(child);
    }
    timed_out
}

fn kill(child: &Mutex<Child>) {
    let mut child = child.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // Both fail only when it has ended already.
    child.kill().ok();
    child.wait().ok();
}

fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_TAIL_LINES)..].iter().map(|line| format!("  | {line}\n")).collect()
}
