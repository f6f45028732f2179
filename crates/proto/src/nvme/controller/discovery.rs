//! Contents of a discovery controller: the ways to reach subsystems (Base §3.1.2.3, §5.16.1.23).

use super::identity::Port;
use super::namespace::lists;
use crate::nvme::log_page::{
    AddressFamily, DiscoveryEntry, DiscoveryHeader, SecureChannelNeed, SubsystemType, TransportType,
};
use crate::nvme::types::{Cntlid, Nqn};
use crate::nvme::wire::{Ascii, NqnField};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Address of a port in the words of its transport, as in a [`DiscoveryEntry`].
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
    pub secure_channel: SecureChannelNeed,
}

/// An entry of the discovery log, and who may see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveryRecord {
    /// The reported entry.
    pub entry: DiscoveryEntry,
    /// Hosts that get it; `None` means all. One list may be that of many records.
    pub hosts: Option<Arc<[Nqn]>>,
    /// Ports and addresses through which hosts get it.
    pub audience: Audience,
}

/// Ports and addresses through which hosts get a record. The default is all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audience {
    /// Only hosts that came by a loopback address: a host that comes by the network has no use for
    /// an entry that says 127.0.0.1.
    pub is_local: bool,
    /// Only hosts that came through the port with this identifier, at this listener: identifiers of
    /// closed ports are used again, while hosts may still be connected through them.
    pub through: Option<(u16, Option<SocketAddr>)>,
    /// Not hosts that came by this address.
    pub not_at: Option<IpAddr>,
    /// The unspecified address, for a listener at all addresses of the machine: a host gets the
    /// address by which it came, in place of that of the entry. Only hosts that came by the same
    /// transport and an address that the listener has: that of IPv6 has those of IPv4, too. Not
    /// hosts that came by another transport, which may be at a network device that the listener's
    /// cannot use.
    pub at_all: Option<IpAddr>,
}

impl Audience {
    /// Returns whether a host that came through `port` belongs to it; `entry` is the host's view of
    /// it.
    fn includes(&self, entry: &DiscoveryEntry, port: &Port) -> bool {
        let came_by = port.came_by;
        let reaches = |any: IpAddr| {
            came_by.is_some_and(|by| {
                by.transport == entry.trtype && (any.is_ipv6() || by.ip.is_ipv4())
            })
        };
        (!self.is_local || came_by.is_some_and(|by| by.ip.is_loopback()))
            && self.through.is_none_or(|of| of == (port.id, port.listener))
            && self.not_at.is_none_or(|ip| came_by.is_none_or(|by| by.ip != ip))
            && self.at_all.is_none_or(reaches)
    }
}

impl DiscoveryRecord {
    /// TREQ: SQ flow control can be switched off, whatever the transport.
    const FLOW_CONTROL_OPTIONAL: u8 = 1 << 2;

    /// A subsystem that is reached at `address`, for all hosts, through all ports.
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
        Self { entry, hosts: None, audience: Audience::default() }
    }

    fn shown(&self, host: Option<&Nqn>, port: &Port) -> bool {
        lists(self.hosts.as_deref(), host) && self.audience.includes(&self.entry, port)
    }

    /// Writes the entry for a host that came through `port`.
    fn put(&self, port: &Port, out: &mut [u8]) {
        match (self.audience.at_all, port.came_by) {
            (Some(_), Some(by)) => DiscoveryEntry {
                adrfam: AddressFamily::of(by.ip),
                traddr: Ascii::new(&by.ip.to_string()),
                ..self.entry.clone()
            }
            .put(out),
            _ => self.entry.put(out),
        }
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
        port: &'a Port,
    ) -> impl Iterator<Item = &'a DiscoveryRecord> {
        self.records.iter().filter(move |record| record.shown(host, port))
    }

    /// Returns whether the two logs differ for a host that comes through this port.
    pub(super) fn differs(&self, other: &Self, host: Option<&Nqn>, port: &Port) -> bool {
        !self.shown(host, port).eq(other.shown(host, port))
    }

    /// Bytes of the log page that the host sees.
    pub(super) fn page_bytes(&self, host: Option<&Nqn>, port: &Port) -> u64 {
        (DiscoveryHeader::BYTES + self.shown(host, port).count() * DiscoveryEntry::BYTES) as u64
    }

    /// The log page that the host sees.
    pub(super) fn page(&self, host: Option<&Nqn>, port: &Port) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes(host, port) as usize];
        let (header, entries) = page.split_at_mut(DiscoveryHeader::BYTES);
        let mut count = 0;
        for (record, out) in
            self.shown(host, port).zip(entries.chunks_exact_mut(DiscoveryEntry::BYTES))
        {
            record.put(port, out);
            count += 1;
        }
        DiscoveryHeader { genctr: self.generation, numrec: count, recfmt: 0 }.put(header);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::controller::identity::CameBy;
    use crate::nvme::sqe::HostMemory;

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
            secure_channel: SecureChannelNeed::NOT_REQUIRED,
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
            DiscoveryRecord {
                audience: Audience { through: Some((2, None)), ..Audience::default() },
                ..record("far", 2)
            },
        ];
        let empty = DiscoveryLog::default();
        let log = empty.next(records);
        assert_eq!((empty.generation(), log.generation(), log.records().len()), (0, 1, 3));
        let (host, other) = (Some(&host), Some(&other));
        for (who, port, expected) in
            [(host, 1, 2), (other, 1, 1), (other, 2, 2), (host, 2, 3), (None, 1, 1), (None, 2, 2)]
        {
            let page = log.page(who, &by(port, None));
            assert_eq!(page.len(), 1024 * (1 + expected), "{who:?} through {port}");
            let header = DiscoveryHeader::decode(&page).unwrap();
            assert_eq!((header.genctr, header.numrec, header.recfmt), (1, expected as u64, 0));
        }
        let listener = Some(SocketAddr::from(([192, 0, 2, 1], 4420)));
        let former = Port { listener, ..by(2, None) };
        assert_eq!(log.page(other, &former).len(), 2048, "through a closed port of this number");
        let closed = log.next(vec![record("open", 1)]);
        let port = by(1, None);
        assert!(closed.differs(&log, host, &port) && !closed.differs(&log, other, &port));
    }

    /// A port that a host reached by this address.
    fn by(id: u16, ip: Option<&str>) -> Port {
        let came_by =
            ip.map(|ip| CameBy { transport: TransportType::RDMA, ip: ip.parse().unwrap() });
        Port { id, host_memory: HostMemory::Keyed, listener: None, in_capsule_bytes: 0, came_by }
    }

    /// Returns the addresses for a host that came through a port by an address.
    fn told(log: &DiscoveryLog, port: &Port) -> Vec<(AddressFamily, String)> {
        let page = log.page(None, port);
        let entries = page[1024..].chunks(1024).map(|entry| DiscoveryEntry::decode(entry).unwrap());
        entries.map(|entry| (entry.adrfam, entry.traddr.text())).collect()
    }

    #[test]
    fn a_listener_at_all_addresses_is_where_the_host_came() {
        let at_all = |port, any: &str| DiscoveryRecord {
            audience: Audience { at_all: Some(any.parse().unwrap()), ..Audience::default() },
            ..record("all", port)
        };
        let log = DiscoveryLog::default().next(vec![at_all(1, "0.0.0.0"), at_all(2, "::")]);
        let (four, six) = (AddressFamily::IPV4, AddressFamily::IPV6);
        let at = |family, ip: &str| (family, ip.to_owned());
        for n in 1..=200 {
            let ip = format!("192.0.2.{n}");
            for port in [1, 2, 7] {
                let both = [at(four, &ip), at(four, &ip)];
                assert_eq!(told(&log, &by(port, Some(&ip))), both, "through port {port}");
            }
        }
        assert_eq!(told(&log, &by(7, Some("fd00::1"))), [at(six, "fd00::1")], "by another port");
        assert!(told(&log, &by(1, None)).is_empty());
        let by_tcp = CameBy { transport: TransportType::TCP, ip: IpAddr::from([192, 0, 2, 1]) };
        assert!(told(&log, &Port { came_by: Some(by_tcp), ..by(7, None) }).is_empty());
    }

    #[test]
    fn loopback_addresses_are_for_hosts_on_this_machine() {
        let local = Audience { is_local: true, ..Audience::default() };
        let elsewhere =
            Audience { not_at: Some(IpAddr::from([192, 0, 2, 1])), ..Audience::default() };
        let of = |audience| {
            DiscoveryLog::default().next(vec![DiscoveryRecord { audience, ..record("x", 1) }])
        };
        for (audience, expected) in
            [(local, [false, true, true, false]), (elsewhere, [false, true, true, true])]
        {
            let ways = [Some("192.0.2.1"), Some("127.0.0.9"), Some("::1"), None];
            let told = ways.map(|ip| !told(&of(audience), &by(1, ip)).is_empty());
            assert_eq!(told, expected, "{audience:?}");
        }
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
