//! Sockets that systemd has opened for the service (sd_listen_fds(3)).

use std::net::SocketAddr;
use weft_block::{Error, ErrorKind};
use weft_endpoint::url::{ISCSI, NVME_TCP};
use weft_io::listening::Listening;

/// Gives the sockets that systemd passed to `listening`. Their URLs: the name of a socket
/// (`FileDescriptorName=`) is its protocol: `iscsi`, `nbd`, or anything else for NVMe/TCP.
///
/// # Errors
/// [`ErrorKind::Usage`] for a socket that is not a listening TCP socket.
pub fn take(listening: &Listening) -> Result<Vec<String>, Error> {
    let mut urls = Vec::new();
    for (name, socket) in system::sockets()? {
        let unusable = |e| {
            Error::new(ErrorKind::Io, format!("cannot use a socket of the service manager: {e}"))
        };
        let at = socket.local_addr().map_err(unusable)?;
        urls.push(url(&name, at));
        listening.give(at, socket);
    }
    Ok(urls)
}

/// Every given socket must be in use once the server listens.
///
/// # Errors
/// [`ErrorKind::Usage`] names one that is not.
pub fn check(listening: &Listening) -> Result<(), Error> {
    match listening.unused().first() {
        None => Ok(()),
        Some(at) => {
            let text = format!(
                "no --listen has the address {at} of a given socket; add one, or remove the socket"
            );
            Err(Error::new(ErrorKind::Usage, text))
        }
    }
}

fn url(name: &str, at: SocketAddr) -> String {
    let scheme = match name {
        "iscsi" => ISCSI,
        "nbd" => "nbd://",
        _ => NVME_TCP,
    };
    format!("{scheme}{at}")
}

#[cfg(target_os = "linux")]
mod system {
    use super::{Error, ErrorKind};
    use std::net::TcpListener;

    /// The sockets, with their names.
    pub fn sockets() -> Result<Vec<(String, TcpListener)>, Error> {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let mut passed = listenfd::ListenFd::from_env();
        let mut names = names.split(':').map(str::to_owned);
        let wrong = |e: &dyn std::fmt::Display| {
            let text = format!(
                "a socket of the service manager is not a listening TCP socket: {e}; use ListenStream=ADDR:PORT"
            );
            Error::new(ErrorKind::Usage, text)
        };
        let each = (0..passed.len()).map(|n| {
            let socket = passed.take_tcp_listener(n).map_err(|e| wrong(&e))?;
            Ok((names.next().unwrap_or_default(), socket.ok_or_else(|| wrong(&"it is gone"))?))
        });
        each.collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use super::Error;
    use std::net::TcpListener;

    /// None on this system.
    pub fn sockets() -> Result<Vec<(String, TcpListener)>, Error> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_socket_is_its_protocol() {
        let at: SocketAddr = "127.0.0.1:5".parse().unwrap();
        let urls = ["iscsi", "nbd", "weft.socket", ""].map(|name| url(name, at));
        assert_eq!(
            urls,
            [
                "iscsi://127.0.0.1:5",
                "nbd://127.0.0.1:5",
                "nvme+tcp://127.0.0.1:5",
                "nvme+tcp://127.0.0.1:5"
            ]
        );
    }

    #[test]
    fn a_given_socket_must_be_used() {
        let listening = Listening::default();
        assert!(check(&listening).is_ok());
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listening.give(socket.local_addr().unwrap(), socket);
        assert!(
            check(&listening)
                .unwrap_err()
                .to_string()
                .contains("no --listen has the address 127.0.0.1:")
        );
    }
}
