//! Socket options that depend on the path: the same host, or a network.
//!
//! On the same host, all data in flight is in this machine's caches, or falls out of them: so
//! little data is kept in flight, and there is no network to learn about. On a network the system
//! tunes the amount in flight to the path, unless the buffer sizes are set.

use crate::limits::SOCKET_BUFFER_BYTES;
use mio::net::TcpStream;
use socket2::SockRef;

/// Sets the options of a connected socket; if the system refuses one, the socket is slower but
/// still correct.
pub(super) fn fit(socket: &TcpStream) {
    if !is_same_host(socket) {
        return;
    }
    let options = SockRef::from(socket);
    let _ = options.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = options.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    // An algorithm that paces its sending (such as BBR, if it is the system's default) only adds
    // pauses here. `reno` does not, and every user may select it.
    #[cfg(target_os = "linux")]
    let _ = options.set_tcp_congestion(b"reno");
}

/// Returns whether both ends have the same address, or a loopback address.
fn is_same_host(socket: &TcpStream) -> bool {
    let (Ok(peer), Ok(local)) = (socket.peer_addr(), socket.local_addr()) else { return false };
    let (peer, local) = (peer.ip().to_canonical(), local.ip().to_canonical());
    peer == local || peer.is_loopback()
}
