//! The address at which other hosts reach a port that listens on all addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// A documentation address (RFC 5737): no host has it, so the default route leads to it.
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// The same for IPv6 (RFC 3849).
const ELSEWHERE_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1));

/// `address`, unless it is 0.0.0.0 or `[::]`, to which no host can connect: then the address of
/// this machine on its default route, or the loopback address if there is no such route. A listener
/// at `[::]` also accepts IPv4.
pub(super) fn reachable_address(address: SocketAddr) -> SocketAddr {
    let (routes, loopback): (&[IpAddr], IpAddr) = match address.ip() {
        ip if !ip.is_unspecified() => return address,
        IpAddr::V4(_) => (&[ELSEWHERE], Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(_) => (&[ELSEWHERE_V6, ELSEWHERE], Ipv6Addr::LOCALHOST.into()),
    };
    SocketAddr::new(
        routes.iter().find_map(|to| own_address(*to)).unwrap_or(loopback),
        address.port(),
    )
}

/// The source address with which this machine reaches another. Connecting a UDP socket sends
/// nothing.
fn own_address(to: IpAddr) -> Option<IpAddr> {
    const DISCARD: u16 = 9;
    let any: IpAddr =
        if to.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0)).ok()?;
    socket.connect((to, DISCARD)).ok()?;
    socket.local_addr().ok().map(|local| local.ip()).filter(|ip| !ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_to_all_addresses() {
        for text in ["127.0.0.1:4420", "192.0.2.7:1", "[::1]:4420"] {
            let address = text.parse().unwrap();
            assert_eq!(reachable_address(address), address);
        }
        for text in ["0.0.0.0:4420", "[::]:4420"] {
            let reached = reachable_address(text.parse().unwrap());
            assert!(!reached.ip().is_unspecified() && reached.port() == 4420, "{reached}");
        }
    }
}
