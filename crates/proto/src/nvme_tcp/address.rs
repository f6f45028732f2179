//! The representation of an NVMe/TCP port in discovery (NVMe TCP Transport Specification 1.1,
//! Discovery Log Page Entry).

use crate::nvme::controller::TransportAddress;
use crate::nvme::log_page::{AddressFamily, SecureChannelNeed, TransportType};
use crate::nvme::wire::Ascii;
use std::net::SocketAddr;

/// The entry's part that is the transport's, for a port without TLS at `address`.
pub fn transport_address(address: SocketAddr) -> TransportAddress {
    TransportAddress {
        trtype: TransportType::TCP,
        adrfam: AddressFamily::of(address.ip()),
        traddr: Ascii::new(&address.ip().to_string()),
        trsvcid: Ascii::new(&address.port().to_string()),
        // SECTYPE: no transport security.
        tsas: [0; 256],
        secure_channel: SecureChannelNeed::NOT_SPECIFIED,
    }
}

/// SECTYPE of a port that speaks TLS 1.3.
const SECTYPE_TLS_1_3: u8 = 2;

/// The same, for a port that demands TLS 1.3.
pub fn secure_transport_address(address: SocketAddr) -> TransportAddress {
    let mut tsas = [0; 256];
    tsas[0] = SECTYPE_TLS_1_3;
    TransportAddress {
        tsas,
        secure_channel: SecureChannelNeed::REQUIRED,
        ..transport_address(address)
    }
}

/// The same, for a port that speaks TLS 1.3 with those who authenticate first (secure channel
/// concatenation).
pub fn concatenating_transport_address(address: SocketAddr) -> TransportAddress {
    TransportAddress {
        secure_channel: SecureChannelNeed::NOT_REQUIRED,
        ..secure_transport_address(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families() {
        let four = transport_address(SocketAddr::from(([192, 0, 2, 1], 4420)));
        assert_eq!((four.trtype, four.adrfam), (TransportType::TCP, AddressFamily::IPV4));
        assert_eq!(
            (four.traddr.text(), four.trsvcid.text()),
            ("192.0.2.1".to_owned(), "4420".to_owned())
        );
        let six = secure_transport_address(SocketAddr::from(([0xfd00, 0, 0, 0, 0, 0, 0, 7], 8009)));
        assert_eq!((four.secure_channel, four.tsas[0]), (SecureChannelNeed::NOT_SPECIFIED, 0));
        assert_eq!((six.secure_channel, six.tsas[0]), (SecureChannelNeed::REQUIRED, 2));
        let either = concatenating_transport_address(SocketAddr::from(([192, 0, 2, 1], 4420)));
        assert_eq!((either.secure_channel, either.tsas[0]), (SecureChannelNeed::NOT_REQUIRED, 2));
        assert_eq!((six.adrfam, six.traddr.text()), (AddressFamily::IPV6, "fd00::7".to_owned()));
    }
}
