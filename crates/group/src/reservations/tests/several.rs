//! Several gateways over one store, whose answers come in an order that a seed gives.

use super::*;
use std::collections::{BTreeMap, BTreeSet};
use weft_proto::reservation::{Effect, ReservationState};

/// Numbers that look like chance.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

/// What a gateway has asked.
enum Asked {
    Read(StoreLane),
    Replace(u64, ReservationRecord),
    Tell,
    Pause(StoreLane),
    /// Another gateway is told: who told, and how many times that has told before.
    Heard(usize, u32),
    /// Commands are out of the devices.
    Aborted(u64),
}

struct World {
    dice: Dice,
    stored: (u64, ReservationRecord),
    gateways: Vec<SharedNamespace<u32, (usize, u32)>>,
    /// What is in force at each, with its number.
    in_force: Vec<(u64, ReservationState)>,
    /// Changes whose commands are in devices, and whose commands these are.
    aborting: Vec<BTreeMap<u64, Vec<Registrant>>>,
    under_way: Vec<(usize, Asked)>,
    /// For each, how many times it has told others, and who has not acknowledged the last.
    telling: Vec<(u32, BTreeSet<usize>)>,
    answers: BTreeMap<u32, Result<(), ReservationRefusal>>,
    tokens: u128,
}

impl World {
    fn new(seed: u64, gateways: usize) -> Self {
        let mut new = Self {
            dice: Dice(seed),
            stored: (0, ReservationRecord::default()),
            gateways: (0..gateways).map(|_| SharedNamespace::default()).collect(),
            in_force: vec![(0, ReservationState::default()); gateways],
            aborting: vec![BTreeMap::new(); gateways],
            under_way: Vec::new(),
            telling: vec![(0, BTreeSet::new()); gateways],
            answers: BTreeMap::new(),
            tokens: 0,
        };
        for n in 0..gateways {
            new.gateways[n].load();
            new.take(n);
        }
        new.run();
        new
    }

    fn execute(&mut self, at: usize, step: Option<ReservationStep>) -> u32 {
        self.tokens += 1;
        self.gateways[at].execute(step, token(self.tokens), self.tokens as u32);
        self.take(at);
        self.tokens as u32
    }

    /// Takes the orders of a gateway.
    fn take(&mut self, n: usize) {
        while let Some(order) = self.gateways[n].next() {
            let asked = match order {
                ReservationOrder::Read(lane) => Asked::Read(lane),
                ReservationOrder::Replace { before, next } => Asked::Replace(before, next),
                ReservationOrder::Tell => Asked::Tell,
                ReservationOrder::Pause(lane) => Asked::Pause(lane),
                ReservationOrder::Install(NumberedChange { number, state, changes, .. }) => {
                    assert!(number == 0 || number > self.in_force[n].0, "an older one came back");
                    self.in_force[n] = (number, state);
                    self.aborting[n].insert(number, changes.aborted);
                    Asked::Aborted(number)
                }
                ReservationOrder::Answer(by, outcome) => {
                    assert!(self.answers.insert(by, outcome).is_none(), "answered twice");
                    continue;
                }
                ReservationOrder::Done((by, time)) => {
                    if self.telling[by].0 == time {
                        self.telling[by].1.remove(&n);
                        self.told(by);
                    }
                    continue;
                }
                ReservationOrder::Settled | ReservationOrder::Loaded(_) => continue,
            };
            self.under_way.push((n, asked));
        }
    }

    /// Something that is under way ends.
    fn step(&mut self) -> bool {
        if self.under_way.is_empty() {
            return false;
        }
        let which = self.dice.below(self.under_way.len());
        let (n, asked) = self.under_way.swap_remove(which);
        let fails = self.dice.below(12) == 0;
        match asked {
            Asked::Aborted(number) => {
                self.aborting[n].remove(&number);
                self.gateways[n].aborted(number);
            }
            Asked::Pause(lane) => self.gateways[n].ended(lane, LaneOutcome::Paused),
            Asked::Read(lane) if fails && lane != StoreLane::Load => {
                self.gateways[n].ended(lane, failed())
            }
            Asked::Read(lane) => {
                let (generation, record) = self.stored.clone();
                self.gateways[n].ended(lane, LaneOutcome::Read(generation, record));
            }
            Asked::Replace(before, next) => {
                let fits = self.stored.0 == before;
                if fits && !(fails && self.dice.below(2) == 0) {
                    self.stored = (before + 1, next);
                }
                let ended = match (fails, fits) {
                    (true, _) => failed(),
                    (false, true) => LaneOutcome::Replaced,
                    (false, false) => LaneOutcome::Conflict,
                };
                self.gateways[n].ended(StoreLane::Operations, ended);
            }
            Asked::Tell => {
                let time = self.telling[n].0 + 1;
                let others: BTreeSet<usize> =
                    (0..self.gateways.len()).filter(|other| *other != n).collect();
                let heard = others.iter().map(|other| (*other, Asked::Heard(n, time)));
                self.under_way.extend(heard);
                self.telling[n] = (time, others);
            }
            Asked::Heard(by, time) => self.gateways[n].follow((by, time)),
        }
        self.take(n);
        true
    }

    /// All have acknowledged what a gateway tells.
    fn told(&mut self, n: usize) {
        if self.telling[n].1.is_empty() {
            self.gateways[n].ended(StoreLane::Operations, LaneOutcome::Announced);
            self.take(n);
        }
    }

    fn run(&mut self) {
        while self.step() {}
    }

    fn may_write(&self, at: usize, who: u8) -> bool {
        self.in_force[at].1.access(&host(who)).allows(Effect::Writes)
    }

    /// Executes something until that does not fail.
    fn surely(&mut self, step: Option<&ReservationStep>) {
        loop {
            let at = self.dice.below(self.gateways.len());
            let by = self.execute(at, step.cloned());
            self.run();
            if self.answers[&by] != Err(ReservationRefusal::NotStored) {
                return;
            }
        }
    }
}

/// Four hosts at three gateways: each preempts the next one while the others register and report,
/// and the store fails now and then. Whoever was preempted writes nowhere after the answer, all are
/// answered, and all gateways have the same in force in the end.
#[test]
fn whoever_was_preempted_writes_nowhere_after_the_answer_in_any_order() {
    for seed in 0..500 {
        let mut world = World::new(seed, 3);
        (1..=4).for_each(|n| world.surely(Some(&register(n))));
        let kind = Kind::WriteExclusiveRegistrantsOnly;
        world.surely(Some(&step(1, Action::Acquire { key: 1, kind })));
        for victim in 1..=4 {
            let by = victim % 4 + 1;
            for other in (1..=4).filter(|other| ![victim, by].contains(other)) {
                let at = world.dice.below(3);
                let step = (world.dice.below(3) > 0).then(|| register(other));
                world.execute(at, step);
            }
            let both = [(); 2].map(|()| {
                let at = world.dice.below(3);
                world.execute(at, Some(preempt(by, victim)))
            });
            let mut seen = false;
            while world.step() {
                let is_answered = |by: &u32| {
                    world
                        .answers
                        .get(by)
                        .is_some_and(|it| *it != Err(ReservationRefusal::NotStored))
                };
                if !seen && both.iter().any(is_answered) {
                    seen = true;
                    let writes = [0, 1, 2].map(|at| world.may_write(at, victim));
                    assert_eq!(writes, [false; 3], "seed {seed}: {victim} was preempted");
                    let mut aborted = world.aborting.iter().flat_map(|it| it.values().flatten());
                    assert!(
                        aborted.all(|of| *of != host(victim)),
                        "seed {seed}: commands of {victim} are in a device"
                    );
                }
            }
            world.surely(Some(&register(victim)));
        }
        assert_eq!(world.answers.len(), world.tokens as usize, "seed {seed}: all are answered");
        // Somebody who reports has all follow what a failed operation has stored.
        world.surely(None);
        let states: Vec<_> = world.in_force.iter().map(|(_, state)| state).collect();
        assert!(states.iter().all(|state| **state == world.stored.1.state), "seed {seed}");
    }
}
