//! The options of `weft serve`.

use super::security::SecurityArgs;
use crate::args::group::GroupArgs;
use crate::args::metrics::MetricsArgs;
use crate::args::pcap::PcapArgs;
use crate::args::sharing::SharingArgs;
use crate::args::takeover::TakeoverArgs;
use crate::connection::ConnectArgs;
use crate::login::LoginArgs;
use crate::process::announce::AnnounceArgs;
use crate::process::exit_on_loss::LossArgs;
use clap::{Args, ValueEnum};
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::time::Duration;
use weft_block::units;
use weft_endpoint::inventory::PrintableName;
use weft_endpoint::limits::CONNECTIONS_MAX;
use weft_io::disk::DiskMode;
use weft_io::limits::POOL_BYTES_DEFAULT;
use weft_server::values::{max_connections, max_queues, number};

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
      the same for hosts that know the secret, encrypted with new keys for each connection (Linux 6.15: nvme connect --concat)
  weft serve /dev/nvme0n1 --control disks --metrics 127.0.0.1:9464
      a disk, with a named control socket and metrics for Prometheus
  weft serve /dev/nvme0n1 --slow 10ms
      the same disk; commands that take 10 ms or longer are logged, with where the time went
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
    pub source: Vec<String>,
    /// Configuration file instead of sources and most other options; SIGHUP applies it again, as
    /// weft apply does
    #[arg(long, value_name = "FILE", conflicts_with_all = OF_FILE)]
    pub config: Option<PathBuf>,
    /// Address to listen on: [nvme+tcp://]ADDR:PORT, iscsi://ADDR:PORT, nbd://ADDR:PORT,
    /// nbds://ADDR:PORT, nbd+unix:///?socket=PATH, ublk:N/NSID for the disk /dev/ublkbN of this
    /// system (Linux), or vhost-user:PATH for a disk of a virtual machine (Linux); port 0 picks a
    /// free port, ublk: any disk; may be repeated [default: nvme+tcp://127.0.0.1:4420]
    #[arg(long)]
    pub listen: Vec<String>,
    /// Name of a source, for NBD; the first --name belongs to the first source [default: 1, 2, …]
    #[arg(long)]
    pub name: Vec<String>,
    /// Name of the NVMe subsystem [default: generated once and kept]
    #[arg(long)]
    pub nqn: Option<String>,
    /// Serial number that NVMe hosts see, up to 20 characters [default: one made of the NQN]
    #[arg(long)]
    pub serial: Option<PrintableName<20>>,
    /// Model number that NVMe hosts see, up to 40 characters [default: weft]
    #[arg(long)]
    pub model: Option<PrintableName<40>>,
    /// I/O queues that an NVMe controller may have at most, up to 1024. A host gets fewer if few
    /// connections are left [default: 128]
    #[arg(long, value_name = "N", value_parser = number(max_queues))]
    pub max_queues: Option<NonZeroU16>,
    /// Connections that each protocol accepts at most, 16 to 65000; one address gets at most three
    /// quarters of them
    #[arg(long, value_name = "N", default_value_t = CONNECTIONS_MAX, value_parser = number(max_connections))]
    pub max_connections: usize,
    /// NVMe host that may connect, optionally with the namespaces that it sees; may be repeated
    /// [default: any host]
    #[arg(long, value_name = "NQN[=NSID,…]")]
    pub allow_host: Vec<String>,
    /// Pre-shared keys for sources of NVMe/TCP, which are then connected to with TLS only; --tls is
    /// about the hosts of this server
    #[arg(long, value_name = "FILE")]
    pub source_tls_key_file: Option<PathBuf>,
    /// Event loops [default: one per core that this process may use]
    #[arg(long, value_parser = weft_server::values::loops::threads)]
    pub threads: Option<usize>,
    /// Cores to pin the event loops to, as in 0,2-3
    #[arg(long = "cpus_allowed", alias = "cpus-allowed", value_parser = weft_server::values::cores::parse)]
    pub cpus_allowed: Option<::std::vec::Vec<usize>>,
    /// Never sleep: lower latency, but one busy core per event loop
    #[arg(long)]
    pub poll: bool,
    /// Refuse writes to all sources; readonly:SOURCE does this for one source
    #[arg(long)]
    pub read_only: bool,
    /// Offer no reservations: needed where other processes or gateways serve the same data, whose
    /// hosts would not be kept out
    #[arg(long)]
    pub no_reservations: bool,
    /// I/O method for files
    #[arg(long, value_enum, default_value_t = DiskIo::Auto)]
    pub disk_io: DiskIo,
    /// Maximum payload memory per event loop
    #[arg(long, default_value = units::format_size(POOL_BYTES_DEFAULT as u64), value_parser = weft_server::values::loops::pool)]
    pub pool: u64,
    /// Time within which a file or disk of this machine must complete an operation; 0s: no limit
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = units::parse_duration)]
    pub disk_timeout: Duration,
    /// Log each command that takes this long, from its arrival until its answer has left, with its
    /// stages; at most some lines at once, and then one in 5 s [default: none]
    #[arg(long, value_name = "DURATION", value_parser = weft_server::values::slow)]
    pub slow: Option<Duration>,
    /// Limit of a host over all sources together: operations per second, bytes per second, or both,
    /// as in iops=10k,bw=100MB; a host is a host NQN, an iSCSI initiator name or an NBD client's
    /// address; may be repeated
    #[arg(long, value_name = "HOST=iops=N[,bw=SIZE]")]
    pub host_limit: Vec<String>,
    /// End when standard input is closed; answer the line `counters` with the loops' counters as
    /// JSON; `inventory …` changes what is served
    #[arg(long, hide = true)]
    pub until_eof: bool,
    /// Socket for commands that manage this server, as a path or a name [default: one in the
    /// runtime directory, named by the process]
    #[arg(long, value_name = "PATH|NAME")]
    pub control: Option<String>,
    #[command(flatten)]
    pub announce: AnnounceArgs,
    #[command(flatten)]
    pub takeover: TakeoverArgs,
    #[command(flatten)]
    pub metrics: MetricsArgs,
    #[command(flatten)]
    pub sharing: SharingArgs,
    #[command(flatten)]
    pub group: GroupArgs,
    #[command(flatten)]
    pub loss: LossArgs,
    #[command(flatten)]
    pub security: SecurityArgs,
    #[command(flatten)]
    pub connect: ConnectArgs,
    #[command(flatten)]
    pub pcap: PcapArgs,
    #[command(flatten)]
    pub login: LoginArgs,
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

// The options of `weft serve` that a configuration file has instead.

/// Options that a configuration file has instead: none of them goes with `--config`.
pub const OF_FILE: [&str; 74] = [
    "source",
    "listen",
    "name",
    "nqn",
    "serial",
    "model",
    "max_queues",
    "max_connections",
    "allow_host",
    "threads",
    "cpus_allowed",
    "poll",
    "read_only",
    "disk_io",
    "pool",
    "no_reservations",
    "disk_timeout",
    "slow",
    "exit_on_loss",
    "iqn",
    "allow_initiator",
    "login_user",
    "login_secret_file",
    "login_initiator",
    "login_target_user",
    "login_target_secret_file",
    "hostnqn",
    "hostid",
    "hdr_digest",
    "data_digest",
    "nr_io_queues",
    "queue_size",
    "keep_alive_tmo",
    "connect_timeout",
    "tls",
    "source_tls_key_file",
    "tls_key_file",
    "no_kernel_tls",
    "keyring",
    "tls_key",
    "tls_key_identity",
    "concat",
    "source_concat",
    "tls_cert_file",
    "tls_cert_key_file",
    "tls_ca_file",
    "io_timeout",
    "quiesce_time",
    "rdma_shared_key",
    "dhchap_secret_file",
    "dhchap_ctrl_secret_file",
    "dhchap_secret",
    "dhchap_ctrl_secret",
    "dhchap_hash",
    "dhchap_dhgroup",
    "dhchap_discovery",
    "source_dhchap_secret_file",
    "source_dhchap_ctrl_secret_file",
    "initiator_name",
    "chap_user",
    "chap_secret_file",
    "target_chap_user",
    "target_chap_secret_file",
    "chap_secret",
    "path",
    "same_data",
    "ctrl_loss_tmo",
    "reconnect_delay",
    "fast_io_fail_tmo",
    "iopolicy",
    "failover",
    "unflushed",
    "only_writer",
    "reserve",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectArgs;
    use crate::login::LoginArgs;
    use clap::{Args, Command};

    #[test]
    fn no_option_of_a_connection_or_login_is_ignored_beside_a_file() {
        for command in [
            ConnectArgs::augment_args(Command::new("a")),
            LoginArgs::augment_args(Command::new("a")),
        ] {
            for arg in command.get_arguments() {
                assert!(OF_FILE.contains(&arg.get_id().as_str()), "{arg}");
            }
        }
    }
}
