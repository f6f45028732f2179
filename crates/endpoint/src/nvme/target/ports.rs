//! The addresses at which a target is reached, and what discovery says about them.

use crate::limits::IN_CAPSULE_BYTES;
use std::net::SocketAddr;
use weft_proto::nvme::controller::{DiscoveryRecord, Port, Subsystem};
use weft_proto::nvme::log_page::SubsystemType;
use weft_proto::nvme::sqe::HostMemory;
use weft_proto::nvme::types::Cntlid;

/// Addresses by port identifier, which is one more than the index. Bounded by the addresses that this machine has.
#[derive(Default)]
pub(crate) struct Ports(Vec<SocketAddr>);

impl Ports {
    /// Enters an address that is listened at. A wildcard has no place in discovery: the address by which a host comes has.
    pub(crate) fn listen(&mut self, address: SocketAddr) {
        if !address.ip().is_unspecified() {
            self.reached(address);
        }
    }

    /// The port of an address; tells whether it is new.
    pub(crate) fn reached(&mut self, address: SocketAddr) -> (Port, bool) {
        let known = self.0.iter().position(|port| *port == address);
        let index = known.unwrap_or_else(|| {
            self.0.push(address);
            self.0.len() - 1
        });
        (Port { id: index as u16 + 1, host_memory: HostMemory::Transport, in_capsule_bytes: IN_CAPSULE_BYTES }, known.is_none())
    }

    /// The records of the discovery log. An address on the loopback is told to those who came by the loopback.
    pub(crate) fn records(&self, subsystem: &Subsystem) -> Vec<DiscoveryRecord> {
        let config = subsystem.config();
        let local: Vec<u16> = (1..).zip(&self.0).filter(|(_, address)| address.ip().is_loopback()).map(|(id, _)| id).collect();
        let record = |(id, address): (u16, &SocketAddr)| {
            let kind = SubsystemType::NVME;
            let entries = config.admin_queue_entries;
            let mut record = DiscoveryRecord::tcp(&config.nqn, kind, *address, id, entries, Cntlid::DYNAMIC);
            record.hosts = subsystem.hosts().map(<[_]>::to_vec);
            record.ports = address.ip().is_loopback().then(|| local.clone());
            record
        };
        (1..).zip(&self.0).map(record).collect()
    }
}
