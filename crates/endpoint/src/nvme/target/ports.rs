//! The ports at which a target is reached, and what discovery says about them.

use super::transport::PortAddress;
use crate::limits::PORTS_MAX;
use weft_proto::nvme::controller::{DiscoveryRecord, Port, Subsystem};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::types::Cntlid;

/// Addresses by port identifier, which is one more than the index; [`PORTS_MAX`] at most, as a loopback has millions. Of those where the target
/// does not listen any more, discovery tells nothing.
#[derive(Default)]
pub(crate) struct Ports(Vec<PortAddress>, Vec<bool>);

impl Ports {
    /// The port of an address; tells whether it is new.
    pub(crate) fn reached(&mut self, address: &PortAddress) -> (Port, bool) {
        let mut known = self.0.iter().position(|port| port == address);
        if known.is_none() && self.0.len() >= PORTS_MAX {
            // It is one of those that are known already: of the same kind, where there is one.
            let alike = |port: &PortAddress| {
                let of = |port: &PortAddress| (port.is_local, port.host_memory, port.in_capsule_bytes);
                of(port) == of(address)
            };
            known = self.0.iter().position(alike).or(Some(0));
        }
        let index = known.unwrap_or_else(|| {
            self.0.push(address.clone());
            self.1.push(false);
            self.0.len() - 1
        });
        let is_new = known.is_none() || (self.0[index] == *address && core::mem::take(&mut self.1[index]));
        let PortAddress { host_memory, in_capsule_bytes, listener, .. } = *address;
        (Port { id: index as u16 + 1, host_memory, listener, in_capsule_bytes }, is_new)
    }

    /// Forgets where the target does not listen any more; tells whether that changes something.
    pub(crate) fn keep(&mut self, listens: impl Fn(&PortAddress) -> bool) -> bool {
        let closed: Vec<bool> = self.0.iter().map(|port| !listens(port)).collect();
        core::mem::replace(&mut self.1, closed) != self.1
    }

    /// What the discovery subsystem tells of itself through each port: its name, and that hosts may keep their connections.
    pub(crate) fn own_records(&self, discovery: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = discovery.config();
        let record = |(id, port): (u16, &PortAddress)| {
            let (kind, entries) = (SubsystemType::CURRENT_DISCOVERY, config.admin_queue_entries);
            let record = DiscoveryRecord::new(&config.nqn, kind, &port.address, id, entries, Cntlid::DYNAMIC);
            DiscoveryRecord { ports: Some(vec![id]), ..record }
        };
        (1..).zip(&self.0).zip(&self.1).filter(|(_, closed)| !**closed).map(|(port, _)| record(port)).collect()
    }

    /// The records of the discovery log. A loopback address is reported only to hosts that connected through a loopback address.
    pub(crate) fn records(&self, subsystem: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = subsystem.config();
        let local: Vec<u16> = (1..).zip(&self.0).filter(|(_, port)| port.is_local).map(|(id, _)| id).collect();
        let record = |(id, port): (u16, &PortAddress)| {
            let (kind, entries) = (SubsystemType::NVME, config.admin_queue_entries);
            let mut record = DiscoveryRecord::new(&config.nqn, kind, &port.address, id, entries, Cntlid::DYNAMIC);
            record.hosts = subsystem.hosts().map(<[_]>::to_vec);
            record.ports = port.is_local.then(|| local.clone());
            record
        };
        (1..).zip(&self.0).zip(&self.1).filter(|(_, closed)| !**closed).map(|(port, _)| record(port)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use weft_proto::nvme::controller::{ControllerKind, SubsystemConfig, TransportAddress};
    use weft_proto::nvme::log_page::{AddressFamily, SecureChannel, TransportType};
    use weft_proto::nvme::sqe::HostMemory;
    use weft_proto::nvme::types::Nqn;
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
        PortAddress { address, is_local: place == "127.0.0.1", host_memory, listener: None, in_capsule_bytes: 4096 }
    }

    /// Every address of 127.0.0.0/8 is one of this machine's.
    #[test]
    fn who_comes_by_ever_new_addresses_makes_no_ever_longer_log() {
        let mut ports = Ports::default();
        let far = at(TransportType::TCP, "192.0.2.1", HostMemory::Transport);
        assert_eq!(ports.reached(&far).0.id, 1);
        let new = (0..1000_u32).filter(|n| {
            let place = std::net::Ipv4Addr::from_bits(0x7f00_0001 + n).to_string();
            let near = PortAddress { is_local: true, ..at(TransportType::TCP, &place, HostMemory::Transport) };
            let (port, is_new) = ports.reached(&near);
            assert!((2..=PORTS_MAX as u16).contains(&port.id), "one of the same kind");
            is_new
        });
        assert_eq!(new.count(), PORTS_MAX - 1);
    }

    #[test]
    fn closed_ports_are_not_told_of() {
        let config = SubsystemConfig::new(ControllerKind::Io, Nqn::new("nqn.2026-01.example.weft:ports").unwrap());
        let subsystem = Subsystem::new(Duration::ZERO, config);
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|place| at(TransportType::TCP, place, HostMemory::Transport));
        let mut ports = Ports::default();
        [&one, &two].iter().for_each(|port| _ = ports.reached(port));
        assert!(ports.keep(|port| *port == two));
        assert!(!ports.keep(|port| *port == two));
        let told = |ports: &Ports| ports.records(&subsystem).iter().map(|record| record.entry.portid).collect::<Vec<_>>();
        assert_eq!(told(&ports), [2]);
        assert_eq!((ports.reached(&one).0.id, told(&ports)), (1, vec![1, 2]), "opened again");
    }

    #[test]
    fn one_target_has_ports_of_several_transports() {
        let tcp = at(TransportType::TCP, "192.0.2.1", HostMemory::Transport);
        let rdma = at(TransportType::RDMA, "192.0.2.1", HostMemory::Keyed);
        let near = at(TransportType::TCP, "127.0.0.1", HostMemory::Transport);
        let mut ports = Ports::default();
        for (id, (address, is_new)) in [(&tcp, true), (&rdma, true), (&near, true), (&rdma, false)].into_iter().enumerate() {
            let (port, new) = ports.reached(address);
            assert_eq!(port.id, if is_new { id as u16 + 1 } else { 2 });
            assert_eq!((port.host_memory, new), (address.host_memory, is_new));
        }
        let config = SubsystemConfig::new(ControllerKind::Io, Nqn::new("nqn.2026-01.example.weft:ports").unwrap());
        let records = ports.records(&Subsystem::new(Duration::ZERO, config));
        let told: Vec<_> =
            records.iter().map(|record| (record.entry.portid, record.entry.trtype, record.ports.clone())).collect();
        let near = (3, TransportType::TCP, Some(vec![3]));
        assert_eq!(told, [(1, TransportType::TCP, None), (2, TransportType::RDMA, None), near]);
    }
}
