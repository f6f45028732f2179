//! The lanes of a study, and the processes that serve them.

use super::super::child::Spawned;
use super::StudyArgs;
use crate::exit::Failure;
use clap::ValueEnum;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use weft_bench::results::{Lane as LaneFacts, Suite};
use weft_bench::study::{Lane, ReadCounters};
use weft_block::{ErrorKind, grammar};
use weft_endpoint::Control;
use weft_endpoint::source::ConnectOptions;

/// The default device of a study.
const SOURCE: &str = "ram:1GiB";

/// The default device of the null suite.
const NULL_SOURCE: &str = "null:250GiB";

/// A modelled flash device for servers; a device of the same size without data follows it in the URL.
const FLASH: &str = "delay:read=80us,write=20us,depth=32,rate=7GB";

/// Maximum region of the ceiling's server, because it takes up memory of this machine.
const CEILING_BYTES_MAX: u64 = 1 << 30;

/// The same for a device without data: small enough to stay in a cache.
const NULL_CEILING_BYTES: u64 = 64 << 10;

/// Connections of each lane of the null suite, and the entries of their queues. Together they hold all 256 jobs: an iSCSI session
/// takes 128 commands, and an NVMe queue one less than its entries.
const NULL_QUEUES: u16 = 2;
/// See [`NULL_QUEUES`].
const NULL_QUEUE_SIZE: u16 = 129;

/// How long a lane may be without its target; then the study fails instead of waiting.
const OUTAGE: Duration = Duration::from_secs(30);

/// A path to the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LaneName {
    /// The device itself, in the same process
    Local,
    /// A modelled flash device of the same size, in the same process; network lanes are then measured on it too
    Flash,
    /// NVMe/TCP
    #[value(name = "nvme+tcp")]
    NvmeTcp,
    /// NVMe over RDMA; needs --address
    #[value(name = "nvme+rdma")]
    NvmeRdma,
    /// iSCSI
    Iscsi,
    /// NBD
    Nbd,
}

impl LaneName {
    /// The default lanes; if the user names a device, the modelled device is not added.
    fn usual(suite: Suite, names_device: bool) -> Vec<Self> {
        match suite {
            Suite::Patterns if names_device => vec![Self::Local, Self::NvmeTcp],
            Suite::Patterns => vec![Self::Local, Self::Flash, Self::NvmeTcp],
            Suite::Null => vec![Self::Iscsi, Self::NvmeTcp],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Local => LaneFacts::LOCAL,
            Self::Flash => LaneFacts::FLASH,
            Self::NvmeTcp => LaneFacts::NVME_TCP,
            Self::NvmeRdma => LaneFacts::NVME_RDMA,
            Self::Iscsi => LaneFacts::ISCSI,
            Self::Nbd => LaneFacts::NBD,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Local => "The device itself, in the same process",
            Self::Flash => "A modelled flash device, in the same process",
            Self::NvmeTcp => "NVMe/TCP",
            Self::NvmeRdma => "NVMe over RDMA",
            Self::Iscsi => "iSCSI",
            Self::Nbd => "NBD",
        }
    }

    /// Whether the lane reaches its device without a network.
    fn is_local(self) -> bool {
        matches!(self, Self::Local | Self::Flash)
    }

    /// The scheme of its URLs.
    fn scheme(self) -> String {
        format!("{}://", self.name())
    }

    /// The lane for the URL of an existing target.
    fn of_url(url: &str) -> Result<Self, Failure> {
        let remote = [Self::NvmeTcp, Self::NvmeRdma, Self::Iscsi, Self::Nbd];
        remote.into_iter().find(|lane| url.starts_with(&lane.scheme())).ok_or_else(|| {
            let text =
                format!("--target \"{url}\" is not a target; use nvme+tcp://HOST/NQN, nvme+rdma://HOST/NQN, iscsi://HOST/IQN/LUN or nbd://HOST/NAME");
            Failure::of(ErrorKind::Usage, text)
        })
    }
}

/// The cores of the two ends: the first two that this process may use; none if it may use only one.
pub struct Cores {
    pub target: Option<usize>,
    pub initiator: Option<usize>,
}

impl Cores {
    pub fn choose() -> Self {
        match weft_io::cpu::allowed()[..] {
            [target, initiator, ..] => Self { target: Some(target), initiator: Some(initiator) },
            _ => Self { target: None, initiator: None },
        }
    }
}

/// The lanes and processes of a study; the processes end with it.
pub struct Stage {
    pub lanes: Vec<Lane>,
    pub ceiling: Spawned,
}

impl Stage {
    /// Starts the processes and opens the lanes.
    pub fn set_up(args: &StudyArgs, cores: &Cores, control: &Control) -> Result<Self, Failure> {
        let options = args.options(control)?;
        let lanes = match &args.target {
            Some(url) => vec![remote(LaneName::of_url(url)?, url, None, None, &options, cores)?],
            None => own(args, &options, cores)?,
        };
        let smallest = lanes.iter().map(|lane| lane.device.geometry().bytes()).min().unwrap_or(0);
        let most = if args.suite() == Suite::Null { NULL_CEILING_BYTES } else { CEILING_BYTES_MAX };
        Ok(Self { lanes, ceiling: ceiling(smallest.min(most), cores)? })
    }
}

impl StudyArgs {
    fn source(&self) -> &str {
        let usual = if self.suite() == Suite::Null { NULL_SOURCE } else { SOURCE };
        self.source.as_deref().unwrap_or(usual)
    }

    fn lanes(&self) -> Vec<LaneName> {
        if self.lanes.is_empty() {
            return LaneName::usual(self.suite(), self.source.is_some());
        }
        let mut lanes = Vec::new();
        for &lane in &self.lanes {
            if !lanes.contains(&lane) {
                lanes.push(lane);
            }
        }
        lanes
    }

    /// Where targets of our own listen.
    fn address(&self, protocols: &[LaneName]) -> Result<IpAddr, Failure> {
        match self.address {
            Some(address) => Ok(address),
            None if protocols.contains(&LaneName::NvmeRdma) => Err(Failure::of(
                ErrorKind::Usage,
                "the lane nvme+rdma needs --address: the IP address of a network interface with an RDMA device (`rdma link` lists them)",
            )),
            None => Ok(Ipv4Addr::LOCALHOST.into()),
        }
    }

    fn options(&self, control: &Control) -> Result<ConnectOptions, Failure> {
        if self.suite() == Suite::Patterns {
            return Ok(bounded(self.connect.options(1, control)?));
        }
        let mut options = self.connect.options(NULL_QUEUES, control)?;
        options.queue_size = options.queue_size.max(NULL_QUEUE_SIZE);
        Ok(bounded(options))
    }
}

/// Lanes reconnect, as for users, but do not wait for ever.
fn bounded(mut options: ConnectOptions) -> ConnectOptions {
    options.paths.fast_io_fail_timeout.get_or_insert(OUTAGE);
    options
}

/// A served device, and its local lane.
struct Served {
    base: LaneName,
    source: String,
    target: Option<Rc<Spawned>>,
}

/// The lanes to our own targets: one process serves each device over all requested protocols. Local lanes come first.
fn own(args: &StudyArgs, options: &ConnectOptions, cores: &Cores) -> Result<Vec<Lane>, Failure> {
    let names = args.lanes();
    let protocols: Vec<LaneName> = names.iter().copied().filter(|name| !name.is_local()).collect();
    let schemes: Vec<String> = protocols.iter().map(|name| name.scheme()).collect();
    let address = args.address(&protocols)?;
    let mut lanes = Vec::new();
    let mut served = Vec::new();
    for (base, source) in devices(args, &names, options)? {
        if names.contains(&base) {
            lanes.push(local(base, &source, options, cores)?);
        }
        let target = if schemes.is_empty() { None } else { Some(Rc::new(serve(&source, &schemes, address, cores)?)) };
        served.push(Served { base, source, target });
    }
    for one in &served {
        for &name in &protocols {
            let Some(target) = &one.target else { continue };
            let url = target.url_of(&name.scheme()).ok_or_else(|| {
                let (name, source) = (name.title(), &one.source);
                Failure::of(ErrorKind::Io, format!("the target of {source} does not report where it listens for {name}"))
            })?;
            lanes.push(remote(name, url, Some(target), Some(one.base), options, cores)?);
        }
    }
    Ok(lanes)
}

/// The devices to measure: the device, unless only the modelled one is requested, and the modelled one, if requested.
fn devices(args: &StudyArgs, names: &[LaneName], options: &ConnectOptions) -> Result<Vec<(LaneName, String)>, Failure> {
    let (source, flash) = (unlocked(args.source()), names.contains(&LaneName::Flash));
    let mut devices = Vec::new();
    if names.contains(&LaneName::Local) || !flash {
        devices.push((LaneName::Local, source.clone()));
    }
    if flash {
        let bytes = weft_endpoint::open(&source, options)?.geometry().bytes();
        devices.push((LaneName::Flash, format!("{FLASH},null:{bytes}")));
    }
    Ok(devices)
}

fn local(name: LaneName, source: &str, options: &ConnectOptions, cores: &Cores) -> Result<Lane, Failure> {
    Ok(Lane {
        name: name.name().into(),
        title: name.title().into(),
        url: source.to_owned(),
        device: weft_endpoint::open(source, options)?,
        target_pid: None,
        target_counters: None,
        initiator_cpu: number(cores.initiator),
        target_cpu: None,
        base: None,
    })
}

/// A network lane: to our own target, whose device is that of the lane `base`, or to an existing target.
fn remote(
    name: LaneName,
    url: &str,
    target: Option<&Rc<Spawned>>,
    base: Option<LaneName>,
    options: &ConnectOptions,
    cores: &Cores,
) -> Result<Lane, Failure> {
    let (short, title) = (name.name(), name.title());
    let (short, title) = match (base, target) {
        (Some(LaneName::Flash), _) => (format!("{short}-flash"), format!("{title} to the modelled flash device")),
        (_, Some(_)) => (short.to_owned(), format!("{title} over the loopback")),
        (_, None) => (short.to_owned(), title.to_owned()),
    };
    Ok(Lane {
        name: short,
        title,
        url: url.to_owned(),
        device: weft_endpoint::open(url, options)?,
        target_pid: target.map(|target| target.pid()),
        target_counters: target.cloned().map(|target| Box::new(move || target.counters()) as ReadCounters),
        initiator_cpu: number(cores.initiator),
        target_cpu: number(cores.target.filter(|_| target.is_some())),
        base: base.map(|base| base.name().to_owned()),
    })
}

fn number(cpu: Option<usize>) -> Option<u32> {
    cpu.and_then(|cpu| u32::try_from(cpu).ok())
}

/// Both measured ends open the file, in this process and in the target; `lock=off` allows this.
fn unlocked(source: &str) -> String {
    grammar::with_option(source, "lock=off", |source| grammar::path(source).is_some())
}

fn serve(source: &str, schemes: &[String], address: IpAddr, cores: &Cores) -> Result<Spawned, Failure> {
    let nqn = format!("nqn.2014-08.org.nvmexpress:uuid:{}", uuid::Uuid::new_v4());
    let mut args = vec!["serve", source, "--until-eof", "--threads", "1", "--nqn", &nqn];
    let places: Vec<String> = schemes.iter().map(|scheme| format!("{scheme}{}", SocketAddr::new(address, 0))).collect();
    args.extend(places.iter().flat_map(|place| ["--listen", place]));
    let cpu = cores.target.map(|cpu| cpu.to_string());
    if let Some(cpu) = &cpu {
        args.extend(["--cpus_allowed", cpu]);
    }
    Spawned::start(&args)
}

fn ceiling(bytes: u64, cores: &Cores) -> Result<Spawned, Failure> {
    let memory = bytes.to_string();
    let mut args = vec!["ceiling", "--memory", &memory];
    let cpu = cores.target.map(|cpu| cpu.to_string());
    if let Some(cpu) = &cpu {
        args.extend(["--cpu", cpu]);
    }
    Spawned::start(&args)
}
