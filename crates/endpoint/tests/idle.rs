//! A hundred hosts that are connected and quiet: what they cost.

use std::time::{Duration, Instant};
use weft_block::OpenOptions;
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::nvme::{Target, TargetConfig};
use weft_endpoint::identity::HostIdentity;
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::open;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::nvme_tcp::pdu::CAPSULE_CMD_BYTES;
use weft_testing::wait::{PATIENCE, until, until_some};

const HOSTS: usize = 100;

const NQN: &str = "nqn.2026-01.example.weft:idle";

fn served() -> (Target, Loops) {
    let loops = Loops::start(&LoopsConfig { threads: Some(2), ..LoopsConfig::default() }).unwrap();
    let devices = vec![weft_block::open("ram:16MiB", &OpenOptions::default()).unwrap()];
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let inventory =
        LiveInventory::of_devices(SubsystemConfig::new(Nqn::new(NQN).unwrap()), devices).unwrap();
    let config = TargetConfig {
        inventory,
        listen,
        identities: weft_endpoint::identity::Identities::default(),
        tls: weft_endpoint::TlsFiles::default(),
    };
    (Target::start(config, loops.remotes()).unwrap(), loops)
}

fn options() -> ConnectOptions {
    let host = HostIdentity {
        nqn: Nqn::new("nqn.2026-01.example.host:idle").unwrap(),
        id: Id128([1; 16]),
    };
    ConnectOptions { host: Some(host), connect_timeout: PATIENCE, ..ConnectOptions::default() }
}

/// Two rounds of keep alives and what is counted in the time that they take, however long that is.
#[test]
fn quiet_hosts_wake_a_loop_once_a_second_at_most() {
    let (target, loops) = served();
    let url = format!("nvme+tcp://{}/{NQN}", target.addresses()[0]);
    let devices: Vec<_> = (0..HOSTS).map(|_| open(&url, &options()).unwrap()).collect();
    assert_eq!(target.connections(), 2 * HOSTS);
    // What the loops have to do about the new connections comes to its end.
    let mut last = loops.counters();
    until("nothing is posted to a loop but a question", || {
        let before = std::mem::replace(&mut last, loops.counters());
        last.iter().zip(&before).all(|(now, before)| now.since(before).wakeups_remote <= 2)
    });
    let (begun, before) = (Instant::now(), last);
    let mut questions = 0;
    let counted = until_some("all hosts keep alive twice", || {
        std::thread::sleep(Duration::from_millis(500));
        questions += 1;
        let now = loops.counters();
        let counted: Vec<_> =
            now.iter().zip(&before).map(|(now, before)| now.since(before)).collect();
        let bytes: u64 = counted.iter().map(|counted| counted.recv_bytes).sum();
        (bytes >= (2 * HOSTS * CAPSULE_CMD_BYTES) as u64).then_some(counted)
    });
    let seconds = begun.elapsed().as_secs();
    println!("{questions} questions in {seconds} s: {counted:?}");
    for counted in counted {
        assert!(counted.recv_bytes > 0, "{counted:?}");
        assert!(counted.wakeups_timer <= seconds + 1, "in {seconds} s: {counted:?}");
        // The questions of this test are the only other cause, and the one before the first.
        assert!(counted.wakeups_remote <= questions + 1, "{questions} questions: {counted:?}");
    }
    drop(devices);
    target.stop().unwrap();
    loops.stop().unwrap();
}

/// Resident memory of this process, bytes.
#[cfg(target_os = "linux")]
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[cfg(target_os = "linux")]
#[path = "common/wire.rs"]
mod wire;

/// A host on a plain socket, which takes next to no memory of this process.
#[cfg(target_os = "linux")]
struct Quiet {
    stream: std::net::TcpStream,
    received: Vec<u8>,
}

#[cfg(target_os = "linux")]
impl wire::Peer for Quiet {
    fn put(&mut self, bytes: &[u8]) {
        std::io::Write::write_all(&mut self.stream, bytes).unwrap();
    }

    fn pdu(&mut self) -> Option<wire::Pdu> {
        let mut bytes = [0; 512];
        loop {
            if let Some(pdu) = wire::Pdu::split(&mut self.received) {
                return Some(pdu);
            }
            let n = std::io::Read::read(&mut self.stream, &mut bytes).unwrap();
            self.received.extend_from_slice(&bytes[..n]);
        }
    }
}

/// Prints the target's resident memory for each idle connection: queues of 128 entries that have
/// each done 64 KiB of reads.
#[test]
#[cfg(target_os = "linux")]
#[ignore = "measures; run it alone"]
fn memory_of_an_idle_connection() {
    use wire::Peer;
    let (target, loops) = served();
    let who = wire::Who {
        host: options().host.unwrap(),
        subsystem: Nqn::new(NQN).unwrap(),
        keep_alive_ms: 0,
    };
    let new = || Quiet {
        stream: std::net::TcpStream::connect(target.addresses()[0]).unwrap(),
        received: Vec::with_capacity(512),
    };
    let host = || {
        let (mut admin, mut io) = (new(), new());
        let cntlid = wire::admin(&mut admin, &who);
        wire::io_queue(&mut io, &who, cntlid, 1, 128);
        for cid in 0..16 {
            let read = weft_proto::nvme::host::command::read(
                weft_proto::nvme::types::Nsid(1),
                weft_proto::nvme::types::Lba(0),
                8,
            );
            io.put(&wire::capsule_moving(&read, cid, 4096));
        }
        (0..16).for_each(|_| drop(io.pdu()));
        io.received = Vec::new();
        [admin, io]
    };
    let _first = host();
    let before = resident_bytes();
    let hosts: Vec<_> = (0..5 * HOSTS).map(|_| host()).collect();
    let each = (resident_bytes() - before) / (2 * hosts.len());
    println!("{each} bytes resident for each of {} idle connections", target.connections());
    assert!(each < 64 << 10);
    drop(hosts);
    target.stop().unwrap();
    loops.stop().unwrap();
}
