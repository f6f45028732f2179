//! Choices of a seed before anything happens: the participants, their protocols, and their
//! settings.

use crate::oracle::Replay;
use crate::scene::Scene;
use crate::stamp::UNIT_BYTES;
use core::fmt;
use core::time::Duration;
use weft_endpoint::paths::{Failover, IoPolicy, PathOptions};
use weft_proto::limits::CONTROLLER_QUIESCE_MS;

/// Time limit of opening a connection, everywhere.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that an abort may take before the controller or session is reset.
const ABORT: Duration = Duration::from_secs(10);

/// What weft's iSCSI targets ask for.
const TIME_2_WAIT_AND_RETAIN: Duration = Duration::from_secs(2);

/// A protocol between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimProtocol {
    /// NVMe/TCP.
    NvmeTcp,
    /// NVMe over RDMA.
    NvmeRdma,
    /// iSCSI.
    Iscsi,
    /// NBD.
    Nbd,
}

impl SimProtocol {
    /// Returns whether it is NVMe, over whatever transport.
    pub fn is_nvme(self) -> bool {
        matches!(self, Self::NvmeTcp | Self::NvmeRdma)
    }
}

impl fmt::Display for SimProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NvmeTcp => "NVMe/TCP",
            Self::NvmeRdma => "NVMe over RDMA",
            Self::Iscsi => "iSCSI",
            Self::Nbd => "NBD",
        })
    }
}

/// The set-up of a run.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its scene.
    pub scene: Scene,
    /// Between the initiators and what they connect to.
    pub protocol: SimProtocol,
    /// Between a gateway and the targets, if there is a gateway between them and the initiators.
    pub behind_gateway: Option<SimProtocol>,
    /// Processes that serve the store: 1 or 2.
    pub targets: usize,
    /// Hosts reserve what the gateways of a group serve.
    pub fences: bool,
    /// The store is locked: a process that serves it starts only when everything is executed that
    /// one before it has asked for.
    pub locked: bool,
    /// Hosts with a workload each.
    pub initiators: usize,
    /// Loops of each target and gateway.
    pub serving_loops: usize,
    /// Loops of each initiator for I/O, and its queues.
    pub queues: usize,
    /// Memory of the loops that serve, bytes.
    pub pool_bytes: usize,
    /// CRC32C over headers.
    pub header_digest: bool,
    /// CRC32C over data.
    pub data_digest: bool,
    /// Entries of a queue.
    pub queue_size: u16,
    /// Keep alive timeout.
    pub keep_alive_ms: u32,
    /// Time that replaces CQT.
    pub quiesce: Duration,
    /// Disks hold operations back as long as targets and users state; see [`crate::holds`].
    pub at_bound: bool,
    /// Time limit of a command.
    pub io_timeout: Duration,
    /// The store loses what was not flushed when its power fails.
    pub volatile: bool,
    /// The store compares.
    pub compare: bool,
    /// Bytes of a block of the store.
    pub block_bytes: u32,
    /// Ranges of blocks per queue, each with one writer.
    pub slots: u32,
    /// Blocks of each.
    pub slot_blocks: u32,
    /// All ranges are one, which all initiators write.
    pub overlap: bool,
    /// Operations of each queue.
    pub operations: u32,
    /// Longest pause of a slot between two operations.
    pub think: Duration,
    /// Duration of the faults.
    pub trouble: Duration,
    /// Devices are opened again after a loss, and have a path to each target; otherwise a device
    /// ends with its connections.
    pub reconnects: bool,
    /// Choice of the path of an operation.
    pub policy: IoPolicy,
    /// Initiators' waiting before they send lost writes again.
    pub failover: Failover,
    /// Longest pause before a path is opened again.
    pub reconnect_delay: Duration,
    /// Bytes of completed writes that an initiator keeps until a flush; `None`: as many as there
    /// are.
    pub unflushed_bytes: Option<usize>,
}

impl Config {
    /// Returns the fate of writes that a power failure takes.
    pub fn replay(&self) -> Replay {
        match (self.reconnects, self.unflushed_bytes) {
            // What others may have written since is not written again, and its loss is told.
            _ if self.overlap && self.initiators > 1 => Replay::Bounded,
            // A mirror tells of what its legs have lost while it was open.
            _ if self.scene == Scene::Mirror => Replay::Bounded,
            (false, _) => Replay::Never,
            (true, Some(_)) if self.tells_starts() => Replay::Bounded,
            (true, Some(_)) => Replay::Untold,
            // What a reservation keeps from being written again is lost, and that is told.
            (true, None) if self.scene == Scene::Reservations => Replay::Bounded,
            (true, None) => Replay::Always,
        }
    }

    /// Returns whether every target reports how often its store has lost its power. If one does
    /// not, an initiator cannot be certain that a lost connection was a restart, and does not
    /// report possible losses beyond its limit.
    pub fn tells_starts(&self) -> bool {
        self.scene == Scene::Restarts
    }

    /// Returns the time that targets of NVMe state for commands of a lost connection (CQT).
    pub fn told(&self) -> Duration {
        if self.at_bound {
            self.quiesce
        } else {
            Duration::from_millis(CONTROLLER_QUIESCE_MS.into())
        }
    }

    /// Returns the path options of devices, with these further paths.
    pub fn paths(&self, further: &[String]) -> PathOptions {
        if !self.reconnects {
            return PathOptions::once();
        }
        let unflushed_bytes =
            self.unflushed_bytes.unwrap_or(PathOptions::default().unflushed_bytes);
        let (io_policy, failover, reconnect_delay) =
            (self.policy, self.failover, self.reconnect_delay);
        // An initiator is the only writer of its blocks. Some that keep little do not know it, and
        // look.
        let is_alone = !self.overlap || self.initiators == 1;
        let only_writer = is_alone && self.unflushed_bytes.is_none_or(|bytes| bytes % 2 == 0);
        let further = further.to_vec();
        // All targets and gateways have one name and one store. NBD has no names, so its paths
        // would be compared, and not be used while that fails.
        let same_data = further.iter().any(|url| url.starts_with("nbd://"));
        let rest = PathOptions { reconnect_delay, same_data, ..PathOptions::default() };
        PathOptions { further, io_policy, failover, unflushed_bytes, only_writer, ..rest }
    }

    /// The quiesce time of the initiators. Behind a gateway it has to cover how long that goes on
    /// itself with what it has lost.
    pub fn initiators_quiesce(&self) -> Duration {
        match self.behind_gateway {
            None => self.quiesce,
            Some(_) => {
                self.quiesce * 3
                    + Duration::from_millis(u64::from(self.keep_alive_ms) * 3)
                    + self.io_timeout * 2
            }
        }
    }

    /// Returns the time limit of an initiator's operation once the faults are over: the worst cases
    /// of `docs/reconnect.md` with the options of this run.
    pub fn patience(&self) -> Duration {
        // The next process waits for late writes of the one before.
        let processes = if self.scene == Scene::TakenOver { 2 } else { 1 };
        processes
            * match self.behind_gateway {
                None => self.worst(self.protocol, self.quiesce, self.targets),
                // What waits in the gateway goes on when that does; its hosts may have lost their
                // connections over it, and notice it only then.
                Some(behind) => {
                    self.worst(behind, self.quiesce, self.targets)
                        + self.worst(self.protocol, self.initiators_quiesce(), 1)
                }
            }
    }

    /// The same between one pair of hosts: each of the paths may turn out to be lost in its turn.
    fn worst(&self, protocol: SimProtocol, quiesce: Duration, paths: usize) -> Duration {
        let keep_alive = Duration::from_millis(self.keep_alive_ms.into());
        // An answer that does not come: to the command, then to its abort.
        let unanswered = self.io_timeout + self.io_timeout.min(ABORT);
        let (noticed, settled) = match protocol {
            SimProtocol::NvmeTcp | SimProtocol::NvmeRdma => {
                (keep_alive * 2 + unanswered, keep_alive * 2 + self.told().max(quiesce))
            }
            SimProtocol::Iscsi => (keep_alive * 2 + unanswered, TIME_2_WAIT_AND_RETAIN + quiesce),
            SimProtocol::Nbd => (unanswered, quiesce),
        };
        // An attempt that fails still, a pause, and one that does not.
        let back = CONNECT_TIMEOUT * 2 + self.reconnect_delay;
        // A lost write, and what waits behind it.
        noticed * paths as u32 + back + settled + self.io_timeout * 2
    }

    /// Returns the protocol of the targets, to initiators or to the gateways before them.
    pub fn inner(&self) -> SimProtocol {
        self.behind_gateway.unwrap_or(self.protocol)
    }

    /// Blocks that a workload owns.
    pub fn blocks_per_queue(&self) -> u32 {
        self.slots * self.slot_blocks
    }

    /// Units ([`crate::stamp::UNIT_BYTES`]) of a block.
    pub fn units(&self) -> u32 {
        self.block_bytes / UNIT_BYTES as u32
    }

    /// Blocks of the store.
    pub fn blocks(&self) -> u32 {
        if self.overlap {
            return self.slot_blocks;
        }
        self.blocks_per_queue() * (self.queues * self.initiators) as u32
    }

    /// Returns whether every byte behind the handshakes is covered by a digest.
    pub fn is_covered(&self) -> bool {
        let has = |protocol: SimProtocol| protocol != SimProtocol::Nbd;
        self.header_digest
            && self.data_digest
            && has(self.protocol)
            && self.behind_gateway.is_none_or(has)
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {} {} over {}",
            self.scene,
            self.initiators,
            plural(self.initiators, "initiator"),
            self.protocol
        )?;
        if let Some(behind) = self.behind_gateway {
            write!(f, " to a gateway over {behind}")?;
        }
        write!(f, " to {} {}", self.targets, plural(self.targets, "target"))?;
        write!(
            f,
            " of {} {}blocks of {} bytes",
            self.blocks(),
            if self.locked { "locked " } else { "" },
            self.block_bytes
        )?;
        write!(f, " with{} volatile cache", if self.volatile { " a" } else { "out" })?;
        let digest =
            |on: bool, name: &str| if on { format!(", {name} digests") } else { String::new() };
        write!(f, "{}{}", digest(self.header_digest, "header"), digest(self.data_digest, "data"))?;
        if self.fences {
            write!(f, "; hosts reserve")?;
        }
        if self.reconnects {
            write!(f, "; reconnects within {:?}, policy {:?}", self.reconnect_delay, self.policy)?;
            if self.failover == Failover::Fast {
                write!(f, ", does not wait before it sends lost writes again")?;
            }
            if let Some(bytes) = self.unflushed_bytes {
                write!(f, ", keeps {bytes} unflushed bytes")?;
            }
        }
        write!(
            f,
            "; {} queues of {}, keep alive {} ms",
            self.queues, self.queue_size, self.keep_alive_ms
        )?;
        let until = if self.at_bound { ", until which disks hold operations back" } else { "" };
        write!(
            f,
            ", quiesce {:?}{until}, command limit {:?}, trouble for {:?}",
            self.quiesce, self.io_timeout, self.trouble
        )
    }
}

fn plural(count: usize, word: &str) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}
