//! All targets and load generators of other projects.

use super::kernel::initiator::KernelInitiator;
use super::kernel::{lio, nbd_client, nvme_tcp, nvmet, open_iscsi, ublk};
use super::load::{FIO, Load};
use super::peer::{NbdGateway, PeerTarget};
use super::{iscsi_perf, nbd_server, nbdkit, qemu_gateway, qemu_nbd, spdk, spdk_perf, tgt};

/// The targets, by their rate of 4 KiB random reads in the suite `matrix` (docs/study/peers.md):
/// `auto` takes the first that is installed.
pub const TARGETS: [&PeerTarget; 5] =
    [&spdk::PEER, &nbdkit::PEER, &nbd_server::PEER, &qemu_nbd::PEER, &tgt::PEER];

/// The gateways, which are used only if they are named.
pub const GATEWAYS: [&NbdGateway; 2] = [&qemu_gateway::ISCSI, &qemu_gateway::NBD];

/// The targets of the kernel, which are used only if they are named.
pub const KERNEL_TARGETS: [&PeerTarget; 2] = [&nvmet::PEER, &lio::PEER];

/// The initiators of the kernel, which are used only if they are named.
pub const INITIATORS: [&KernelInitiator; 4] =
    [&nvme_tcp::INITIATOR, &open_iscsi::INITIATOR, &nbd_client::INITIATOR, &ublk::INITIATOR];

/// The load generators; the first for a protocol is taken where none is named.
pub const LOADS: [&Load; 3] = [&iscsi_perf::LOAD, &FIO, &spdk_perf::LOAD];
