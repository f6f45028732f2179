//! Listening TCP sockets that a process gets from another one, or passes on: from a service
//! manager, or when a new process takes over from an old one without closing them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use weft_base::lock::Lock;

/// The sockets that the loops of a process were given, and those on which they listen. Clones share
/// them.
#[derive(Clone, Debug, Default)]
pub struct Listening(Arc<Lock<Sockets>>);

#[derive(Debug, Default)]
struct Sockets {
    /// Not used yet, by the address for which each is meant.
    given: Vec<(SocketAddr, TcpListener)>,
    /// In use, by the address that was asked for: its port may be 0.
    open: Vec<(SocketAddr, Weak<TcpListener>)>,
}

impl Listening {
    /// Adds a socket that already listens. Whoever next listens at `at` gets it.
    pub fn give(&self, at: SocketAddr, socket: TcpListener) {
        self.0.lock().given.push((at, socket));
    }

    /// The addresses of given sockets that nobody has used.
    pub fn unused(&self) -> Vec<SocketAddr> {
        self.0.lock().given.iter().map(|(at, _)| *at).collect()
    }

    /// A given socket for an address.
    pub(crate) fn take(&self, at: SocketAddr) -> Option<TcpListener> {
        let given = &mut self.0.lock().given;
        let place = given.iter().position(|(of, _)| *of == at)?;
        Some(given.remove(place).1)
    }

    /// Keeps a duplicate of a socket on which a loop listens, for as long as the returned value
    /// lives.
    pub(crate) fn keep(
        &self,
        at: SocketAddr,
        socket: &TcpListener,
    ) -> io::Result<Arc<TcpListener>> {
        let kept = Arc::new(socket.try_clone()?);
        let open = &mut self.0.lock().open;
        open.retain(|(_, socket)| socket.strong_count() > 0);
        open.push((at, Arc::downgrade(&kept)));
        Ok(kept)
    }

    /// The sockets on which loops listen, with the addresses that were asked for. A socket stays
    /// open as long as what is returned.
    pub fn open(&self) -> Vec<(SocketAddr, Arc<TcpListener>)> {
        self.0
            .lock()
            .open
            .iter()
            .filter_map(|(at, socket)| Some((*at, socket.upgrade()?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::{LoopConfig, spawn};
    use std::net::{Ipv4Addr, TcpStream};

    /// Listens on a loop with these sockets at `at`; the address, and what ends it.
    fn listen(listening: &Listening, at: SocketAddr) -> (String, impl FnOnce()) {
        let config = LoopConfig { listening: listening.clone(), ..LoopConfig::default() };
        let (address, remote, thread) = spawn(config, move |on| {
            let listener = on.listen(at).unwrap();
            let address = listener.local();
            crate::accept::Acceptor::spawn(on, listener, |_, _| (), |_, _, _| ()).unwrap();
            address
        })
        .unwrap();
        let end = move || {
            remote.post(|on| on.stop());
            thread.join().unwrap().unwrap();
        };
        (address, end)
    }

    #[test]
    fn a_socket_goes_from_one_process_to_the_next_without_being_closed() {
        let any: SocketAddr = (Ipv4Addr::LOCALHOST, 0).into();
        let (old, new) = (Listening::default(), Listening::default());
        let (address, end) = listen(&old, any);
        let open = old.open();
        assert_eq!((open.len(), open[0].0), (1, any));
        for (at, socket) in open {
            new.give(at, socket.try_clone().unwrap());
        }
        end();
        assert!(old.open().is_empty(), "it is closed with its loop");
        // Nobody accepts; the system keeps whoever comes.
        let _waiting = TcpStream::connect(&address).unwrap();
        assert_eq!(new.unused(), [any]);
        let (same, end) = listen(&new, any);
        assert_eq!((same, new.unused().len()), (address.clone(), 0));
        end();
        assert!(TcpStream::connect(&address).is_err());
    }
}
