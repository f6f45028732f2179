//! Disks that fail, hang and vanish behind each protocol: the answers to hosts, and their times.
//! `docs/failing-disks.md` shows this table; a test compares them.

use crate::devices::Testing;
use crate::page::{check_page, row};
use crate::sim::protocols::{AnyScene, PROTOCOLS, Protocol};
use crate::sim::scene::{Setup, options};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use weft_block::time_limit::limited;
use weft_block::{BlockQueue, Completion, Device, Error, Op, OpKind, Raw, RawScsi};
use weft_endpoint::ConnectOptions;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};
use weft_proto::nbd::code::ErrorCode;
use weft_proto::nvme::status::Status;
use weft_proto::scsi::status::{AdditionalSense, ScsiStatus, SenseKey};

pub const LIMIT: Duration = Duration::from_secs(weft_block::limits::DISK_TIMEOUT_S);
const READ: OpKind = OpKind::Read;
const WRITE: OpKind = OpKind::Write { fua: false };

/// A fault, and the answers: by NVMe, iSCSI and NBD.
struct Row {
    /// The fault in words.
    what: &'static str,
    /// The options of the `error:` filter that make it.
    fault: &'static str,
    /// The commands, one after the other; the answers are those of the last.
    commands: &'static [OpKind],
    answers: [&'static str; 3],
}

const fn row_of(
    what: &'static str,
    fault: &'static str,
    commands: &'static [OpKind],
    answers: [&'static str; 3],
) -> Row {
    Row { what, fault, commands, answers }
}

const IO_ERROR_READ: [&str; 3] = [
    "Unrecovered Read Error (0x281), DNR",
    "MEDIUM ERROR, Unrecovered read error (11h/00h)",
    "EIO",
];
const IO_ERROR_WRITE: [&str; 3] =
    ["Write Fault (0x280), DNR", "MEDIUM ERROR, Write error (0ch/00h)", "EIO"];
const GONE: [&str; 3] = [
    "Controller Pathing Error (0x360)",
    "NOT READY, Logical unit communication failure (08h/00h)",
    "ESHUTDOWN",
];
const NOT_ANSWERED: [&str; 3] = [
    "Controller Pathing Error (0x360)",
    "NOT READY, Logical unit communication time-out (08h/01h)",
    "EIO",
];
const WRITE_NOT_ANSWERED: [&str; 3] = [
    "Internal Error (0x6), DNR",
    "HARDWARE ERROR, Logical unit communication time-out (08h/01h)",
    "EIO",
];

const TABLE: &[Row] = &[
    row_of("a read fails (EIO)", "rate=1,kind=media", &[READ], IO_ERROR_READ),
    row_of("a write fails (EIO)", "rate=1,kind=media", &[WRITE], IO_ERROR_WRITE),
    row_of("a flush fails (EIO)", "rate=1,kind=media,ops=flush", &[OpKind::Flush], IO_ERROR_WRITE),
    row_of("a read is short: the file ends early", "rate=1,kind=short", &[READ], IO_ERROR_READ),
    row_of("a write is short", "rate=1,kind=short", &[WRITE], IO_ERROR_WRITE),
    row_of(
        "there is no space for a write (ENOSPC)",
        "rate=1,kind=enospc",
        &[WRITE],
        [
            "Capacity Exceeded (0x81), DNR",
            "DATA PROTECT, Space allocation failed write protect (27h/07h)",
            "ENOSPC",
        ],
    ),
    row_of(
        "the disk has become read-only",
        "rate=1,kind=protected,ops=write",
        &[WRITE],
        [
            "Namespace is Write Protected (0x20), DNR",
            "DATA PROTECT, Write protected (27h/00h)",
            "EPERM",
        ],
    ),
    row_of("the disk vanishes under a read", "rate=1,kind=vanish", &[READ], GONE),
    row_of("the disk vanishes under a write", "rate=1,kind=vanish", &[WRITE], GONE),
    row_of(
        "a command after the disk has vanished",
        "rate=1,kind=vanish,ops=write",
        &[WRITE, READ],
        GONE,
    ),
    row_of("a read hangs", "rate=1,kind=hang", &[READ], NOT_ANSWERED),
    row_of("a write hangs", "rate=1,kind=hang", &[WRITE], WRITE_NOT_ANSWERED),
    row_of("a flush hangs", "rate=1,kind=hang,ops=flush", &[OpKind::Flush], NOT_ANSWERED),
    row_of(
        "a read after a write that hangs",
        "rate=1,kind=hang,ops=write",
        &[WRITE, READ],
        NOT_ANSWERED,
    ),
    row_of(
        "a write after one that hangs",
        "rate=1,kind=hang,ops=write",
        &[WRITE, WRITE],
        NOT_ANSWERED,
    ),
    row_of(
        "a read after a hanging write has come back",
        "rate=1,kind=hang,for=60s,ops=write",
        &[WRITE, READ],
        ["success"; 3],
    ),
];

fn words(completion: &Completion) -> String {
    match completion.outcome.status().raw {
        None => format!("{:?}", completion.outcome.status().kind).to_lowercase(),
        Some(Raw::Nvme(code)) => {
            let do_not_retry = if code & Status::DNR != 0 { ", DNR" } else { "" };
            match code & !Status::DNR {
                0x360 => format!("Controller Pathing Error (0x360){do_not_retry}"),
                code => format!("{}{do_not_retry}", Status(code)),
            }
        }
        Some(Raw::Scsi(RawScsi { status, .. }))
            if ScsiStatus(status) != ScsiStatus::CHECK_CONDITION =>
        {
            ScsiStatus(status).to_string()
        }
        Some(Raw::Scsi(raw)) => {
            format!("{}, {}", SenseKey(raw.sense_key), AdditionalSense(raw.additional_sense))
        }
        Some(Raw::Nbd(code)) => match ErrorCode(code) {
            ErrorCode::EPERM => "EPERM".into(),
            ErrorCode::EIO => "EIO".into(),
            ErrorCode::ENOSPC => "ENOSPC".into(),
            ErrorCode::ESHUTDOWN => "ESHUTDOWN".into(),
            other => other.to_string(),
        },
        Some(Raw::Os(code)) => format!("error {code}"),
    }
}

/// A target with such a disk, and a client with one queue of it.
pub struct Testbed {
    pub scene: AnyScene,
    pub device: Device,
    driver: DriverId,
    asked: Rc<RefCell<VecDeque<Op>>>,
    done: Rc<RefCell<Vec<Completion>>>,
    cancel: Rc<Cell<bool>>,
}

struct User {
    queue: Box<dyn BlockQueue>,
    cancel: Rc<Cell<bool>>,
    asked: Rc<RefCell<VecDeque<Op>>>,
    done: Rc<RefCell<Vec<Completion>>>,
}

impl Driver for User {
    fn work(&mut self, _: &Handle) -> Activity {
        self.queue.submit(&mut self.asked.borrow_mut());
        if self.cancel.take() {
            self.queue.cancel(1);
        }
        let before = self.done.borrow().len();
        self.queue.reap(&mut self.done.borrow_mut());
        Activity::busy_if(self.done.borrow().len() > before)
    }
}

impl Testbed {
    pub fn new(protocol: Protocol, fault: &str) -> Self {
        let failing = limited(Testing::new(&format!("error:{fault},ram:16MiB")), LIMIT);
        Self::with(protocol, Setup::new(1, failing))
    }

    /// The client uses the first device.
    pub fn with(protocol: Protocol, setup: Setup) -> Self {
        Self::over(protocol.scene(setup), &protocol.url(), &options())
    }

    /// The client uses what it opens by a URL.
    pub fn over(mut scene: AnyScene, url: &str, options: &ConnectOptions) -> Self {
        let device = scene.open_url(url, options).unwrap();
        let (asked, done) =
            (Rc::<RefCell<VecDeque<Op>>>::default(), Rc::<RefCell<Vec<Completion>>>::default());
        let on = scene.io_loop(0);
        let cancel = Rc::<Cell<bool>>::default();
        let of_user = (Rc::clone(&asked), Rc::clone(&done), Rc::clone(&cancel));
        let make = |id| {
            let (asked, done, cancel) = of_user;
            Ok::<_, Error>(User { queue: device.open_queue(&on, id)?, cancel, asked, done })
        };
        let driver = on.try_spawn(make).unwrap();
        Self { scene, device, driver, asked, done, cancel }
    }

    /// Submits a command of two blocks.
    pub fn ask(&self, kind: OpKind) {
        self.ask_at(kind, 8, 0);
    }

    /// Submits a command of two blocks at an address, whose bytes all have this value.
    pub fn ask_at(&self, kind: OpKind, lba: u64, byte: u8) {
        let blocks = if kind == OpKind::Flush { 0 } else { 2 };
        let mut data = Segments::new();
        if kind.data_factor() > 0 {
            let mut buf = self.scene.io_loop(0).pool().take(1024).unwrap();
            buf.fill(byte);
            data.push(buf.into());
        }
        let lba = if blocks == 0 { 0 } else { lba };
        self.submit(Op::new(kind, lba, blocks, 1, data));
    }

    /// Submits a command.
    pub fn submit(&self, op: Op) {
        self.asked.borrow_mut().push_back(op);
        self.scene.io_loop(0).wake(self.driver);
    }

    /// Has the command aborted.
    pub fn cancel(&self) {
        self.cancel.set(true);
        self.scene.io_loop(0).wake(self.driver);
    }

    /// Ends the client.
    pub fn hang_up(&self) {
        self.scene.io_loop(0).remove(self.driver);
    }

    pub fn has_answer(&self) -> bool {
        !self.done.borrow().is_empty()
    }

    /// Waits for the end of a command.
    pub fn answer(&mut self) -> Completion {
        let done = Rc::clone(&self.done);
        assert!(
            self.scene.world.run_until(|_| !done.borrow().is_empty(), Duration::from_secs(600))
        );
        done.borrow_mut().remove(0)
    }

    /// Returns the completion of a command, and the time that it took.
    pub fn command(&mut self, kind: OpKind) -> (Completion, Duration) {
        let begin = self.scene.world.now();
        self.ask(kind);
        (self.answer(), self.scene.world.now() - begin)
    }
}

#[test]
fn each_fault_has_its_answer_in_each_protocol_in_bounded_time() {
    let mut wrong = Vec::new();
    for row in TABLE {
        for (protocol, expected) in PROTOCOLS.into_iter().zip(row.answers) {
            let mut stage = Testbed::new(protocol, row.fault);
            let (last, before) = row.commands.split_last().unwrap();
            for kind in before {
                stage.command(*kind);
            }
            if row.fault.contains("for=60s") {
                stage.scene.world.run_for(Duration::from_secs(60));
            }
            let (done, after) = stage.command(*last);
            if words(&done) != expected {
                wrong.push(format!(
                    "{protocol:?}: {}: {} instead of {expected}",
                    row.what,
                    words(&done)
                ));
            }
            assert!(
                after < LIMIT + Duration::from_secs(1),
                "{protocol:?}: {}: after {after:?}",
                row.what
            );
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_page_shows_the_table() {
    let rows = TABLE.iter().map(|of| {
        let fault = format!("`error:{}`", of.fault);
        row(&[of.what, &fault, of.answers[0], of.answers[1], of.answers[2]])
    });
    check_page("failing-disks.md", "answers", &["Fault", "Made by", "NVMe", "iSCSI", "NBD"], rows);
}
