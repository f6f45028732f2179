//! The host's side of an association with a controller that answers right, wrong, late or never.

use std::cell::RefCell;
use std::rc::Rc;

use weft_fuzz::Input;
use weft_fuzz::fake::{Fake, Reply};
use weft_fuzz::world::{World, config, discovery_config};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::cross_reset::CrossControllerReset;
use weft_proto::nvme::host::AdminData;
use weft_proto::nvme::identify::IdentifyController;
use weft_proto::nvme::sqe::Sqe;
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Cid, Cntlid, Qid};

/// How often time moves on, at most.
const STEPS: usize = 200;

pub fn run(bytes: &[u8]) {
    let input = Rc::new(RefCell::new(Input::new(bytes)));
    let choices = Rc::clone(&input);
    let discovery = input.borrow_mut().one_in(4);
    let (config, fake) = if discovery {
        (discovery_config(), Fake::discovery(5))
    } else {
        (config(), Fake::default())
    };
    let fake = if input.borrow_mut().one_in(2) { with_access_states(fake) } else { fake };
    let mut world = World::scripted(config, fake, move |_, sqe, data, fake| {
        spoil(&mut choices.borrow_mut(), sqe, data, fake)
    });
    world.run();
    for _ in 0..STEPS {
        let choice = input.borrow_mut().below(16);
        let queue = Qid(input.borrow_mut().below(3) as u16);
        match choice {
            10 => world.host.access_doubted(world.now),
            11 => world.host.cross_reset(
                world.now,
                CrossControllerReset { icid: Cntlid(3), ciu: queue.0 as u8, cirn: 7 },
            ),
            12 => world.host.connection_lost(world.now, queue),
            13 => world.host.io_timed_out(world.now, queue, Cid(choice as u16)),
            14 => world.host.io_completed(queue, Cid(choice as u16)),
            15 => world.host.shutdown(world.now),
            _ if !world.step() => break,
            _ => {}
        }
        world.run();
    }
}

/// One that has access states, and can reset others.
fn with_access_states(mut fake: Fake) -> Fake {
    fake.identify.cmic = IdentifyController::CMIC_ANA;
    fake.identify.ccrl = 2;
    fake.identify.nanagrpid = 3;
    fake.identify.anatt = 10;
    fake
}

/// Takes the controller's place now and then.
fn spoil(input: &mut Input, sqe: &Sqe, data: &AdminData, fake: &mut Fake) -> Option<Reply> {
    match input.below(16) {
        10 => Some(Reply::Silence),
        11 => Some(Reply::status(Status(input.u16() & 0x7ff))),
        12 => Some(Reply::result(input.u64())),
        13 => Some(Reply::data(input.bytes(64))),
        14 | 15 => patched(input, sqe, data, fake),
        _ => beyond(sqe, data, fake),
    }
}

/// Zeroes from behind the end of the discovery log, where a patched header has sent the host.
fn beyond(sqe: &Sqe, data: &AdminData, fake: &Fake) -> Option<Reply> {
    let AdminData::In { len } = *data else { return None };
    let is_discovery = sqe.opcode() == 0x02 && sqe.dword(10) as u8 == 0x70;
    let end = sqe.qword(12).saturating_add(len.into());
    (is_discovery && end > 1024 * (1 + fake.discovery.len() as u64))
        .then(|| Reply::data(vec![0; len as usize]))
}

/// The controller's own answer with some bytes changed.
fn patched(input: &mut Input, sqe: &Sqe, data: &AdminData, fake: &mut Fake) -> Option<Reply> {
    let AdminData::In { .. } = data else { return None };
    if let Some(reply) = beyond(sqe, data, fake) {
        return Some(reply);
    }
    let Reply::Done(cqe, mut bytes) = fake.admin(sqe, data) else { return Some(Reply::Silence) };
    for _ in 0..=input.below(8) {
        let at = if input.one_in(4) { input.below(4096) } else { input.below(600) };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = input.byte();
        }
    }
    Some(Reply::Done(Cqe { result: input.byte().into(), ..cqe }, bytes))
}
