//! The ports of the other gateways that serve the same subsystems, as discovery reports them.

use super::ports::OtherPort;
use super::rdma;
use super::target_state::TargetState;
use super::tcp::ConnectionSecurity;
use crate::inventory::{Change, Follower, Inventory};
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use weft_connection::url::NvmeTransport;

/// Tells a target of them, as long as it lives.
pub(super) struct OtherGateways {
    target: Weak<TargetState>,
    /// What TCP ports speak: the same at all gateways of a group.
    security: ConnectionSecurity,
}

impl OtherGateways {
    /// For a target whose ports speak this.
    pub(super) fn of(target: &Arc<TargetState>, security: ConnectionSecurity) -> Arc<Self> {
        target.inventory.join(|now| {
            let others = Arc::new(Self { target: Arc::downgrade(target), security });
            others.tell(now);
            others
        })
    }

    fn tell(&self, now: &Inventory) {
        let Some(target) = self.target.upgrade() else { return };
        let others = now.discovery().others.nvme();
        target.set_others(others.map(|port| self.port(port)).collect());
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
    fn follow(&self, now: &Arc<Inventory>, changes: &[Change]) {
        if changes.iter().any(|change| matches!(change, Change::OthersChanged(_))) {
            self.tell(now);
        }
    }
}
