//! The command line of `weft study`.

use super::comparing::StudyCommand;
use super::imported::{LaneFile, named};
#[cfg(target_os = "linux")]
use super::peers::{self, Peers};
use super::publishing::Publishing;
use super::shape::Shape;
use crate::agents::address::AgentAddress;
use crate::connection::ConnectArgs;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use weft_bench::suite::{Suite, SuiteMode};
use weft_bench::workload::duration;

/// Options of `weft study`.
#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  weft study
      NVMe/TCP against the device itself, iSCSI, and another project's target, in at most 80 seconds
  weft study --quick
      the same in at most 30 seconds, for a first look
  weft study --suite patterns
      the same devices under thirteen patterns, in three minutes
  weft study --source file:/srv/disk.img,size=4GiB
      a file; weft OVERWRITES ALL OF IT
  weft study --lanes local,nvme+tcp,iscsi,nbd
      the same device over three protocols
  weft study --lanes flash,nvme+tcp,iscsi
      a modelled flash device only: a read takes 80 us, a write 20 us
  weft study --list-suites
      the published comparisons that weft reproduces
  weft study --suite null --quick
      iSCSI and NVMe/TCP on a null device: 256 jobs at depth 1, in ten seconds
  weft study --suite initiators --lane attached=/dev/nvme1n1
      with a disk that the kernel attached as a further lane; weft OVERWRITES IT
  weft study --suite null --lane weft=nbd://127.0.0.1/disk --lane fio=fio:nbd://127.0.0.1/disk
      fio and weft bench on one device, in turn with the other lanes, and whether they agree
  weft study --suite protocols --print >mine.toml; weft study --suite ./mine.toml
      a suite of your own
  weft study --suite null --import other=fio.json
      with what fio measured elsewhere as a further lane
  weft study --lanes local,nvme+tcp --peers tgt,nbdkit
      targets of other projects on a RAM disk, next to weft's over the same protocols
  sudo weft study --suite null --peers kernel
      targets and initiators of the Linux kernel: nvmet, LIO, nvme-tcp, open-iscsi
  weft study --suite null --lanes nvme+tcp,nvme+rdma --address 10.0.0.1
      RDMA against TCP, on the RDMA device that has this address
  weft study compare before/results.json after/results.json
      what changed in relation to bare TCP and the local device, and whether it is more than noise
  weft study gate after/results.json --baseline before/results.json --lose 5%
      fails where a relation is worse by more than 5 %, for CI
  weft study render results.json --output-dir report --also png
      the report again, from the results of an earlier study
  weft study --target nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      an existing target; weft OVERWRITES ITS NAMESPACE
  weft study --suite clients --agents rack1,rack2 --key-file agent.key nvme+tcp://array.example/nqn.2014-08.org.example:scratch
      one and two client machines, each with weft agent, on one target; THEY OVERWRITE ITS NAMESPACE"
)]
pub struct StudyArgs {
    #[command(subcommand)]
    pub(super) command: Option<StudyCommand>,
    /// Shorter, with fewer rounds, for a first look
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// As long as in the published comparison, or longer
    #[arg(long)]
    full: bool,
    /// Measurements to run: a suite of --list-suites, or the path of a file
    #[arg(long, value_name = "NAME|FILE", default_value = Suite::USUAL)]
    pub(super) suite: String,
    /// Show the suites that ship with weft, and exit
    #[arg(long)]
    pub(super) list_suites: bool,
    /// Print the suite's file, and exit
    #[arg(long)]
    pub(super) print: bool,
    /// Lanes of the suite, or protocols, measured in turn [default: all of the suite's; with
    /// --source without flash]
    #[arg(long, value_delimiter = ',', value_name = "LANES", conflicts_with = "target")]
    pub(super) lanes: Vec<String>,
    /// A lane of your own: a URL, or a disk that another initiator attached, with fio: before it
    /// measured by fio; weft overwrites it; may be repeated
    #[arg(long = "lane", value_name = "NAME=URL", value_parser = given, conflicts_with = "target")]
    pub(super) given: Vec<LaneOption>,
    /// Results of fio (JSON), DISKSPD (XML or text) or vdbench (flatfile.html) as a lane; several
    /// files of one name are its rounds
    #[arg(long = "import", value_name = "NAME=FILE", value_parser = named)]
    pub(super) imports: Vec<LaneFile>,
    /// Device to measure; weft overwrites it [default: the suite's; of network ram:256MiB, of null
    /// null:250GiB]
    #[arg(long, conflicts_with = "target")]
    pub(super) source: Option<String>,
    /// Targets and load generators of other projects, in addition to weft's: auto (one target, if
    /// one is installed), none, all, or some of tgt, nbdkit, qemu-nbd, nbd-server, spdk,
    /// iscsi-perf, fio, spdk-perf, hypervisor-qemu-iscsi, hypervisor-qemu-nbd; for root kernel, or
    /// some of nvmet, lio, nvme-tcp, open-iscsi, nbd-client [default: the suite's; of network auto,
    /// of matrix all]
    #[cfg(target_os = "linux")]
    #[arg(long, value_name = "PEERS", value_parser = peers::parse,
          conflicts_with_all = ["target", "agents"])]
    pub(super) peers: Option<Peers>,
    /// Address of this machine at which the lanes' targets listen; for nvme+rdma that of an RDMA
    /// device [default: 127.0.0.1]
    #[arg(long, value_name = "IP", conflicts_with = "target")]
    pub(super) address: Option<std::net::IpAddr>,
    /// Cause of the distance of lanes that have one: relay, a process of weft, or netem of Linux,
    /// for root, between two network namespaces [default: relay]
    #[arg(long, value_name = "SHAPE", conflicts_with_all = ["target", "agents"])]
    pub(super) shape: Option<Shape>,
    /// Existing target to measure, instead of weft's; weft overwrites the namespace
    #[arg(long)]
    pub(super) target: Option<String>,
    /// Overwrite also where a partition table, a file system or the like is recognised
    #[arg(long)]
    pub(super) destroy_data: bool,
    /// Machines with weft agent that put the load on instead of this one: HOST, HOST:PORT, or
    /// either with @sha256:FINGERPRINT
    #[arg(long, value_delimiter = ',', value_name = "AGENTS", value_parser = AgentAddress::parse,
          conflicts_with_all = ["lanes", "given", "imports", "source", "address", "target"])]
    pub(super) agents: Vec<AgentAddress>,
    /// Device that the agents open and overwrite, as their configuration lists it: one for all, or
    /// one for each
    #[arg(value_name = "URL", requires = "agents")]
    pub(super) urls: Vec<String>,
    /// File with the key of the agents; otherwise WEFT_AGENT_KEY has it
    #[arg(long, value_name = "FILE", requires = "agents")]
    pub(super) key_file: Option<PathBuf>,
    /// Most time [default: the suite's; of network 80s, with --quick 30s; of null 45s, with --quick
    /// 8s]
    #[arg(long, alias = "budget", value_name = "TIME", value_parser = duration)]
    pub(super) time_budget: Option<Duration>,
    /// Seed of the order in which the lanes take turns [default: the time]
    #[arg(long)]
    pub(super) seed: Option<u64>,
    #[command(flatten)]
    pub(super) publishing: Publishing,
    #[command(flatten)]
    pub(super) connect: ConnectArgs,
}

impl StudyArgs {
    pub(super) fn mode(&self) -> SuiteMode {
        match (self.quick, self.full) {
            (true, _) => SuiteMode::Quick,
            (_, true) => SuiteMode::Full,
            _ => SuiteMode::Usual,
        }
    }
}

/// `NAME=URL`.
#[derive(Clone, Debug)]
pub struct LaneOption {
    pub(super) name: String,
    pub(super) url: String,
}

/// Parses a value of `--lane`.
fn given(text: &str) -> Result<LaneOption, String> {
    match text.split_once('=') {
        Some((name, url))
            if !name.is_empty() && !name.contains([' ', ',', ':', '/']) && !url.is_empty() =>
        {
            Ok(LaneOption { name: name.to_owned(), url: url.to_owned() })
        }
        _ => {
            Err("use NAME=URL, as in remote=nvme+tcp://HOST/NQN or attached=/dev/nvme1n1"
                .to_owned())
        }
    }
}
