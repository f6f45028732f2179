//! The target ports: one for each address that the target listens at. The number of a port is the
//! portal group tag of iSCSI, and in SCSI both the relative port identifier and the target port
//! group.

use crate::inventory::{AccessStates, OtherPorts, Sharing, Subsystem, port_number};
use std::net::SocketAddr;
use weft_block::{AccessState, Error, ErrorKind};
use weft_proto::iscsi::target::Portals;
use weft_proto::limits::SCSI_PORTS_MAX;
use weft_proto::scsi::lun::{AccessState as PortState, PortAccess};

struct Port {
    number: u16,
    url: String,
    /// Where it listens; `None`: not yet, or no more.
    listener: Option<SocketAddr>,
}

/// The ports, in the order in which they were added. Reservations belong to them, so the same
/// addresses in the same order have the same numbers after a restart.
pub(super) struct Ports {
    first: u16,
    ports: Vec<Port>,
}

impl Ports {
    /// No ports yet. Where several processes serve the subsystem, their numbers differ as their
    /// controller identifiers do: for hosts they are ports of one disk.
    pub(super) fn new(subsystem: Option<&Subsystem>) -> Self {
        let first = subsystem
            .filter(|subsystem| subsystem.sharing != Sharing::Alone)
            .map_or(1, |subsystem| subsystem.cntlids.0);
        Self { first, ports: Vec::new() }
    }

    /// A port for an address, which opens when [`Self::open`] is called: that of before, if it was
    /// closed meanwhile.
    ///
    /// # Errors
    /// There are [`SCSI_PORTS_MAX`].
    pub(super) fn add(&mut self, url: &str) -> Result<u16, Error> {
        let closed = |port: &Port| port.listener.is_none();
        if let Some(known) = self.ports.iter().find(|port| closed(port) && port.url == url) {
            return Ok(known.number);
        }
        let (count, url) = (self.ports.len(), url.to_owned());
        if count < SCSI_PORTS_MAX {
            let number = port_number(self.first, count);
            self.ports.push(Port { number, url, listener: None });
            return Ok(number);
        }
        let text = || format!("an iSCSI target listens at {SCSI_PORTS_MAX} addresses at most");
        let free = self
            .ports
            .iter_mut()
            .find(|port| closed(port))
            .ok_or_else(|| Error::new(ErrorKind::Usage, text()))?;
        free.url = url;
        Ok(free.number)
    }

    /// The port listens at this address now.
    pub(super) fn open(&mut self, number: u16, at: SocketAddr) {
        self.ports
            .iter_mut()
            .filter(|port| port.number == number)
            .for_each(|port| port.listener = Some(at));
    }

    /// The port of a URL does not listen any more. Its sessions stay.
    pub(super) fn close(&mut self, url: &str) {
        let open = self.ports.iter_mut().find(|port| port.listener.is_some() && port.url == url);
        open.into_iter().for_each(|port| port.listener = None);
    }

    /// What discovery tells an initiator that came by the port `number` to our address `local`:
    /// that one, then the others that it may reach as well, and then those of other gateways.
    pub(super) fn portals(
        &self,
        number: u16,
        local: Option<SocketAddr>,
        others: &OtherPorts,
    ) -> Portals {
        let is_reachable = |other: &SocketAddr, local: &SocketAddr| {
            other != local
                && !other.ip().is_unspecified()
                && (!other.ip().is_loopback() || local.ip().is_loopback())
        };
        let open = self.ports.iter().filter_map(|port| Some((port.listener?, port.number)));
        let open = open.filter(|(other, _)| local.is_none_or(|local| is_reachable(other, &local)));
        let own = local.map(|local| (local, number)).into_iter().chain(open);
        let others = others.iscsi(local.is_none_or(|local| local.ip().is_loopback()));
        Portals {
            group: number,
            own: own.map(|(address, number)| (address.to_string(), number)).collect(),
            others,
        }
    }

    /// How well the logical units of a group of namespaces are reached.
    pub(super) fn access(&self, states: &AccessStates, group: u32) -> Vec<PortAccess> {
        let access = |port: &Port| PortAccess {
            port: port.number,
            state: port_state(states.of(port.listener, group)),
            is_open: port.listener.is_some(),
        };
        self.ports.iter().map(access).collect()
    }
}

fn port_state(state: AccessState) -> PortState {
    match state {
        AccessState::Optimized => PortState::OPTIMIZED,
        AccessState::NonOptimized => PortState::NON_OPTIMIZED,
        // Not unavailable: initiators find the disk there, and register with the port.
        AccessState::Inaccessible => PortState::STANDBY,
        AccessState::PersistentLoss => PortState::OFFLINE,
        AccessState::Transition => PortState::TRANSITIONING,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_address_is_a_port_and_keeps_its_number() {
        let mut ports = Ports::new(None);
        assert_eq!((ports.add("a").unwrap(), ports.add("b").unwrap()), (1, 2));
        ports.open(1, at("192.0.2.1:3260"));
        ports.open(2, at("192.0.2.2:3260"));
        let told = |ports: &Ports, number, local| {
            ports.portals(number, Some(at(local)), &OtherPorts::default()).own.to_vec()
        };
        let both = [("192.0.2.2:3260".to_owned(), 2), ("192.0.2.1:3260".to_owned(), 1)];
        assert_eq!(told(&ports, 2, "192.0.2.2:3260"), both);
        ports.close("a");
        assert_eq!(told(&ports, 2, "192.0.2.2:3260"), both[..1]);
        assert_eq!(
            ports.access(&AccessStates::default(), 1).iter().filter(|port| port.is_open).count(),
            1
        );
        assert_eq!((ports.add("c").unwrap(), ports.add("a").unwrap()), (3, 1));
        assert_eq!(ports.add("b").unwrap(), 4, "one of the same URL is open: a free port, twice");
    }

    #[test]
    fn there_is_a_bound() {
        let mut ports = Ports::new(None);
        for n in 0..SCSI_PORTS_MAX {
            let number = ports.add(&n.to_string()).unwrap();
            ports.open(number, at("192.0.2.1:3260"));
        }
        assert!(ports.add("one more").is_err());
        ports.close("5");
        assert_eq!(ports.add("one more").unwrap(), 6);
    }
}
