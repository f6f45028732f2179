//! The test's end of a TCP connection, and a served target that a well-behaved host uses all along.

use crate::wire::{Pdu, Peer, Who};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use weft_endpoint::export::nvme::{Target, TargetConfig, TargetLimits};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::loops::{LoopsConfig, ask};
use weft_endpoint::{ConnectOptions, Disk, open};
use weft_proto::nvme::types::{Id128, Nqn, Nsid};
use weft_testing::wait::{PATIENCE, until, until_some};

pub const NQN: &str = "nqn.2026-01.example.weft:hostile";

/// The namespace that the bystander writes to, and nobody else.
pub const BYSTANDERS: Nsid = Nsid(2);

/// A connection whose reads end after a while.
pub struct Tcp {
    pub stream: TcpStream,
    pub received: Vec<u8>,
}

impl Tcp {
    pub fn new(to: SocketAddr) -> Self {
        Self::of(TcpStream::connect(to).unwrap())
    }

    pub fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, received: Vec::new() }
    }

    /// Sends as much as the peer takes.
    pub fn try_put(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Ends our direction of the stream.
    pub fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Waits until the peer has ended the connection, in whatever way.
    pub fn wait_for_end(&mut self) {
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return,
                Ok(n) => self.received.extend_from_slice(&bytes[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("the connection stays")
                }
                Err(_) => return,
            }
        }
    }

    /// The PDUs that came until the end.
    pub fn rest(&mut self) -> Vec<Pdu> {
        self.wait_for_end();
        std::iter::from_fn(|| Pdu::split(&mut self.received)).collect()
    }
}

impl Peer for Tcp {
    fn put(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn pdu(&mut self) -> Option<Pdu> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(pdu) = Pdu::split(&mut self.received) {
                return Some(pdu);
            }
            match self.stream.read(&mut bytes) {
                Ok(n) if n > 0 => self.received.extend_from_slice(&bytes[..n]),
                _ => return None,
            }
        }
    }
}

pub fn identity(name: &str) -> HostIdentity {
    HostIdentity {
        nqn: Nqn::new(&format!("nqn.2026-01.example.host:{name}")).unwrap(),
        id: Id128([3; 16]),
    }
}

pub fn who() -> Who {
    Who { host: identity("bad"), subsystem: Nqn::new(NQN).unwrap(), keep_alive_ms: 0 }
}

pub fn options() -> ConnectOptions {
    ConnectOptions {
        host: Some(identity("good")),
        nr_io_queues: 2,
        data_digest: true,
        paths: weft_endpoint::PathOptions::once(),
        ..ConnectOptions::default()
    }
}

/// A target on two loops.
pub struct Served(crate::served::Served<Target>);

impl Served {
    pub fn new(limits: TargetLimits) -> Self {
        Self::with(limits, &crate::served::loops(2), None)
    }

    pub fn with(limits: TargetLimits, loops: &LoopsConfig, allow_hosts: Option<Vec<Nqn>>) -> Self {
        let devices = crate::served::devices(&["ram:16MiB"; 2]);
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let subsystem = SubsystemConfig {
            hosts: allow_hosts.into(),
            ..SubsystemConfig::new(Nqn::new(NQN).unwrap())
        };
        let config = TargetConfig {
            inventory: LiveInventory::of_devices(subsystem, devices).unwrap(),
            listen,
            identities: weft_endpoint::identity::Identities::default(),
            tls: weft_endpoint::TlsFiles::default(),
        };
        Self(crate::served::Served::start(loops, |loops| {
            Target::start_limited(config, limits, loops).unwrap()
        }))
    }

    pub fn target(&self) -> &Target {
        &self.0
    }

    pub fn address(&self) -> SocketAddr {
        self.target().addresses()[0]
    }

    pub fn url(&self) -> String {
        format!("nvme+tcp://{}/{NQN}", self.address())
    }

    pub fn connect(&self) -> Tcp {
        Tcp::new(self.address())
    }

    /// Waits until this number of connections is open.
    pub fn wait_for(&self, connections: usize) {
        until(&format!("{connections} connections"), || self.target().connections() == connections);
    }

    /// No payload memory is taken while it still listens, and what is held is no more than a busy
    /// host needs.
    fn memory_is_free(&self) {
        for remote in self.0.loops().remotes() {
            let (taken, allocated) =
                ask(remote, |on| (on.pool().taken_bytes(), on.pool().allocated_bytes())).unwrap();
            assert_eq!(taken, 0);
            assert!(allocated < 16 << 20, "{allocated} bytes");
        }
    }
}

impl Drop for Served {
    /// Nothing is left of any connection.
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        self.wait_for(0);
        self.memory_is_free();
    }
}

/// A host that writes and reads back all the time and must not notice anything.
pub struct Bystander {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Bystander {
    pub fn new(served: &Served) -> Self {
        // The target's short limits may cut off even this one, on a loaded machine.
        let url = format!("{}/{BYSTANDERS}", served.url());
        let connect = || open(&url, &options()).and_then(Disk::on).ok();
        let disk = until_some("a bystander connects", connect);
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (Arc::clone(&stop), Arc::clone(&rounds));
        let thread = std::thread::spawn(move || {
            let mut round = 0u64;
            while !told.load(SeqCst) {
                round += 1;
                let data: Vec<u8> = (0..16384u64).map(|n| (n / 7 + round) as u8).collect();
                disk.write(round % 100 * 32, &data).unwrap();
                let mut back = vec![0; data.len()];
                disk.read(round % 100 * 32, &mut back).unwrap();
                assert!(back == data, "round {round}");
                count.store(round, SeqCst);
            }
        });
        Self { stop, rounds, thread: Some(thread) }
    }

    /// It is still at work.
    pub fn goes_on(&self) {
        let (before, thread) = (self.rounds.load(SeqCst), self.thread.as_ref().unwrap());
        until("the bystander goes on", || {
            thread.is_finished() || self.rounds.load(SeqCst) >= before + 5
        });
        assert!(!thread.is_finished(), "the bystander noticed");
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.stop.store(true, SeqCst);
        let result = self.thread.take().unwrap().join();
        assert!(std::thread::panicking() || result.is_ok(), "the bystander noticed");
    }
}
