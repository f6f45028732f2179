//! Limits of hosts, counted in operations on virtual time.

use crate::sim::protocols::{IQN, PROTOCOLS, Protocol};
use crate::sim::scene::{Setup, host, options};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_block::limit::Limit;
use weft_block::{BlockQueue, Completion, Device, Error, Op, OpKind, OpenOptions, open};
use weft_endpoint::ConnectOptions;
use weft_io::{Activity, Driver, Handle};

const S: Duration = Duration::from_secs(1);

/// Keeps so many operations in flight, and counts those that end.
struct Load {
    queue: Box<dyn BlockQueue>,
    kind: OpKind,
    bytes: u32,
    missing: u64,
    ops: VecDeque<Op>,
    done: Vec<Completion>,
    count: Rc<Cell<u64>>,
}

impl Driver for Load {
    fn work(&mut self, on: &Handle) -> Activity {
        self.queue.reap(&mut self.done);
        let busy = !self.done.is_empty();
        for completion in self.done.drain(..) {
            assert!(completion.outcome.is_success(), "{:?}", completion.outcome);
            self.count.set(self.count.get() + 1);
            self.missing += 1;
        }
        while self.missing > 0
            && let Some(buf) = on.pool().take(self.bytes as usize)
        {
            self.missing -= 1;
            let user = self.count.get()
                + self.missing
                + 1_000_000 * (self.queue.in_flight() + self.ops.len()) as u64;
            self.ops.push_back(Op::new(
                self.kind,
                0,
                self.bytes / 512,
                user,
                [buf.into()].into_iter().collect(),
            ));
        }
        self.queue.submit(&mut self.ops);
        Activity::busy_if(busy)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

/// Starts a load that goes on until its loop ends; gives the count of its operations.
pub fn start(on: &Handle, device: &Device, kind: OpKind, bytes: u32, depth: u64) -> Rc<Cell<u64>> {
    let count = Rc::<Cell<u64>>::default();
    let (ops, done, counted) = (VecDeque::new(), Vec::new(), Rc::clone(&count));
    let make = |id| {
        Ok::<_, Error>(Load {
            queue: device.open_queue(on, id)?,
            kind,
            bytes,
            missing: depth,
            ops,
            done,
            count: counted,
        })
    };
    let driver = on.try_spawn(make).unwrap();
    on.wake(driver);
    count
}

/// Options of a host with a name of its own.
pub fn options_of(name: &str, depth: u16) -> ConnectOptions {
    ConnectOptions { host: Some(host(name)), queue_size: depth, ..options() }
}

#[test]
fn a_host_has_its_limit_whatever_its_protocol_and_others_have_none() {
    for protocol in PROTOCOLS {
        let disk = open("delay:read=1ms,ram:64MiB", &OpenOptions::default()).unwrap();
        let mut scene = protocol.scene(Setup { client_loops: 2, ..Setup::new(1, disk) });
        let limited = match protocol {
            Protocol::NvmeTcp => host("limited").nqn.to_string(),
            Protocol::Iscsi => format!("{IQN}-limited"),
            // Both clients have the address: the limit is theirs together.
            Protocol::Nbd => "10.0.1.1".to_owned(),
        };
        let inventory = Arc::clone(&scene.inventory);
        let limit = |operations, bytes| {
            let limits = [(limited.clone(), Limit { operations, bytes })];
            inventory.change(|to| to.limit_hosts(limits).map(drop)).unwrap();
        };
        limit(1000, 0);
        let mut of_host = options_of("limited", 32);
        of_host.iscsi.initiator_name = weft_proto::iscsi::text::Name::new(&limited).ok();
        let device = scene.open_url(&protocol.url(), &of_host).unwrap();
        let reads = start(&scene.io_loop(0), &device, OpKind::Read, 4096, 16);
        scene.world.run_for(S / 2);
        assert!((450..=540).contains(&reads.get()), "{protocol:?}: {}", reads.get());
        limit(2000, 0);
        let before = reads.get();
        scene.world.run_for(S / 2);
        assert!(
            (950..=1080).contains(&(reads.get() - before)),
            "{protocol:?}: {}",
            reads.get() - before
        );
        // What waits for a limit does not wait for it longer than the limit is there.
        limit(0, 1);
        scene.world.run_for(S);
        let before = reads.get();
        scene.world.run_for(10 * S);
        assert_eq!(reads.get(), before, "{protocol:?}: one read takes more than an hour");
        limit(1000, 0);
        scene.world.run_for(2 * S);
        assert!(reads.get() - before >= 950, "{protocol:?}: {}", reads.get() - before);
        if protocol != Protocol::Nbd {
            let other = scene.open_url(&protocol.url(), &options_of("other", 32)).unwrap();
            let reads = start(&scene.io_loop(1), &other, OpKind::Read, 4096, 16);
            scene.world.run_for(S / 2);
            assert!(reads.get() > 2000, "{protocol:?}: {}", reads.get());
        }
    }
}
