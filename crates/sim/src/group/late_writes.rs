//! Writes that a gateway executes late and may: those of a host that has ended its connection, when
//! that has not arrived at the gateway. Neither it nor the cluster can tell such a write from one
//! that somebody waits for. A gateway that belongs to the group no more may not: it had to be kept
//! out before.

use crate::initiator::address;
use crate::oracle::{Landed, units_of};
use core::time::Duration;
use std::net::IpAddr;
use weft_block::Op;
use weft_io::sim::WorldView;

/// How long a write that was received is on its way through a gateway, which looks at the
/// connection no more.
const HANDED_ON: Duration = Duration::from_micros(100);

/// Known late writes of one gateway.
#[derive(Clone)]
pub struct GatewayLateWrites {
    pub view: WorldView,
    pub gateway: IpAddr,
    pub block_bytes: u32,
    /// Blocks that each host has for itself.
    pub own: u64,
    pub landed: Landed,
}

impl GatewayLateWrites {
    /// Returns whether the gateway may give this write to the cluster although nobody waits for it.
    pub fn may_be(&self, op: &Op) -> bool {
        op.kind.is_write()
            && self
                .view
                .unheard(self.gateway, HANDED_ON)
                .contains(&address((op.lba / self.own) as usize))
    }

    /// Tells the oracle that such a write is executed about now.
    pub fn lands(&self, op: &Op) {
        self.landed.lock().extend(units_of(op, self.block_bytes));
    }
}
