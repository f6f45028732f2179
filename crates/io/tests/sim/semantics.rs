//! Guarantees of the loop to its drivers, under drivers that wake, remove and spawn each other at
//! random.
//!
//! The model keeps what is owed: whoever is woken, spawned or said that it was busy runs all its
//! phases once more; a timer runs `work` when its time has come; a posted task runs; nobody runs
//! after its removal, and every removed driver is dropped.

use crate::common::{no_trouble, serve_echo};
use crate::exchange::{Exchange, Outcome, Report};
use crate::sim::seeds;
use core::time::Duration;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, MutexGuard};
use weft_base::lock::Lock;
use weft_io::event_loop::TimerSlot;
use weft_io::sim::{NetConfig, Rng, World};
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig, RemoteLoop, Time};

const RECEIVE: u8 = 1;
const WORK: u8 = 2;
const SEND: u8 = 4;
const ALL: u8 = RECEIVE | WORK | SEND;

struct Known {
    id: DriverId,
    removed: bool,
    dropped: bool,
    /// Phases that are to run.
    owed: u8,
    /// Times from which `work` is to run.
    timers: Vec<Time>,
}

struct Model {
    rng: Rng,
    /// Actions that may still be taken.
    budget: u32,
    /// By loop and number of the driver.
    drivers: BTreeMap<(usize, u32), Known>,
    next: u32,
    remotes: Vec<RemoteLoop>,
    posts_owed: u32,
    /// One in `n` phases reports that it was busy.
    busy_one_in: u32,
}

#[derive(Clone)]
struct Shared(Arc<Lock<Model>>);

impl Shared {
    fn spawn(&self, on: &Handle, on_loop: usize) {
        let mut model = self.0.lock();
        model.next += 1;
        let key = (on_loop, model.next);
        drop(model);
        on.spawn(|id| {
            let known = Known { id, removed: false, dropped: false, owed: ALL, timers: Vec::new() };
            self.0.lock().drivers.insert(key, known);
            Chaos { key, model: self.clone() }
        });
    }

    /// A driver of this loop, gone ones included.
    fn any(&self, on_loop: usize) -> Option<(usize, u32)> {
        let mut model = self.0.lock();
        let keys: Vec<_> = model.drivers.keys().copied().filter(|k| k.0 == on_loop).collect();
        (!keys.is_empty()).then(|| *model.rng.pick(&keys))
    }

    fn act(&self, on: &Handle, on_loop: usize) {
        let Some(key) = self.any(on_loop) else { return };
        let mut guard = self.0.lock();
        let model = &mut *guard;
        let Some(budget) = model.budget.checked_sub(1) else { return };
        model.budget = budget;
        let known = model.drivers.get_mut(&key).unwrap();
        let (id, alive) = (known.id, !known.removed);
        match model.rng.below(12) {
            0..6 => {
                known.owed |= if alive { ALL } else { 0 };
                on.wake(id);
            }
            6..8 => {
                // Some are due already.
                let at = Time::from_nanos(
                    (on.now().as_nanos() + model.rng.magnitude(10_000_000)).saturating_sub(1000),
                );
                known.timers.push(at);
                on.wake_at(id, at);
            }
            8 => {
                known.removed = true;
                drop(guard);
                on.remove(id);
            }
            9 => {
                drop(guard);
                self.spawn(on, on_loop);
            }
            _ => self.post(guard),
        }
    }

    fn post(&self, mut model: MutexGuard<'_, Model>) {
        model.posts_owed += 1;
        let loops = model.remotes.len() as u64;
        let to = model.rng.below(loops) as usize;
        let this = self.clone();
        model.remotes[to].post(move |on| {
            this.0.lock().posts_owed -= 1;
            this.act(on, to);
        });
    }
}

struct Chaos {
    key: (usize, u32),
    model: Shared,
}

impl Chaos {
    fn phase(&mut self, on: &Handle, phase: u8) -> Activity {
        let mut model = self.model.0.lock();
        let known = model.drivers.get_mut(&self.key).unwrap();
        assert!(!known.removed, "ran after its removal");
        known.owed &= !phase;
        if phase == WORK {
            known.timers.retain(|at| *at > on.now());
        }
        let actions = model.rng.below(3);
        drop(model);
        (0..actions).for_each(|_| self.model.act(on, self.key.0));
        let mut model = self.model.0.lock();
        let one_in = model.busy_one_in;
        let busy = model.budget > 0 && model.rng.one_in(one_in);
        let known = model.drivers.get_mut(&self.key).unwrap();
        if busy && !known.removed {
            known.owed |= ALL;
        }
        Activity::busy_if(busy)
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.model.0.lock().drivers.get_mut(&self.key).unwrap().dropped = true;
    }
}

impl Driver for Chaos {
    fn receive(&mut self, on: &Handle) -> Activity {
        self.phase(on, RECEIVE)
    }

    fn work(&mut self, on: &Handle) -> Activity {
        self.phase(on, WORK)
    }

    fn send(&mut self, on: &Handle) -> Activity {
        self.phase(on, SEND)
    }
}

/// Is due again at once, and has nothing to do.
struct Restless(DriverId);

impl Driver for Restless {
    fn work(&mut self, on: &Handle) -> Activity {
        on.wake_at(self.0, on.now());
        Activity::Idle
    }
}

fn restless(on: &Handle) {
    on.spawn(Restless);
}

/// Posts itself again and again.
fn flood(on: &Handle) {
    on.remote().post(flood);
}

#[test]
fn sockets_are_served_beside_timers_and_tasks_that_are_always_due() {
    for (seed, disturb) in seeds(40).zip([restless as fn(&Handle), flood].into_iter().cycle()) {
        let mut world = World::new(seed);
        let [server, client] = ["10.0.0.1", "10.0.0.2"].map(|ip| {
            let host = world.host(ip);
            let id =
                world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
            world.handle(id)
        });
        let address = serve_echo(&server, "10.0.0.1:7000", no_trouble);
        disturb(&server);
        let report = Rc::new(RefCell::new(Report::default()));
        let stream = client.connect(address.parse().unwrap()).unwrap();
        Exchange::spawn(&client, stream, 3000, Duration::from_secs(1), Rc::clone(&report));
        assert!(world.run_until(|_| report.borrow().outcome.is_some(), Duration::from_secs(10)));
        assert_eq!(report.borrow().outcome, Some(Outcome::Whole));
    }
}

/// Has many deadlines and forgets most of them.
struct Fickle {
    id: DriverId,
    timer: TimerSlot,
    runs: u32,
}

impl Driver for Fickle {
    fn work(&mut self, on: &Handle) -> Activity {
        self.runs += 1;
        self.timer.arm(on, self.id, on.now() + Duration::from_secs(100));
        if self.runs < 1000 {
            self.timer.arm(on, self.id, on.now() + Duration::from_millis(1));
        }
        Activity::Idle
    }
}

#[test]
fn deadlines_of_the_gone_and_superseded_ones_do_not_wake_the_loop() {
    let mut world = World::with_net(1, NetConfig::default());
    let host = world.host("10.0.0.1");
    let id = world.add_loop(host, &LoopConfig { spin: Duration::ZERO, ..LoopConfig::default() });
    let on = world.handle(id);
    on.spawn(|id| Fickle { id, timer: TimerSlot::default(), runs: 0 });
    for _ in 0..1000 {
        let gone = on.spawn(|id| Fickle { id, timer: TimerSlot::default(), runs: 1000 });
        world.run_for(Duration::from_millis(2));
        on.remove(gone);
    }
    world.run_for(Duration::from_secs(10));
    let before = on.counters().snapshot();
    world.run_for(Duration::from_secs(1000));
    let turns = on.counters().snapshot().since(&before).turns;
    assert!(
        (9..=30).contains(&turns),
        "one driver with a deadline every 100 s had {turns} turns in 1000 s"
    );
}

#[test]
fn nothing_that_is_owed_is_forgotten() {
    for seed in seeds(1000) {
        let mut rng = Rng::new(seed);
        let mut world = World::new(seed);
        let host = world.host("10.0.0.1");
        let spin = Duration::from_nanos(*rng.pick(&[0, 500, 50_000]));
        let config = LoopConfig { spin, ..LoopConfig::default() };
        let loops: Vec<_> = (0..rng.within(1, 3)).map(|_| world.add_loop(host, &config)).collect();
        let model = Shared(Arc::new(Lock::new(Model {
            budget: 300,
            drivers: BTreeMap::new(),
            next: 0,
            remotes: loops.iter().map(|l| world.handle(*l).remote()).collect(),
            posts_owed: 0,
            busy_one_in: *rng.pick(&[0, 2, 10]),
            rng,
        })));
        for (index, id) in loops.iter().enumerate() {
            (0..3).for_each(|_| model.spawn(&world.handle(*id), index));
        }
        assert!(!world.run_until(|_| false, Duration::from_secs(10)));
        let alive = check(&model.0.lock());
        let live: Vec<_> = loops.iter().map(|l| world.handle(*l).live_drivers()).collect();
        assert_eq!(alive, live.iter().sum::<usize>());
        drop(world);
        assert!(
            model.0.lock().drivers.values().all(|d| d.dropped),
            "a loop that ends drops its drivers"
        );
    }
}

/// Asserts that nothing is owed; returns how many drivers are alive.
fn check(model: &Model) -> usize {
    assert_eq!(model.posts_owed, 0, "a task was forgotten");
    for (key, known) in &model.drivers {
        assert_eq!(known.removed, known.dropped, "{key:?} is removed, or dropped, but not both");
        let owed = known.owed != 0 || !known.timers.is_empty();
        assert!(
            known.removed || !owed,
            "{key:?} is owed phases {:#b}, timers {:?}",
            known.owed,
            known.timers
        );
    }
    model.drivers.values().filter(|d| !d.removed).count()
}
