//! `weft connect`: attaches any source to this system as a disk.

mod background;
mod commands;
mod device;

use crate::args::attach::AttachArgs;
use crate::args::pcap::PcapArgs;
use crate::connection::{Address, ConnectArgs};
use crate::process::attached::{begin, leave_terminal};
use crate::process::exit::{Failure, printed};
use crate::process::exit_on_loss::ended;
use clap::{ArgMatches, Args};
use device::{DeviceArgs, patiently};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use uuid::Uuid;
use weft_block::{Error, ErrorKind, waiting};
use weft_endpoint::url::without_secret;
use weft_endpoint::{ConnectOptions, Control};
use weft_server::attach::entries::{Entry, Runtime};
use weft_server::attach::plan::{AttachProtocol, AttachSystem, COMMAND_S};
use weft_server::attach::run;
use weft_server::attach::server::{DiskServer, ServerPlan, end, wait_for_end};
use weft_server::connections::record::check_name;

/// Options of `weft connect`.
#[derive(Args, Debug)]
#[command(mut_arg("url", |url| url.help("Source to attach: nvme+tcp://HOST[:PORT]/NQN[/NSID], or any other")))]
#[command(after_help = "\
Examples:
  weft connect -t tcp -a 192.0.2.10 -s 4420 -n nqn.2014-08.org.example:disk
      attach the first namespace as a disk
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --as iscsi
      attach it through the iSCSI initiator of this system
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --as ublk
      make it a disk of Linux without another program
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --as fuse --directory disk
      make it the file disk/disk, also for users who are not root
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --as nbd --serve-only
      serve it on a Unix socket for QEMU and other NBD clients; `weft list` prints the URL
  device=$(weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --wait --print-device)
      have its path in a variable of a script, once it answers
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --persist
      attach it whenever weft daemon starts, too
  weft connect nvme+tcp://192.0.2.10/nqn.2014-08.org.example:disk --as iscsi --print
      print the commands instead of running them")]
pub struct ConnectCommand {
    #[command(flatten)]
    address: Address,
    /// Name of the connection, for weft disconnect [default: derived from the URL]
    #[arg(long)]
    name: Option<String>,
    /// Loopback port for iSCSI; 0 picks a free port
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Empty directory in which the file of --as fuse or --as loop appears [default: one in the
    /// directory of records]
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Serve in the foreground; detach and end on Ctrl-C
    #[arg(long, conflicts_with = "persist")]
    foreground: bool,
    /// Print the commands, but do not run them
    #[arg(long, conflicts_with_all = ["foreground", "persist"])]
    print: bool,
    /// Run as the background server
    #[arg(long, hide = true, conflicts_with_all = ["foreground", "print"])]
    background: bool,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    attach: AttachArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    pcap: PcapArgs,
}

/// Attaches a device. `matches` are those of the whole command line.
pub fn run(args: &ConnectCommand, matches: &ArgMatches, control: &Control) -> Result<(), Failure> {
    let plan = args.plan()?;
    if args.print {
        // A mistake is said here, and not by the commands.
        args.options(control)?;
        let (_, own) = matches.subcommand().expect("this is one");
        return printed(commands::print(&plan, args.attach.serve_only, own));
    }
    if args.background {
        return serve(&plan, args, control);
    }
    args.attach.check_system(plan.protocol)?;
    if args.foreground {
        return in_foreground(&plan, args, control);
    }
    let until = args.device.until();
    match patiently(until, || args.attach.lasting.ask(&plan.name, &plan.url))? {
        Some(said) => {
            if args.device.is_asked() {
                args.device.finish(&args.attach.lasting.entry(&plan.name)?, until)?;
            }
            if args.device.prints() {
                return Ok(());
            }
            printed(writeln!(std::io::stdout().lock(), "{said}"))
        }
        None => {
            let (runtime, entry) = patiently(until, || in_background(&plan, args))?;
            announce((&runtime, &entry), args, until)
        }
    }
}

impl ConnectCommand {
    fn plan(&self) -> Result<ServerPlan, Failure> {
        let url = self.address.device_url()?;
        let name = match &self.name {
            Some(name) => {
                check_name(name)?;
                name.clone()
            }
            None => name_of(&url),
        };
        let protocol = self.attach.protocol(self.print)?;
        let directory = self.directory.as_ref().map(std::path::absolute).transpose()?;
        if directory.is_some() && !matches!(protocol, AttachProtocol::Fuse | AttachProtocol::Loop) {
            let text = format!("--directory is for --as fuse and --as loop, not for {protocol}");
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(ServerPlan {
            name,
            url,
            protocol,
            directory,
            port: self.port,
            by_daemon: self.attach.lasting.daemon.by_daemon,
            shared: self.attach.shared,
        })
    }

    /// How the source is opened. A disk of this system has no other writer, unless the user says so
    /// or another host is registered with it.
    fn options(&self, control: &Control) -> Result<ConnectOptions, Failure> {
        let mut options = self.attach.loss.limit(self.connect.options(1, control)?);
        options.paths.only_writer_if_alone = !self.attach.shared;
        Ok(options)
    }
}

/// The name of a connection that gets no other.
pub fn name_of(url: &str) -> String {
    Uuid::new_v5(&Uuid::NAMESPACE_URL, url.as_bytes()).simple().to_string()[..8].to_owned()
}

/// The background server, which reports to the command that started it.
fn serve(plan: &ServerPlan, args: &ConnectCommand, control: &Control) -> Result<(), Failure> {
    leave_terminal();
    let start = || {
        let beginning = begin()?;
        args.pcap.begin(control)?;
        let server = DiskServer::start(plan, &args.options(control)?)?;
        Ok((server, beginning.end()))
    };
    let (server, signal) = background::report(start(), |(server, _)| server.entry())?;
    let lost = wait_for_end(&signal, &server, args.attach.loss.exit_on_loss);
    let runtime = Runtime::open()?;
    let left = lost.as_ref().and_then(|_| runtime.find(&plan.name));
    let stopped = server.stop().map_err(Failure::from);
    // Nobody else detaches it: the record goes with this process.
    if let Some(entry) = left {
        run::clear_dead(&runtime.served(&entry));
    }
    ended(lost, stopped)
}

fn in_foreground(
    plan: &ServerPlan,
    args: &ConnectCommand,
    control: &Control,
) -> Result<(), Failure> {
    let (runtime, beginning) = (Runtime::open()?, begin()?);
    args.pcap.begin(control)?;
    let until = args.device.until();
    let server = patiently(until, || Ok(DiskServer::start(plan, &args.options(control)?)?))?;
    let signal = beginning.end();
    let attached = attach(&runtime, server.entry().clone(), args);
    let (mut announced, mut lost) = (Ok(()), None);
    if let Ok(entry) = &attached {
        announced = announce((&runtime, entry), args, until);
        if announced.is_ok() {
            lost = wait_for_end(&signal, &server, args.attach.loss.exit_on_loss);
        }
        detach(&runtime, entry)?;
    }
    let stopped = server.stop().map_err(Failure::from);
    attached?;
    announced?;
    ended(lost, stopped)
}

/// Starts the server, and attaches the disk.
fn in_background(plan: &ServerPlan, args: &ConnectCommand) -> Result<(Runtime, Entry), Failure> {
    let runtime = Runtime::open()?;
    // Report an existing connection before anything is started.
    runtime.check_free(&plan.name)?;
    let waiting = waiting::begin(|| format!("{} to be opened", without_secret(&plan.url)));
    let entry = background::start(&runtime.log(&plan.name))?;
    drop(waiting);
    match attach(&runtime, entry.clone(), args) {
        Ok(entry) => Ok((runtime, entry)),
        Err(e) => {
            let _ = end(&runtime, &entry);
            Err(e)
        }
    }
}

/// Attaches what a server serves to the system, and records the name of the device.
fn attach(runtime: &Runtime, mut entry: Entry, args: &ConnectCommand) -> Result<Entry, Failure> {
    let system = AttachSystem::here();
    // An attached one continues the disk of a server that was killed.
    if args.attach.serve_only || entry.attached {
        return Ok(entry);
    }
    if entry.protocol == "nbd" {
        entry.device = run::free_nbd()?;
    }
    if entry.protocol == "ublk" || entry.protocol == "fuse" {
        entry.device.clone_from(&entry.served);
    }
    let lines = runtime.served(&entry).attach(system);
    let attached = match (entry.protocol.as_str(), &lines[..]) {
        ("loop", [line]) => run::printed_by(line).map(|device| entry.device = device),
        _ => run::run_all(&lines),
    };
    attached.map_err(|e| {
        Error::new(e.kind(), format!("{e}; --print shows all commands, to run them yourself"))
    })?;
    if entry.protocol == "iscsi" {
        entry.device = run::iscsi_disk(&entry.iqn, system);
        if system == AttachSystem::Linux
            && let Some(file) = run::wait_for_commands(&entry.device)
            && !args.device.prints()
        {
            let (device, limit) = (&entry.device, COMMAND_S);
            let _ = writeln!(
                std::io::stdout(),
                "{device}: the system now waits up to {limit} s for a command ({file})"
            );
        }
    }
    entry.attached = true;
    runtime.write(&entry)?;
    Ok(entry)
}

/// Detaches it from the system, if it is attached.
pub fn detach(runtime: &Runtime, entry: &Entry) -> Result<(), Error> {
    if !entry.attached {
        return Ok(());
    }
    run::detach(&runtime.served(entry))
}

/// Says where the device is, once it is there as far as that is asked for.
fn announce(
    (runtime, entry): (&Runtime, &Entry),
    args: &ConnectCommand,
    until: Option<Instant>,
) -> Result<(), Failure> {
    args.device.finish(entry, until)?;
    if args.device.prints() {
        return Ok(());
    }
    let mut out = std::io::stdout().lock();
    let Entry { url, name, served, .. } = entry;
    match entry.device.as_str() {
        "" => writeln!(out, "{url} is at {served}; `weft disconnect {name}` ends this")?,
        device => writeln!(out, "{url} is {device}; `weft disconnect {name}` detaches it")?,
    }
    if !entry.attached && !entry.chap_user.is_empty() {
        let secret = runtime.secret(name);
        writeln!(
            out,
            "initiators log in with CHAP as \"{}\", with the secret in {}",
            entry.chap_user,
            secret.display()
        )?;
    }
    if entry.protocol == "nbd" && !cfg!(unix) {
        writeln!(
            out,
            "warning: every user of this machine can read and write it at that address: NBD has no passwords"
        )?;
    }
    Ok(out.flush()?)
}
