//! Commands that take too long: Abort, then a reset; and admin commands beyond what the queue
//! holds.

use crate::hostile::fake::{Fake, Reply, is_admin, is_io, response, success};
use crate::hostile::operations::Ops;
use crate::hostile::targets::patient;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_block::{OpKind, Outcome, StatusKind};
use weft_endpoint::source::nvme::tcp::Session;
use weft_endpoint::url::NvmeUrl;
use weft_endpoint::{ConnectOptions, open};
use weft_proto::nvme::cqe::Cqe;
use weft_proto::nvme::fabrics::Property;
use weft_proto::nvme::opcode::{AdminOpcode, FabricsType};
use weft_proto::nvme::property::PropertyOffset;
use weft_proto::nvme::sqe::{OPCODE_FABRICS, Sqe};
use weft_proto::nvme::status::Status;
use weft_proto::nvme::types::{Nsid, Qid};

/// Longer than a command that is answered takes on a loaded machine.
const IO_TIMEOUT: Duration = Duration::from_secs(2);

fn options() -> ConnectOptions {
    ConnectOptions { io_timeout: IO_TIMEOUT, ..patient() }
}

/// What a host tried at a fake, in order.
type Attempts = Arc<Mutex<Vec<&'static str>>>;

fn note(seen: &Attempts, qid: Qid, sqe: &Sqe) {
    let reset = || {
        let property = Property::decode(sqe);
        sqe.fabrics_type() == FabricsType::PROPERTY_SET.0
            && property.offset == PropertyOffset::CC
            && property.value & 1 == 0
    };
    if is_admin(qid, sqe, AdminOpcode::ABORT) {
        seen.lock().unwrap().push("abort");
    } else if sqe.opcode() == OPCODE_FABRICS && reset() {
        seen.lock().unwrap().push("reset");
    }
}

#[test]
fn a_command_that_is_not_answered_is_aborted_and_then_the_controller_reset() {
    let seen = Attempts::default();
    let log = Arc::clone(&seen);
    let fake = Fake::new(None, move |qid, sqe| {
        note(&log, qid, sqe);
        if is_io(qid, sqe) && sqe.opcode() == 1 { Reply::Silence } else { Reply::Usual }
    });
    let device = open(&fake.url(), &options()).unwrap();
    let kinds = vec![(OpKind::Read, 1), (OpKind::Write { fua: false }, 1), (OpKind::Read, 1)];
    let outcomes = Ops::start(device, kinds).outcomes(3);
    assert!(outcomes[0].is_success() && outcomes[2].is_success(), "{outcomes:?}");
    assert!(
        matches!(outcomes[1], Outcome::MayHaveExecuted { settled: true, .. }),
        "the reset was answered: {outcomes:?}"
    );
    assert_eq!(*seen.lock().unwrap(), ["abort", "reset"]);
}

#[test]
fn a_command_that_is_answered_after_its_abort_costs_no_reset() {
    let seen = Attempts::default();
    let log = Arc::clone(&seen);
    let stuck = Mutex::new(None);
    let fake = Fake::new(None, move |qid, sqe| {
        note(&log, qid, sqe);
        if is_io(qid, sqe) && sqe.opcode() == 1 {
            *stuck.lock().unwrap() = Some(sqe.cid());
            return Reply::Silence;
        }
        // What comes next on the I/O queue brings the answer to the aborted write.
        match stuck.lock().unwrap().take_if(|_| is_io(qid, sqe)) {
            Some(cid) => {
                let aborted = response(&Cqe::new(cid, Status::ABORT_REQUESTED));
                Reply::Bytes([aborted, success(sqe.cid(), 0)].concat())
            }
            None => Reply::Usual,
        }
    });
    let device = open(&fake.url(), &options()).unwrap();
    let first = Ops::start(
        Arc::clone(&device),
        vec![(OpKind::Write { fua: false }, 1), (OpKind::Flush, 0)],
    )
    .outcomes(2);
    assert_eq!(first[0].status().kind, StatusKind::Aborted, "{first:?}");
    assert!(first[1].is_success());
    // By then a reset would have come.
    std::thread::sleep(IO_TIMEOUT * 2);
    assert!(!seen.lock().unwrap().contains(&"reset"));
}

#[test]
fn a_controller_that_answers_nothing_any_more_is_given_up() {
    let dead = AtomicBool::new(false);
    let fake = Fake::new(None, move |qid, sqe| {
        if is_io(qid, sqe) {
            dead.store(true, SeqCst);
        }
        if dead.load(SeqCst) { Reply::Silence } else { Reply::Usual }
    });
    let device = open(&fake.url(), &ConnectOptions { keep_alive_ms: 0, ..options() }).unwrap();
    let outcomes =
        Ops::start(device, vec![(OpKind::Read, 8), (OpKind::Write { fua: false }, 8)]).outcomes(2);
    assert!(matches!(outcomes[0], Outcome::MayHaveExecuted { settled: false, .. }), "{outcomes:?}");
    assert!(
        matches!(outcomes[1], Outcome::MayHaveExecuted { settled: true, .. }),
        "after the quiesce time: {outcomes:?}"
    );
}

#[test]
fn a_keep_alive_that_is_not_answered_ends_the_association() {
    let fake = Fake::new(None, |qid, sqe| {
        match is_admin(qid, sqe, AdminOpcode::KEEP_ALIVE) || is_io(qid, sqe) {
            true => Reply::Silence,
            false => Reply::Usual,
        }
    });
    let options =
        ConnectOptions { keep_alive_ms: 400, io_timeout: Duration::from_secs(30), ..patient() };
    let device = open(&fake.url(), &options).unwrap();
    let outcomes = Ops::start(device, vec![(OpKind::Read, 8)]).outcomes(1);
    assert!(matches!(outcomes[0], Outcome::MayHaveExecuted { .. }), "{outcomes:?}");
}

#[test]
fn more_admin_commands_than_the_queue_holds_are_all_answered() {
    let fake = Fake::new(None, |_, _| Reply::Usual);
    let url = NvmeUrl::parse(&fake.url()).unwrap();
    let session =
        Session::connect(&url, &ConnectOptions { keep_alive_ms: 0, ..patient() }).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| assert_eq!(session.identify(1, Nsid(0)).unwrap().len(), 4096));
        }
    });
}
