//! Listening for studies: few strangers at a time, each with little time for its proof, and one
//! study.

use super::channel::{AgentChannel, ChannelLost};
use super::identity::AgentIdentity;
use super::key::AgentKey;
use super::proof::ProofSide;
use super::session::{Shop, StudySession};
use super::strangers::{Stranger, Strangers};
use super::tls;
use crate::exit::Failure;
use crate::limits::{AGENT_LOG_S, AGENT_PROOF_S};
use rustls::{ServerConfig, ServerConnection};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};
use weft_base::lock::Lock;
use weft_bench::agents::message::VERSION;
use weft_bench::agents::{AgentMessage, StudyMessage};
use weft_bench::limits::AGENT_MESSAGE_BYTES_MAX;
use weft_bench::study::machine_facts;
use weft_block::{Error, ErrorKind};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_refusal_within_a_time_is_logged() {
        let first = Instant::now();
        let after = |seconds| first + Duration::from_secs(seconds);
        assert!(is_logged(None, first));
        assert!(!is_logged(Some(first), first) && !is_logged(Some(first), after(AGENT_LOG_S)));
        assert!(is_logged(Some(first), after(AGENT_LOG_S + 1)));
    }
}
