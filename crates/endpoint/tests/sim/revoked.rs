//! The right to write ends while writes are under way, in all protocols: another host preempts the
//! reservation and has commands aborted, or takes or releases one, the namespace is removed, or the
//! host is denied. The moment moves from the command to its data, to the device and to the answer.
//!
//! Once the preemption is answered the device's content stays as it is, and a write of
//! which a host got the answer that it was not executed is not there.

use crate::devices::Testing;
use crate::sim::protocols::{AnyScene, Protocol};
use crate::sim::puppet::{Puppet, who};
use crate::sim::scene::{NQN, Setup, host, options, run_ops};
use crate::wire;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, Op, OpKind, OpenOptions, Outcome,
    ReservationKind, ReserveAction, StatusKind,
};
use weft_endpoint::ConnectOptions;
use weft_endpoint::export::Export;
use weft_endpoint::export::in_process::InProcess;
use weft_endpoint::export::nvme::TargetLimits;
use weft_endpoint::identity::HostIdentity;
use weft_io::sim::Chunking;
use weft_io::{Activity, Driver, Handle};
use weft_proto::iscsi::text::Name;
use weft_proto::nvme::opcode::NvmOpcode;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Id128, Nqn, Nsid};

const BLOCK: usize = 512;
/// Writes in flight, each to a place of its own: every second one has more data than a capsule.
const SLOTS: u64 = 4;
const PLACE_BLOCKS: u64 = 32;
const FENCE: &str = "10.0.0.1:4421";
const OWN_KEY: u64 = 1;
const FENCE_KEY: u64 = 2;
/// RTYPE of Write Exclusive, and RACQA of a preemption with abort, in dword 10 of Reservation
/// Acquire.
const WRITE_EXCLUSIVE: u32 = 1 << 8;
const PREEMPT_AND_ABORT: u32 = 2;
const WHILE: Duration = Duration::from_millis(20);
/// The longest time of a write whose connection has ended: it may still be executed until then.
const PATIENCE: Duration = Duration::from_secs(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// Another host preempts and aborts. Hosts that cannot register are kept out by its acquiring.
    Preempted,
    /// Another host, whose reservation kept this one out, releases it.
    Released,
    Removed,
    Denied,
}

const EVENTS: [Event; 4] = [Event::Preempted, Event::Released, Event::Removed, Event::Denied];

/// The way of the writes: over a network, or in the process of the server.
type Over = Option<Protocol>;

const OVER: [Over; 4] = [Some(Protocol::NvmeTcp), Some(Protocol::Iscsi), Some(Protocol::Nbd), None];

fn blocks(slot: u64) -> u32 {
    if slot.is_multiple_of(2) { 8 } else { PLACE_BLOCKS as u32 }
}

/// The outcomes of the writes, which are numbered from 1 on.
#[derive(Default)]
struct Ledger {
    begun: u64,
    in_flight: usize,
    outcomes: BTreeMap<u64, Outcome>,
    is_over: bool,
}

/// Writes to each place again and again, until it is over or the queue ends.
struct Writer {
    queue: Box<dyn BlockQueue>,
    ledger: Rc<RefCell<Ledger>>,
    idle: Vec<u64>,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
}

impl Writer {
    fn spawn(on: &Handle, device: &dyn BlockDevice) -> Rc<RefCell<Ledger>> {
        let ledger = Rc::<RefCell<Ledger>>::default();
        let driver = on
            .try_spawn(|id| {
                let (queue, ledger) = (device.open_queue(on, id)?, Rc::clone(&ledger));
                let (idle, ops, done) = ((0..SLOTS).collect(), VecDeque::new(), Vec::new());
                Ok::<_, Error>(Self { queue, ledger, idle, ops, done })
            })
            .unwrap();
        on.wake(driver);
        ledger
    }
}

impl Driver for Writer {
    fn work(&mut self, on: &Handle) -> Activity {
        let mut ledger = self.ledger.borrow_mut();
        while let Some(slot) = self.idle.pop_if(|_| !ledger.is_over) {
            ledger.begun += 1;
            ledger.in_flight += 1;
            let mut data = on.pool().take(blocks(slot) as usize * BLOCK).unwrap();
            data.chunks_mut(8).for_each(|word| word.copy_from_slice(&ledger.begun.to_le_bytes()));
            let (kind, data) = (OpKind::Write { fua: false }, [data.into()].into_iter().collect());
            let (lba, user) = (slot * PLACE_BLOCKS, ledger.begun);
            self.ops.push_back(Op::new(kind, lba, blocks(slot), user, data));
        }
        self.queue.submit(&mut self.ops);
        self.queue.reap(&mut self.done);
        let busy = !self.done.is_empty();
        for Completion { op, outcome } in self.done.drain(..) {
            ledger.in_flight -= 1;
            ledger.outcomes.insert(op.user, outcome);
            self.idle.push(op.lba / PLACE_BLOCKS);
        }
        Activity::busy_if(busy)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

/// A writer, and another host of the same namespace.
struct Trial {
    scene: AnyScene,
    /// Behind whatever serves it.
    disk: Device,
    /// The writer's device.
    device: Device,
    fence: (Puppet, Puppet),
    ledger: Rc<RefCell<Ledger>>,
    /// The exports of a writer in the serving process, and of the other host.
    _exports: (InProcess, Box<dyn Export>),
}

impl Trial {
    fn new(over: Over, takes: Option<Duration>, event: Event, seed: u64) -> Self {
        let disk = weft_block::open("ram:1MiB", &OpenOptions::default()).unwrap();
        let setup = Setup { client_loops: 2, ..Setup::new(seed, served(&disk, takes)) };
        let mut scene = over.unwrap_or(Protocol::NvmeTcp).scene(setup);
        scene.world.set_net(|net| {
            (net.chunking, net.jitter) = (Chunking::AtMost(3000), Duration::from_micros(15));
        });
        let local = InProcess::start(&scene.inventory);
        let on = scene.world.handle(scene.target_loops[0]);
        let address: SocketAddr = FENCE.parse().unwrap();
        let inventory = Arc::clone(&scene.inventory);
        let loops = vec![on.remote()];
        let other =
            Protocol::NvmeTcp.start(&on, inventory, TargetLimits::default(), loops, address);
        let (admin, io) = (Puppet::to(&scene, address), Puppet::to(&scene, address));
        let cntlid = wire::admin(&mut admin.within(&mut scene), &who());
        wire::io_queue(&mut io.within(&mut scene), &who(), cntlid, 1, 32);
        let options =
            ConnectOptions { opener: Some(Uuid::from_u128(1)), nr_io_queues: 1, ..options() };
        let (device, on) = match over {
            Some(protocol) => {
                (scene.open_url(&protocol.url(), &options).unwrap(), scene.io_loop(0))
            }
            None => {
                // Registrants are told apart by this.
                let by = HostIdentity { id: Id128([9; 16]), ..host("sim") };
                (local.open(by, &nqn(), Nsid(1)).unwrap(), on)
            }
        };
        let mut trial = Self {
            scene,
            disk,
            device,
            fence: (admin, io),
            ledger: Rc::default(),
            _exports: (local, other),
        };
        trial.reserve_first(over, event, &on);
        trial.ledger = Writer::spawn(&on, trial.device.as_ref());
        trial
    }

    /// Makes the reservation that is there when the writer begins.
    fn reserve_first(&mut self, over: Over, event: Event, on: &Handle) {
        let register = NvmOpcode::RESERVATION_REGISTER;
        assert_eq!(self.fence(register, 0, [0, FENCE_KEY]), Status::SUCCESS);
        match event {
            Event::Released => {
                let acquire = NvmOpcode::RESERVATION_ACQUIRE;
                let status = self.fence(acquire, WRITE_EXCLUSIVE, [FENCE_KEY, 0]);
                assert_eq!(status, Status::SUCCESS);
            }
            Event::Preempted if over != Some(Protocol::Nbd) => {
                let kind = ReservationKind::WriteExclusive;
                for action in [
                    ReserveAction::Register { key: OWN_KEY },
                    ReserveAction::Acquire { key: OWN_KEY, kind },
                ] {
                    let op = Op::bare(OpKind::Reserve(action), 0, 0, 0);
                    let done = run_ops(&mut self.scene.world, on, self.device.as_ref(), vec![op]);
                    assert!(done[0].outcome.is_success(), "{over:?}: {:?}", done[0].outcome);
                    // A session that was dropped has given its connection back.
                    self.scene.world.run_for(Duration::from_millis(1));
                }
            }
            _ => {}
        }
    }

    /// A command of the other host on reservations, and its answer.
    fn fence(&mut self, opcode: NvmOpcode, dword10: u32, keys: [u64; 2]) -> Status {
        let mut sqe = Sqe::new(opcode.0, Nsid(1));
        sqe.set_dword(10, dword10);
        let io = self.fence.1.clone();
        io.put(&wire::capsule(&sqe, 9, &keys.map(u64::to_le_bytes).concat()));
        wire::response(&mut io.within(&mut self.scene)).status
    }

    fn happen(&mut self, over: Over, event: Event) {
        let change = |edit: &dyn Fn(&mut weft_endpoint::inventory::InventoryBuilder)| {
            self.scene.inventory.change(|builder| {
                edit(builder);
                Ok(())
            })
        };
        let acquire = NvmOpcode::RESERVATION_ACQUIRE;
        let status = match (event, over) {
            (Event::Preempted, Some(Protocol::Nbd)) => {
                self.fence(acquire, WRITE_EXCLUSIVE, [FENCE_KEY, 0])
            }
            (Event::Preempted, _) => {
                self.fence(acquire, PREEMPT_AND_ABORT | WRITE_EXCLUSIVE, [FENCE_KEY, OWN_KEY])
            }
            (Event::Released, _) => {
                self.fence(NvmOpcode::RESERVATION_RELEASE, WRITE_EXCLUSIVE, [FENCE_KEY, 0])
            }
            (Event::Removed, _) => {
                let removed = change(&|to| _ = to.remove_namespace(&nqn(), Nsid(1)).unwrap());
                removed.map(|_| Status::SUCCESS).unwrap()
            }
            (Event::Denied, Some(Protocol::Nbd)) => {
                let hidden = change(&|to| _ = to.name_namespace(&nqn(), Nsid(1), None).unwrap());
                hidden.map(|_| Status::SUCCESS).unwrap()
            }
            (Event::Denied, _) => {
                let denied = change(&|to| {
                    let subsystem = to.subsystem_mut(&nqn()).unwrap();
                    subsystem.hosts = Some(vec![who().host.nqn]).into();
                    let other = Name::new("iqn.2026-01.example:other").unwrap();
                    subsystem.initiators = Some(vec![other]).into();
                });
                denied.map(|_| Status::SUCCESS).unwrap()
            }
        };
        assert_eq!(status, Status::SUCCESS, "{over:?}, {event:?}");
    }

    /// The number of the write that each place holds, which may not be parts of several.
    fn content(&mut self) -> Vec<u64> {
        let on = self.scene.world.handle(self.scene.target_loops[0]);
        let reads = (0..SLOTS).map(|slot| {
            let data = on.pool().take(blocks(slot) as usize * BLOCK).unwrap();
            let data = [data.into()].into_iter().collect();
            Op::new(OpKind::Read, slot * PLACE_BLOCKS, blocks(slot), slot, data)
        });
        let reads = reads.collect();
        let mut done = run_ops(&mut self.scene.world, &on, self.disk.as_ref(), reads);
        done.sort_by_key(|done| done.op.user);
        let number = |done: &Completion| {
            let words: Vec<_> = done.op.data[0].chunks(8).collect();
            assert!(words.iter().all(|word| word == &words[0]), "a write is torn");
            u64::from_le_bytes(words[0].try_into().unwrap())
        };
        done.iter().map(number).collect()
    }
}

fn nqn() -> Nqn {
    Nqn::new(NQN).unwrap()
}

/// Returns whether the write of a host that got this outcome may be on the device.
fn may_be_done(outcome: Option<&Outcome>) -> bool {
    match outcome {
        None | Some(Outcome::MayHaveExecuted { .. }) => true,
        Some(Outcome::NotSent(_)) => false,
        Some(Outcome::Done(status)) => status.kind != StatusKind::ReservationConflict,
    }
}

fn run(over: Over, event: Event, takes: Option<Duration>, after: Duration) {
    let mut trial = Trial::new(over, takes, event, after.as_nanos() as u64);
    let what = format!("{over:?}, {event:?} after {after:?}");
    let ledger = Rc::clone(&trial.ledger);
    let has_begun = |ledger: &Rc<RefCell<Ledger>>| ledger.borrow().outcomes.len() > 2;
    assert!(trial.scene.world.run_until(|_| has_begun(&ledger), PATIENCE), "{what}: no write ends");
    trial.scene.world.run_for(after);
    trial.happen(over, event);
    // A reservation that is acquired does not wait for what a device has of hosts without a
    // registration, only for their data.
    let waits = over != Some(Protocol::Nbd) || takes.is_none();
    let fenced = (event == Event::Preempted && waits).then(|| trial.content());
    trial.scene.world.run_for(WHILE / 50);
    ledger.borrow_mut().is_over = true;
    let ended = trial.scene.world.run_until(|_| ledger.borrow().in_flight == 0, PATIENCE);
    assert!(ended, "{what}: {} writes have no end", ledger.borrow().in_flight);
    let content = trial.content();
    if let Some(fenced) = fenced {
        assert_eq!(fenced, content, "{what}: a write was executed after the answer");
    }
    let ledger = ledger.borrow();
    for number in content {
        let outcome = ledger.outcomes.get(&number);
        assert!(may_be_done(outcome), "{what}: write {number} was done: {outcome:?}");
    }
    let last = ledger.outcomes.get(&ledger.begun).expect("all have ended");
    match event {
        Event::Released => assert!(last.is_success(), "{what}: {last:?}"),
        _ => assert!(!last.is_success(), "{what}: it goes on writing"),
    }
}

/// The disk, as it is or behind a device that has writes when the event comes, as each takes a
/// while.
fn served(disk: &Device, takes: Option<Duration>) -> Device {
    let Some(takes) = takes else { return Arc::clone(disk) };
    let device = Testing::over(Arc::clone(disk));
    device.knobs.set_delay(takes);
    device
}

#[test]
fn no_write_is_executed_once_its_right_has_ended() {
    for over in OVER {
        for event in EVENTS {
            for takes in [None, Some(Duration::from_micros(300))] {
                for step in 0..5 {
                    run(over, event, takes, Duration::from_micros(29 * step));
                }
            }
        }
    }
}
