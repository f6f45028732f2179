//! Peers that announce data and send none, or ask for data and take none: one of them is cut off,
//! and hundreds of them leave others their share.

use crate::checker::{Checker, Ledger, Plan};
use crate::devices::Testing;
use crate::sim::protocols::{AnyScene, IQN, PROTOCOLS, Protocol};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{Connections, Setup, options};
use crate::wire;
use std::time::Duration;
use weft_endpoint::limits::{STALL_BYTES_MIN, STALL_S};
use weft_io::sim::Rng;
use weft_proto::iscsi::pdu::{
    CommandFlags, Head, Isid, LoginFlags, LoginRequest, LoginStage, NopIn, NopOut, Opcode,
    ScsiCommand, TaskTag, padding,
};
use weft_proto::iscsi::serial::Serial;
use weft_proto::nvme::host::command;
use weft_proto::nvme::types::{Cntlid, Lba, Nsid};

/// Bytes that each of them asks for at a time.
const BYTES: u32 = 1 << 20;
const BLOCKS: u32 = BYTES / 512;

const POOL_BYTES: usize = 16 << 20;

/// What a peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// It announces writes, and sends no data.
    Announces,
    /// It reads, and takes no answers.
    IsDeaf,
}

const MANNERS: [Manner; 2] = [Manner::Announces, Manner::IsDeaf];

fn scene(protocol: Protocol) -> AnyScene {
    let device = Testing::new("ram:64MiB");
    device.knobs.set_delay(Duration::from_micros(50));
    let setup = Setup { target_pool_bytes: POOL_BYTES, ..Setup::new(1, device) };
    let mut scene = protocol.scene(setup);
    scene
        .world
        .set_net(|net| (net.send_buffer_bytes, net.recv_buffer_bytes) = (16 << 10, 16 << 10));
    scene
}

/// Where the next queue of an NVMe host belongs.
#[derive(Default)]
struct Associations {
    admin: Vec<Puppet>,
    cntlid: Option<Cntlid>,
    queues: u16,
}

/// Queues of one association.
const QUEUES: u16 = 100;

/// A peer that is let in and has sent `commands`.
fn misbehave(
    scene: &mut AnyScene,
    protocol: Protocol,
    nth: usize,
    manner: Manner,
    all: &mut Associations,
) -> Puppet {
    match protocol {
        Protocol::NvmeTcp => nvme(scene, manner, all),
        Protocol::Iscsi => iscsi(scene, nth, manner),
        Protocol::Nbd => nbd(scene, manner),
    }
}

fn nvme(scene: &mut AnyScene, manner: Manner, all: &mut Associations) -> Puppet {
    if all.cntlid.is_none() || all.queues == QUEUES {
        let admin = Puppet::new(scene);
        all.cntlid = Some(wire::admin(&mut admin.within(scene), &who()));
        all.admin.push(admin);
        all.queues = 0;
    }
    all.queues += 1;
    let puppet = Puppet::new(scene);
    wire::io_queue(&mut puppet.within(scene), &who(), all.cntlid.unwrap(), all.queues, 32);
    puppet.set_deaf(manner == Manner::IsDeaf);
    for cid in 0..16 {
        let sqe = match manner {
            Manner::Announces => command::write(Nsid(1), Lba(0), BLOCKS, false),
            Manner::IsDeaf => command::read(Nsid(1), Lba(0), BLOCKS),
        };
        puppet.put(&wire::capsule_moving(&sqe, cid, BYTES));
    }
    puppet
}

fn iscsi(scene: &mut AnyScene, nth: usize, manner: Manner) -> Puppet {
    let puppet = Puppet::new(scene);
    let text = format!(
        "InitiatorName=iqn.2026-01.example.weft:crowd{nth}\0TargetName={IQN}\0InitialR2T=No\0FirstBurstLength=262144\0"
    );
    let request = LoginRequest {
        immediate: true,
        flags: LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE)),
        isid: Isid::random([1, 2, 3], nth as u16),
        task: TaskTag(1),
        cid: 1,
        cmd_sn: Serial(1),
        ..LoginRequest::default()
    };
    let pad = &[0; 3][..padding(text.len() as u32)];
    puppet.put(&[&request.encode(text.len() as u32)[..], text.as_bytes(), pad].concat());
    assert!(scene.world.run_until(|_| puppet.received_bytes() > 0, Duration::from_secs(10)));
    puppet.set_deaf(manner == Manner::IsDeaf);
    for sn in 1..16 {
        let mut cdb = [0; 16];
        // The last one's data is to come without being asked for.
        let (opcode, flags) = match manner {
            Manner::IsDeaf => (0x28, 0xc1),
            Manner::Announces if sn == 15 => (0x2a, 0x21),
            Manner::Announces => (0x2a, 0xa1),
        };
        cdb[0] = opcode;
        cdb[7..9].copy_from_slice(&(BLOCKS as u16).to_be_bytes());
        let flags = CommandFlags(flags);
        let command = ScsiCommand {
            flags,
            task: TaskTag(sn),
            expected_bytes: BYTES,
            cmd_sn: Serial(sn),
            cdb,
            ..ScsiCommand::default()
        };
        puppet.put(&command.encode(0));
    }
    puppet
}

/// A request of NBD in its compact form.
fn nbd_request(command: u16, cookie: u64, bytes: u32) -> Vec<u8> {
    let fields = [
        &0x2560_9513_u32.to_be_bytes()[..],
        &[0; 2],
        &command.to_be_bytes(),
        &cookie.to_be_bytes(),
        &[0; 8],
    ];
    [&fields.concat()[..], &bytes.to_be_bytes()].concat()
}

/// A client of the first export, whose replies are simple ones.
pub fn nbd_client(scene: &mut AnyScene) -> Puppet {
    let puppet = Puppet::new(scene);
    // Fixed newstyle without zeroes, and the option EXPORT_NAME.
    puppet.put(
        &[&[0, 0, 0, 3][..], b"IHAVEOPT", &1_u32.to_be_bytes(), &1_u32.to_be_bytes(), b"1"]
            .concat(),
    );
    assert!(scene.world.run_until(|_| puppet.received_bytes() >= 18 + 10, Duration::from_secs(10)));
    puppet.take_bytes();
    puppet
}

fn nbd(scene: &mut AnyScene, manner: Manner) -> Puppet {
    let puppet = nbd_client(scene);
    puppet.set_deaf(manner == Manner::IsDeaf);
    match manner {
        Manner::Announces => puppet.put(&nbd_request(1, 1, BYTES)),
        Manner::IsDeaf => (0..16).for_each(|cookie| puppet.put(&nbd_request(0, cookie, BYTES))),
    }
    puppet
}

#[test]
fn a_peer_that_stops_half_way_is_cut_off() {
    for (protocol, manner) in
        PROTOCOLS.into_iter().flat_map(|protocol| MANNERS.map(|manner| (protocol, manner)))
    {
        let mut scene = scene(protocol);
        let mut associations = Associations::default();
        let _peer = misbehave(&mut scene, protocol, 0, manner, &mut associations);
        let on = scene.world.handle(scene.target_loops[0]);
        scene.world.run_for(Duration::from_secs(STALL_S) - Duration::from_secs(1));
        let connections = scene.target.connections();
        assert_eq!(connections, 1 + associations.admin.len(), "{protocol:?} {manner:?}");
        assert!(on.pool().taken_bytes() >= BYTES as usize, "{protocol:?} {manner:?}");
        scene.world.run_for(Duration::from_secs(STALL_S) + Duration::from_secs(2));
        assert_eq!(scene.target.connections(), connections - 1, "{protocol:?} {manner:?}");
        assert_eq!(on.pool().taken_bytes(), 0, "{protocol:?} {manner:?}");
    }
}

#[test]
fn a_peer_that_is_slow_is_not() {
    let mut scene = scene(Protocol::Nbd);
    let peer = nbd(&mut scene, Manner::Announces);
    let told = peer.received_bytes();
    for _ in 0..u64::from(BYTES) / STALL_BYTES_MIN {
        assert_eq!(peer.received_bytes(), told);
        scene.world.run_for(Duration::from_secs(STALL_S) * 5 / 6);
        peer.put(&[7; STALL_BYTES_MIN as usize]);
    }
    scene.world.run_for(Duration::from_secs(1));
    assert_eq!(peer.received_bytes(), told + 16, "a simple reply");
    assert_eq!(scene.target.connections(), 1);
}

/// Operations that an honest peer completes in half a second beside so many others.
fn honest_operations(protocol: Protocol, others: usize, manner: Manner) -> u64 {
    let mut scene = scene(protocol);
    let mut associations = Associations::default();
    let crowd: Vec<_> = (0..others)
        .map(|nth| misbehave(&mut scene, protocol, nth, manner, &mut associations))
        .collect();
    let on = scene.world.handle(scene.target_loops[0]);
    let device = scene.open_url(&protocol.url(), &options()).unwrap();
    let ledger = Ledger::new(0, 2, 8, 512);
    let run = Checker::spawn(
        &scene.io_loop(0),
        device.as_ref(),
        &ledger,
        Plan::Chance(u64::MAX),
        Rng::new(1),
    )
    .unwrap();
    for _ in 0..50 {
        scene.world.run_for(Duration::from_millis(10));
        let bytes = on.pool().allocated_bytes();
        assert!(bytes <= POOL_BYTES, "{protocol:?} {manner:?}: {bytes} bytes");
    }
    assert!(crowd.iter().all(|peer| !peer.has_ended()), "{protocol:?} {manner:?}: still there");
    assert!(!run.borrow().lost);
    let completed = run.borrow().completed;
    eprintln!("{protocol:?} beside {others} peers ({manner:?}): {completed} operations");
    completed
}

#[test]
fn hundreds_of_peers_that_hold_on_to_memory_leave_others_their_share() {
    for (protocol, manner) in
        PROTOCOLS.into_iter().flat_map(|protocol| MANNERS.map(|manner| (protocol, manner)))
    {
        let alone = honest_operations(protocol, 0, manner);
        let beside = honest_operations(protocol, 300, manner);
        assert!(
            beside * 2 >= alone,
            "{protocol:?} {manner:?}: {beside} operations beside the crowd, {alone} alone"
        );
    }
}

/// One that sends no data, and answers pings all the while: it is there, and holds on to memory.
#[test]
fn an_initiator_that_answers_pings_and_sends_no_data_is_cut_off() {
    let mut scene = scene(Protocol::Iscsi);
    let peer = iscsi(&mut scene, 0, Manner::Announces);
    let on = scene.world.handle(scene.target_loops[0]);
    let (mut unread, mut pings) = (Vec::new(), 0);
    for _ in 0..2 * STALL_S {
        scene.world.run_for(Duration::from_secs(1));
        unread.extend(peer.take_bytes());
        while let Some(bhs) = unread.first_chunk::<48>().copied() {
            let data = Head::decode(&bhs).data_bytes;
            unread.drain(..(48 + data as usize + padding(data)).min(unread.len()));
            let ping = NopIn::decode(&bhs);
            if Opcode::of(bhs[0]) == Opcode::NOP_IN && ping.transfer != TaskTag::NONE {
                pings += 1;
                let pong = NopOut {
                    immediate: true,
                    lun: ping.lun,
                    task: TaskTag::NONE,
                    transfer: ping.transfer,
                    cmd_sn: Serial(16),
                    exp_stat_sn: Serial(ping.stat_sn.0),
                };
                peer.put(&pong.encode(0));
            }
        }
    }
    assert!(pings > 0, "it was asked whether it is there");
    assert_eq!((scene.target.connections(), on.pool().taken_bytes()), (0, 0));
}
