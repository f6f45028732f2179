//! Ports for servers that listen at the same address after each start.

use std::net::{IpAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// First port, and how many: below those that systems choose for outgoing connections, one of which
/// would take a port while its server is down.
const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port at which nobody listens. No other call in this process gets it; processes begin at
/// different places.
///
/// # Panics
/// When all are taken.
pub fn free(at: impl Into<IpAddr>) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let at = at.into();
    let begin = std::process::id().wrapping_mul(211) % u32::from(COUNT);
    let port = |_| {
        let number = (begin + u32::from(NEXT.fetch_add(1, Ordering::Relaxed))) % u32::from(COUNT);
        FIRST + u16::try_from(number).unwrap_or(0)
    };
    (0..COUNT)
        .map(port)
        .find(|port| TcpListener::bind((at, *port)).is_ok())
        .expect("all ports are taken")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    #[test]
    fn two_are_different_and_can_be_listened_at() {
        let ports = [(); 2].map(|()| super::free(Ipv4Addr::LOCALHOST));
        assert_ne!(ports[0], ports[1]);
        assert!(
            ports
                .iter()
                .all(|port| std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        );
    }
}
