//! Discovery log page (Base §5.16.1.23): a header and one entry per path to a subsystem, 1,024
//! bytes each.

use crate::nvme::types::Cntlid;
use crate::nvme::wire::{Ascii, NqnField, codes, structure};
use std::net::IpAddr;

codes! {
    /// Transport type (TRTYPE).
    pub struct TransportType(u8) {
        0 NONE "none";
        1 RDMA "rdma";
        2 FIBRE_CHANNEL "fc";
        3 TCP "tcp";
        254 LOOP "loop";
    }
}

codes! {
    /// Address family (ADRFAM).
    pub struct AddressFamily(u8) {
        0 NONE "none";
        1 IPV4 "ipv4";
        2 IPV6 "ipv6";
        3 INFINIBAND "ib";
        4 FIBRE_CHANNEL "fc";
        254 LOOP "loop";
    }
}

impl AddressFamily {
    /// The family of an IP address.
    pub fn of(ip: IpAddr) -> Self {
        if ip.is_ipv4() { Self::IPV4 } else { Self::IPV6 }
    }
}

codes! {
    /// Subsystem type (SUBTYPE).
    pub struct SubsystemType(u8) {
        1 REFERRAL "discovery subsystem referral";
        2 NVME "nvme subsystem";
        3 CURRENT_DISCOVERY "current discovery subsystem";
    }
}

codes! {
    /// Need of the transport for a secure channel: Transport Requirements (TREQ) bits 1:0.
    pub struct SecureChannelNeed(u8) {
        0 NOT_SPECIFIED "not specified";
        1 REQUIRED "required";
        2 NOT_REQUIRED "not required";
    }
}

structure! {
    /// Header of the discovery log page.
    pub struct DiscoveryHeader[1024] {
        /// Generation Counter: changes with every change of the log.
        0 genctr: u64,
        /// Number of Records.
        8 numrec: u64,
        /// Record Format: 0.
        16 recfmt: u16,
    }
}

structure! {
    /// Discovery Log Page Entry (Base, "Discovery Log Page Entry Data Structure").
    pub struct DiscoveryEntry[1024] {
        /// Transport Type.
        0 trtype: TransportType,
        /// Address Family.
        1 adrfam: AddressFamily,
        /// Subsystem Type.
        2 subtype: SubsystemType,
        /// Transport Requirements: see [`SecureChannelNeed`]; bit 2: SQ flow control can be
        /// disabled.
        3 treq: u8,
        /// Port ID.
        4 portid: u16,
        /// Controller ID to ask for: [`Cntlid::DYNAMIC`] in the dynamic controller model.
        6 cntlid: Cntlid,
        /// Admin Max SQ Size: entries of the admin queue, at least 32.
        8 asqsz: u16,
        /// Entry Flags: bit 0, duplicate returned information, and others.
        10 eflags: u16,
        /// Transport Service Identifier: the port number in decimal, for TCP.
        32 trsvcid: Ascii<32>,
        /// NVM Subsystem Qualified Name.
        256 subnqn: NqnField,
        /// Transport Address: an IP address as text, for TCP.
        512 traddr: Ascii<256>,
        /// Transport Specific Address Subtype; for TCP the first byte tells the security: 0 none, 1
        /// TLS 1.2, 2 TLS 1.3.
        768 tsas: [u8; 256],
    }
}

impl DiscoveryEntry {
    /// EFLAGS: a persistent connection to this discovery subsystem is possible (explicit).
    pub const EFLAGS_PERSISTENT: u16 = 1 << 1;

    /// The first two bits of TREQ.
    pub fn secure_channel(&self) -> SecureChannelNeed {
        SecureChannelNeed(self.treq & 3)
    }
}
