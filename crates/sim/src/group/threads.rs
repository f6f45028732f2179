//! The threads of a gateway's process that wait for the cluster, as a part of the simulated world:
//! they run while the world stands still, one at a time, each until it waits or ends. So a seed is
//! one history, though these are threads of the system.

use crate::bugs;
use core::cell::Cell;
use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;
use weft_io::Time;

/// What a thread waits for.
pub enum Asked {
    /// An object with reservations.
    Read(Uuid),
    /// That it is replaced, if it has this generation.
    Replace(Uuid, u64, Vec<u8>),
    /// The group's record.
    Record,
    /// That the other gateways have been told.
    Tell(Uuid),
    /// That time passes.
    Pause(Duration),
}

/// What it gets.
pub enum Told {
    Object(Option<(u64, Vec<u8>)>),
    Replaced(Option<u64>),
    Record(Vec<u8>),
    /// Who has acknowledged.
    Answers(Vec<u64>),
    Paused,
    /// The cluster does nothing for this process, or nobody knows whether it did.
    Failed,
}

/// See the module.
#[derive(Default)]
pub struct Threads {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    started: u64,
    /// Those that can go on, in order.
    ready: VecDeque<u64>,
    running: Option<u64>,
    asked: Vec<(u64, Asked)>,
    told: BTreeMap<u64, Told>,
    /// How many there are.
    count: usize,
    now: Time,
    /// The process is no more.
    over: bool,
}

/// What is done for one of them, so that it ends, after its process has. More is a circle.
const STEPS_MAX: usize = 100_000;

thread_local! {
    static ME: Cell<u64> = const { Cell::new(0) };
}

impl Threads {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something, on one of the threads.
    pub fn ask(&self, asked: Asked) -> Told {
        let me = ME.get();
        assert!(me != 0, "only a thread of the reservations waits for the cluster");
        let mut inner = self.lock();
        match inner.over {
            // Others go on first: this one may try again for as long as they have not ended.
            true => inner.ready.push_back(me),
            false => inner.asked.push((me, asked)),
        }
        inner.running = None;
        self.changed.notify_all();
        self.turn(inner, me).told.remove(&me).unwrap_or(Told::Failed)
    }

    /// Waits for a thread's turn.
    fn turn<'a>(&self, inner: MutexGuard<'a, Inner>, me: u64) -> MutexGuard<'a, Inner> {
        self.changed
            .wait_while(inner, |inner| inner.running != Some(me))
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The time, for the threads.
    pub fn now(&self) -> Time {
        self.lock().now
    }

    /// A thread has what it has asked for.
    pub fn tell(&self, thread: u64, told: Told) {
        let mut inner = self.lock();
        inner.told.insert(thread, told);
        inner.ready.push_back(thread);
    }

    /// Has all run that can; gives what they wait for then.
    pub fn run(&self, now: Time) -> Vec<(u64, Asked)> {
        let mut inner = self.lock();
        inner.now = now;
        for _ in 0..STEPS_MAX {
            let Some(next) = inner.ready.pop_front() else {
                return core::mem::take(&mut inner.asked);
            };
            inner.running = Some(next);
            self.changed.notify_all();
            inner = self
                .changed
                .wait_while(inner, |inner| inner.running.is_some())
                .unwrap_or_else(PoisonError::into_inner);
        }
        panic!("the threads of the reservations go round in a circle");
    }

    /// Whether there are any.
    pub fn is_busy(&self) -> bool {
        self.lock().count > 0
    }

    /// The process is no more: whatever waits fails, until no thread is left.
    pub fn end(&self, now: Time) {
        let mut inner = self.lock();
        inner.over = true;
        // Whoever has an answer already goes on in any case.
        let asked: Vec<u64> = inner.asked.drain(..).map(|(thread, _)| thread).collect();
        inner.ready.extend(asked);
        drop(inner);
        self.run(now);
    }

    /// The process is no more, and this thread waited for something of which nobody will tell it.
    pub fn fail(&self, thread: u64) {
        self.tell(thread, Told::Failed);
    }
}

/// The threads of one process, to start one.
pub struct Starting(pub Arc<Threads>);

impl weft_endpoint::reservations::Threads for Starting {
    fn start(&self, name: &str, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let me = {
            let mut inner = self.0.lock();
            inner.started += 1;
            inner.count += 1;
            let me = inner.started;
            inner.ready.push_back(me);
            me
        };
        let threads = Arc::clone(&self.0);
        let planted = bugs::planted();
        let run = move || {
            ME.set(me);
            bugs::plant(planted);
            drop(threads.turn(threads.lock(), me));
            work();
            let mut inner = threads.lock();
            (inner.count, inner.running) = (inner.count - 1, None);
            threads.changed.notify_all();
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    }

    fn pause(&self, time: Duration) {
        self.0.ask(Asked::Pause(time));
    }
}
