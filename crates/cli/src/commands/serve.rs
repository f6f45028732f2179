//! `weft serve`: serves sources on listening ports.

mod asked;
mod check;
mod desired;
mod security;

use crate::announce::AnnounceArgs;
use crate::connection::ConnectArgs;
use crate::exit::{Failure, at_once, printed};
use crate::exit_on_loss::{LossArgs, ended};
use crate::group_args::GroupArgs;
use crate::login::LoginArgs;
use crate::metrics_args::MetricsArgs;
use crate::sharing_args::SharingArgs;
use crate::source_options::CommandLineOptions;
use crate::takeover_args::TakeoverArgs;
use asked::{Asked, signals};
use clap::{Args, ValueEnum};
use security::SecurityArgs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use weft_block::{Error, ErrorKind, units};
use weft_endpoint::export::{self, ExportConfig, Exports};
use weft_endpoint::inventory::{ControllerClaims, Inventory, Sharing};
use weft_endpoint::loops::Loops;
use weft_endpoint::reservations::ReservationTable;
use weft_endpoint::{ConnectOptions, Control};
use weft_io::counters::Snapshot;
use weft_io::disk::DiskMode;
use weft_io::listening::Listening;
use weft_server::attach::memory::protect;
use weft_server::config::{Desired, SourceOptions};
use weft_server::group::{Group, Joined};
use weft_server::management::running::{Running, manage};
use weft_server::metrics::MetricsServer;
use weft_server::psk;
use weft_server::served::{self, Opener, Served, State};
use weft_server::service::takeover::Giver;
use weft_server::service::{activation, notify};
use weft_server::sources::{LOOK, lost};

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
  weft serve rbd:rbd/disk,id=weft --listen 0.0.0.0:4420
      a gateway to an image of Ceph
  weft serve file:/srv/disk.img --listen iscsi://0.0.0.0:3260 --login-user alice --login-secret-file alice.secret
      a file as an iSCSI disk, for initiators that know the secret
  weft serve /dev/nvme0n1 --listen 0.0.0.0:4420 --dhchap-secret-file /etc/weft/hosts.secret
      a disk for NVMe hosts that know the secret; weft gen-dhchap-key makes one
  weft serve /dev/nvme0n1 --listen 0.0.0.0:4420 --tls --tls-key-file /etc/weft/keys
      a disk for NVMe/TCP hosts that have a key, encrypted; weft gen-tls-key makes keys
  weft serve /dev/nvme0n1 --listen 0.0.0.0:4420 --concat --dhchap-secret-file /etc/weft/hosts.secret
      the same for hosts that know the secret, encrypted with keys that are made anew for each connection (Linux 6.15: nvme connect --concat)
  weft serve /dev/nvme0n1 --control disks --metrics 127.0.0.1:9464
      a disk, with a named control socket and metrics for Prometheus
  weft serve /dev/nvme0n1 --takeover disks
      the same disk by a new process, which replaces that one without refusing a connection
  weft serve --config /etc/weft/weft.toml
      all that a configuration file asks for; weft config example prints one
  weft serve --cluster /etc/ceph/ceph.conf,id=weft --group hall --gateway a --listen 0.0.0.0:4420
      a gateway of the group hall, which serves images of Ceph; weft apply says which")]
pub struct ServeArgs {
    /// Sources: ram:1GiB, null:250GiB, file:/srv/disk.img, nvme+tcp://HOST/NQN,
    /// iscsi://HOST/IQN/LUN, nbd://HOST/NAME, rbd:POOL/IMAGE, readonly:SOURCE, …; they become
    /// namespaces 1, 2, … of one subsystem
    #[arg(required_unless_present_any = ["config", "group"])]
    source: Vec<String>,
    /// Configuration file instead of sources and most other options; SIGHUP applies it again, as
    /// weft apply does
    #[arg(long, value_name = "FILE", conflicts_with_all = check::OF_FILE)]
    config: Option<PathBuf>,
    /// Address to listen on: [nvme+tcp://]ADDR:PORT, iscsi://ADDR:PORT, nbd://ADDR:PORT,
    /// nbds://ADDR:PORT or nbd+unix:///?socket=PATH; port 0 picks a free port; may be repeated
    /// [default: nvme+tcp://127.0.0.1:4420]
    #[arg(long)]
    listen: Vec<String>,
    /// Name of a source, for NBD; the first --name belongs to the first source [default: 1, 2, …]
    #[arg(long)]
    name: Vec<String>,
    /// Name of the NVMe subsystem [default: generated once and kept]
    #[arg(long)]
    nqn: Option<String>,
    /// NVMe host that may connect, optionally with the namespaces that it sees; may be repeated
    /// [default: any host]
    #[arg(long, value_name = "NQN[=NSID,…]")]
    allow_host: Vec<String>,
    /// Pre-shared keys for sources of NVMe/TCP, which are then connected to with TLS only; --tls is
    /// about the hosts of this server
    #[arg(long, value_name = "FILE")]
    source_tls_key_file: Option<PathBuf>,
    /// Event loops [default: one per core that this process may use]
    #[arg(long, value_parser = weft_server::values::loops::threads)]
    threads: Option<usize>,
    /// Cores to pin the event loops to, as in 0,2-3
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_parser = weft_server::values::cores::parse)]
    cpus_allowed: Option<::std::vec::Vec<usize>>,
    /// Never sleep: lower latency, but one busy core per event loop
    #[arg(long)]
    poll: bool,
    /// Refuse writes to all sources; readonly:SOURCE does this for one source
    #[arg(long)]
    read_only: bool,
    /// Offer no reservations: needed where other processes or gateways serve the same data, whose
    /// hosts would not be kept out
    #[arg(long)]
    no_reservations: bool,
    /// I/O method for files
    #[arg(long, value_enum, default_value_t = DiskIo::Auto)]
    disk_io: DiskIo,
    /// Maximum payload memory per event loop
    #[arg(long, default_value = "256MiB", value_parser = weft_server::values::loops::pool)]
    pool: u64,
    /// Time within which a file or disk of this machine must complete an operation; 0s: no limit
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = units::parse_duration)]
    disk_timeout: Duration,
    /// What a host may use of all sources together: operations per second, bytes per second, or
    /// both, as in iops=10k,bw=100MB; a host is a host NQN, an iSCSI initiator name or an NBD
    /// client's address; may be repeated
    #[arg(long, value_name = "HOST=iops=N[,bw=SIZE]")]
    host_limit: Vec<String>,
    /// End when standard input is closed; answer the line `counters` with the loops' counters as
    /// JSON; `inventory …` changes what is served
    #[arg(long, hide = true)]
    until_eof: bool,
    /// Socket for commands that manage this server, as a path or a name [default: one in the
    /// runtime directory, named by the process]
    #[arg(long, value_name = "PATH|NAME")]
    control: Option<String>,
    #[command(flatten)]
    announce: AnnounceArgs,
    #[command(flatten)]
    takeover: TakeoverArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    sharing: SharingArgs,
    #[command(flatten)]
    group: GroupArgs,
    #[command(flatten)]
    loss: LossArgs,
    #[command(flatten)]
    security: SecurityArgs,
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
    if args.sharing.protect_memory {
        // Before there are threads: they inherit it.
        protect();
    }
    let listening = Listening::default();
    let mut desired = args.desired(activation::take(&listening)?, &listening)?;
    let metrics = args.metrics.config();
    metrics.check()?;
    args.sharing.with(&desired).check()?;
    let places = args.check(&desired, control)?;
    args.takeover.takeover().run(&listening, places)?;
    let joined = Joined::join(args.group.joining()?.as_ref(), &mut desired)?;
    let loops = Loops::start(&desired.loops)?;
    let served = args.begin(&mut desired, joined.group(), &loops, control)?;
    activation::check(&listening)?;
    let exports = Arc::clone(&served.exports);
    let (end, signal) = signals(args.until_eof, args.config.is_some())?;
    let running = Running {
        inventory: Arc::clone(&served.inventory),
        exports: Arc::clone(&exports),
        loops: loops.remotes().to_vec(),
        giver: Giver::new(listening, {
            let end = end.clone();
            move || _ = end.send(Asked::End)
        }),
        served: Arc::clone(&served),
    };
    let giver = running.giver.clone();
    let announced = args.announce.start(&exports.urls(), &desired.listen)?;
    let metrics = metrics.start(&running)?;
    let managed = manage(args.control_name(&desired), running)?;
    args.warn(&desired);
    printed(announce(&exports, &served.inventory.now(), &desired, metrics.as_ref()))?;
    notify::ready(args.takeover.from().is_some());
    notify::watch(loops.remotes());
    let group = joined.serve(&served, move |ending| _ = end.send(Asked::Out(ending)))?;
    let lost = serve(&signal, &served, &loops, desired.exit_on_loss)?;
    notify::stopping();
    if let Some(group) = &group {
        group.leave();
    }
    drop((managed, metrics, announced));
    tracing::info!("stopping: {} connections are open", exports.connections());
    log_counters(&loops);
    if !giver.has_given() {
        exports.withdraw();
    }
    let stopped = exports.stop().map_err(Failure::from);
    drop((exports, served));
    loops.stop()?;
    if let Some(group) = group.filter(|_| stopped.is_ok()) {
        group.closed();
    }
    ended(lost, stopped)
}

/// Does what is asked, until it is time to end; the source that is lost, if that is why.
fn serve(
    signal: &mpsc::Receiver<Asked>,
    served: &Arc<Served>,
    loops: &Loops,
    looks: bool,
) -> Result<Option<String>, Failure> {
    loop {
        match next(signal, looks) {
            Asked::Counters => tell_counters(loops)?,
            Asked::Change(order) => served::orders::carry_out(&order, served)?,
            Asked::Again => served.reload(),
            Asked::Look => {
                if let Some(url) = lost(&served.inventory) {
                    return Ok(Some(url));
                }
            }
            // Nothing that is under way is of any effect any more: hosts are served best by
            // connections that close at once.
            Asked::Out(ending) => at_once(&Failure::of(ErrorKind::Refused, ending.to_string())),
            Asked::End => return Ok(None),
        }
    }
}

/// What is asked for next, by whoever may.
fn next(signal: &mpsc::Receiver<Asked>, looks: bool) -> Asked {
    let limit = if looks { LOOK } else { Duration::MAX };
    match signal.recv_timeout(limit) {
        Ok(asked) => asked,
        Err(mpsc::RecvTimeoutError::Timeout) => Asked::Look,
        // Nobody is left to say so.
        Err(mpsc::RecvTimeoutError::Disconnected) => Asked::End,
    }
}

impl ServeArgs {
    /// What opens the sources.
    fn opener(&self, desired: &Desired, queues: u16, control: &Control) -> Result<Opener, Failure> {
        let options = match &self.config {
            Some(_) => CommandLineOptions.options(&desired.connect, queues, control)?,
            None => self.source_options(queues, control)?,
        };
        let options = LossArgs { exit_on_loss: desired.exit_on_loss }.limit(options);
        let options = ConnectOptions { disk_timeout: desired.disk_timeout, ..options };
        Ok(Opener { options: self.sharing.with(desired).options(options) })
    }

    /// Options of connections to sources: `--tls` is about those that this server accepts.
    fn source_options(&self, queues: u16, control: &Control) -> Result<ConnectOptions, Failure> {
        let mut options = self.connect.options_with(queues, control, self.source_secrets()?)?;
        let keys = self.source_tls_key_file.as_deref();
        options.tls.psk = keys
            .map(|file| psk::required(Some(file), None).map(|keys| self.connect.placed(keys)))
            .transpose()?;
        options.tls.concat = self.security.source_concat();
        if options.tls.concat && options.secrets.host.is_none() {
            let text =
                "--source-concat needs the secret of this server: give --source-dhchap-secret-file";
            return Err(Failure::of(ErrorKind::Usage, text));
        }
        Ok(options)
    }

    /// Opens the sources and listens. A gateway of a group that cannot serve what the group has
    /// serves nothing at first, and tries again.
    fn begin(
        &self,
        desired: &mut Desired,
        group: Option<&Arc<Group>>,
        loops: &Loops,
        control: &Control,
    ) -> Result<Arc<Served>, Failure> {
        let begun = self.start((desired, group), loops, control);
        match (begun, group) {
            (Err(e), Some(group)) if !desired.subsystems.is_empty() => {
                group.serve_nothing(desired, &e.into_error());
                self.start((desired, Some(group)), loops, control)
            }
            (begun, _) => begun,
        }
    }

    /// Opens the sources and listens. By default a remote source has as many connections as there
    /// are loops.
    fn start(
        &self,
        (desired, group): (&Desired, Option<&Arc<Group>>),
        loops: &Loops,
        control: &Control,
    ) -> Result<Arc<Served>, Failure> {
        let queues = u16::try_from(loops.remotes().len()).unwrap_or(u16::MAX);
        let mut opener = self.opener(desired, queues, control)?;
        opener.options.ceph = group.map(|group| group.access.clone()).unwrap_or_default();
        opener.options.ceph_in_group = group.is_some();
        let mut range = self.sharing.with(desired).range();
        let mut reservations = ReservationTable::of_this_user();
        if let Some(group) = group {
            (range.sharing, reservations) = (Sharing::Group, group.reservations.clone());
        }
        let claims = ControllerClaims::new(range);
        let devices = self.takeover.takeover().open(|| {
            desired.subsystems.iter().try_for_each(|subsystem| claims.claim(&subsystem.nqn))?;
            opener.open(desired.namespaces().map(|(_, namespace)| namespace))
        })?;
        let inventory = served::inventory(&State::of(desired), devices, (range, reservations))
            .map_err(Error::from)?;
        self.limit_hosts(&inventory)?;
        let config = ExportConfig {
            inventory: Arc::clone(&inventory),
            iscsi: desired.iscsi.clone(),
            tls: desired.tls.clone(),
        };
        self.announce.refer(&config.inventory)?;
        let exports = Arc::new(export::start(&config, &desired.listen, loops.remotes())?);
        Ok(Served::new(
            inventory,
            exports,
            (opener, claims),
            desired,
            (self.config.clone(), Arc::new(CommandLineOptions)),
            group.cloned(),
        ))
    }

    /// Applies `--host-limit`.
    fn limit_hosts(
        &self,
        inventory: &weft_endpoint::inventory::LiveInventory,
    ) -> Result<(), Failure> {
        for (host, limit) in self.host_limits()? {
            let wrong =
                |why: String| Failure::of(ErrorKind::Usage, format!("--host-limit {host}: {why}"));
            inventory.host_limits().set(host, limit).map_err(wrong)?;
        }
        Ok(())
    }
}

fn log_counters(loops: &Loops) {
    for (n, counters) in loops.counters().iter().enumerate() {
        let counted: Vec<String> =
            counters.entries().map(|(name, count)| format!("{name}={count}")).collect();
        tracing::info!("loop {n}: {}", counted.join(" "));
    }
}

/// Prints the sum of the counters of all loops.
fn tell_counters(loops: &Loops) -> Result<(), Failure> {
    let sum = loops.counters().iter().fold(Snapshot::default(), |sum, counters| sum.plus(counters));
    let counters: serde_json::Map<_, _> =
        sum.entries().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let mut out = std::io::stdout().lock();
    writeln!(out, "counters {}", serde_json::Value::Object(counters))?;
    Ok(out.flush()?)
}

fn announce(
    exports: &Exports,
    inventory: &Inventory,
    desired: &Desired,
    metrics: Option<&MetricsServer>,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    for namespace in inventory.namespaces() {
        let (nsid, device) = (namespace.nsid, &namespace.device);
        let geometry = device.geometry();
        let size = units::format_size(geometry.bytes());
        writeln!(
            out,
            "namespace {nsid}: {}, {size} in blocks of {} bytes",
            device.url(),
            geometry.block_bytes
        )?;
    }
    let urls = exports.urls();
    // Each subsystem has URLs of its own, and a group may have none yet.
    for url in if urls.is_empty() { &desired.listen } else { &urls } {
        writeln!(out, "listening on {url}")?;
    }
    if let Some(metrics) = metrics {
        writeln!(out, "metrics at {}", metrics.url())?;
    }
    for any in ["0.0.0.0", "[::]"]
        .into_iter()
        .filter(|any| desired.listen.iter().any(|url| url.contains(&format!("://{any}"))))
    {
        writeln!(
            out,
            "{any} means every address of this machine; these URLs and commands use one of them"
        )?;
    }
    for (system, command) in exports.attach_hints() {
        writeln!(out, "{:<12} {command}", format!("from {system}:"))?;
    }
    if let Some(url) = exports.urls().first() {
        let proof = security::proof(desired, url);
        writeln!(
            out,
            "from weft:   weft bench {url}{proof} --rw=randread --bs=4k --iodepth=32 --runtime=5s"
        )?;
    }
    out.flush()
}
