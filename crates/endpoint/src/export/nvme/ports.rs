//! The ports at which a target is reached, and what discovery says about them.

use super::transport::PortAddress;
use crate::inventory::port_number;
use crate::limits::PORTS_MAX;
use std::sync::Arc;
use weft_proto::nvme::controller::{DiscoveryRecord, Port, Subsystem, TransportAddress};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::types::{Cntlid, Nqn};

/// A port of another gateway that serves the same subsystems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OtherPort {
    /// Its identifier.
    pub(crate) id: u16,
    /// What discovery says of it.
    pub(crate) address: TransportAddress,
    /// Only hosts on this machine reach it.
    pub(crate) is_local: bool,
}

/// The ports of this process, and of the other gateways.
pub(crate) struct Ports {
    /// The identifier of the first one.
    first: u16,
    /// In the order of their identifiers; [`PORTS_MAX`] at most, as a loopback has millions.
    addresses: Vec<PortAddress>,
    /// Those where the target does not listen any more, of which discovery tells nothing.
    closed: Vec<bool>,
    others: Vec<OtherPort>,
}

impl Ports {
    /// No ports yet. Their identifiers begin with `first`.
    pub(crate) fn new(first: u16) -> Self {
        Self { first, addresses: Vec::new(), closed: Vec::new(), others: Vec::new() }
    }

    /// The port of an address; tells whether it is new.
    pub(crate) fn reached(&mut self, address: &PortAddress) -> (Port, bool) {
        let mut known = self.addresses.iter().position(|port| port == address);
        if known.is_none() && self.addresses.len() >= PORTS_MAX {
            // It is one of those that are known already: of the same kind, where there is one.
            let alike = |port: &PortAddress| {
                let of =
                    |port: &PortAddress| (port.is_local, port.host_memory, port.in_capsule_bytes);
                of(port) == of(address)
            };
            known = self.addresses.iter().position(alike).or(Some(0));
        }
        let index = known.unwrap_or_else(|| {
            self.addresses.push(address.clone());
            self.closed.push(false);
            self.addresses.len() - 1
        });
        let is_new = known.is_none()
            || (self.addresses[index] == *address && core::mem::take(&mut self.closed[index]));
        let PortAddress { host_memory, in_capsule_bytes, listener, .. } = *address;
        (
            Port { id: port_number(self.first, index), host_memory, listener, in_capsule_bytes },
            is_new,
        )
    }

    /// Forgets where the target does not listen any more; tells whether that changes something.
    pub(crate) fn keep(&mut self, listens: impl Fn(&PortAddress) -> bool) -> bool {
        let closed: Vec<bool> = self.addresses.iter().map(|port| !listens(port)).collect();
        core::mem::replace(&mut self.closed, closed) != self.closed
    }

    /// The ports of the other gateways from now on.
    pub(crate) fn set_others(&mut self, others: Vec<OtherPort>) {
        self.others = others;
    }

    /// Where the target listens, by the identifiers of the ports.
    fn open(&self) -> impl Iterator<Item = (u16, &PortAddress)> {
        let numbered = self
            .addresses
            .iter()
            .enumerate()
            .map(|(index, port)| (port_number(self.first, index), port));
        numbered.zip(&self.closed).filter(|(_, closed)| !**closed).map(|(port, _)| port)
    }

    /// What the discovery subsystem tells of itself through each port: its name, and that hosts may
    /// keep their connections.
    pub(crate) fn own_records(&self, discovery: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = discovery.config();
        let record = |(id, port): (u16, &PortAddress)| {
            let (kind, entries) = (SubsystemType::CURRENT_DISCOVERY, config.admin_queue_entries);
            let record = DiscoveryRecord::new(
                &config.nqn,
                kind,
                &port.address,
                id,
                entries,
                Cntlid::DYNAMIC,
            );
            DiscoveryRecord { ports: Some(vec![id]), ..record }
        };
        self.open().map(record).collect()
    }

    /// The records of the discovery log, of other gateways last. A loopback address is reported
    /// only to hosts that connected through a loopback address.
    pub(crate) fn records(&self, subsystem: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = subsystem.config();
        let hosts: Option<Arc<[Nqn]>> = subsystem.hosts().map(Arc::from);
        let local: Vec<u16> =
            self.open().filter(|(_, port)| port.is_local).map(|(id, _)| id).collect();
        let record = |(id, address, is_local): (u16, &TransportAddress, bool)| {
            let (kind, entries) = (SubsystemType::NVME, config.admin_queue_entries);
            let mut record =
                DiscoveryRecord::new(&config.nqn, kind, address, id, entries, Cntlid::DYNAMIC);
            record.hosts.clone_from(&hosts);
            record.ports = is_local.then(|| local.clone());
            record
        };
        let own = self.open().map(|(id, port)| (id, &port.address, port.is_local));
        // Whoever has taken the address of another one for itself is not that one.
        let is_other =
            |other: &&OtherPort| self.open().all(|(_, port)| port.address != other.address);
        let others = self
            .others
            .iter()
            .filter(is_other)
            .map(|other| (other.id, &other.address, other.is_local));
        own.chain(others).map(record).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weft_proto::nvme::controller::{ControllerKind, SubsystemConfig, TransportAddress};
    use weft_proto::nvme::log_page::{AddressFamily, SecureChannel, TransportType};
    use weft_proto::nvme::sqe::HostMemory;
    use weft_proto::nvme::wire::Ascii;

    fn at(trtype: TransportType, place: &str, host_memory: HostMemory) -> PortAddress {
        let address = TransportAddress {
            trtype,
            adrfam: AddressFamily::IPV4,
            traddr: Ascii::new(place),
            trsvcid: Ascii::new("4420"),
            tsas: [0; 256],
            secure_channel: SecureChannel::NOT_SPECIFIED,
        };
        PortAddress {
            address,
            is_local: place == "127.0.0.1",
            host_memory,
            listener: None,
            in_capsule_bytes: 4096,
        }
    }

    /// Every address of 127.0.0.0/8 is one of this machine's.
    #[test]
    fn who_comes_by_ever_new_addresses_makes_no_ever_longer_log() {
        let mut ports = Ports::new(1);
        let far = at(TransportType::TCP, "192.0.2.1", HostMemory::Transport);
        assert_eq!(ports.reached(&far).0.id, 1);
        let new = (0..1000_u32).filter(|n| {
            let place = std::net::Ipv4Addr::from_bits(0x7f00_0001 + n).to_string();
            let near = PortAddress {
                is_local: true,
                ..at(TransportType::TCP, &place, HostMemory::Transport)
            };
            let (port, is_new) = ports.reached(&near);
            assert!((2..=PORTS_MAX as u16).contains(&port.id), "one of the same kind");
            is_new
        });
        assert_eq!(new.count(), PORTS_MAX - 1);
    }

    #[test]
    fn ports_of_other_gateways_come_last_and_are_not_our_own() {
        let config = SubsystemConfig::new(
            ControllerKind::Io,
            Nqn::new("nqn.2026-01.example.weft:ports").unwrap(),
        );
        let mut subsystem = Subsystem::new(Duration::ZERO, config);
        let [own, far, near] = ["192.0.2.1", "192.0.2.2", "127.0.0.1"]
            .map(|place| at(TransportType::TCP, place, HostMemory::Transport));
        let other = |id, port: &PortAddress| OtherPort {
            id,
            address: port.address.clone(),
            is_local: port.is_local,
        };
        let mut ports = Ports::new(2001);
        assert_eq!(ports.reached(&own).0.id, 2001);
        ports.set_others(vec![other(1, &far), other(1001, &own), other(3001, &near)]);
        subsystem.set_hosts(Some(vec![Nqn::new("nqn.2026-01.example.host:one").unwrap()]));
        let told = |ports: &Ports| {
            let records = ports.records(&subsystem);
            assert!(records.iter().all(|record| record.hosts.as_deref() == subsystem.hosts()));
            records
                .into_iter()
                .map(|record| (record.entry.portid, record.ports))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            told(&ports),
            [(2001, None), (1, None), (3001, Some(vec![]))],
            "nobody comes by the loopback"
        );
        ports.reached(&PortAddress {
            address: TransportAddress { trsvcid: Ascii::new("1"), ..near.address.clone() },
            ..near
        });
        assert_eq!(
            told(&ports),
            [(2001, None), (2002, Some(vec![2002])), (1, None), (3001, Some(vec![2002]))]
        );
        ports.keep(|_| false);
        assert_eq!(
            told(&ports).iter().map(|(id, _)| *id).collect::<Vec<_>>(),
            [1, 1001, 3001],
            "it listens nowhere any more"
        );
    }

    #[test]
    fn closed_ports_are_not_told_of() {
        let config = SubsystemConfig::new(
            ControllerKind::Io,
            Nqn::new("nqn.2026-01.example.weft:ports").unwrap(),
        );
        let subsystem = Subsystem::new(Duration::ZERO, config);
        let [one, two] = ["192.0.2.1", "192.0.2.2"]
            .map(|place| at(TransportType::TCP, place, HostMemory::Transport));
        let mut ports = Ports::new(1);
        [&one, &two].iter().for_each(|port| _ = ports.reached(port));
        assert!(ports.keep(|port| *port == two));
        assert!(!ports.keep(|port| *port == two));
        let told = |ports: &Ports| {
            ports.records(&subsystem).iter().map(|record| record.entry.portid).collect::<Vec<_>>()
        };
        assert_eq!(told(&ports), [2]);
        assert_eq!((ports.reached(&one).0.id, told(&ports)), (1, vec![1, 2]), "opened again");
    }

    #[test]
    fn one_target_has_ports_of_several_transports() {
        let tcp = at(TransportType::TCP, "192.0.2.1", HostMemory::Transport);
        let rdma = at(TransportType::RDMA, "192.0.2.1", HostMemory::Keyed);
        let near = at(TransportType::TCP, "127.0.0.1", HostMemory::Transport);
        let mut ports = Ports::new(1);
        for (id, (address, is_new)) in
            [(&tcp, true), (&rdma, true), (&near, true), (&rdma, false)].into_iter().enumerate()
        {
            let (port, new) = ports.reached(address);
            assert_eq!(port.id, if is_new { id as u16 + 1 } else { 2 });
            assert_eq!((port.host_memory, new), (address.host_memory, is_new));
        }
        let config = SubsystemConfig::new(
            ControllerKind::Io,
            Nqn::new("nqn.2026-01.example.weft:ports").unwrap(),
        );
        let records = ports.records(&Subsystem::new(Duration::ZERO, config));
        let told: Vec<_> = records
            .iter()
            .map(|record| (record.entry.portid, record.entry.trtype, record.ports.clone()))
            .collect();
        let near = (3, TransportType::TCP, Some(vec![3]));
        assert_eq!(told, [(1, TransportType::TCP, None), (2, TransportType::RDMA, None), near]);
    }
}
