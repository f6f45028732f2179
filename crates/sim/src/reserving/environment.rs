//! Requests of the hosts that reserve, and their targets.

use crate::store::BlockStore;
use core::time::Duration;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use weft_endpoint::identity::HostIdentity;
use weft_proto::nvme::types::Nqn;

/// A host is given up that has not done everything within this time.
const VISIT: Duration = Duration::from_secs(4);

/// The same where an answer waits for the replacement of a gateway.
const VISIT_OF_GROUP: Duration = Duration::from_secs(30);

/// For controllers of hosts that went silent.
const KEEP_ALIVE_MS: u32 = 5000;

/// See the module.
#[derive(Clone)]
pub struct ReservingEnvironment {
    /// The NVMe/TCP port and the iSCSI port of the target, or of each gateway of a group.
    pub doors: Vec<(SocketAddr, SocketAddr)>,
    /// The subsystem.
    pub subsystem: Nqn,
    /// The iSCSI target.
    pub target: String,
    /// Initiators with workloads that are NVMe hosts; the first `n` hosts ask in their names.
    pub hosts: Vec<HostIdentity>,
    /// Another host.
    pub stranger: HostIdentity,
    /// The blocks that each of the initiators has, first and number.
    pub blocks: Vec<(u64, u64)>,
    /// The first block that nobody has.
    pub free: u64,
    /// The store.
    pub store: Arc<BlockStore>,
    /// Other writes of a client of a cluster to these blocks; `None`: there is no cluster.
    pub cluster: Option<Rc<dyn Writes>>,
}

/// Writes that can still be executed.
pub trait Writes {
    /// Returns whether what a client has sent is executed.
    fn counts(&self, client: u64) -> bool;

    /// A block among these to which some client still waits to write.
    fn waiting(&self, blocks: core::ops::Range<u64>) -> Option<u64>;
}

impl ReservingEnvironment {
    /// Several gateways keep the reservations together.
    pub fn is_group(&self) -> bool {
        self.cluster.is_some()
    }

    /// The longest that a host stays, and the keep alive timeout of its controller, ms.
    pub(super) fn visit(&self) -> (Duration, u32) {
        if self.is_group() {
            (VISIT_OF_GROUP, KEEP_ALIVE_MS + VISIT_OF_GROUP.as_millis() as u32)
        } else {
            (VISIT, KEEP_ALIVE_MS)
        }
    }
}
