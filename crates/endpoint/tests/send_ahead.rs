//! A submission with much to write is sent at once, so that the target works while the rest of the
//! turn makes more; one with little goes with what else the turn has.

use crate::served::{self, Served};
use std::collections::VecDeque;
use std::sync::mpsc::{Sender, channel};
use weft_block::{BlockQueue, Completion, Error, Op, OpKind};
use weft_endpoint::export::{self, ExportConfig};
use weft_endpoint::inventory::{LiveInventory, SubsystemConfig};
use weft_endpoint::limits::SEND_AHEAD_BYTES;
use weft_endpoint::loops::Loops;
use weft_endpoint::{ConnectOptions, TlsFiles, open};
use weft_io::{Activity, Driver, Handle, RemoteLoop, Segments};
use weft_proto::nvme::types::Nqn;

const BYTES: u32 = 4096;
const MANY: usize = SEND_AHEAD_BYTES / BYTES as usize;

fn op(on: &Handle, kind: OpKind, name: usize) -> Op {
    let data = Segments::from_iter([on.pool().take(BYTES as usize).unwrap().into()]);
    let blocks = BYTES / 512;
    Op::new(kind, name as u64 * u64::from(blocks), blocks, name as u64, data)
}

/// Makes one submission after the other, and counts the sends of each.
struct User {
    queue: Box<dyn BlockQueue>,
    /// The first tries the connection.
    submissions: VecDeque<(OpKind, usize)>,
    done: Vec<Completion>,
    in_flight: usize,
    told: Sender<u64>,
}

impl User {
    fn submit(&mut self, on: &Handle) {
        let Some((kind, count)) = self.submissions.pop_front() else { return };
        let mut ops: VecDeque<Op> = (0..count).map(|name| op(on, kind, name)).collect();
        let before = on.counters().send_calls.value();
        self.queue.submit(&mut ops);
        self.told.send(on.counters().send_calls.value() - before).unwrap();
        assert!(ops.is_empty());
        self.in_flight = count;
    }
}

impl Driver for User {
    fn work(&mut self, on: &Handle) -> Activity {
        self.queue.reap(&mut self.done);
        let ended = self.done.len();
        for completion in self.done.drain(..) {
            assert!(completion.outcome.is_success(), "{:?}", completion.outcome);
        }
        self.in_flight -= ended;
        if self.in_flight == 0 {
            self.submit(on);
        }
        Activity::busy_if(ended > 0)
    }
}

#[test]
fn much_to_write_does_not_wait_for_the_end_of_the_turn() {
    let config = ExportConfig {
        inventory: LiveInventory::of_devices(
            SubsystemConfig::new(Nqn::new("nqn.2026-01.example.weft:ahead").unwrap()),
            served::devices(&["ram:1MiB"]),
        )
        .unwrap(),
        iscsi: Default::default(),
        tls: TlsFiles::default(),
        late_writers: Default::default(),
    };
    let listen = ["nvme+tcp", "iscsi", "nbd"].map(|scheme| format!("{scheme}://127.0.0.1:0"));
    let start = |loops: &[RemoteLoop]| export::start(&config, &listen, loops).unwrap();
    let served = Served::start(&served::loops(1), start);
    for url in served.urls() {
        let device = open(&url, &ConnectOptions::default()).unwrap();
        let loops = Loops::start(&served::loops(1)).unwrap();
        let (told, sends) = channel();
        loops.remotes()[0].post(move |on| {
            let write = OpKind::Write { fua: false };
            let submissions =
                [(OpKind::Read, 1), (write, MANY), (write, MANY - 1), (OpKind::Read, MANY)];
            on.try_spawn(|id| {
                let queue = device.open_queue(on, id)?;
                let submissions = submissions.into();
                Ok::<_, Error>(User { queue, submissions, done: Vec::new(), in_flight: 0, told })
            })
            .unwrap();
        });
        let sends: Vec<u64> = (0..4).map(|_| sends.recv().unwrap()).collect();
        assert_eq!(sends, [0, 1, 0, 0], "{url}");
        loops.stop().unwrap();
    }
}
