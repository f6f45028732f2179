//! Connections that have not proved yet that they have the key: few at a time, and few of one
//! address, so that none keeps the others out.

use crate::limits::{AGENT_STRANGERS_ADDRESS_MAX, AGENT_STRANGERS_MAX};
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use weft_base::lock::Lock;
use weft_endpoint::export::origin::origin;

/// All of them, the oldest first.
#[derive(Default)]
pub struct Strangers(Lock<Waiting>);

#[derive(Default)]
struct Waiting {
    all: Vec<Connection>,
    /// How many came so far.
    numbered: u64,
}

struct Connection {
    number: u64,
    peer: SocketAddr,
    /// What the connections of one host have together.
    address: IpAddr,
    socket: TcpStream,
    /// Its handshake of TLS is complete.
    spoke: bool,
}

/// One of them, until it has proved that it has the key, or ends.
pub struct Stranger {
    all: Arc<Strangers>,
    number: u64,
}

impl Waiting {
    fn of(&self, address: IpAddr) -> usize {
        self.all.iter().filter(|other| other.address == address).count()
    }

    /// Which one goes so that another one of `address` can come: of that address if it has its
    /// share, otherwise of the one that has most. Those that have said nothing go first, and of
    /// them the oldest.
    fn victim(&self, address: IpAddr) -> Option<usize> {
        let from = if self.of(address) >= AGENT_STRANGERS_ADDRESS_MAX {
            address
        } else if self.all.len() >= AGENT_STRANGERS_MAX {
            // Who has spoken goes only if all have. Of those with equally many the oldest.
            let is_any_silent = self.all.iter().any(|other| !other.spoke);
            let may_go = self.all.iter().rev().filter(|other| !is_any_silent || !other.spoke);
            may_go.max_by_key(|other| self.of(other.address))?.address
        } else {
            return None;
        };
        let mut mine = self.all.iter().enumerate().filter(|(_, other)| other.address == from);
        mine.clone().find(|(_, other)| !other.spoke).or_else(|| mine.next()).map(|(at, _)| at)
    }
}

impl Strangers {
    fn waiting(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.0.lock()
    }

    /// Takes a connection in, and ends another one if there is no room; returns the address of that
    /// one.
    pub fn admit(
        all: &Arc<Self>,
        socket: &TcpStream,
        peer: SocketAddr,
    ) -> io::Result<(Stranger, Option<SocketAddr>)> {
        let socket = socket.try_clone()?;
        let address = origin(&peer.to_string()).unwrap_or(peer.ip());
        let mut waiting = all.waiting();
        let gone = waiting.victim(address).map(|at| waiting.all.remove(at)).map(|gone| {
            // Its thread reads the end; it may have gone by itself.
            let _ = gone.socket.shutdown(Shutdown::Both);
            gone.peer
        });
        waiting.numbered += 1;
        let number = waiting.numbered;
        waiting.all.push(Connection { number, peer, address, socket, spoke: false });
        Ok((Stranger { all: Arc::clone(all), number }, gone))
    }
}

impl Stranger {
    /// Its handshake of TLS is complete.
    pub fn has_spoken(&self) {
        let mut waiting = self.all.waiting();
        waiting
            .all
            .iter_mut()
            .filter(|other| other.number == self.number)
            .for_each(|it| it.spoke = true);
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.all.waiting().all.retain(|other| other.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// Connections of these last numbers of addresses, in this order; what is told of each.
    fn admitted(all: &Arc<Strangers>, hosts: &[u8]) -> Vec<(Stranger, Option<SocketAddr>)> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let of = |(port, host): (usize, &u8)| {
            Strangers::admit(all, &socket, SocketAddr::from(([192, 0, 2, *host], port as u16)))
                .unwrap()
        };
        hosts.iter().enumerate().map(of).collect()
    }

    #[test]
    fn an_address_has_a_share_of_which_the_oldest_silent_one_goes() {
        let all = Arc::default();
        let mut first = admitted(&all, &[1; AGENT_STRANGERS_ADDRESS_MAX]);
        assert!(first.iter().all(|(_, gone)| gone.is_none()));
        first[0].0.has_spoken();
        let other = admitted(&all, &[2]);
        assert_eq!(other[0].1, None, "another address is not kept out");
        let further = admitted(&all, &[1]);
        assert_eq!(further[0].1.map(|gone| gone.port()), Some(1), "the oldest has spoken");
        drop(first.remove(0));
        assert_eq!(admitted(&all, &[1])[0].1, None);
    }

    #[test]
    fn the_address_with_most_gives_way_when_all_places_are_taken() {
        let all: Arc<Strangers> = Arc::default();
        let mut hosts: Vec<u8> = (10..10 + (AGENT_STRANGERS_MAX - 2) as u8).collect();
        hosts.splice(1..1, [1, 1]);
        let kept = admitted(&all, &hosts);
        assert!(kept.iter().all(|(_, gone)| gone.is_none()));
        let further = admitted(&all, &[100, 101]);
        assert_eq!(further[0].1.map(|gone| gone.ip()), Some([192, 0, 2, 1].into()));
        assert_eq!(
            further[1].1.map(|gone| gone.ip()),
            Some([192, 0, 2, 10].into()),
            "all have one: the oldest"
        );
        assert_eq!(all.waiting().all.len(), AGENT_STRANGERS_MAX);
        drop((kept, further));
        assert!(all.waiting().all.is_empty());
    }
}
