//! The virtual machine: qemu's command line, and running scripts to their ends in it.
//!
//! The names of scripts go to the guest over a virtio port, their output comes over the same port,
//! the kernel's console over the serial line; these are qemu's standard input, output and error,
//! which are pipes from and to here.

use std::{
    fs,
    io::{self, Read, Write},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitCode, ExitStatus, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use xtask::sh;

use super::{
    accelerator::{self, Accelerator},
    disk::Disk,
    files::option,
    guest::Guest,
    migration,
    output::{Mark, Splitter},
    plan::{Case, Plan},
    system::System,
};

/// How long a machine may take until it can run a case.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

/// The status of a case whose machine did not go off in order.
const OUT_OF_ORDER: u8 = 1;

/// Lines of the console that explain a virtual machine that ended by itself.
const CONSOLE_TAIL_LINES: usize = 60;

/// Kernel parameters. A panic or an oops ends the machine; what only costs time under emulation
/// is off; grace periods of RCU are short, as mounting and module loading wait for many. Programs
/// have the same addresses at each start: qemu finds a translation by the address of the code, and
/// would translate each program anew each time.
const KERNEL_PARAMETERS: &str = "console=ttyS0 panic=-1 oops=panic quiet loglevel=4 norandmaps \
    mitigations=off audit=0 apparmor=0 nokaslr init_on_alloc=0 rcupdate.rcu_expedited=1";

/// One thread emulates all processors of a machine. The kernel patches its own code while it runs
/// (static keys, with an `int3` in the place meanwhile); with a thread for each processor one may
/// still execute the translation of the old bytes when the kernel believes that all have seen the
/// new ones, and dies of that `int3`.
const EMULATION: &str = "tcg,thread=single,tb-size=256";

/// The emulated processor. Without `erms` and `fsrm` programs do not copy by string instructions,
/// which qemu executes byte by byte; without `la57` page tables have four levels. Counts of
/// instructions use the plain `max`, as the recorded ones do.
const PROCESSOR: &str = "max,-erms,-fsrm,-la57";

/// Outcome of a run.
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

    /// Returns the explanation of a run that the script did not end itself.
    pub fn explanation(&self) -> Option<String> {
        match self {
            Self::Exited(_) => None,
            Self::TimedOut(limit, console) => Some(format!(
                "the time of {} s was up; the end of the console:\n{console}",
                limit.as_secs()
            )),
            Self::Died(console) => Some(format!(
                "the virtual machine ended before the script did; the end of the console:\n{console}"
            )),
        }
    }
}

/// A machine that runs one case after the other. It ends with this value, and with the thread that
/// started it.
pub(super) struct Machine<'a> {
    plan: &'a Plan,
    guest: &'a Guest,
    /// Starts qemu, each time that the machine is switched on.
    qemu: Command,
    power: Power,
    splitter: Splitter,
    /// What it wrote to its console until it was off the last time.
    said: String,
    console_file: Option<PathBuf>,
    /// They end after the machine.
    disk: Option<Disk>,
    _system: Option<System>,
}

impl<'a> Machine<'a> {
    /// Boots a machine and waits until it can run a case. One that dies before that has tested
    /// nothing, so it gets a second chance.
    pub(super) fn boot(plan: &'a Plan, guest: &'a Guest) -> Result<Self> {
        if !plan.instructions && accelerator::chosen() == Accelerator::UntriedKvm {
            let trial = Self::start(plan, guest)?.until_ready(accelerator::TRIAL)?;
            accelerator::tried(trial.is_ok());
            match trial {
                Ok(machine) => return Ok(machine),
                Err(_) => println!("lab: KVM does not work here; virtual machines are emulated"),
            }
        }
        let console = match Self::start(plan, guest)?.until_ready(BOOT_LIMIT)? {
            Ok(machine) => return Ok(machine),
            Err(console) => console,
        };
        eprintln!(
            "lab: the virtual machine did not boot; trying once more; the end of the console:\n{console}"
        );
        Self::start(plan, guest)?
            .until_ready(BOOT_LIMIT)?
            .map_err(|console| anyhow!("the virtual machine does not boot:\n{console}"))
    }

    fn start(plan: &'a Plan, guest: &'a Guest) -> Result<Self> {
        let disk = plan.disk.then(|| Disk::start(plan.weft()?)).transpose()?;
        let system = plan.systemd.then(|| System::start(plan.weft()?)).transpose()?;
        let mut qemu = with_ports(qemu(plan, guest, disk.as_ref(), system.as_ref())?);
        Ok(Self {
            plan,
            guest,
            power: Power::on(&mut qemu)?,
            qemu,
            splitter: Splitter::default(),
            said: String::new(),
            console_file: plan.console.clone(),
            disk,
            _system: system,
        })
    }

    /// Waits for the guest's first mark; gives the end of the console when it does not come.
    fn until_ready(mut self, limit: Duration) -> Result<Result<Self, String>> {
        let mut said = Vec::new();
        match self.until_mark(limit, &mut said)? {
            Ok(Mark::Ready(true)) => Ok(Ok(self)),
            Ok(_) => {
                bail!("the guest cannot be prepared: {}", String::from_utf8_lossy(&said).trim())
            }
            Err(_) => Ok(Err(tail(self.end()))),
        }
    }

    /// Runs a case and writes to `sink` what it writes, as it comes. Says how it ended, and whether
    /// the machine can run another one.
    pub(super) fn run(&mut self, case: &Case, sink: &mut dyn Write) -> Result<(Outcome, bool)> {
        self.tell(&case.name);
        let until = Instant::now() + case.timeout;
        let mut ended = self.until_mark(case.timeout, sink)?;
        loop {
            match ended {
                Ok(Mark::Kill) => self.disk.as_mut().context("there is no disk to kill")?.kill()?,
                Ok(Mark::Move) => self.migrate()?,
                Ok(Mark::Off(true)) => {
                    if let Err(end) = self.boot_again(until, sink)? {
                        ended = Err(end);
                        break;
                    }
                    self.tell(&case.name);
                }
                Ok(Mark::Count { calls }) => {
                    let disk = self.disk.as_mut().context("nothing outside can be counted")?;
                    let counts = disk.counts(calls)?;
                    self.tell(&counts);
                }
                _ => break,
            }
            ended = self.until_mark(until.saturating_duration_since(Instant::now()), sink)?;
        }
        Ok(match ended {
            Ok(Mark::End { status, changed }) => {
                let outcome = Outcome::Exited(status);
                let as_before = matches!(status, 0 | sh::SKIPPED) && !changed;
                (outcome, as_before)
            }
            Ok(Mark::Off(_)) => (Outcome::Exited(OUT_OF_ORDER), false),
            Ok(Mark::Ready(_) | Mark::Kill | Mark::Move | Mark::Count { .. }) => {
                bail!("the guest booted again")
            }
            Err(End::TimeUp) => (Outcome::TimedOut(case.timeout, tail(self.end())), false),
            Err(End::Died) => (Outcome::Died(tail(self.end())), false),
        })
    }

    /// Tells the guest which case to run, or a case what it has asked for. A machine that has died
    /// is found out by its output's end.
    fn tell(&mut self, line: &str) {
        let input = &mut self.power.input;
        let _ = writeln!(input, "{line}").and_then(|()| input.flush());
    }

    /// Waits until the machine is off, switches it on, and waits until it can go on with its case.
    fn boot_again(&mut self, until: Instant, sink: &mut dyn Write) -> Result<Result<(), End>> {
        let left = || until.saturating_duration_since(Instant::now());
        match self.until_mark(left(), sink)? {
            Err(End::Died) => {}
            Err(End::TimeUp) => return Ok(Err(End::TimeUp)),
            Ok(mark) => bail!("the guest goes off, and yet says {mark:?}"),
        }
        self.said += &self.power.off();
        self.power = Power::on(&mut self.qemu)?;
        match self.until_mark(left(), sink)? {
            Ok(Mark::Ready(true)) => Ok(Ok(())),
            Ok(mark) => bail!("the guest boots again, and says {mark:?}"),
            Err(end) => Ok(Err(end)),
        }
    }

    /// Has the running guest go on in another qemu, whose disk another program serves, and tells
    /// the case.
    fn migrate(&mut self) -> Result<()> {
        let disk = self.disk.as_mut().context("there is no disk to move with")?;
        let from = disk.monitor();
        let before = disk.serve_elsewhere()?;
        let door = disk.door();
        let mut qemu = with_ports(qemu(self.plan, self.guest, Some(disk), None)?);
        qemu.args(migration::arguments_of_arrival(&door));
        let mut arrival = Power::on(&mut qemu)?;
        let sent = migration::send(&from, &door);
        if sent.is_err() {
            eprintln!("lab: the other qemu said: {}", arrival.off());
        }
        sent?;
        self.said += &self.power.off();
        drop(before);
        arrival.before = self.power.output.iter().flatten().collect();
        self.power = arrival;
        self.tell("moved");
        Ok(())
    }

    /// Passes output on until a mark comes.
    fn until_mark(&mut self, limit: Duration, sink: &mut dyn Write) -> Result<Result<Mark, End>> {
        let until = Instant::now() + limit;
        let mut bytes = std::mem::take(&mut self.power.before);
        loop {
            let (output, mark) = self.splitter.push(&bytes);
            sink.write_all(&output)?;
            sink.flush()?;
            if let Some(mark) = mark {
                return Ok(Ok(mark));
            }
            let left = until.saturating_duration_since(Instant::now());
            bytes = match self.power.output.recv_timeout(left) {
                Ok(bytes) => bytes,
                Err(ended) => {
                    sink.write_all(&self.splitter.rest())?;
                    return Ok(Err(if ended == RecvTimeoutError::Timeout {
                        End::TimeUp
                    } else {
                        End::Died
                    }));
                }
            };
        }
    }

    /// Ends the machine; gives what it wrote to its console.
    fn end(&mut self) -> &str {
        self.said += &self.power.off();
        if let Some(path) = self.console_file.take()
            && let Err(error) = fs::write(&path, &self.said)
        {
            eprintln!("lab: cannot write {}: {error}", path.display());
        }
        &self.said
    }
}

impl Drop for Machine<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// A machine that is on: the process of qemu.
struct Power {
    child: Child,
    input: ChildStdin,
    /// What comes over the port; it ends when the machine does.
    output: Receiver<Vec<u8>>,
    /// What came over the port of the machine that the guest has moved from, and was not read yet.
    before: Vec<u8>,
    console: Option<JoinHandle<Vec<u8>>>,
}

impl Power {
    fn on(qemu: &mut Command) -> Result<Self> {
        let mut child = qemu.spawn().context("cannot start qemu")?;
        let input = child.stdin.take().context("qemu has no input")?;
        let from = child.stdout.take().context("qemu has no output")?;
        let mut errors = child.stderr.take().context("qemu has no console")?;
        let (give, output) = mpsc::channel();
        thread::spawn(move || forward(from, &give));
        let console = thread::spawn(move || {
            let mut text = Vec::new();
            // What was read before an error is all that there is to tell.
            let _ = errors.read_to_end(&mut text);
            text
        });
        Ok(Self { child, input, output, before: Vec::new(), console: Some(console) })
    }

    /// Ends it; gives what it wrote to its console.
    fn off(&mut self) -> String {
        // Both fail only when it has ended already.
        self.child.kill().ok();
        self.child.wait().ok();
        let console = self.console.take().and_then(|console| console.join().ok());
        String::from_utf8_lossy(&console.unwrap_or_default()).into_owned()
    }
}

impl Drop for Power {
    fn drop(&mut self) {
        self.off();
    }
}

/// Why no mark came.
enum End {
    TimeUp,
    Died,
}

fn forward(mut from: impl Read, to: &Sender<Vec<u8>>) {
    let mut buffer = [0; 16 << 10];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(len) if to.send(buffer[..len].to_vec()).is_err() => return,
            Ok(_) => {}
        }
    }
}

/// An interactive shell on this terminal.
pub(super) fn shell(plan: &Plan, guest: &Guest) -> Result<ExitCode> {
    let status: ExitStatus = qemu(plan, guest, None, None)?
        .args(["-serial", "mon:stdio"])
        .status()
        .context("cannot start qemu")?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::from(125) })
}

/// Adds where the serial line and the output port go: to and from here.
fn with_ports(mut qemu: Command) -> Command {
    qemu.args(["-chardev", "file,id=console,path=/dev/stderr", "-serial", "chardev:console"])
        .args(["-chardev", "stdio,id=port,signal=off", "-device", "virtio-serial-pci"])
        .args(["-device", "virtserialport,chardev=port,nr=1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    qemu
}

/// Everything but where the serial line and the output go. qemu dies with the thread that starts
/// it.
fn qemu(
    plan: &Plan,
    guest: &Guest,
    disk: Option<&Disk>,
    system: Option<&System>,
) -> Result<Command> {
    // The image has no name of its own; this one works as long as this process lives.
    let image = format!("/proc/{}/fd/{}", std::process::id(), guest.image.as_raw_fd());
    // While it unpacks, the kernel holds the image twice.
    let mem_mib = plan.mem_mib.max(256 + 3 * (guest.image_bytes >> 20));
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(["-no-reboot", "-nodefaults", "-no-user-config", "-display", "none"]);
    if !plan.instructions && accelerator::chosen() != Accelerator::Emulation {
        command.args(["-accel", "kvm", "-cpu", "host"]);
    } else {
        let processor = if plan.instructions { "max" } else { PROCESSOR };
        command.args(["-accel", EMULATION, "-cpu", processor]);
    }
    if plan.instructions {
        // While all wait, time jumps to the next timer; not where they wait for programs of this
        // machine, as timers of the network would be over before an answer.
        let sleep = if plan.disk { "on" } else { "off" };
        command.args(["-icount", &format!("shift=0,sleep={sleep}")]);
    }
    command.args(["-smp", &plan.smp.to_string(), "-m", &mem_mib.to_string()]);
    let port = disk.map(Disk::parameter).or(system.map(System::parameter)).unwrap_or_default();
    let parameters = format!("{KERNEL_PARAMETERS} {port}");
    command.arg("-kernel").arg(&guest.kernel);
    command.args(["-initrd", &image, "-append", &parameters, "-device", "virtio-rng-pci"]);
    if plan.net {
        let forward =
            plan.forward.map(|(here, there)| format!(",hostfwd=tcp:127.0.0.1:{here}-:{there}"));
        command.args(["-netdev", &format!("user,id=net0{}", forward.unwrap_or_default())]);
        command.args(["-device", "virtio-net-pci,netdev=net0,romfile="]);
    }
    command.args(disk.into_iter().flat_map(|disk| disk.arguments(mem_mib)));
    command.args(system.into_iter().flat_map(System::arguments));
    if let Some(share) = &plan.share {
        command.args(["-virtfs", &shared(share)?]);
    }
    Ok(command)
}

fn shared(dir: &Path) -> Result<String> {
    fs::create_dir_all(dir)?;
    let dir = dir.canonicalize()?;
    let path = option(&dir);
    Ok(format!("local,path={path},mount_tag=share,security_model=none"))
}

fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().collect();
    lines[lines.len().saturating_sub(CONSOLE_TAIL_LINES)..]
        .iter()
        .map(|line| format!("  | {line}\n"))
        .collect()
}
