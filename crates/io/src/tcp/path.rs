//! What a connection is given for the path that it takes: the same host, or a network.
//!
//! On the same host everything that is on its way lies in this machine's caches, or falls out of them: little is on its way at a time, and
//! nothing is to be learnt about a network that is not there. On a network the system knows better: it lets as much be on its way as the path
//! holds, as long as nobody fixes the buffers' sizes.

use crate::limits::SOCKET_BUFFER_BYTES;
use mio::net::TcpStream;
use socket2::SockRef;

/// Sets the options of a connected socket; a system that refuses one has a slower socket, which is correct all the same.
pub(super) fn fit(socket: &TcpStream) {
    if !is_same_host(socket) {
        return;
    }
    let options = SockRef::from(socket);
    let _ = options.set_send_buffer_size(SOCKET_BUFFER_BYTES);
    let _ = options.set_recv_buffer_size(SOCKET_BUFFER_BYTES);
    // An algorithm that paces what it sends (BBR, where that is the system's default) only adds pauses. This one does not, and everybody may use it.
    #[cfg(target_os = "linux")]
    let _ = options.set_tcp_congestion(b"reno");
}

/// Whether both ends have the same address, or that of the loopback.
fn is_same_host(socket: &TcpStream) -> bool {
    let (Ok(peer), Ok(local)) = (socket.peer_addr(), socket.local_addr()) else { return false };
    let (peer, local) = (peer.ip().to_canonical(), local.ip().to_canonical());
    peer == local || peer.is_loopback()
}
