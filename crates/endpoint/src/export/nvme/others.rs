//! The ports of the other gateways that serve the same subsystems, as discovery tells of them.

use super::ports::OtherPort;
use super::rdma;
use super::target_state::TargetState;
use super::tcp::Security;
use crate::inventory::{Change, Follower, Inventory};
use crate::url::NvmeTransport;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};

/// Tells a target of them, as long as it lives.
pub(super) struct OtherGateways {
    target: Weak<TargetState>,
    /// What TCP ports speak: the same at all gateways of a group.
    security: Security,
}

impl OtherGateways {
    /// For a target whose ports speak this.
    pub(super) fn of(target: &Arc<TargetState>, security: Security) -> Arc<Self> {
        target.inventory.join(|_| {
            let others = Arc::new(Self { target: Arc::downgrade(target), security });
            others.others_changed();
            others
        })
    }

    fn port(&self, (id, transport, at): (u16, NvmeTransport, SocketAddr)) -> OtherPort {
        let address = match transport {
            NvmeTransport::Tcp => self.security.address(at),
            NvmeTransport::Rdma => rdma::address(at),
        };
        OtherPort { id, address, ip: at.ip() }
    }
}

impl Follower for OtherGateways {
    fn follow(&self, _: &Arc<Inventory>, _: &[Change]) {}

    fn others_changed(&self) {
        let Some(target) = self.target.upgrade() else { return };
        target.set_others(target.inventory.others().nvme().map(|port| self.port(port)).collect());
    }
}
