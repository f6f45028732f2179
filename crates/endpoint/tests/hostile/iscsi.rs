//! Initiators that go wrong at a point of their own choice. Each costs itself its connection; a
//! bystander does I/O all along.

use crate::hostile::table::iscsi::{login_of, pdu, request};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use weft_endpoint::export::iscsi::{Settings, Target, TargetConfig, TargetLimits};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::loops::LoopsConfig;
use weft_endpoint::{ConnectOptions, Disk, open};
use weft_io::sim::Rng;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::types::Nqn;
use weft_testing::wait::PATIENCE;

pub const IQN: &str = "iqn.2026-01.example.weft:hostile";

pub struct Served(crate::served::Served<Target>);

impl Served {
    pub fn new(limits: TargetLimits) -> Self {
        let loops = LoopsConfig { pool_bytes: 8 << 20, ..crate::served::loops(2) };
        let subsystem = Nqn::new("nqn.2026-01.example.weft:hostile").unwrap();
        let devices = crate::served::devices(&["ram:4MiB"; 2]);
        let config = TargetConfig {
            settings: Settings { name: Some(Name::new(IQN).unwrap()), ..Settings::default() },
            inventory: LiveInventory::of_devices(SubsystemConfig::new(subsystem.clone()), devices)
                .unwrap(),
            subsystem,
            listen: vec!["127.0.0.1:0".parse().unwrap()],
        };
        Self(crate::served::Served::start(&loops, |loops| {
            Target::start_limited(config, limits, loops).unwrap()
        }))
    }

    pub fn address(&self) -> SocketAddr {
        self.0.addresses()[0]
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    /// A well-behaved initiator, on a disk of its own.
    fn bystander(&self) -> Bystander {
        let url = format!("iscsi://{}/{IQN}/1", self.address());
        let options = ConnectOptions { connect_timeout: PATIENCE, ..ConnectOptions::default() };
        Bystander(open(&url, &options).and_then(Disk::on).unwrap())
    }
}

struct Bystander(Disk);

impl Bystander {
    fn goes_on(&mut self, round: u8) {
        let data = [round; 4096];
        self.0.write(8, &data).unwrap();
        let mut back = [0; 4096];
        self.0.read(8, &mut back).unwrap();
        assert_eq!(back, data);
    }
}

/// Waits until the peer has ended the connection, in whatever way.
fn wait_for_end(stream: &mut TcpStream) {
    let mut bytes = [0; 4096];
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return,
            Ok(_) => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the connection stays")
            }
            Err(_) => return,
        }
    }
}

fn login(name: &str) -> Vec<u8> {
    let text =
        format!("InitiatorName=iqn.2026-01.example.weft:{name}\0TargetName={IQN}\0InitialR2T=No\0");
    login_of(&request(), &text)
}

fn command(
    sn: u32,
    opcode: u8,
    lba: u32,
    blocks: u8,
    flags: CommandFlags,
    expected_bytes: u32,
) -> ScsiCommand {
    let mut cdb = [0; 16];
    cdb[0] = opcode;
    cdb[2..6].copy_from_slice(&lba.to_be_bytes());
    cdb[8] = blocks;
    ScsiCommand {
        flags,
        task: TaskTag(sn),
        expected_bytes,
        cmd_sn: Serial(sn),
        cdb,
        ..ScsiCommand::default()
    }
}

const WRITE: CommandFlags = CommandFlags(0xa1);
const READ: CommandFlags = CommandFlags(0xc1);

#[test]
fn whoever_is_slow_to_log_in_is_cut_off() {
    let served =
        Served::new(TargetLimits { login: Duration::from_millis(300), ..TargetLimits::default() });
    let whole = login("slow");
    for bytes in [0, 1, 47, 48, 60, whole.len() - 1] {
        let mut stream = served.connect();
        // On a loaded machine it may be closed already.
        let _ = stream.write_all(&whole[..bytes]);
        wait_for_end(&mut stream);
    }
}

#[test]
fn a_session_may_break_off_anywhere() {
    let served = Served::new(TargetLimits::default());
    let mut bystander = served.bystander();
    let write = command(1, 0x2a, 0, 8, WRITE, 4096);
    let read = command(2, 0x28, 0, 8, READ, 4096);
    let script =
        [login("broken"), pdu(write.encode(4096), &[7; 4096]), pdu(read.encode(0), &[])].concat();
    for (round, cut) in (0..script.len()).step_by(97).enumerate() {
        let mut stream = served.connect();
        stream.write_all(&script[..cut]).unwrap();
        drop(stream);
        bystander.goes_on(round as u8);
    }
}

#[test]
fn the_last_login_of_a_port_counts() {
    let served = Served::new(TargetLimits::default());
    let mut sessions: Vec<TcpStream> = Vec::new();
    for _ in 0..5 {
        let mut stream = served.connect();
        stream.write_all(&login("again")).unwrap();
        let mut response = [0; 48];
        stream.read_exact(&mut response).unwrap();
        assert_eq!(LoginResponse::decode(&response).status, LoginStatus::SUCCESS);
        if let Some(mut before) = sessions.pop() {
            wait_for_end(&mut before);
        }
        sessions.push(stream);
    }
    assert_eq!(served.0.sessions(), 1);
}

#[test]
fn an_initiator_that_does_not_read_takes_nobody_elses_memory() {
    let served = Served::new(TargetLimits::default());
    let mut bystander = served.bystander();
    let mut streams = Vec::new();
    for n in 0..4 {
        let mut stream = served.connect();
        stream.write_all(&login(&format!("deaf{n}"))).unwrap();
        for sn in 1..100 {
            stream.write_all(&pdu(command(sn, 0x28, 0, 128, READ, 65_536).encode(0), &[])).unwrap();
        }
        streams.push(stream);
        bystander.goes_on(n);
    }
    // Nor does one whose data never comes.
    let mut stream = served.connect();
    stream.write_all(&login("silent")).unwrap();
    for sn in 1..100 {
        stream.write_all(&pdu(command(sn, 0x2a, 0, 128, WRITE, 65_536).encode(0), &[])).unwrap();
    }
    bystander.goes_on(9);
}

#[test]
fn garbage_at_any_point_costs_its_sender_the_connection() {
    let served = Served::new(TargetLimits::default());
    let mut bystander = served.bystander();
    let mut rng = Rng::new(20_261_120);
    for round in 0..150_u32 {
        let mut bytes = login(&format!("garbage{round}"));
        for sn in 1..20 {
            let flags = if rng.one_in(2) { WRITE } else { READ };
            let (lba, blocks) = (rng.below(9_000) as u32, rng.below(64) as u8);
            let mut command =
                command(sn, rng.bits() as u8, lba, blocks, flags, rng.below(40_000) as u32);
            if rng.one_in(2) {
                command.cdb[0] = if flags == WRITE { 0x2a } else { 0x28 };
            }
            let data = if flags == WRITE { vec![1; rng.below(4096) as usize] } else { Vec::new() };
            let mut bhs = command.encode(data.len() as u32);
            if rng.one_in(3) {
                bhs[rng.below(48) as usize] = rng.bits() as u8;
            }
            // Not on the bystander's disk.
            bhs[9] = 0;
            bytes.extend(pdu(bhs, &data));
        }
        for _ in 0..rng.below(3) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes.truncate(at.max(1));
        }
        let mut stream = served.connect();
        let _ = stream.write_all(&bytes);
        if rng.one_in(2) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            wait_for_end(&mut stream);
        }
        if round % 10 == 0 {
            bystander.goes_on(round as u8);
        }
    }
}
