//! `weft serve`: serves sources on listening ports.

use super::child::for_each_line_of_input;
use super::orders::carry_out;
use crate::connection::{ConnectArgs, parse_nqn};
use crate::exit::Failure;
use crate::login::LoginArgs;
use crate::loss::{LOOK, LossArgs, ended, lost};
use crate::masks::Masks;
use clap::{Args, ValueEnum};
use std::collections::HashSet;
use std::io::Write;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_block::{BlockDevice, Error, ErrorKind, Opening, units};
use weft_endpoint::Control;
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::identity::subsystem_nqn;
use weft_endpoint::inventory::{Inventory, InventoryBuilder, InventoryError, LiveInventory, NamespaceConfig, SubsystemConfig};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::url::{NVME_TCP, NVME_TCP_PORT};
use weft_io::counters::Snapshot;
use weft_io::disk::DiskMode;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;

/// Options of `weft serve`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  weft serve ram:1GiB
      a RAM disk on 127.0.0.1:4420
  weft serve file:/srv/disk.img,size=100GiB --listen 0.0.0.0:4420 --allow-host nqn.2014-08.org.nvmexpress:uuid:…
      a file, created sparse, for one host in the network
  weft serve nvme+tcp://array.example/nqn.2014-08.org.example:vol1 --listen nvme+tcp://127.0.0.1:0
      a gateway to another target, on a free port
  weft serve /dev/nvme0n1 --name fast --listen nbd://127.0.0.1:10809 --listen nbd+unix:///?socket=/run/fast.sock
      a disk for NBD clients, by name, on a port and on a Unix socket
  weft serve iscsi://me@array.example/iqn.2014-08.org.example:vol1/0 --chap-secret-file /etc/weft/secret
      a gateway to a logical unit of an iSCSI target
  weft serve file:/srv/disk.img --listen iscsi://0.0.0.0:3260 --login-user alice --login-secret-file alice.secret
      a file as an iSCSI disk, for initiators that know the secret")]
pub struct ServeArgs {
    /// Sources: ram:1GiB, null:250GiB, file:/srv/disk.img, nvme+tcp://HOST/NQN, iscsi://HOST/IQN/LUN, nbd://HOST/NAME, ro:SOURCE, …; they become namespaces 1, 2, … of one subsystem
    #[arg(required = true)]
    source: Vec<String>,
    /// Address to listen on: [nvme+tcp://]ADDR:PORT, iscsi://ADDR:PORT, nbd://ADDR:PORT, nbds://ADDR:PORT or nbd+unix:///?socket=PATH; port 0 picks a free port; may be repeated [default: nvme+tcp://127.0.0.1:4420]
    #[arg(long)]
    listen: Vec<String>,
    /// Name of a source, for NBD; the first --name belongs to the first source [default: 1, 2, …]
    #[arg(long)]
    name: Vec<String>,
    /// Name of the NVMe subsystem [default: generated once and kept]
    #[arg(long)]
    nqn: Option<String>,
    /// NVMe host that may connect, optionally with the namespaces that it sees; may be repeated [default: any host]
    #[arg(long, value_name = "NQN[=NSID,…]")]
    allow_host: Vec<String>,
    /// Event loops [default: one per core that this process may use]
    #[arg(long)]
    threads: Option<usize>,
    /// Cores to pin the event loops to, as in 0,2-3
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_parser = crate::cpus::parse)]
    cpus_allowed: Option<::std::vec::Vec<usize>>,
    /// Never sleep: lower latency, but one busy core per event loop
    #[arg(long)]
    poll: bool,
    /// Refuse writes to all sources; ro:SOURCE does this for one source
    #[arg(long)]
    read_only: bool,
    /// I/O method for files
    #[arg(long, value_enum, default_value_t = DiskIo::Auto)]
    disk_io: DiskIo,
    /// Maximum payload memory per event loop
    #[arg(long, default_value = "256MiB", value_parser = units::parse_size)]
    pool: u64,
    /// End when standard input is closed; answer the line `counters` with the loops' counters as JSON; `inventory …` changes what
    /// is served
    #[arg(long, hide = true)]
    until_eof: bool,
    #[command(flatten)]
    loss: LossArgs,
    #[command(flatten)]
    connect: ConnectArgs,
    #[command(flatten)]
    login: LoginArgs,
}

/// `--disk-io`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum DiskIo {
    /// io_uring if available, otherwise threads.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// A thread pool.
    Threads,
}

impl From<DiskIo> for DiskMode {
    fn from(io: DiskIo) -> Self {
        match io {
            DiskIo::Auto => Self::Auto,
            DiskIo::Uring => Self::Uring,
            DiskIo::Threads => Self::Threads,
        }
    }
}

/// Serves until a signal arrives.
pub fn run(args: ServeArgs, control: &Control) -> Result<(), Failure> {
    let listen = args.listen();
    args.check_names()?;
    let nqn = args.nqn.as_deref().map_or_else(|| Ok(subsystem_nqn()?), parse_nqn)?;
    let hosts = Masks::parse("--allow-host", &args.allow_host, (1, args.source.len()), parse_nqn)?;
    let initiators = args.login.initiators_allowed(args.source.len())?;
    let loops = Loops::start(&LoopsConfig {
        threads: args.threads,
        cpus: args.cpus_allowed.clone(),
        poll: args.poll,
        disk: args.disk_io.into(),
        pool_bytes: args.pool as usize,
    })?;
    let devices = args.open(&loops, control)?;
    let inventory = args.inventory(nqn, devices, &hosts, &initiators).map_err(Error::from)?;
    let config =
        ExportConfig { inventory: LiveInventory::new(inventory), iscsi: args.login.settings()?, tls: args.connect.tls() };
    let exports = export::start(&config, &listen, loops.remotes())?;
    let signal = signals(args.until_eof)?;
    announce(&exports, &config.inventory.now(), &listen)?;
    let lost = loop {
        match args.next(&signal) {
            Asked::Counters => tell_counters(&loops)?,
            Asked::Change(order) => args.change(&order, &config.inventory, control)?,
            Asked::Look => {
                if let Some(url) = lost(&config.inventory) {
                    break Some(url);
                }
            }
            Asked::End => break None,
        }
    };
    tracing::info!("stopping: {} connections are open", exports.connections());
    for (n, counters) in loops.counters().iter().enumerate() {
        let counted: Vec<String> = counters.entries().map(|(name, count)| format!("{name}={count}")).collect();
        tracing::info!("loop {n}: {}", counted.join(" "));
    }
    let stopped = exports.stop().map_err(Failure::from);
    drop(config);
    loops.stop()?;
    ended(lost, stopped)
}

impl ServeArgs {
    /// What is asked for next, by whoever may.
    fn next(&self, signal: &mpsc::Receiver<Asked>) -> Asked {
        let limit = if self.loss.exit_on_loss { LOOK } else { Duration::MAX };
        match signal.recv_timeout(limit) {
            Ok(asked) => asked,
            Err(mpsc::RecvTimeoutError::Timeout) => Asked::Look,
            // Nobody is left to say so.
            Err(mpsc::RecvTimeoutError::Disconnected) => Asked::End,
        }
    }

    fn listen(&self) -> Vec<String> {
        if self.listen.is_empty() {
            return vec![format!("{NVME_TCP}127.0.0.1:{NVME_TCP_PORT}")];
        }
        // ADDR:PORT without a scheme means NVMe/TCP.
        let url = |place: &String| if place.contains("://") { place.clone() } else { format!("{NVME_TCP}{place}") };
        self.listen.iter().map(url).collect()
    }

    /// The URL with which a source is opened.
    fn url(&self, source: &str) -> String {
        if self.read_only { format!("ro:{source}") } else { source.to_owned() }
    }

    /// The name of each source: the given names, then numbers.
    fn names(&self) -> impl Iterator<Item = String> {
        self.name.iter().cloned().chain((self.name.len() + 1..).map(|n| n.to_string())).take(self.source.len())
    }

    fn check_names(&self) -> Result<(), Failure> {
        if self.name.len() > self.source.len() {
            let text = format!(
                "there are {} --name for {} sources; give at most one for each source",
                self.name.len(),
                self.source.len()
            );
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        let mut seen = HashSet::new();
        match self.names().find(|name| name.is_empty() || !seen.insert(name.clone())) {
            None => Ok(()),
            Some(name) if name.is_empty() => Err(Failure::of(ErrorKind::Usage, "--name is empty; give each source a name")),
            Some(name) => {
                Err(Failure::of(ErrorKind::Usage, format!("two sources have the name \"{name}\"; give others with --name")))
            }
        }
    }

    /// One subsystem with the sources as namespaces 1, 2, …; as logical units they are numbered from 0.
    fn inventory(
        &self,
        nqn: Nqn,
        devices: Vec<Arc<dyn BlockDevice>>,
        hosts: &Masks<Nqn>,
        initiators: &Masks<Name>,
    ) -> Result<Inventory, InventoryError> {
        let mut builder = InventoryBuilder::default();
        let subsystem = SubsystemConfig::new(nqn.clone());
        builder.add_subsystem(SubsystemConfig { hosts: hosts.names(), initiators: initiators.names(), ..subsystem })?;
        for ((lun, device), name) in (0..).zip(devices).zip(self.names()) {
            let (hosts, initiators) = (hosts.of(lun + 1), initiators.of(lun));
            builder.add_next(&nqn, NamespaceConfig { hosts, initiators, ..NamespaceConfig::named(device, &name) })?;
        }
        builder.build()
    }

    /// Executes a command from the process that started this program, and prints the result.
    fn change(&self, order: &str, inventory: &LiveInventory, control: &Control) -> Result<(), Failure> {
        let options = self.connect.options(1, control)?;
        let Some(nqn) = inventory.now().subsystems().first().map(|subsystem| subsystem.nqn.clone()) else { return Ok(()) };
        let open = |url: &str| weft_endpoint::open(&self.url(url), &options).map_err(|e| e.to_string());
        let mut out = std::io::stdout().lock();
        match carry_out(order, inventory, &nqn, open) {
            Ok(generation) => writeln!(out, "inventory: generation {generation}")?,
            Err(e) => writeln!(out, "inventory: cannot {order}: {e}")?,
        }
        Ok(out.flush()?)
    }

    /// Opens the sources concurrently. By default a remote source has as many connections as there are loops.
    fn open(&self, loops: &Loops, control: &Control) -> Result<Vec<Arc<dyn BlockDevice>>, Failure> {
        let options = self.connect.options(u16::try_from(loops.remotes().len()).unwrap_or(u16::MAX), control)?;
        let begin = |source: &String| {
            let url = self.url(source);
            let named = url.clone();
            let opening = weft_endpoint::begin(&url, &options).map_err(|e| e.of(&url))?;
            Ok::<_, Error>(opening.map_err(move |e| e.of(&named)))
        };
        let opening = self.source.iter().map(begin).collect::<Result<Vec<_>, _>>()?;
        Ok(Opening::all(opening).wait()?)
    }
}

/// Requests to a running server.
enum Asked {
    End,
    /// To look after the sources.
    Look,
    Counters,
    /// A command of [`super::orders`].
    Change(String),
}

/// Prints the sum of the counters of all loops.
fn tell_counters(loops: &Loops) -> Result<(), Failure> {
    let sum = loops.counters().iter().fold(Snapshot::default(), |sum, counters| sum.plus(counters));
    let counters: serde_json::Map<_, _> = sum.entries().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "counters {}", serde_json::Value::Object(counters))?;
    Ok(out.flush()?)
}

/// A channel that receives SIGTERM and SIGINT and, if requested, the end of standard input.
fn signals(until_eof: bool) -> Result<mpsc::Receiver<Asked>, Failure> {
    let (give, take) = mpsc::channel();
    if until_eof {
        let give = give.clone();
        std::thread::spawn(move || {
            // The receiver is gone if a signal came first.
            for_each_line_of_input(|line| {
                if line == "counters" {
                    let _ = give.send(Asked::Counters);
                } else if let Some(order) = line.strip_prefix("inventory ") {
                    let _ = give.send(Asked::Change(order.to_owned()));
                }
            });
            let _ = give.send(Asked::End);
        });
    }
    let told = ctrlc::set_handler(move || {
        // At a second signal the receiver may be gone.
        let _ = give.send(Asked::End);
    });
    told.map_err(|e| Failure::new(1, format!("cannot catch signals: {e}")))?;
    Ok(take)
}

fn announce(exports: &Exports, inventory: &Inventory, listen: &[String]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    for namespace in inventory.namespaces() {
        let (nsid, device) = (namespace.nsid, &namespace.device);
        let geometry = device.geometry();
        let size = units::format_size(geometry.bytes());
        writeln!(out, "namespace {nsid}: {}, {size} in blocks of {} bytes", device.url(), geometry.block_bytes)?;
    }
    for url in exports.urls() {
        writeln!(out, "listening on {url}")?;
    }
    for any in ["0.0.0.0", "[::]"].into_iter().filter(|any| listen.iter().any(|url| url.contains(&format!("://{any}")))) {
        writeln!(out, "{any} means every address of this machine; these URLs and commands use one of them")?;
    }
    for (system, command) in exports.each().iter().filter_map(|export| export.attach_hint()) {
        writeln!(out, "{:<12} {command}", format!("from {system}:"))?;
    }
    if let Some(url) = exports.urls().first() {
        writeln!(out, "from weft:   weft bench {url} --rw=randread --bs=4k --iodepth=32 --runtime=5s")?;
    }
    Ok(out.flush()?)
}
