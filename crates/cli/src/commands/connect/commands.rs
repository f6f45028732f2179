//! The commands that attach a device and detach it, for people to run.

use crate::args::attach::AttachArgs;
use crate::args::given_options::GivenOptions;
use crate::args::pcap::PcapArgs;
use crate::connection::ConnectArgs;
use clap::ArgMatches;
use std::io::Write;
use std::path::Path;
use weft_endpoint::url::ISCSI_PORT;
use weft_server::attach::entries::Runtime;
use weft_server::attach::plan::{
    AttachProtocol, AttachSystem, AttachedExport, COMMAND_S, CommandLine, File,
};
use weft_server::attach::run;
use weft_server::attach::runtime_place::{DIRECTORY, OF_SYSTEM};
use weft_server::attach::server::ServerPlan;
use weft_server::secret::VARIABLES;

/// Prints them. `matches` are the options that were given.
pub fn print(plan: &ServerPlan, serve_only: bool, matches: &ArgMatches) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    let (system, runtime) = (AttachSystem::here(), Runtime::named());
    let served = served(plan, &runtime);
    let is_set = |name: &&&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    for name in VARIABLES.iter().filter(is_set) {
        writeln!(out, "# with {name} set, as it is here")?;
    }
    let weft = |words| weft(words, &runtime, system);
    writeln!(out, "{}", weft(connect(plan, serve_only, matches)))?;
    if !serve_only {
        attach(&mut out, &served, system)?;
    }
    writeln!(out, "# to detach: {}", weft(vec!["disconnect".into(), plan.name.clone()]))
}

/// The commands of the system, between those of weft.
fn attach(
    out: &mut impl Write,
    served: &AttachedExport,
    system: AttachSystem,
) -> std::io::Result<()> {
    for line in served.attach(system) {
        writeln!(out, "{line}")?;
    }
    if matches!(served, AttachedExport::Nbd { .. }) {
        let text = "for blocks of 4096 bytes: nbd-client -b 4096 …, as nbd-client does not learn their size";
        writeln!(out, "# {text}")?;
    }
    if matches!(served, AttachedExport::Loop { .. }) {
        writeln!(out, "# for blocks of 4096 bytes: losetup --sector-size 4096 …")?;
    }
    if matches!(served, AttachedExport::Iscsi { .. }) && system == AttachSystem::Linux {
        writeln!(out, "echo {COMMAND_S} >/sys/block/sdX/device/timeout # sdX: the new disk")?;
    }
    // The end of its server is the end of a file by FUSE.
    let is_file = matches!(served, AttachedExport::Fuse(_));
    for line in served.detach(system).iter().filter(|_| !is_file) {
        writeln!(out, "# to detach: {line}")?;
    }
    Ok(())
}

/// What is served, as far as it is known before.
fn served(plan: &ServerPlan, runtime: &Runtime) -> AttachedExport {
    let name = &plan.name;
    match plan.protocol {
        AttachProtocol::Iscsi => AttachedExport::Iscsi {
            iqn: plan.iqn(),
            port: port(plan),
            secret: runtime.secret(name),
            target_secret: runtime.target_secret(name),
            by_daemon: plan.by_daemon,
        },
        AttachProtocol::Nbd => AttachedExport::Nbd {
            socket: runtime.socket(name),
            device: "/dev/nbd0".into(),
            block_bytes: None,
        },
        AttachProtocol::Ublk => AttachedExport::Ublk,
        AttachProtocol::Fuse => AttachedExport::Fuse(file(plan, runtime)),
        AttachProtocol::Loop => AttachedExport::Loop {
            file: file(plan, runtime),
            block_bytes: None,
            device: "/dev/loopN".into(),
        },
    }
}

fn file(plan: &ServerPlan, runtime: &Runtime) -> File {
    File { directory: plan.directory(runtime), by_root: run::is_root() }
}

fn port(plan: &ServerPlan) -> u16 {
    if plan.port == 0 { ISCSI_PORT } else { plan.port }
}

/// The words of the command that serves the device, with all options that were given. A disk by
/// ublk and a file by FUSE are attached by that.
fn connect(plan: &ServerPlan, serve_only: bool, matches: &ArgMatches) -> Vec<String> {
    let mut words = vec!["connect".to_owned(), plan.url.clone(), "--as".into()];
    // The rest of a loop device is up to commands of the system.
    let protocol =
        if plan.protocol == AttachProtocol::Loop { AttachProtocol::Fuse } else { plan.protocol };
    words.extend([protocol.to_string(), "--name".into(), plan.name.clone()]);
    if let Some(directory) = &plan.directory {
        words.extend(["--directory".into(), directory.display().to_string()]);
    }
    if plan.protocol == AttachProtocol::Iscsi || plan.port != 0 {
        words.extend(["--port".into(), port(plan).to_string()]);
    }
    if serve_only || !matches!(protocol, AttachProtocol::Ublk | AttachProtocol::Fuse) {
        words.push("--serve-only".into());
    }
    let others = [
        GivenOptions::of::<AttachArgs>(matches).without(&["as", "serve-only"]),
        GivenOptions::of::<ConnectArgs>(matches),
        GivenOptions::of::<PcapArgs>(matches),
    ];
    words.extend(others.iter().flat_map(GivenOptions::words).map(str::to_owned));
    words
}

/// A command of weft that uses the same directory, whoever runs it.
fn weft(words: Vec<String>, runtime: &Runtime, system: AttachSystem) -> String {
    let line = CommandLine([vec!["weft".to_owned()], words].concat());
    let own = runtime.path().display().to_string();
    match system {
        AttachSystem::Windows if std::env::var_os(DIRECTORY).is_some_and(|it| !it.is_empty()) => {
            format!("$env:{DIRECTORY} = {}; {line}", CommandLine(vec![own]))
        }
        AttachSystem::Windows => line.to_string(),
        _ if runtime.path() == Path::new(OF_SYSTEM) => line.to_string(),
        _ => format!("env {DIRECTORY}={} {line}", CommandLine(vec![own])),
    }
}
