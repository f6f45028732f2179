//! Connections from a chosen address of the loopback, with little room for what they do not take.

use std::{
    fs,
    io::Read,
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result};

/// How long a target may take to answer before the peers become hostile.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of a peer's receive buffer.
#[cfg(target_os = "linux")]
const RECEIVE_BYTES: usize = 16 << 10;

/// The part of a URL between `://` and the next slash, and what follows.
pub(super) fn split_url(url: &str) -> Result<(&str, &str)> {
    let rest = url.split_once("://").context("no URL")?.1;
    Ok(rest.split_once('/').unwrap_or((rest, "")))
}

/// Connects from `address`.
#[cfg(target_os = "linux")]
pub fn connect(from: &str, to: SocketAddr) -> Result<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
    let from = SocketAddr::new(from.parse().context("no address")?, 0);
    let family = if to.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None)?;
    sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BYTES)?;
    bind(&socket, &from).with_context(|| format!("cannot use the address {from}"))?;
    connect(&socket, &to).with_context(|| format!("cannot connect to {to}"))?;
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

#[cfg(not(target_os = "linux"))]
pub fn connect(_: &str, to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(to)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Receives a number of bytes from a peer.
pub fn receive(stream: &mut TcpStream, bytes: usize) -> Result<Vec<u8>> {
    let mut all = vec![0; bytes];
    stream.read_exact(&mut all).context("the target does not let the peer in")?;
    Ok(all)
}

/// Connections from `address` to this port that neither end has closed.
pub fn established(from: &str, to: u16) -> Result<usize> {
    let from: std::net::Ipv4Addr = from.parse().context("no address")?;
    let own = format!("{:08X}:", u32::from_le_bytes(from.octets()));
    let other = format!(":{to:04X}");
    let table = fs::read_to_string("/proc/net/tcp")?;
    let is_ours = |line: &&str| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote, state) = (fields.next(), fields.next(), fields.next());
        // 01: ESTABLISHED.
        local.is_some_and(|it| it.starts_with(&own))
            && remote.is_some_and(|it| it.ends_with(&other))
            && state == Some("01")
    };
    Ok(table.lines().skip(1).filter(is_ours).count())
}
