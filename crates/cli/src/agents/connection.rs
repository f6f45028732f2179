//! A study's connection to one agent: who it is, its clock, and its device.

use super::address::AgentAddress;
use super::channel::{AgentChannel, ChannelLost};
use super::key::AgentKey;
use super::known_agents::KnownAgents;
use super::proof::ProofSide;
use super::tls::{self, ShownFingerprint};
use crate::limits::{AGENT_OPEN_S, AGENT_PROOF_S, AGENT_SILENCE_S};
use crate::process::exit::Failure;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use weft_bench::agents::message::{VERSION, WireErrorKind};
use weft_bench::agents::{AgentClock, AgentMessage, Offset, StudyMessage, Trip};
use weft_bench::limits::{AGENT_CLOCK_TRIPS, AGENT_MESSAGE_BYTES_MAX};
use weft_bench::results::Machine;
use weft_block::{Error, ErrorKind, waiting};
use weft_proto::printable::Printable;

/// An agent that has proved that it has the key.
pub struct ProvenAgent {
    pub name: String,
    pub fingerprint: String,
    pub weft: String,
    pub machine: Machine,
    pub channel: AgentChannel,
    /// Our clock.
    pub clock: AgentClock,
    /// Its clock against ours.
    pub offset: Offset,
    /// Questions for its clock.
    asked: u64,
}

/// A device that an agent opened.
pub struct OpenedDevice {
    pub block_bytes: u32,
    pub blocks: u64,
    pub max_transfer_bytes: u32,
    pub write: bool,
    pub cpus: Vec<usize>,
}

/// The failure in an answer.
pub fn failure(name: &str, answer: AgentMessage) -> Failure {
    match answer {
        AgentMessage::Refused { kind, why } => {
            Failure::of(kind.into(), format!("agent {name}: {}", Printable(&why)))
        }
        _ => Failure::of(
            ErrorKind::Protocol,
            format!("agent {name}: its answer is to another question"),
        ),
    }
}

/// The failure that an agent tells of which has not proved that it has the key: anybody may have
/// said it, so its words are not shown.
fn refused_unproved(name: &str, answer: &AgentMessage) -> Failure {
    let (kind, why) = match answer {
        AgentMessage::Refused { kind: WireErrorKind::Protocol, .. } => {
            (ErrorKind::Protocol, "its version is another one: use the same weft on all machines")
        }
        AgentMessage::Refused { kind: WireErrorKind::PermissionDenied, .. } => {
            (ErrorKind::PermissionDenied, "the study does not have its key")
        }
        AgentMessage::Refused { kind: WireErrorKind::InUse, .. } => {
            (ErrorKind::InUse, "it works for another study; one at a time")
        }
        _ => (ErrorKind::Protocol, "it does not begin with its proof"),
    };
    Failure::of(
        kind,
        format!("agent {name}: {why}. It has not proved that it is the agent that it seems to be"),
    )
}

/// The failure of a lost connection.
pub fn lost(name: &str, lost: &ChannelLost) -> Failure {
    let kind = match lost {
        ChannelLost::Closed => ErrorKind::Refused,
        ChannelLost::Silent => ErrorKind::TimedOut,
        ChannelLost::Tls(_) | ChannelLost::Malformed(_) => ErrorKind::Protocol,
        ChannelLost::Io(_) => ErrorKind::Io,
    };
    Failure::of(kind, format!("agent {name}: {lost}"))
}

fn socket(address: &AgentAddress, patience: Duration) -> Result<TcpStream, Failure> {
    let name = address.name();
    let mut last = None;
    for place in address.place.resolve()? {
        match TcpStream::connect_timeout(&place, patience) {
            Ok(socket) => return Ok(socket),
            Err(e) => last = Some(e),
        }
    }
    let e = last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into());
    Err(Error::io(
        format!("agent {name}: cannot connect: {e}; start it there with weft agent --config FILE"),
        e,
    )
    .into())
}

/// What was expected of an agent's certificate, and why it is not that.
fn changed(
    name: &str,
    expected: &str,
    shown: &str,
    given: bool,
    known: Option<&KnownAgents>,
) -> Failure {
    let where_from = match known {
        Some(known) if !given => {
            format!(
                "If its certificate was replaced, remove its line from {}",
                known.path().display()
            )
        }
        _ => "If its certificate was replaced, give the new fingerprint".to_owned(),
    };
    let text = format!(
        "agent {name}: its certificate has changed: the fingerprint is {shown}, and not {expected}. Somebody may stand in between; nothing was sent. \
         {where_from}"
    );
    Failure::of(ErrorKind::PermissionDenied, text)
}

impl ProvenAgent {
    /// Connects, compares the fingerprint, exchanges proofs and compares clocks. The fingerprint of
    /// an agent that was met for the first time is kept, once it has proved that it has the key.
    pub fn connect(
        address: &AgentAddress,
        key: &AgentKey,
        clock: AgentClock,
        patience: Duration,
    ) -> Result<Self, Failure> {
        let name = address.name();
        let _waiting = waiting::begin(|| format!("the agent {name} to answer"));
        let known = KnownAgents::of_this_user();
        let met = match &known {
            Some(known) if address.fingerprint.is_none() => {
                known.fingerprint(&name).map_err(|e| {
                    Error::io(
                        format!("cannot read the known agents in {}: {e}", known.path().display()),
                        e,
                    )
                })?
            }
            _ => None,
        };
        let given = address.fingerprint.is_some();
        let expected = address.fingerprint.clone().or(met);
        let socket = socket(address, patience)?;
        let wrong =
            |e: rustls::Error| Failure::of(ErrorKind::Protocol, format!("agent {name}: TLS: {e}"));
        let (tls, shown): (_, ShownFingerprint) = tls::client(expected.clone()).map_err(wrong)?;
        let deadline = Instant::now() + Duration::from_secs(AGENT_PROOF_S);
        let channel = AgentChannel::open(socket, tls, deadline).map_err(|e| {
            match (&expected, shown.fingerprint()) {
                (Some(expected), Some(shown)) if *expected != shown => {
                    changed(&name, expected, &shown, given, known.as_ref())
                }
                _ => lost(&name, &e),
            }
        })?;
        let fingerprint = shown.fingerprint().unwrap_or_default();
        let mut agent = Self::prove(name, fingerprint, channel, key, clock, deadline)?;
        if let (None, Some(known)) = (&expected, &known) {
            known.keep(&agent.name, &agent.fingerprint).unwrap_or_else(|e| {
                tracing::warn!(
                    "cannot keep the fingerprint of agent {} in {}: {e}",
                    agent.name,
                    known.path().display()
                );
            });
        }
        agent.compare(AGENT_CLOCK_TRIPS).map_err(|e| lost(&agent.name, &e))?;
        Ok(agent)
    }

    fn prove(
        name: String,
        fingerprint: String,
        mut channel: AgentChannel,
        key: &AgentKey,
        clock: AgentClock,
        deadline: Instant,
    ) -> Result<Self, Failure> {
        let gone = |e: ChannelLost| lost(&name, &e);
        let exported = channel.exported().map_err(gone)?;
        channel
            .send(&StudyMessage::Hello {
                version: VERSION,
                proof: exported.proof(key, ProofSide::Study),
            })
            .map_err(gone)?;
        channel.allow(AGENT_MESSAGE_BYTES_MAX);
        match channel.receive(deadline).map_err(gone)? {
            AgentMessage::Welcome { proof, .. }
                if !exported.is_proof(key, ProofSide::Agent, &proof) =>
            {
                let text = format!(
                    "agent {name} does not have the key: it is not the agent that it seems to be"
                );
                Err(Failure::of(ErrorKind::PermissionDenied, text))
            }
            AgentMessage::Welcome { weft, machine, .. } => {
                let offset = Offset { ns: 0, uncertainty_ns: i64::MAX };
                let weft = Printable(&weft).to_string();
                Ok(Self {
                    name,
                    fingerprint,
                    weft,
                    machine: *machine,
                    channel,
                    clock,
                    offset,
                    asked: 0,
                })
            }
            other => Err(refused_unproved(&name, &other)),
        }
    }

    /// Compares its clock with ours by `trips` round trips. Other answers that arrive until then
    /// are ignored: there is no run.
    pub fn compare(&mut self, trips: u32) -> Result<(), ChannelLost> {
        let mut all = Vec::new();
        let deadline = Instant::now() + Duration::from_secs(AGENT_SILENCE_S);
        for _ in 0..trips {
            let asked_ns = self.clock.now_ns();
            // Answers to earlier questions may still be on their way: the time in them is an old
            // one.
            self.asked += 1;
            let asked = self.asked;
            self.channel.send(&StudyMessage::Clock { number: asked })?;
            let theirs_ns = loop {
                match self.channel.receive(deadline)? {
                    AgentMessage::Time { number, now_ns } if number == asked => break now_ns,
                    _ => {}
                }
            };
            all.push(Trip { asked_ns, theirs_ns, answered_ns: self.clock.now_ns() });
        }
        self.offset = Offset::of(&all).unwrap_or(self.offset);
        Ok(())
    }

    /// Has it open a device.
    pub fn open(&mut self, request: &StudyMessage) -> Result<OpenedDevice, Failure> {
        let gone = |name: &str, e: ChannelLost| lost(name, &e);
        let _waiting = waiting::begin(|| format!("the agent {} to open its device", self.name));
        self.channel.send(request).map_err(|e| gone(&self.name, e))?;
        let deadline = Instant::now() + Duration::from_secs(AGENT_OPEN_S);
        match self.channel.receive(deadline).map_err(|e| gone(&self.name, e))? {
            // What no device has is refused here, before anything is divided by it.
            AgentMessage::Opened { block_bytes, blocks, max_transfer_bytes, write, cpus }
                if block_bytes >= 512
                    && block_bytes.is_power_of_two()
                    && blocks.checked_mul(u64::from(block_bytes)).is_some()
                    && max_transfer_bytes >= block_bytes =>
            {
                Ok(OpenedDevice { block_bytes, blocks, max_transfer_bytes, write, cpus })
            }
            other => Err(failure(&self.name, other)),
        }
    }
}
