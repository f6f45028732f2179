//! What a discovery controller tells: the ways to reach subsystems (Base §3.1.2.3, §5.16.1.23).

use super::namespace::lists;
use crate::nvme::log_page::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, SecureChannel, SubsystemType, TransportType,
};
use crate::nvme::types::{Cntlid, Nqn};
use crate::nvme::wire::{Ascii, NqnField};
use std::sync::Arc;

/// How a port is reached, in the words of its transport: what a [`DiscoveryEntry`] says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransportAddress {
    /// Transport Type.
    pub trtype: TransportType,
    /// Address Family.
    pub adrfam: AddressFamily,
    /// Transport Address.
    pub traddr: Ascii<256>,
    /// Transport Service Identifier.
    pub trsvcid: Ascii<32>,
    /// Transport Specific Address Subtype.
    pub tsas: [u8; 256],
    /// Transport Requirements: whether the transport wants a secure channel.
    pub secure_channel: SecureChannel,
}

/// An entry of the discovery log, and who may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// What is told.
    pub entry: DiscoveryEntry,
    /// Hosts that are told; `None` means all. One list may be that of many records.
    pub hosts: Option<Arc<[Nqn]>>,
    /// Identifiers of the ports through which it is told; `None` means all. A host that comes by
    /// the network has no use for an entry that says 127.0.0.1.
    pub ports: Option<Vec<u16>>,
}

impl DiscoveryRecord {
    /// TREQ: SQ flow control can be switched off, whatever the transport.
    const FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;

    /// A subsystem that is reached at `address`, told to all hosts on all ports.
    /// `admin_queue_entries` is what its admin queues hold; `cntlid` is [`Cntlid::DYNAMIC`], or
    /// [`Cntlid::STATIC`] for the static controller model.
    pub fn new(
        subsystem: &Nqn,
        kind: SubsystemType,
        address: &TransportAddress,
        port_id: u16,
        admin_queue_entries: u16,
        cntlid: Cntlid,
    ) -> Self {
        let own = kind == SubsystemType::CURRENT_DISCOVERY;
        let entry = DiscoveryEntry {
            trtype: address.trtype,
            adrfam: address.adrfam,
            subtype: kind,
            treq: address.secure_channel.0 | Self::FLOW_CONTROL_OPTIONAL,
            portid: port_id,
            cntlid,
            asqsz: admin_queue_entries,
            eflags: if own { DiscoveryEntry::EFLAGS_PERSISTENT } else { 0 },
            trsvcid: address.trsvcid,
            subnqn: NqnField::from(subsystem),
            traddr: address.traddr,
            tsas: address.tsas,
        };
        Self { entry, hosts: None, ports: None }
    }

    fn shown(&self, host: Option<&Nqn>, port: u16) -> bool {
        lists(self.hosts.as_deref(), host)
            && self.ports.as_ref().is_none_or(|ports| ports.contains(&port))
    }
}

/// The content of the discovery log page at one moment. Controllers hold a snapshot (an `Arc`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveryLog {
    generation: u64,
    records: Vec<DiscoveryRecord>,
}

impl DiscoveryLog {
    /// The log after this one, with other records: the generation counter says that it has changed.
    pub fn next(&self, records: Vec<DiscoveryRecord>) -> Self {
        Self { generation: self.generation.wrapping_add(1), records }
    }

    /// The generation counter (GENCTR).
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The records.
    pub fn records(&self) -> &[DiscoveryRecord] {
        &self.records
    }

    fn shown<'a>(
        &'a self,
        host: Option<&'a Nqn>,
        port: u16,
    ) -> impl Iterator<Item = &'a DiscoveryRecord> {
        self.records.iter().filter(move |record| record.shown(host, port))
    }

    /// Whether the two logs differ for a host that comes through this port.
    pub(super) fn differs(&self, other: &Self, host: Option<&Nqn>, port: u16) -> bool {
        !self.shown(host, port).eq(other.shown(host, port))
    }

    /// Bytes of the log page that the host sees.
    pub(super) fn page_bytes(&self, host: Option<&Nqn>, port: u16) -> u64 {
        (DiscoveryHeader::BYTES + self.shown(host, port).count() * DiscoveryEntry::BYTES) as u64
    }

    /// The log page that the host sees.
    pub(super) fn page(&self, host: Option<&Nqn>, port: u16) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes(host, port) as usize];
        let (header, entries) = page.split_at_mut(DiscoveryHeader::BYTES);
        let mut count = 0;
        for (record, out) in
            self.shown(host, port).zip(entries.chunks_exact_mut(DiscoveryEntry::BYTES))
        {
            record.entry.put(out);
            count += 1;
        }
        DiscoveryHeader { genctr: self.generation, numrec: count, recfmt: 0 }.put(header);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An RDMA port behind InfiniBand, reliable and connected.
    fn address() -> TransportAddress {
        let mut tsas = [0; 256];
        (tsas[0], tsas[1], tsas[2]) = (1, 2, 1);
        TransportAddress {
            trtype: TransportType::RDMA,
            adrfam: AddressFamily::INFINIBAND,
            traddr: Ascii::new("fe80::1"),
            trsvcid: Ascii::new("4420"),
            tsas,
            secure_channel: SecureChannel::NOT_REQUIRED,
        }
    }

    fn record(name: &str, port: u16) -> DiscoveryRecord {
        let nqn = Nqn::new(&format!("nqn.2014-08.org.example:{name}")).unwrap();
        DiscoveryRecord::new(&nqn, SubsystemType::NVME, &address(), port, 32, Cntlid::DYNAMIC)
    }

    #[test]
    fn hosts_see_what_is_meant_for_them() {
        let host = Nqn::new("nqn.2014-08.org.example:host").unwrap();
        let other = Nqn::new("nqn.2014-08.org.example:other").unwrap();
        let records = vec![
            record("open", 1),
            DiscoveryRecord { hosts: Some([host.clone()].into()), ..record("private", 1) },
            DiscoveryRecord { ports: Some(vec![2]), ..record("far", 2) },
        ];
        let empty = DiscoveryLog::default();
        let log = empty.next(records);
        assert_eq!((empty.generation(), log.generation(), log.records().len()), (0, 1, 3));
        let (host, other) = (Some(&host), Some(&other));
        for (who, port, expected) in
            [(host, 1, 2), (other, 1, 1), (other, 2, 2), (host, 2, 3), (None, 1, 1), (None, 2, 2)]
        {
            let page = log.page(who, port);
            assert_eq!(page.len(), 1024 * (1 + expected), "{who:?} through {port}");
            let header = DiscoveryHeader::decode(&page).unwrap();
            assert_eq!((header.genctr, header.numrec, header.recfmt), (1, expected as u64, 0));
        }
        let closed = log.next(vec![record("open", 1)]);
        assert!(closed.differs(&log, host, 1) && !closed.differs(&log, other, 1));
    }

    #[test]
    fn an_entry_says_what_the_transport_says() {
        let DiscoveryRecord { entry, .. } = record("x", 3);
        assert_eq!(
            (entry.trtype, entry.adrfam, entry.portid),
            (TransportType::RDMA, AddressFamily::INFINIBAND, 3)
        );
        assert_eq!(
            (entry.traddr.text(), entry.trsvcid.text()),
            ("fe80::1".to_owned(), "4420".to_owned())
        );
        assert_eq!((entry.tsas, entry.treq, entry.eflags), (address().tsas, 0b110, 0));
        let own = DiscoveryRecord::new(
            &Nqn::discovery(),
            SubsystemType::CURRENT_DISCOVERY,
            &address(),
            3,
            32,
            Cntlid::DYNAMIC,
        );
        assert_eq!(own.entry.eflags, DiscoveryEntry::EFLAGS_PERSISTENT);
    }
}
