//! Targets and load generators of other projects, in addition to weft's: `--peers`.
//!
//! A target is a file of this directory with a [`peer::PeerTarget`], and a load generator one with
//! a [`load::Load`]. The study finds the installed programs, configures and starts the targets on
//! the loopback, measures them in turn with its own, and ends them.

mod attached;
mod device;
mod gateways;
mod installed;
mod iscsi_perf;
pub mod kernel;
mod lanes;
mod load;
mod nbd_server;
mod nbdkit;
pub mod peer;
mod qemu_gateway;
mod qemu_nbd;
mod registry;
mod running;
mod spdk;
mod spdk_perf;
mod tgt;
mod tool;
mod wanted;

pub use wanted::{Peers, parse};
