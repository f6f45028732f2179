//! The ports of a target, one for each of its listeners, and their entries in the discovery log.
//!
//! A listener at all addresses of the machine has one port as well. No list of the machine's
//! addresses is kept: they come and go, and a loopback has millions. Discovery returns to each host
//! the address by which it came.

use crate::inventory::port_number;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use weft_proto::nvme::auth::Named;
use weft_proto::nvme::controller::{
    Audience, CameBy, DiscoveryRecord, Port, Subsystem, TransportAddress,
};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::sqe::HostMemory;
use weft_proto::nvme::types::{Cntlid, Nqn};

/// The port of a listener, as its transport describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortAddress {
    /// Its entry in the discovery log; without the address for a listener at all addresses of this
    /// machine.
    pub(crate) address: TransportAddress,
    /// The address that the listener was given, if it has one.
    pub(crate) listener: Option<SocketAddr>,
    /// The kind of descriptor by which hosts name their memory.
    pub(crate) host_memory: HostMemory,
    /// Data that a command may carry in its capsule, in bytes.
    pub(crate) in_capsule_bytes: u32,
}

/// A port of another gateway that serves the same subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherPort {
    /// Its identifier.
    pub(crate) id: u16,
    /// What discovery says of it.
    pub(crate) address: TransportAddress,
    /// Its IP address.
    pub(crate) ip: IpAddr,
}

/// The origin of a Connect.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) port: Port,
    /// The host's address and port.
    pub(crate) peer: &'a str,
    /// The identity of the connection's key, where it is encrypted.
    pub(crate) identity: Option<&'a [u8]>,
}

impl<'a> Caller<'a> {
    /// The same, if an authentication made the key.
    pub(super) fn generated(&self) -> Option<&'a [u8]> {
        self.identity
            .filter(|identity| Named::parse(identity).is_some_and(|named| named.is_generated))
    }
}

/// A port of this process.
struct Own {
    address: PortAddress,
    /// The target listens there. Discovery says nothing of other ports, through which hosts may
    /// still be connected.
    is_open: bool,
}

impl Own {
    /// The address of its listener, unless that has none.
    fn ip(&self) -> Option<IpAddr> {
        self.address.listener.map(|at| at.ip().to_canonical())
    }

    /// The unspecified address, if it is at all addresses of this machine.
    fn at_all(&self) -> Option<IpAddr> {
        self.ip().filter(IpAddr::is_unspecified)
    }

    /// The hosts that are told of it.
    fn audience(&self) -> Audience {
        Audience {
            is_local: self.ip().is_some_and(|ip| ip.is_loopback()),
            at_all: self.at_all(),
            ..Audience::default()
        }
    }
}

/// The ports of this process, and of the other gateways.
pub(crate) struct Ports {
    /// The identifier of the first one.
    first: u16,
    /// In the order of their identifiers.
    own: Vec<Own>,
    others: Vec<OtherPort>,
}

impl Ports {
    /// No ports yet. Their identifiers begin with `first`.
    pub(crate) fn new(first: u16) -> Self {
        Self { first, own: Vec::new(), others: Vec::new() }
    }

    /// The target listens at a port now; tells whether that is new.
    pub(crate) fn open(&mut self, address: &PortAddress) -> bool {
        let own = self.find(address);
        !core::mem::replace(&mut self.own[own].is_open, true)
    }

    /// The port that a host reached by the address `local` of this machine.
    pub(crate) fn reached(&mut self, address: &PortAddress, local: IpAddr) -> Port {
        let index = self.find(address);
        let PortAddress { host_memory, in_capsule_bytes, listener, .. } = *address;
        let came_by = CameBy { transport: address.address.trtype, ip: local.to_canonical() };
        Port {
            id: port_number(self.first, index),
            host_memory,
            listener,
            in_capsule_bytes,
            came_by: Some(came_by),
        }
    }

    /// The index of a port, which keeps its identifier when it closes and opens again. One that is
    /// new takes the place of a closed one, if there is one.
    fn find(&mut self, address: &PortAddress) -> usize {
        let known = self.own.iter().position(|own| own.address == *address);
        known.unwrap_or_else(|| {
            let own = Own { address: address.clone(), is_open: false };
            match self.own.iter().position(|own| !own.is_open) {
                Some(closed) => {
                    self.own[closed] = own;
                    closed
                }
                None => {
                    self.own.push(own);
                    self.own.len() - 1
                }
            }
        })
    }

    /// Closes the ports at which the target does not listen any more; tells whether that changes
    /// something.
    pub(crate) fn keep(&mut self, listens: impl Fn(&PortAddress) -> bool) -> bool {
        let closed = self.own.iter_mut().filter(|own| own.is_open && !listens(&own.address));
        closed.fold(false, |_, own| {
            own.is_open = false;
            true
        })
    }

    /// The ports of the other gateways from now on.
    pub(crate) fn set_others(&mut self, others: Vec<OtherPort>) {
        self.others = others;
    }

    /// Where the target listens, by the identifiers of the ports.
    fn listening(&self) -> impl Iterator<Item = (u16, &Own)> {
        let numbered =
            self.own.iter().enumerate().map(|(index, own)| (port_number(self.first, index), own));
        numbered.filter(|(_, own)| own.is_open)
    }

    /// What the discovery subsystem tells of itself through each port: its name, and that hosts may
    /// keep their connections.
    pub(crate) fn own_records(&self, discovery: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = discovery.config();
        let record = |(id, own): (u16, &Own)| {
            let (kind, entries) = (SubsystemType::CURRENT_DISCOVERY, config.admin_queue_entries);
            let address = &own.address.address;
            let record =
                DiscoveryRecord::new(&config.nqn, kind, address, id, entries, Cntlid::DYNAMIC);
            let through = Some((id, own.address.listener));
            DiscoveryRecord {
                audience: Audience { through, at_all: own.at_all(), ..record.audience },
                ..record
            }
        };
        self.listening().map(record).collect()
    }

    /// The records of the discovery log, of other gateways last. A loopback address is reported
    /// only to hosts that connected through a loopback address.
    pub(crate) fn records(&self, subsystem: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = subsystem.config();
        let hosts: Option<Arc<[Nqn]>> = subsystem.hosts().map(Arc::from);
        let record = |(id, address, audience): (u16, &TransportAddress, Audience)| {
            let (kind, entries) = (SubsystemType::NVME, config.admin_queue_entries);
            let record =
                DiscoveryRecord::new(&config.nqn, kind, address, id, entries, Cntlid::DYNAMIC);
            DiscoveryRecord { hosts: hosts.clone(), audience, ..record }
        };
        let own = self.listening().map(|(id, own)| (id, &own.address.address, own.audience()));
        // Whoever has taken the address of another one for itself is not that one.
        let is_other = |other: &&OtherPort| {
            self.listening().all(|(_, own)| own.address.address != other.address)
        };
        let others = self
            .others
            .iter()
            .filter(is_other)
            .map(|other| (other.id, &other.address, self.audience_of(other)));
        own.chain(others).map(record).collect()
    }

    /// The hosts that are told of another gateway's port: not those that came by its address to a
    /// listener here that has all addresses, as this process has that address then.
    fn audience_of(&self, other: &OtherPort) -> Audience {
        let place = |address: &TransportAddress| (address.trtype, address.trsvcid);
        let is_here = |(_, own): (u16, &Own)| {
            own.at_all().is_some() && place(&own.address.address) == place(&other.address)
        };
        Audience {
            is_local: other.ip.is_loopback(),
            not_at: self.listening().any(is_here).then_some(other.ip),
            ..Audience::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;
    use std::time::Duration;
    use weft_proto::nvme::controller::{ControllerKind, SubsystemConfig};
    use weft_proto::nvme::log_page::TransportType;
    use weft_proto::nvme::sqe::HostMemory;
    use weft_proto::nvme_rdma::{self, RdmaProvider};
    use weft_proto::nvme_tcp;

    fn at(place: &str) -> PortAddress {
        let listener: SocketAddr = place.parse().unwrap();
        PortAddress {
            address: nvme_tcp::transport_address(listener),
            host_memory: HostMemory::Transport,
            listener: Some(listener),
            in_capsule_bytes: 4096,
        }
    }

    fn by_rdma(place: &str) -> PortAddress {
        let address =
            nvme_rdma::transport_address(place.parse().unwrap(), RdmaProvider::NOT_SPECIFIED);
        PortAddress { address, host_memory: HostMemory::Keyed, ..at(place) }
    }

    fn other(id: u16, port: &PortAddress) -> OtherPort {
        OtherPort { id, address: port.address.clone(), ip: port.listener.unwrap().ip() }
    }

    fn subsystem() -> Subsystem {
        let nqn = Nqn::new("nqn.2026-01.example.weft:ports").unwrap();
        Subsystem::new(Duration::ZERO, SubsystemConfig::new(ControllerKind::Io, nqn))
    }

    fn told(ports: &Ports, subsystem: &Subsystem) -> Vec<(u16, Audience)> {
        let records = ports.records(subsystem);
        records.iter().map(|record| (record.entry.portid, record.audience)).collect()
    }

    const ALL: Audience = Audience { is_local: false, through: None, not_at: None, at_all: None };
    const LOCAL: Audience = Audience { is_local: true, ..ALL };

    /// Every address of 127.0.0.0/8 is one of this machine's.
    #[test]
    fn a_listener_at_all_addresses_is_one_port_however_many_hosts_use() {
        let any: IpAddr = [0, 0, 0, 0].into();
        let (all, far) = (at("0.0.0.0:4420"), at("192.0.2.1:9"));
        let mut ports = Ports::new(1);
        assert!(ports.open(&all) && ports.open(&far) && !ports.open(&far));
        for n in 0..1000_u32 {
            let local = IpAddr::from(std::net::Ipv4Addr::from_bits(0x7f00_0001 + n));
            let port = ports.reached(&all, local);
            let came_by = CameBy { transport: TransportType::TCP, ip: local };
            assert_eq!((port.id, port.came_by), (1, Some(came_by)));
        }
        let at_all = Audience { at_all: Some(any), ..ALL };
        assert_eq!(told(&ports, &subsystem()), [(1, at_all), (2, ALL)]);
        let own: Vec<_> =
            ports.own_records(&subsystem()).iter().map(|record| record.audience).collect();
        let through = |id, of: &PortAddress, at_all| Audience {
            through: Some((id, of.listener)),
            at_all,
            ..ALL
        };
        assert_eq!(own, [through(1, &all, Some(any)), through(2, &far, None)]);
    }

    #[test]
    fn ports_of_other_gateways_come_last_and_are_not_our_own() {
        let mut subsystem = subsystem();
        let [own, far, near] = ["192.0.2.1:4420", "192.0.2.2:4420", "127.0.0.1:4420"].map(at);
        let mut ports = Ports::new(2001);
        assert!(ports.open(&own));
        ports.set_others(vec![other(1, &far), other(1001, &own), other(3001, &near)]);
        subsystem.set_hosts(Some(vec![Nqn::new("nqn.2026-01.example.host:one").unwrap()]));
        assert!(
            ports
                .records(&subsystem)
                .iter()
                .all(|record| record.hosts.as_deref() == subsystem.hosts())
        );
        assert_eq!(told(&ports, &subsystem), [(2001, ALL), (1, ALL), (3001, LOCAL)]);
        // At the same port of all addresses: whoever comes by their address is here.
        ports.open(&at("0.0.0.0:4420"));
        let not_at = |other: &PortAddress| Some(other.listener.unwrap().ip());
        assert_eq!(
            told(&ports, &subsystem)[2..],
            [
                (1, Audience { not_at: not_at(&far), ..ALL }),
                (3001, Audience { not_at: not_at(&near), ..LOCAL })
            ]
        );
        ports.keep(|_| false);
        let ids: Vec<u16> = told(&ports, &subsystem).iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [1, 1001, 3001], "it listens nowhere any more");
    }

    #[test]
    fn closed_ports_are_not_told_of() {
        let [one, two, three] = ["192.0.2.1:4420", "192.0.2.2:4420", "192.0.2.3:4420"].map(at);
        let mut ports = Ports::new(1);
        [&one, &two].iter().for_each(|port| _ = ports.open(port));
        assert!(ports.keep(|port| *port == two));
        assert!(!ports.keep(|port| *port == two));
        let ids =
            |ports: &Ports| told(ports, &subsystem()).iter().map(|(id, _)| *id).collect::<Vec<_>>();
        assert_eq!(ids(&ports), [2]);
        // A connection that was accepted just before does not open it.
        assert_eq!(ports.reached(&one, [192, 0, 2, 1].into()).id, 1);
        assert_eq!(ids(&ports), [2]);
        assert_eq!((ports.open(&one), ids(&ports)), (true, vec![1, 2]), "opened again");
        ports.keep(|port| *port == two);
        assert_eq!((ports.open(&three), ids(&ports)), (true, vec![1, 2]), "no number is lost");
    }

    #[test]
    fn one_target_has_ports_of_several_transports() {
        let all =
            [at("192.0.2.1:4420"), by_rdma("192.0.2.1:4420"), at("127.0.0.1:4420"), at("[::]:9")];
        let mut ports = Ports::new(1);
        for (id, address) in (1..).zip(&all) {
            assert!(ports.open(address));
            let port = ports.reached(address, [192, 0, 2, 1].into());
            assert_eq!((port.id, port.host_memory), (id, address.host_memory));
        }
        let told: Vec<_> = ports
            .records(&subsystem())
            .iter()
            .map(|record| (record.entry.portid, record.entry.trtype, record.audience))
            .collect();
        let (tcp, rdma) = (TransportType::TCP, TransportType::RDMA);
        let six = Audience { at_all: Some(std::net::Ipv6Addr::UNSPECIFIED.into()), ..ALL };
        assert_eq!(told, [(1, tcp, ALL), (2, rdma, ALL), (3, tcp, LOCAL), (4, tcp, six)]);
    }
}
