//! A disk that hangs: what promises that it holds no write any more waits for it, and nothing else
//! does.

use crate::devices::Testing;
use crate::sim::failing::{LIMIT, Testbed};
use crate::sim::protocols::{PROTOCOLS, Protocol};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{NQN, Scene, Setup, options, port, run_ops};
use crate::wire;
use std::time::Duration;
use weft_block::time_limit::limited;
use weft_block::{Op, OpKind, Outcome, Presence};
use weft_proto::nvme::host::command;
use weft_proto::nvme::opcode::AdminOpcode;
use weft_proto::nvme::property::Configuration;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Lba, Nsid};

const WRITE: OpKind = OpKind::Write { fua: false };
const S: Duration = Duration::from_secs(1);
/// Each write hangs for a minute.
const HANGS: &str = "rate=1,kind=hang,for=60s,ops=write";

#[test]
fn a_reset_is_complete_only_when_the_device_has_given_the_write_back() {
    let device = limited(Testing::new(&format!("error:{HANGS},ram:16MiB")), LIMIT);
    let mut scene = Scene::new(Setup::new(1, device));
    let (admin, io) = (Puppet::new(&scene), Puppet::new(&scene));
    let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
    wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
    let begin = scene.world.now();
    io.put(&wire::capsule(&command::write(Nsid(1), Lba(0), 1, false), 10, &[1; 512]));
    scene.world.run_for(S);
    // Abort does not claim what it cannot do, and answers at once.
    let mut abort = Sqe::new(AdminOpcode::ABORT.0, Nsid(0));
    abort.set_dword(10, 1 | 10 << 16);
    admin.put(&wire::capsule(&abort, 3, &[]));
    assert_eq!(wire::response(&mut admin.within(&mut scene)).result & 1, 1, "not aborted");
    let cqe = wire::response(&mut io.within(&mut scene));
    assert_eq!((cqe.cid.0, cqe.status, cqe.do_not_retry), (10, Status::INTERNAL_ERROR, true));
    assert!(scene.world.now() - begin < LIMIT + S);
    assert_eq!(
        wire::set_cc(&mut admin.within(&mut scene), Configuration::NVM_ENTRY_SIZES).status,
        Status::SUCCESS
    );
    loop {
        let ready = wire::status(&mut admin.within(&mut scene)).ready();
        let waited = scene.world.now() - begin;
        assert_eq!(ready, waited < 60 * S, "after {waited:?}");
        if !ready {
            break;
        }
        scene.world.run_for(Duration::from_millis(500));
    }
    admin.hang_up();
    io.hang_up();
    scene.settle(5 * S);
}

#[test]
fn the_end_of_a_connection_waits_for_the_device_and_leaves_nothing() {
    for protocol in PROTOCOLS {
        let mut stage = Testbed::new(protocol, HANGS);
        let begin = stage.scene.world.now();
        stage.command(WRITE);
        stage.hang_up();
        let Testbed { mut scene, device, .. } = stage;
        drop(device);
        while scene.world.now() - begin < 59 * S {
            assert!(
                scene.target.connections() > 0,
                "{protocol:?}: the device has a write of the host"
            );
            scene.world.run_for(S);
        }
        scene.settle(20 * S);
    }
}

#[test]
fn other_disks_of_the_target_go_on() {
    for protocol in PROTOCOLS {
        let hanging = limited(Testing::new(&format!("error:{HANGS},ram:16MiB")), LIMIT);
        let mut setup = Setup::new(1, hanging);
        setup.devices.push(Testing::new("ram:16MiB"));
        let mut stage = Testbed::with(protocol, setup);
        stage.ask(WRITE);
        let url = match protocol {
            Protocol::NvmeTcp => format!("nvme+tcp://target:{}/{NQN}/2", port().port()),
            Protocol::Iscsi => protocol.url().replace("/0", "/1"),
            Protocol::Nbd => protocol.url().replace("/1", "/2"),
        };
        for _ in 0..6 {
            let other = stage.scene.open_url(&url, &options()).unwrap();
            let (on, begin) = (stage.scene.io_loop(0), stage.scene.world.now());
            let read = Op::new(
                OpKind::Read,
                0,
                1,
                1,
                [on.pool().take(512).unwrap().into()].into_iter().collect(),
            );
            let done = run_ops(&mut stage.scene.world, &on, other.as_ref(), vec![read]);
            assert!(
                done[0].outcome.is_success() && stage.scene.world.now() - begin < S,
                "{protocol:?}: {:?}",
                done[0].outcome
            );
            drop(other);
            stage.scene.world.run_for(10 * S);
        }
        assert!(stage.has_answer());
    }
}

#[test]
fn an_aborted_task_is_not_told_as_aborted_while_the_device_has_it() {
    let mut stage = Testbed::new(Protocol::Iscsi, HANGS);
    let begin = stage.scene.world.now();
    stage.ask(WRITE);
    stage.scene.world.run_for(S);
    stage.cancel();
    let outcome = stage.answer().outcome;
    let waited = stage.scene.world.now() - begin;
    assert!(!matches!(outcome, Outcome::NotSent(_)) && !outcome.is_success(), "{outcome:?}");
    assert!(waited >= LIMIT, "after {waited:?}: {outcome:?}");
}

#[test]
fn a_disk_that_hangs_is_away_for_all_hosts_until_it_is_back() {
    for protocol in PROTOCOLS {
        let stage = &mut Testbed::new(protocol, HANGS);
        let presence =
            |stage: &Testbed| stage.scene.inventory.now().namespaces().next().unwrap().presence;
        assert!(!stage.command(WRITE).0.outcome.is_success());
        stage.scene.world.run_for(5 * S);
        assert_eq!(presence(stage), Presence::Away);
        assert!(!stage.command(OpKind::Read).0.outcome.is_success());
        stage.scene.world.run_for(60 * S);
        assert_eq!(presence(stage), Presence::Here);
        assert!(stage.command(OpKind::Read).0.outcome.is_success());
    }
}
