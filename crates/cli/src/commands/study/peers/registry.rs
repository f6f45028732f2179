//! All targets and load generators of other projects.

use super::load::{FIO, Load};
use super::peer::Peer;
use super::{iscsi_perf, nbd_server, nbdkit, qemu_nbd, spdk, spdk_perf, tgt};

/// The targets, by their rate of 4 KiB random reads in the suite `matrix` (docs/study/peers.md):
/// `auto` takes the first that is installed.
pub const TARGETS: [&Peer; 5] =
    [&spdk::PEER, &nbdkit::PEER, &nbd_server::PEER, &qemu_nbd::PEER, &tgt::PEER];

/// The load generators; the first for a protocol is taken where none is named.
pub const LOADS: [&Load; 3] = [&iscsi_perf::LOAD, &FIO, &spdk_perf::LOAD];
