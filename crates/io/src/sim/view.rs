//! Queries of a test to the network while drivers run.

use super::net::SharedNet;
use core::time::Duration;
use std::net::IpAddr;

/// See [`super::World::view`].
#[derive(Clone)]
pub struct WorldView(pub(super) SharedNet);

impl WorldView {
    /// Clients whose FIN to this server is still in flight, possibly behind data. Also includes
    /// clients whose FIN was in flight when the server last received from them, if that was at most
    /// `ago` earlier.
    pub fn unheard(&self, server: IpAddr, ago: Duration) -> Vec<IpAddr> {
        let net = self.0.lock();
        net.unheard(ago)
            .chain(net.rdma_unheard())
            .filter(|(_, to)| *to == server)
            .map(|(from, _)| from)
            .collect()
    }
}
