//! A world in memory: virtual time, a network and disks whose behaviour a seed decides, under the
//! very loops and drivers that run on a real system.
//!
//! A [`World`] has hosts, a host has loops, and all of them run in one thread: [`World::step`] lets
//! the next thing happen (bytes arrive, a timer runs out, a loop takes its turn) and time jumps to
//! it. Nothing looks at the machine's clock or at its randomness, so one seed is one history;
//! [`World::trace_hash`] proves it.
//!
//! The network provides what TCP guarantees and nothing more: bytes arrive in order or the
//! connection breaks. The sizes of the pieces, delays, the capacity of the path and superfluous
//! notifications are drawn at random ([`NetConfig`]). Readiness is as strict as on the strictest
//! system: a driver that has not seen `WouldBlock` is not notified. Connections are cut after any
//! byte, silently or not ([`Cut`]); hosts are partitioned, crash, or run out of descriptors.
//!
//! Hosts have devices for RDMA ([`RdmaConfig`]): queue pairs find each other by the same addresses,
//! and suffer the same faults.
//!
//! Disks are the files that a loop's [`crate::disk::DiskService`] opens, behind a cache whose
//! content a crash loses, sector by sector, unless it was flushed ([`DiskConfig`]).
//!
//! ```
//! use weft_io::{LoopConfig, sim::World};
//!
//! let mut world = World::new(42);
//! let host = world.host("10.0.0.1");
//! let on_loop = world.add_loop(host, &LoopConfig::default());
//! let listener = world.handle(on_loop).listen("10.0.0.1:4420".parse().unwrap()).unwrap();
//! assert_eq!(listener.local(), "10.0.0.1:4420");
//! ```

mod config;
mod disk;
mod net;
mod rdma;
mod stream;
mod trace;
mod world;

pub use config::{Chunking, Cut, CutAt, NetConfig, PortAnswer, Side};
pub use disk::DiskConfig;
pub use net::SimConnection;
pub use rdma::{RdmaConfig, RdmaCounts};
pub use trace::TraceRecord;
pub use world::{HostId, LoopId, World, WorldView};

pub use crate::rng::Rng;

#[cfg(test)]
mod tests;
