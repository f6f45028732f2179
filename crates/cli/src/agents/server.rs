//! Listening for studies: few strangers at a time, each with little time for its proof, and one
//! study.

use std::{
    io,
    net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{
            AtomicBool,
            Ordering::{Relaxed, SeqCst},
        },
    },
    time::{Duration, Instant},
};

use rustls::{ServerConfig, ServerConnection};
use weft_base::lock::Lock;
use weft_bench::{
    agents::{AgentMessage, StudyMessage, message::VERSION},
    limits::AGENT_MESSAGE_BYTES_MAX,
    study::machine_facts,
};
use weft_block::{Error, ErrorKind};
use weft_endpoint::export::origin::origin;

use super::{
    channel::{AgentChannel, ChannelLost},
    identity::AgentIdentity,
    key::AgentKey,
    proof::ProofSide,
    session::{Shop, StudySession},
    tls,
};
use crate::{
    limits::{AGENT_LOG_S, AGENT_PROOF_S, AGENT_STRANGERS_ADDRESS_MAX, AGENT_STRANGERS_MAX},
    process::exit::Failure,
};

/// How often a listener without connections looks whether the agent is to end, and how long it
/// waits after a failure.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// An agent that listens.
pub struct AgentServer {
    listener: TcpListener,
    desk: Arc<Desk>,
}

/// What connections have in common.
struct Desk {
    tls: Arc<ServerConfig>,
    key: AgentKey,
    shop: Arc<Shop>,
    strangers: Arc<Strangers>,
    busy: AtomicBool,
    logged: Lock<Option<Instant>>,
}

/// The place of the one study.
struct Place(Arc<Desk>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.busy.store(false, SeqCst);
    }
}

impl AgentServer {
    /// Listens; nothing is accepted yet.
    pub fn bind(shop: Arc<Shop>, identity: &AgentIdentity, key: AgentKey) -> Result<Self, Failure> {
        let place = shop.config.listen.as_str();
        let cannot = |e| Error::io(format!("cannot listen on {place}: {e}"), e);
        let listener = TcpListener::bind(place).map_err(cannot)?;
        // A listener that waits cannot be told to end.
        listener.set_nonblocking(true).map_err(cannot)?;
        let tls = tls::server(identity).map_err(|e| {
            Failure::of(
                ErrorKind::Io,
                format!("TLS cannot be set up with the agent's certificate: {e}"),
            )
        })?;
        let (strangers, busy) = (Arc::default(), AtomicBool::new(false));
        Ok(Self {
            listener,
            desk: Arc::new(Desk { tls, key, shop, strangers, busy, logged: Lock::new(None) }),
        })
    }

    /// The address at which it listens.
    pub fn address(&self) -> Result<SocketAddr, Failure> {
        Ok(self.listener.local_addr()?)
    }

    /// Accepts until the agent is to end, and then waits for its sessions.
    pub fn run(&self) {
        let mut threads: Vec<std::thread::JoinHandle<()>> = Vec::new();
        while !self.desk.shop.stop.load(Relaxed) {
            threads.retain(|thread| !thread.is_finished());
            match self.listener.accept() {
                Ok((socket, peer)) => threads.extend(Desk::admit(&self.desk, socket, peer)),
                // None is there, or there are no descriptors left: either may change.
                Err(_) => std::thread::sleep(ACCEPT_PAUSE),
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

impl Desk {
    fn admit(
        desk: &Arc<Self>,
        socket: TcpStream,
        peer: SocketAddr,
    ) -> Option<std::thread::JoinHandle<()>> {
        let stranger = match Strangers::admit(&desk.strangers, &socket, peer) {
            Ok((stranger, None)) => stranger,
            Ok((stranger, Some(gone))) => {
                desk.log(gone, "it has not proved that it has the key, and others wait");
                stranger
            }
            Err(e) => {
                desk.log(peer, &e.to_string());
                return None;
            }
        };
        let (name, desk) = ("weft-agent-study".to_owned(), Arc::clone(desk));
        std::thread::Builder::new()
            .name(name)
            .spawn(move || Self::serve(&desk, stranger, socket, peer))
            .ok()
    }

    fn serve(desk: &Arc<Self>, stranger: Stranger, socket: TcpStream, peer: SocketAddr) {
        let (mut channel, place) = match desk.prove(&stranger, socket) {
            Ok(both) => both,
            Err(why) => return desk.log(peer, &why),
        };
        drop(stranger);
        channel.allow(AGENT_MESSAGE_BYTES_MAX);
        tracing::info!("a study of {peer} begins");
        let end = StudySession::new(Arc::clone(&desk.shop), channel).run();
        drop(place);
        tracing::info!("the study of {peer} has ended: {end}");
    }

    /// The handshake and the proofs, all within [`AGENT_PROOF_S`].
    fn prove(
        self: &Arc<Self>,
        stranger: &Stranger,
        socket: TcpStream,
    ) -> Result<(AgentChannel, Place), String> {
        let deadline = Instant::now() + Duration::from_secs(AGENT_PROOF_S);
        let tls = ServerConnection::new(Arc::clone(&self.tls)).map_err(|e| e.to_string())?;
        let told = |lost: ChannelLost| lost.to_string();
        let mut channel = AgentChannel::open(socket, tls, deadline).map_err(told)?;
        stranger.has_spoken();
        let exported = channel.exported().map_err(told)?;
        let StudyMessage::Hello { version, proof } = channel.receive(deadline).map_err(told)?
        else {
            return Err("it did not begin with its proof".into());
        };
        let turn_away = |channel: &mut AgentChannel, kind: ErrorKind, why: String| {
            // Whether it arrives does not matter to this end.
            let _ = channel.send(&AgentMessage::Refused { kind: kind.into(), why: why.clone() });
            why
        };
        if version != VERSION {
            let why = format!(
                "the study speaks version {version} and the agent version {VERSION}: use the same weft on all machines"
            );
            return Err(turn_away(&mut channel, ErrorKind::Protocol, why));
        }
        if !exported.is_proof(&self.key, ProofSide::Study, &proof) {
            let why = "the study does not have the agent's key".to_owned();
            return Err(turn_away(&mut channel, ErrorKind::PermissionDenied, why));
        }
        if self.busy.swap(true, SeqCst) {
            let why = "the agent works for another study; one at a time".to_owned();
            return Err(turn_away(&mut channel, ErrorKind::InUse, why));
        }
        let place = Place(Arc::clone(self));
        let proof = exported.proof(&self.key, ProofSide::Agent);
        let weft = env!("CARGO_PKG_VERSION").to_owned();
        channel
            .send(&AgentMessage::Welcome { proof, weft, machine: Box::new(machine_facts()) })
            .map_err(told)?;
        Ok((channel, place))
    }

    /// Logs a refusal, but not each of many: anybody can cause them.
    fn log(&self, peer: SocketAddr, why: &str) {
        let mut logged = self.logged.lock();
        let now = Instant::now();
        if is_logged(*logged, now) {
            *logged = Some(now);
            tracing::warn!(
                "a connection of {peer} was refused: {why}; others within {AGENT_LOG_S} s are not logged"
            );
        }
    }
}

/// Whether a refusal is logged, when the last one that was is of this time.
fn is_logged(last: Option<Instant>, now: Instant) -> bool {
    last.is_none_or(|last| now.duration_since(last) > Duration::from_secs(AGENT_LOG_S))
}

// Connections that have not proved yet that they have the key: few at a time, and few of one
// address, so that none keeps the others out.

/// All of them, the oldest first.
#[derive(Default)]
pub struct Strangers(Lock<Waiting>);

#[derive(Default)]
struct Waiting {
    all: Vec<Connection>,
    /// The number of connections so far.
    numbered: u64,
}

struct Connection {
    number: u64,
    peer: SocketAddr,
    /// The address that all connections of one host share.
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
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn one_refusal_within_a_time_is_logged() {
        let first = Instant::now();
        let after = |seconds| first + Duration::from_secs(seconds);
        assert!(is_logged(None, first));
        assert!(!is_logged(Some(first), first) && !is_logged(Some(first), after(AGENT_LOG_S)));
        assert!(is_logged(Some(first), after(AGENT_LOG_S + 1)));
    }

    /// Admits a connection from each address with these last bytes, and returns the answers.
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
