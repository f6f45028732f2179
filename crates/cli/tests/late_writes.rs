//! A server that stood still, and finds writes in its sockets when it goes on. Those of hosts that
//! have ended their connection since are not executed: the hosts may have written the same blocks
//! elsewhere. Those of hosts that still wait are.
#![cfg(target_os = "linux")]

#[path = "../../endpoint/tests/reservations/nvme.rs"]
mod nvme;
mod support;
#[path = "../../endpoint/tests/common/wire.rs"]
mod wire;

use nvme::NvmeHost;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;
use support::iscsi::Initiator;
use support::{Scratch, Server};
use weft_endpoint::{ConnectOptions, Disk};
use weft_proto::nvme::status::Status;
use weft_testing::process::stands_still;
use weft_testing::wait::until;

const NQN: &str = "nqn.2026-01.example.weft:late";
const IQN: &str = "iqn.2026-01.example.weft:late";

/// How often servers are stopped in the middle of something.
const ROUNDS: u8 = 12;

/// Servers that share the rounds, since each stop takes its time.
const SERVERS: u8 = 4;

/// How long it stands still: longer than what a loop knows of its sockets counts (`LOOK_AGAIN_MS`).
const STOP: Duration = Duration::from_millis(150);

/// Reads that keep the server busy when it is stopped.
const READS: u16 = 24;

/// How a host ends a connection.
#[derive(Clone, Copy, Debug)]
enum End {
    /// In order: the server reads what there is, and then the end.
    Close,
    Reset,
}

/// A host with commands under way, on one connection.
enum Host {
    Nvme(NvmeHost),
    Iscsi(Initiator),
}

impl Host {
    fn of(url: &str, id: u8) -> Self {
        match url.strip_prefix("nvme+tcp://") {
            Some(rest) => {
                Self::Nvme(NvmeHost::new(rest.split('/').next().unwrap().parse().unwrap(), NQN, id))
            }
            None => Self::Iscsi(Initiator::new(url, IQN)),
        }
    }

    fn stream(&self) -> &TcpStream {
        match self {
            Self::Nvme(host) => &host.io.stream,
            Self::Iscsi(initiator) => &initiator.stream,
        }
    }

    fn begin_reads(&mut self) {
        match self {
            Self::Nvme(host) => host.begin_reads(READS),
            Self::Iscsi(initiator) => (0..READS).for_each(|_| initiator.begin(&READ_FIRST, &[])),
        }
    }

    fn begin_write(&mut self, byte: u8) {
        match self {
            Self::Nvme(host) => host.begin_write(&[byte; 512]),
            Self::Iscsi(initiator) => initiator.begin(&WRITE_FIRST, &[byte; 512]),
        }
    }

    /// Waits for the answer to a write.
    fn is_written(&mut self) -> bool {
        match self {
            Self::Nvme(host) => wire::response(&mut host.io).status == Status::SUCCESS,
            Self::Iscsi(initiator) => initiator.answer().0 == 0,
        }
    }
}

/// READ (10) and WRITE (10) of the first block.
const READ_FIRST: [u8; 10] = [0x28, 0, 0, 0, 0, 0, 0, 0, 1, 0];
const WRITE_FIRST: [u8; 10] = [0x2a, 0, 0, 0, 0, 0, 0, 0, 1, 0];

fn serve(dir: &Scratch, listen: &str) -> Server {
    let listen = format!("{listen}127.0.0.1:0");
    Server::start(
        dir.path(),
        &["ram:1MiB", "--nqn", NQN, "--iqn", IQN, "--threads", "1", "--listen", &listen],
    )
}

fn signal(server: &Server, signal: Signal) {
    kill_process(Pid::from_raw(server.pid() as i32).unwrap(), signal).unwrap();
}

fn stop(server: &Server) {
    signal(server, Signal::STOP);
    until("the server stands still", || stands_still(server.pid()));
}

/// The state of the server's end of a connection, as `/proc/net/tcp` has it; none once it was
/// reset.
fn state_at_server(local: SocketAddr, peer: SocketAddr) -> Option<u8> {
    let of = |address: SocketAddr| format!(":{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (at, to, state) = (words.next()?, words.next()?, words.next()?);
        (at.ends_with(&of(peer)) && to.ends_with(&of(local)))
            .then(|| u8::from_str_radix(state, 16).unwrap())
    })
}

const ESTABLISHED: u8 = 1;

/// Ends a host's connection; the server's system knows of it afterwards. What is given is to be
/// kept until the server goes on.
fn end(host: Host, how: End) -> Option<Host> {
    let stream = host.stream();
    let (local, peer) = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
    let kept = match how {
        End::Close => {
            stream.shutdown(Shutdown::Write).unwrap();
            Some(host)
        }
        End::Reset => {
            rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
            drop(host);
            None
        }
    };
    until("the end arrives", || state_at_server(local, peer) != Some(ESTABLISHED));
    kept
}

fn stored(server: &Server) -> u8 {
    let disk = Disk::open(server.url(), &ConnectOptions::default()).unwrap();
    let mut block = [0; 512];
    disk.read(0, &mut block).unwrap();
    assert!(block.iter().all(|byte| *byte == block[0]), "a block is torn");
    block[0]
}

/// Does each round on one of several servers.
fn in_rounds(listen: &str, name: &str, round: impl Fn(&Server, u8) + Sync) {
    let dirs: Vec<Scratch> = (0..SERVERS).map(|_| Scratch::new(name)).collect();
    let servers: Vec<Server> = dirs.iter().map(|dir| serve(dir, listen)).collect();
    std::thread::scope(|scope| {
        for (first, server) in (0..).zip(&servers) {
            let round = &round;
            scope.spawn(move || {
                (first..ROUNDS).step_by(SERVERS.into()).for_each(|n| round(server, n));
            });
        }
    });
}

fn late_writes(listen: &str, name: &str) {
    in_rounds(listen, name, |server, round| {
        for how in [End::Close, End::Reset] {
            let mut host = Host::of(server.url(), round + 1);
            host.begin_write(1);
            assert!(host.is_written());
            // The server is stopped wherever this finds it.
            host.begin_reads();
            stop(server);
            host.begin_write(2);
            let kept = end(host, how);
            std::thread::sleep(STOP);
            signal(server, Signal::CONT);
            assert_eq!(stored(server), 1, "{listen}: {how:?} in round {round}");
            drop(kept);
        }
    });
}

fn waiting_writes(listen: &str, name: &str) {
    in_rounds(listen, name, |server, round| {
        let mut host = Host::of(server.url(), round + 1);
        stop(server);
        host.begin_write(round);
        std::thread::sleep(STOP);
        signal(server, Signal::CONT);
        assert!(host.is_written(), "{listen}");
        assert_eq!(stored(server), round, "{listen}");
    });
}

#[test]
fn writes_of_hosts_that_have_gone_are_not_executed_by_nvme() {
    late_writes("nvme+tcp://", "late-nvme");
}

#[test]
fn writes_of_hosts_that_have_gone_are_not_executed_by_iscsi() {
    late_writes("iscsi://", "late-iscsi");
}

#[test]
fn writes_of_hosts_that_wait_are_executed() {
    waiting_writes("nvme+tcp://", "waiting-nvme");
    waiting_writes("iscsi://", "waiting-iscsi");
}
