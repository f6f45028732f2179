//! Peers that an agent and a study should not meet, on the level of their messages.

use super::address::AgentAddress;
use super::channel::{AgentChannel, ChannelLost};
use super::config::AgentConfig;
use super::connection::{ProvenAgent, failure};
use super::identity::AgentIdentity;
use super::key::AgentKey;
use super::proof::ProofSide;
use super::server::AgentServer;
use super::session::Shop;
use super::tls;
use crate::connection::ConnectArgs;
use crate::limits::AGENT_STRANGERS_MAX;
use clap::Parser;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weft_bench::agents::message::{VERSION, WireErrorKind};
use weft_bench::agents::{AgentClock, AgentMessage, StudyMessage};
use weft_endpoint::Control;

#[derive(Parser)]
struct Options {
    #[command(flatten)]
    connect: ConnectArgs,
}

fn key(byte: u8) -> AgentKey {
    AgentKey::of(&[byte; 32]).unwrap()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// An agent with a RAM disk, until it is dropped.
struct Running {
    shop: Arc<Shop>,
    address: SocketAddr,
    directory: std::path::PathBuf,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    fn start(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("weft-agent-{name}-{}", std::process::id()));
        let identity = AgentIdentity::in_directory(&directory).unwrap();
        let text = "listen = \"127.0.0.1:0\"\n[[device]]\nurl = \"ram:16MiB\"\n";
        let config: AgentConfig = toml::from_str(text).unwrap();
        let connect = Options::parse_from(["weft"]).connect;
        let (control, clock, stop) = (Control::new(), AgentClock::new(), AtomicBool::new(false));
        let shop = Arc::new(Shop { config, connect, control, clock, stop });
        let server = AgentServer::bind(Arc::clone(&shop), &identity, key(b'k')).unwrap();
        let address = server.address().unwrap();
        let thread = Some(std::thread::spawn(move || server.run()));
        Self { shop, address, directory, thread }
    }

    fn channel(&self) -> AgentChannel {
        let (tls, _) = tls::client(None).unwrap();
        AgentChannel::open(TcpStream::connect(self.address).unwrap(), tls, soon()).unwrap()
    }

    /// A study that has proved that it has the key.
    fn admitted(&self) -> AgentChannel {
        let mut channel = self.channel();
        let proof = channel.exported().unwrap().proof(&key(b'k'), ProofSide::Study);
        channel.send(&StudyMessage::Hello { version: VERSION, proof }).unwrap();
        channel.allow(1 << 20);
        assert!(matches!(channel.receive(soon()).unwrap(), AgentMessage::Welcome { .. }));
        channel
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shop.stop.store(true, Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn refusal(channel: &mut AgentChannel) -> String {
    match channel.receive(soon()) {
        Ok(AgentMessage::Refused { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

/// However it ends, it ends.
fn ended(channel: &mut AgentChannel) -> bool {
    matches!(channel.receive::<AgentMessage>(soon()), Err(ChannelLost::Closed | ChannelLost::Io(_)))
}

#[test]
fn before_the_proof_only_a_short_hello_is_heard() {
    let agent = Running::start("hello");
    // Longer than a first message may be, although nothing of it follows.
    let mut long = agent.channel();
    long.send(&StudyMessage::Hello { version: VERSION, proof: "0".repeat(64 << 10) }).unwrap();
    assert!(ended(&mut long));
    let mut other = agent.channel();
    other.send(&StudyMessage::Clock { number: 1 }).unwrap();
    assert!(ended(&mut other));
    let mut old = agent.channel();
    old.send(&StudyMessage::Hello { version: VERSION + 1, proof: String::new() }).unwrap();
    assert!(refusal(&mut old).contains("the same weft"));
    // A proof of another role, of another connection, and none at all.
    let elsewhere = agent.channel().exported().unwrap().proof(&key(b'k'), ProofSide::Study);
    for proof in [None, Some(elsewhere), Some(String::new())] {
        let mut channel = agent.channel();
        let proof = proof
            .unwrap_or_else(|| channel.exported().unwrap().proof(&key(b'k'), ProofSide::Agent));
        channel.send(&StudyMessage::Hello { version: VERSION, proof }).unwrap();
        assert!(refusal(&mut channel).contains("does not have the agent's key"));
        assert!(ended(&mut channel));
    }
    drop(agent.admitted());
}

#[test]
fn after_it_what_is_not_allowed_is_refused_in_words() {
    let agent = Running::start("session");
    let mut channel = agent.admitted();
    let order = |rw: &str| weft_bench::agents::RunOrder {
        rw: rw.into(),
        ..weft_bench::agents::RunOrder::of(&Default::default())
    };
    channel.send(&StudyMessage::Prepare { order: order("read") }).unwrap();
    assert!(refusal(&mut channel).contains("no device is open"));
    let open = |url: &str| StudyMessage::Open {
        url: url.into(),
        write: true,
        destroy_data: true,
        threads: u32::MAX,
        queue_size: Some(u16::MAX),
    };
    for url in ["ram:32MiB", "file:/etc/passwd", &"x".repeat(100_000)] {
        channel.send(&open(url)).unwrap();
        assert!(refusal(&mut channel).contains("not listed"), "{url:.20}");
    }
    channel.send(&open("ram:16MiB")).unwrap();
    let opened: AgentMessage = channel.receive(soon()).unwrap();
    assert!(matches!(opened, AgentMessage::Opened { write: false, .. }), "{opened:?}");
    for rw in ["write", "randrw", "trim"] {
        channel.send(&StudyMessage::Prepare { order: order(rw) }).unwrap();
        assert!(refusal(&mut channel).contains("may not write"), "{rw}");
    }
    // Words for a run that there is not change nothing.
    channel.send(&StudyMessage::Start { at_ns: i64::MIN }).unwrap();
    channel.send(&StudyMessage::Stop).unwrap();
    channel.send(&StudyMessage::Clock { number: 9 }).unwrap();
    assert!(matches!(channel.receive(soon()).unwrap(), AgentMessage::Time { number: 9, .. }));
}

/// Connections of one address that say nothing do not keep a study out.
#[test]
fn silent_connections_keep_nobody_out() {
    let agent = Running::start("silent");
    let silent: Vec<_> =
        (0..4 * AGENT_STRANGERS_MAX).map(|_| TcpStream::connect(agent.address).unwrap()).collect();
    drop(agent.admitted());
    drop(silent);
}

/// What says it is an agent, and its first answer.
fn told_by(name: &str, answer: impl FnOnce(String) -> AgentMessage + Send + 'static) -> String {
    let directory = std::env::temp_dir().join(format!("weft-agent-{name}-{}", std::process::id()));
    let identity = AgentIdentity::in_directory(&directory).unwrap();
    // With a fingerprint, so that no file of known agents is touched.
    let fingerprint = Some(identity.fingerprint());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap();
    let pretender = std::thread::spawn(move || {
        let (socket, _) = listener.accept().unwrap();
        let tls = rustls::ServerConnection::new(tls::server(&identity).unwrap()).unwrap();
        let mut channel = AgentChannel::open(socket, tls, soon()).unwrap();
        let StudyMessage::Hello { proof, .. } = channel.receive(soon()).unwrap() else {
            panic!("no hello")
        };
        channel.send(&answer(proof)).unwrap();
        let _ = channel.receive::<StudyMessage>(soon());
    });
    let address = AgentAddress { fingerprint, ..AgentAddress::parse(&place.to_string()).unwrap() };
    let connected =
        ProvenAgent::connect(&address, &key(b'k'), AgentClock::new(), Duration::from_secs(60));
    pretender.join().unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    connected.err().map(|failure| failure.to_string()).unwrap_or_default()
}

/// Nothing is shown of what an agent says before its proof, and what it says afterwards does
/// nothing to a terminal.
#[test]
fn the_words_of_an_agent_are_not_trusted() {
    let said = told_by("words", |_| AgentMessage::Refused {
        kind: WireErrorKind::PermissionDenied,
        why: "\u{1b}]0;call 555 0100\u{7}".into(),
    });
    assert!(
        !said.contains("555") && said.contains("does not have its key. It has not proved"),
        "{said:?}"
    );
    let said = failure(
        "a",
        AgentMessage::Refused {
            kind: WireErrorKind::Io,
            why: format!("\u{1b}[2J\n{}", "x".repeat(100_000)),
        },
    )
    .to_string();
    assert!(said.starts_with("agent a: \\u{1b}[2J\\u{a}x") && said.len() < 1000, "{said:.300}");
}

/// Whoever pretends to be an agent, without the key, learns nothing that it could use, and is not
/// believed.
#[test]
fn an_agent_without_the_key_is_not_believed() {
    // It sends back what it was given.
    let welcome =
        |proof| AgentMessage::Welcome { proof, weft: String::new(), machine: Box::default() };
    let said = told_by("false", welcome);
    assert!(said.contains("does not have the key"), "{said}");
}
