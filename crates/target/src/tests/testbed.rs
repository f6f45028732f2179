//! Loops for tests that wait: those of the system, or those of a simulated world that keeps up with
//! the machine's clock.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_connection::identity::Identities;
use weft_connection::loops::{Loops, LoopsConfig};
use weft_initiator::Control;
use weft_initiator::Names;
use weft_initiator::source::ConnectOptions;
use weft_io::sim::{NetConfig, World};
use weft_io::{LoopConfig, RemoteLoop, Time};

/// How often the world is looked after.
const TICK: Duration = Duration::from_micros(10);

/// Loops for a target, and how a host opens something.
pub(super) struct Testbed {
    pub(super) target: [RemoteLoop; 2],
    pub(super) options: ConnectOptions,
    _kept: Box<dyn Any>,
}

impl Testbed {
    pub(super) fn of_the_system() -> Self {
        let loops =
            Loops::start(&LoopsConfig { threads: Some(3), ..LoopsConfig::default() }).unwrap();
        let [target, other, _host] = loops.remotes() else {
            unreachable!("three loops were asked for")
        };
        Self {
            target: [target.clone(), other.clone()],
            options: ConnectOptions::default(),
            _kept: Box::new(loops),
        }
    }

    /// What is opened is opened on a loop of the world; its queues may be used on any.
    pub(super) fn of_a_world() -> Self {
        let (give, take) = channel();
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let mut world = World::with_net(1, NetConfig::default());
            let loops = ["10.0.0.1", "10.0.0.1", "10.0.1.1"].map(|ip| {
                let host = world.host(ip);
                world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() })
            });
            give.send(loops.map(|id| world.handle(id).remote())).unwrap();
            let start = Instant::now();
            while !until.load(Ordering::Relaxed) {
                let span = Time::from_epoch(start.elapsed()) - world.now();
                world.run_for(span);
                std::thread::sleep(TICK);
            }
        });
        let [target, other, host] = take.recv().unwrap();
        let control = Control::on(host, Names::default(), Identities::seeded(1));
        let options = ConnectOptions { control, ..ConnectOptions::default() };
        Self { target: [target, other], options, _kept: Box::new(Thread(over, Some(thread))) }
    }
}

/// Ends the thread of a world.
struct Thread(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Drop for Thread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        let ended = self.1.take().map(JoinHandle::join);
        if !std::thread::panicking() {
            ended.transpose().expect("the world goes on");
        }
    }
}
