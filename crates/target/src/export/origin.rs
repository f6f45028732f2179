//! Which host a peer is, for what all its connections may have together.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The address of a peer, given with its port; of IPv6 the network of 64 bits in which a host has
/// as many addresses as it likes, unless it is that of a link, which all hosts there share. `None`:
/// it has none.
pub fn origin(peer: &str) -> Option<IpAddr> {
    let address = peer.parse::<SocketAddr>().ok()?.ip().to_canonical();
    Some(match address {
        IpAddr::V6(address) if !address.is_unicast_link_local() && !address.is_loopback() => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_by_its_address_or_network() {
        let of = |peer| origin(peer).map(|address| address.to_string());
        let known = [
            ("192.0.2.1:5", "192.0.2.1"),
            ("[::ffff:192.0.2.1]:9", "192.0.2.1"),
            ("[::1]:1", "::1"),
        ];
        let networks = [("[2001:db8::1:2]:7", "2001:db8::"), ("[fe80::1%3]:7", "fe80::1")];
        for (peer, host) in known.into_iter().chain(networks) {
            assert_eq!(of(peer).as_deref(), Some(host), "{peer}");
        }
        assert_eq!(of("/run/weft.sock"), None);
    }
}
