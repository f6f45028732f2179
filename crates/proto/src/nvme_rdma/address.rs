//! The representation of an RDMA port in discovery (NVMe RDMA Transport Specification, Discovery
//! Log Page Entry).

use crate::nvme::controller::TransportAddress;
use crate::nvme::log_page::{AddressFamily, SecureChannelNeed, TransportType};
use crate::nvme::wire::Ascii;
use std::net::SocketAddr;

/// The port, in RDMA's IP port space, on which targets listen unless told otherwise.
pub const PORT: u16 = 4420;

/// RDMA Provider Type (RDMA_PRTYPE): what carries the verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaProvider(pub u8);

impl RdmaProvider {
    /// Not specified.
    pub const NOT_SPECIFIED: Self = Self(1);
    /// InfiniBand.
    pub const INFINIBAND: Self = Self(2);
    /// RoCE version 2.
    pub const ROCE_V2: Self = Self(4);
    /// iWARP.
    pub const IWARP: Self = Self(5);
}

/// RDMA_QPTYPE: reliable connected.
const RELIABLE_CONNECTED: u8 = 1;
/// RDMA_CMS: the connection manager of IP addresses.
const RDMA_IP_CM: u8 = 1;

/// The entry's part that is the transport's, for a port at `address`.
pub fn transport_address(address: SocketAddr, provider: RdmaProvider) -> TransportAddress {
    let mut tsas = [0; 256];
    (tsas[0], tsas[1], tsas[2]) = (RELIABLE_CONNECTED, provider.0, RDMA_IP_CM);
    TransportAddress {
        trtype: TransportType::RDMA,
        adrfam: AddressFamily::of(address.ip()),
        traddr: Ascii::new(&address.ip().to_string()),
        trsvcid: Ascii::new(&address.port().to_string()),
        tsas,
        secure_channel: SecureChannelNeed::NOT_SPECIFIED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_say_how_the_port_is_reached() {
        let four =
            transport_address(SocketAddr::from(([192, 0, 2, 1], PORT)), RdmaProvider::ROCE_V2);
        assert_eq!((four.trtype, four.adrfam), (TransportType::RDMA, AddressFamily::IPV4));
        assert_eq!(
            (four.traddr.text(), four.trsvcid.text()),
            ("192.0.2.1".to_owned(), "4420".to_owned())
        );
        assert_eq!(four.tsas[..4], [1, 4, 1, 0]);
        let six = transport_address(
            SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 7], 4421)),
            RdmaProvider::IWARP,
        );
        assert_eq!(
            (six.adrfam, six.traddr.text(), six.tsas[1]),
            (AddressFamily::IPV6, "fd00::7".to_owned(), 5)
        );
    }
}
