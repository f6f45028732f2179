//! What a test may ask of the network while drivers run.

use super::net::SharedNet;
use core::time::Duration;
use std::net::IpAddr;

/// See [`super::World::view`].
#[derive(Clone)]
pub struct View(pub(super) SharedNet);

impl View {
    /// The clients that have ended a connection to this server which does not know that yet, as the
    /// end is still on its way, perhaps behind data. Those count as well of which it did not know
    /// when it received from them, so long ago at most.
    pub fn unheard(&self, server: IpAddr, ago: Duration) -> Vec<IpAddr> {
        let net = self.0.lock();
        net.unheard(ago)
            .chain(net.rdma_unheard())
            .filter(|(_, to)| *to == server)
            .map(|(from, _)| from)
            .collect()
    }
}
