//! Options of connections by any protocol: nvme-cli's options, with its defaults where they make
//! sense in user space, and those of other protocols.

use super::authentication::HostSecrets;
use super::iscsi::IscsiOptions;
use crate::control::Control;
use crate::paths::PathOptions;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_block::file::CreatedFiles;
use weft_connection::identity::HostIdentity;
use weft_connection::limits::QUIESCE_S;
use weft_connection::tls::TlsFiles;

/// Options of a connection.
#[derive(Clone, Debug)]
pub struct ConnectOptions {
    /// The control that opens connections and looks after them. The default is a new one, with a
    /// thread of its own once it is used: a program that opens several devices gives all of them
    /// the same.
    pub control: Control,
    /// NVMe: who we are; `None`: [`Identities::host`](weft_connection::identity::Identities::host) of the
    /// control.
    pub host: Option<HostIdentity>,
    /// NVMe, iSCSI: which opener of this host it is; `None`: the host as such. Each opener is a
    /// registrant of its own in reservations, as it has a host identifier derived from the host's
    /// (NVMe), or an ISID derived from its name (iSCSI). All reconnections of a device keep it, and
    /// with NVMe all paths.
    pub opener: Option<Uuid>,
    /// NVMe: what we authenticate with.
    pub secrets: HostSecrets,
    /// NVMe/TCP, iSCSI: CRC32C over each PDU header.
    pub hdr_digest: bool,
    /// NVMe/TCP, iSCSI: CRC32C over the data of each PDU.
    pub data_digest: bool,
    /// I/O queues (elsewhere: connections or sessions) to ask for: one for each loop that will use
    /// the device. The peer may grant fewer.
    pub nr_io_queues: u16,
    /// Entries of each I/O queue (elsewhere: commands under way on each connection).
    pub queue_size: u16,
    /// NVMe: keep alive timeout in milliseconds; iSCSI: after how long without a word from the
    /// target it is pinged, and how long it may then keep silent. 0 switches it off.
    pub keep_alive_ms: u32,
    /// Time limit for opening, from looking up the host's name to a device that can be used.
    pub connect_timeout: Duration,
    /// Time limit of an I/O command: then it is aborted. After the same time again, but 10 s at
    /// most, the controller is reset. No admin command may take longer either.
    pub io_timeout: Duration,
    /// Time for which a peer that was lost may go on with writes that it has, beyond what it
    /// reports itself: a write whose connection was lost ends when it can no longer be executed.
    /// NVMe: instead of CQT where the controller reports none, behind two or three times the keep
    /// alive timeout. iSCSI: behind Time2Wait and Time2Retain. NBD: this alone, as the protocol
    /// knows nothing of the kind.
    pub quiesce_time: Duration,
    /// The device takes no writes, as if `readonly:` stood in front of its URL.
    pub read_only: bool,
    /// Other processes serve the same files and disks of this machine, which are then not locked
    /// against them.
    pub shared: bool,
    /// Files and disks of this machine: the time within which they complete an operation
    /// ([`weft_block::time_limit`]). Zero: no limit.
    pub disk_timeout: Duration,
    /// They are parts of a device that goes on without them: an operation that is not completed in
    /// time ends with its memory. Set for legs of mirrors.
    pub in_mirror: bool,
    /// Images of Ceph: as whom to use them where their URL does not say.
    pub ceph: weft_ceph::CephAccess,
    /// Images of Ceph: other gateways serve them, too, so that they need their exclusive lock.
    pub ceph_in_group: bool,
    /// Record of the files that local sources create.
    pub created: Option<Arc<CreatedFiles>>,
    /// Options by which a device that is opened by its URL stays connected. A source that is opened
    /// by itself takes only [`PathOptions::failover`] from these.
    pub paths: PathOptions,
    /// NVMe over RDMA: memory for transfers has one key for each registration, which stays valid,
    /// instead of one for each command. It saves two work requests for each command. What it
    /// exposes: a target can read and write all such memory of this process at any time, also that
    /// of commands to others through the same device, as soon as it knows or guesses a key.
    pub rdma_shared_key: bool,
    /// iSCSI: who we are, and secrets.
    pub iscsi: IscsiOptions,
    /// Certificates, for protocols that encrypt.
    pub tls: TlsFiles,
}

impl ConnectOptions {
    /// The device is lost for good with its connections: nothing connects again.
    pub(crate) fn ends_with_connections(&self) -> bool {
        self.paths.is_once() && !self.paths.reserve && !self.in_mirror
    }
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            control: Control::new(),
            host: None,
            opener: None,
            secrets: HostSecrets::default(),
            hdr_digest: false,
            data_digest: false,
            nr_io_queues: 1,
            queue_size: 128,
            keep_alive_ms: 5_000,
            connect_timeout: Duration::from_secs(5),
            io_timeout: Duration::from_secs(30),
            quiesce_time: Duration::from_secs(QUIESCE_S),
            read_only: false,
            shared: false,
            disk_timeout: Duration::ZERO,
            in_mirror: false,
            ceph: weft_ceph::CephAccess::default(),
            ceph_in_group: false,
            created: None,
            paths: PathOptions::default(),
            rdma_shared_key: false,
            iscsi: IscsiOptions::default(),
            tls: TlsFiles::default(),
        }
    }
}
