//! TCP with plain non-blocking vectored calls, the same on every system.

mod interest;
mod path;

use crate::event_loop::Registrar;
#[cfg(not(windows))]
use crate::limits::KEEP_ALIVE_PROBES;
use crate::limits::{KEEP_ALIVE_IDLE_S, KEEP_ALIVE_INTERVAL_S};
use crate::listening::Listening;
use crate::stream::{Listener, Stream};
use core::time::Duration;
use interest::Interest;
use mio::net::{TcpListener, TcpStream};
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr};
#[cfg(unix)]
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Connections that may wait to be accepted; the system refuses more.
const BACKLOG: i32 = 1024;

/// A TCP connection.
pub struct Tcp {
    socket: TcpStream,
    interest: Interest,
    /// The options for the path to the peer have been set.
    fitted: bool,
}

impl Tcp {
    /// Starts to connect. [`Stream::connected`] reports when it is established; the caller limits
    /// the time.
    pub fn connect(to: SocketAddr) -> io::Result<Self> {
        Ok(Self::new(TcpStream::connect(to)?))
    }

    /// Wraps a connected socket.
    pub fn from_std(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::connected(TcpStream::from_std(stream)))
    }

    fn new(socket: TcpStream) -> Self {
        // If the system refuses an option, the socket is slower but still correct.
        let _ = SockRef::from(&socket).set_tcp_nodelay(true);
        Self { socket, interest: Interest::default(), fitted: false }
    }

    fn connected(socket: TcpStream) -> Self {
        let mut this = Self::new(socket);
        this.fit();
        this
    }

    /// Sets the options for the path to the peer, which is known when the connection is
    /// established.
    fn fit(&mut self) {
        if !self.fitted {
            path::fit(&self.socket);
            self.fitted = true;
        }
    }
}

impl Stream for Tcp {
    fn recv(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = match bufs {
            [one] => self.socket.read(one),
            many => self.socket.read_vectored(many),
        };
        self.interest.after_recv(&mut self.socket, result)
    }

    fn send(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let result = self.socket.write_vectored(bufs);
        self.interest.after_send(&mut self.socket, result)
    }

    fn tells_rest(&self) -> bool {
        cfg!(target_os = "linux")
    }

    fn shutdown(&mut self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)
    }

    fn reset_when_dropped(&mut self) {
        // If the system refuses, it closes the connection in order.
        let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
    }

    fn connected(&mut self) -> io::Result<bool> {
        if let Some(error) = self.socket.take_error()? {
            return Err(error);
        }
        match self.socket.peer_addr() {
            Ok(_) => {
                self.fit();
                Ok(true)
            }
            Err(e) if e.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn peer(&self) -> String {
        self.socket.peer_addr().map_or_else(|_| "unconnected".into(), |a| canonical(a).to_string())
    }

    fn local(&self) -> String {
        self.socket.local_addr().map_or_else(|_| "unbound".into(), |a| canonical(a).to_string())
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut self.socket)?;
        self.interest.registered(registrar)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        self.interest = Interest::default();
        registrar.deregister_mio(&mut self.socket)
    }

    #[cfg(unix)]
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

/// The address as IPv4 if it is a mapped one: a socket for both families has IPv4 peers at
/// `::ffff:` addresses.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Makes the system detect a vanished peer: the protocols allow a silent one to stay.
fn keep_alive(socket: &TcpStream) {
    let wanted = TcpKeepalive::new()
        .with_time(Duration::from_secs(KEEP_ALIVE_IDLE_S))
        .with_interval(Duration::from_secs(KEEP_ALIVE_INTERVAL_S));
    #[cfg(not(windows))]
    let wanted = wanted.with_retries(KEEP_ALIVE_PROBES);
    // If the system refuses the times, it uses its own.
    if SockRef::from(socket).set_tcp_keepalive(&wanted).is_err() {
        let _ = SockRef::from(socket).set_keepalive(true);
    }
}

/// A listening TCP socket.
pub struct TcpAcceptor {
    socket: TcpListener,
    /// For whoever takes over the socket.
    _kept: Option<Arc<std::net::TcpListener>>,
}

impl TcpAcceptor {
    /// Binds and listens; port 0 picks a free port.
    pub fn listen(at: SocketAddr) -> io::Result<Self> {
        Ok(Self { socket: TcpListener::from_std(bound(at)?), _kept: None })
    }

    /// Like [`TcpAcceptor::listen`], with a socket that was given for the address if there is one;
    /// others can get it from `listening` while this lives.
    pub(crate) fn listen_or_take(at: SocketAddr, listening: &Listening) -> io::Result<Self> {
        let socket = match listening.take(at) {
            Some(given) => given,
            None => bound(at)?,
        };
        socket.set_nonblocking(true)?;
        let kept = listening.keep(at, &socket)?;
        Ok(Self { socket: TcpListener::from_std(socket), _kept: Some(kept) })
    }
}

fn bound(at: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket =
        socket2::Socket::new(socket2::Domain::for_address(at), socket2::Type::STREAM, None)?;
    // On Windows the option would let a second process take the same port.
    #[cfg(not(windows))]
    socket.set_reuse_address(true)?;
    // `[::]` has all addresses, of IPv4 too, whatever the system's default is.
    if at.is_ipv6() && at.ip().is_unspecified() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&at.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl TcpAcceptor {
    fn next(&mut self) -> io::Result<Tcp> {
        let (stream, _) = self.socket.accept()?;
        #[cfg(unix)]
        crate::descriptors::leave_some(&stream)?;
        keep_alive(&stream);
        Ok(Tcp::connected(stream))
    }
}

impl Listener for TcpAcceptor {
    fn accept(&mut self) -> io::Result<Box<dyn Stream>> {
        Ok(Box::new(self.next()?))
    }

    fn local(&self) -> String {
        self.socket.local_addr().map_or_else(|_| "unbound".into(), |a| a.to_string())
    }

    fn register(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.register_mio(&mut self.socket)
    }

    fn deregister(&mut self, registrar: &Registrar<'_>) -> io::Result<()> {
        registrar.deregister_mio(&mut self.socket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpStream as Peer};

    /// The next connection, which is arriving.
    fn accepted(at: &mut TcpAcceptor) -> Tcp {
        loop {
            match at.next() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => std::thread::yield_now(),
                accepted => return accepted.unwrap(),
            }
        }
    }

    #[test]
    fn accepted_peers_are_asked_whether_they_are_there() {
        let mut at = TcpAcceptor::listen((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let _peer = Peer::connect(at.local()).unwrap();
        let accepted = accepted(&mut at);
        let options = SockRef::from(&accepted.socket);
        assert!(options.keepalive().unwrap());
        #[cfg(target_os = "linux")]
        {
            assert_eq!(
                options.tcp_keepalive_time().unwrap(),
                Duration::from_secs(KEEP_ALIVE_IDLE_S)
            );
            assert_eq!(
                options.tcp_keepalive_interval().unwrap(),
                Duration::from_secs(KEEP_ALIVE_INTERVAL_S)
            );
            assert_eq!(options.tcp_keepalive_retries().unwrap(), KEEP_ALIVE_PROBES);
        }
    }

    // On Windows a socket for IPv6 takes IPv6 alone.
    #[cfg(not(windows))]
    #[test]
    fn an_ipv4_peer_of_a_socket_for_both_families_has_its_ipv4_address() {
        let Ok(mut at) = TcpAcceptor::listen("[::]:0".parse().unwrap()) else {
            return weft_testing::skip("there is no IPv6 here");
        };
        let port = at.socket.local_addr().unwrap().port();
        let peer = Peer::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let accepted = accepted(&mut at);
        assert_eq!(accepted.peer(), peer.local_addr().unwrap().to_string());
        assert_eq!(accepted.local(), format!("127.0.0.1:{port}"));
    }
}
