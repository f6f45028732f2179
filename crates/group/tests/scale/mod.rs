//! Cost of a large group for the store, and the time that it takes to come to rest: the engine
//! alone over a store in memory that counts. A seed decides everything, so the figures are the same
//! on every machine. `docs/performance/gateways.md` has those of 16 and 64 gateways:
//!
//! ```text
//! cargo test -p weft-group --test group -- --ignored --nocapture scale::
//! ```

mod cost;

use core::time::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use weft_group::limits::{ANA_GROUPS, BEAT_MS, LEASE_MS};
use weft_group::placement::{self, Weights};
use weft_group::{
    AnaAccess, Beat, Ending, Gateway, GatewayName, GatewayOutput, GatewayRole, GatewaySettings,
    GroupAnswer, GroupRecord, GroupRequest, Wish,
};

use self::cost::{Cost, Counts};

/// How long a request or an answer is on its way, microseconds.
const WAY_US: (u64, u64) = (500, 5000);

/// Namespaces of each gateway.
const NAMESPACES: u32 = 1000;

/// What happens.
enum Event {
    /// A request arrives at the store.
    Arrives(usize, u64, GroupRequest),
    Answered(usize, u64, RequestKind, GroupAnswer),
    /// A gateway is told that the record has changed.
    Notified(usize),
    /// A gateway looks at its clock.
    Looks(usize),
}

#[derive(Clone, Copy)]
enum RequestKind {
    Record,
    Beat,
    Fence,
}

struct Machine {
    starts: u64,
    engine: Option<Gateway>,
    role: Option<GatewayRole>,
    looks_at: Option<u64>,
}

struct World {
    /// Microseconds.
    now: u64,
    count: u64,
    order: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event>,
    version: u64,
    text: Vec<u8>,
    beats: BTreeMap<GatewayName, Beat>,
    machines: Vec<Machine>,
    weights: Weights,
    random: u64,
    counts: Counts,
    /// The record or a role has changed since anybody looked.
    has_changed: bool,
}

fn name(n: usize) -> GatewayName {
    GatewayName::new(&format!("gateway-{n:02}")).unwrap()
}

impl World {
    fn new(gateways: usize) -> Self {
        let namespaces = NAMESPACES * gateways as u32;
        let weight =
            |group: u32| namespaces / ANA_GROUPS + u32::from(group <= namespaces % ANA_GROUPS);
        let machine = || Machine { starts: 0, engine: None, role: None, looks_at: None };
        Self {
            now: 0,
            count: 0,
            order: BinaryHeap::new(),
            events: BTreeMap::new(),
            version: 0,
            text: Vec::new(),
            beats: BTreeMap::new(),
            machines: (0..gateways).map(|_| machine()).collect(),
            weights: (1..=ANA_GROUPS).map(|group| (group, weight(group))).collect(),
            random: 1,
            counts: Counts::default(),
            has_changed: false,
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % n
    }

    fn after(&mut self, us: u64, event: Event) {
        self.count += 1;
        self.order.push(Reverse((self.now + us, self.count)));
        self.events.insert(self.count, event);
    }

    fn way(&mut self) -> u64 {
        WAY_US.0 + self.below(WAY_US.1 - WAY_US.0)
    }

    fn clock(&self) -> Duration {
        Duration::from_micros(self.now)
    }

    fn start(&mut self, n: usize) {
        self.machines[n].starts += 1;
        let instance = self.machines[n].starts * 1000 + n as u64;
        let mut engine = Gateway::new(GatewaySettings {
            name: name(n),
            instance,
            client: format!("10.20.30.{n}:0/{}", 3_000_000_000 + instance),
            listeners: vec![
                format!("nvme+tcp://10.20.30.{n}:4420"),
                format!("nvme+tcp://10.20.31.{n}:4420"),
            ],
            beat: Duration::from_millis(BEAT_MS),
            lease: Duration::from_millis(LEASE_MS),
        });
        engine.set_weights(self.weights.clone());
        engine.set_ready();
        (self.machines[n].engine, self.machines[n].role, self.machines[n].looks_at) =
            (Some(engine), None, None);
        self.look(n);
    }

    fn kill(&mut self, n: usize) {
        (self.machines[n].engine, self.machines[n].role, self.has_changed) = (None, None, true);
    }

    fn execute(&mut self, n: usize, asked: GroupRequest) -> (RequestKind, GroupAnswer) {
        match asked {
            GroupRequest::Read => {
                self.counts.reads += 1;
                self.counts.bytes += self.text.len() as u64;
                let found = (self.version > 0).then(|| (self.version, self.text.clone()));
                (RequestKind::Record, GroupAnswer::Record(found))
            }
            GroupRequest::Write { version, text } if version == self.version => {
                self.counts.writes += 1;
                self.counts.bytes += text.len() as u64;
                (self.version, self.text, self.has_changed) = (version + 1, text, true);
                for other in (0..self.machines.len()).filter(|other| *other != n) {
                    if self.machines[other].engine.is_some() {
                        self.counts.notifications += 1;
                        let way = self.way();
                        self.after(way, Event::Notified(other));
                    }
                }
                (RequestKind::Record, GroupAnswer::Written(self.version))
            }
            GroupRequest::Write { text, .. } => {
                self.counts.conflicts += 1;
                self.counts.bytes += text.len() as u64;
                (RequestKind::Record, GroupAnswer::Conflict)
            }
            GroupRequest::Beat(beat) => {
                self.counts.beats += 1;
                self.beats.insert(name(n), beat);
                let text = |beat: &Beat| serde_json::to_string(beat).unwrap().len();
                self.counts.bytes += self
                    .beats
                    .iter()
                    .map(|(name, beat)| (name.as_str().len() + text(beat)) as u64)
                    .sum::<u64>();
                (RequestKind::Beat, GroupAnswer::Beats(self.version, self.beats.clone()))
            }
            GroupRequest::Fence(_) => {
                self.counts.fences += 1;
                (RequestKind::Fence, GroupAnswer::Fenced)
            }
        }
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives(n, start, asked) => {
                let (kind, answer) = self.execute(n, asked);
                let way = self.way();
                self.after(way, Event::Answered(n, start, kind, answer));
            }
            Event::Answered(n, start, kind, answer) if self.machines[n].starts == start => {
                let now = self.clock();
                let Some(engine) = &mut self.machines[n].engine else { return };
                match kind {
                    RequestKind::Record => engine.record_answered(now, answer),
                    RequestKind::Beat => engine.beat_answered(now, answer),
                    RequestKind::Fence => engine.fence_answered(now, answer),
                }
                self.look(n);
            }
            Event::Answered(..) => {}
            Event::Notified(n) => {
                if let Some(engine) = &mut self.machines[n].engine {
                    engine.changed();
                    self.look(n);
                }
            }
            Event::Looks(n) => {
                self.machines[n].looks_at = None;
                self.look(n);
            }
        }
    }

    fn look(&mut self, n: usize) {
        let (now, start) = (self.clock(), self.machines[n].starts);
        while let Some(output) =
            self.machines[n].engine.as_mut().and_then(|engine| engine.next(now))
        {
            match output {
                GatewayOutput::Request(asked) => {
                    let way = self.way();
                    self.after(way, Event::Arrives(n, start, asked));
                }
                GatewayOutput::Joined { .. } => {}
                GatewayOutput::Resigned => {
                    self.machines[n].engine.as_mut().expect("it runs").closed()
                }
                GatewayOutput::Serve(role) => {
                    let lost = |group: &u32| role.access[group] != AnaAccess::Optimized;
                    let engine = self.machines[n].engine.as_mut().expect("it runs");
                    (1..=ANA_GROUPS).filter(lost).for_each(|group| engine.released(group));
                    (self.machines[n].role, self.has_changed) = (Some(role), true);
                }
                GatewayOutput::End(why) => {
                    assert_eq!(why, Ending::Left, "{} ends at {} µs", name(n), self.now);
                    return self.kill(n);
                }
            }
        }
        let Some(deadline) = self.machines[n].engine.as_ref().and_then(Gateway::deadline) else {
            return;
        };
        let wait = deadline.saturating_sub(now).as_micros() as u64 + 1 + self.below(2000);
        let at = self.now + wait;
        if self.machines[n].looks_at.is_none_or(|before| at < before || before <= self.now) {
            self.machines[n].looks_at = Some(at);
            self.after(wait, Event::Looks(n));
        }
    }

    fn run(&mut self, span: Duration) {
        let end = self.now + span.as_micros() as u64;
        self.run_until(end, |_| false);
    }

    /// Runs until a condition holds; whether it does before `end`.
    fn run_until(&mut self, end: u64, holds: impl Fn(&Self) -> bool) -> bool {
        while let Some(Reverse((at, number))) =
            self.order.peek().copied().filter(|Reverse((at, _))| *at <= end)
        {
            self.order.pop();
            self.now = at;
            let event = self.events.remove(&number).expect("it is there once");
            self.happens(event);
            if core::mem::take(&mut self.has_changed) && holds(self) {
                return true;
            }
        }
        self.now = end;
        holds(self)
    }

    fn record(&self) -> Option<GroupRecord> {
        GroupRecord::parse(&self.text).ok()
    }

    /// Returns whether every ANA group is where the rule wants it, its owner serves it, and
    /// everybody that runs is in the group and nobody else.
    fn is_settled(&self) -> bool {
        let Some(record) = self.record() else { return false };
        let is_in = |(n, machine): (usize, &Machine)| {
            let member = record.member(&name(n));
            machine.engine.is_some()
                == member.is_some_and(|member| member.ready && !member.condemned)
        };
        let serves = |n: usize, group: u32| {
            self.machines[n]
                .role
                .as_ref()
                .is_some_and(|role| role.access.get(&group) == Some(&AnaAccess::Optimized))
        };
        let wanted = placement::wanted(&record, &self.weights);
        self.machines.iter().enumerate().all(is_in)
            && wanted.len() == ANA_GROUPS as usize
            && wanted.iter().all(|(group, owner)| {
                let number =
                    (0..self.machines.len()).find(|n| name(*n) == *owner).expect("a gateway");
                let now = &record.groups[group];
                now.owner.as_ref() == Some(owner) && now.next.is_none() && serves(number, *group)
            })
    }

    /// Runs until everything is settled; how long that takes, and what it costs.
    fn settle(&mut self) -> Cost {
        let (before, from) = (self.counts, self.now);
        assert!(self.run_until(from + 600_000_000, Self::is_settled), "it does not come to rest");
        let took = Duration::from_micros(self.now - from);
        // What is under way still belongs to it: notifications, and reads that follow from them.
        self.run(Duration::from_millis(100));
        Cost { took, counts: self.counts.since(before) }
    }

    fn pin(&mut self, groups: impl Iterator<Item = u32>, by: usize) {
        let gateways = self.machines.len();
        for group in groups {
            let to = Some(name((group as usize * 7 + 3) % gateways));
            if let Some(engine) = &mut self.machines[by].engine {
                engine.wish(Wish::Pin(group, to));
            }
        }
        self.look(by);
    }
}

/// What happens to a group of so many, in rows: what, and what it cost.
fn history(gateways: usize) -> (World, Vec<(&'static str, Cost)>) {
    let mut world = World::new(gateways);
    let mut rows = Vec::new();
    (0..gateways).for_each(|n| world.start(n));
    rows.push(("all start at once", world.settle()));
    world.run(Duration::from_secs(30));
    let before = world.counts;
    world.run(Duration::from_secs(60));
    rows.push((
        "a minute without an event",
        Cost { took: Duration::from_secs(60), counts: world.counts.since(before) },
    ));
    world.kill(gateways / 2);
    rows.push(("one dies", world.settle()));
    world.start(gateways / 2);
    rows.push(("it comes back", world.settle()));
    let (before, from) = (world.counts, world.now);
    for n in 0..gateways {
        world.machines[n].engine.as_mut().expect("it runs").leave();
        world.look(n);
        assert!(
            world.run_until(world.now + 60_000_000, |it| it.machines[n].engine.is_none()),
            "it cannot leave"
        );
        world.settle();
        world.start(n);
        world.settle();
    }
    let took = Duration::from_micros(world.now - from);
    rows.push((
        "all leave and come back, one by one",
        Cost { took, counts: world.counts.since(before) },
    ));
    world.pin(1..=ANA_GROUPS, 0);
    rows.push(("all 48 ANA groups are pinned elsewhere, at once", world.settle()));
    let (before, from) = (world.counts, world.now);
    for group in 1..=ANA_GROUPS {
        if let Some(engine) = &mut world.machines[0].engine {
            engine.wish(Wish::Pin(group, None));
        }
        world.look(0);
        world.settle();
    }
    let took = Duration::from_micros(world.now - from);
    rows.push((
        "the 48 pins are taken back, one by one",
        Cost { took, counts: world.counts.since(before) },
    ));
    (world, rows)
}

#[test]
fn a_small_group_comes_to_rest_at_a_bounded_cost() {
    let gateways = 4;
    let (world, rows) = history(gateways);
    let cost = |what: &str| rows.iter().find(|(of, _)| *of == what).unwrap().1;
    let quiet = cost("a minute without an event").counts;
    assert_eq!((quiet.reads, quiet.writes, quiet.conflicts, quiet.fences), (0, 0, 0, 0));
    assert!((gateways as u64 * 55..=gateways as u64 * 60).contains(&quiet.beats), "{quiet:?}");
    let dead = cost("one dies");
    assert!(dead.counts.fences <= 2, "{dead:?}");
    assert!(dead.took < Duration::from_millis(LEASE_MS * 2), "{dead:?}");
    assert!(world.text.len() < weft_group::limits::RECORD_BYTES_MAX / 2);
}

#[test]
#[ignore = "prints the tables of docs/performance/gateways.md"]
fn tables() {
    for gateways in [4, 16, 64] {
        let (world, rows) = history(gateways);
        println!(
            "\n{gateways} gateways, {} namespaces; the record has {} bytes\n",
            NAMESPACES * gateways as u32,
            world.text.len()
        );
        println!(
            "| event | s | beats | writes | conflicts | reads | notifications | fences | MB |"
        );
        println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
        for (what, Cost { took, counts: it }) in rows {
            print!(
                "| {what} | {:.1} | {} | {} | {} ",
                took.as_secs_f64(),
                it.beats,
                it.writes,
                it.conflicts
            );
            println!(
                "| {} | {} | {} | {:.1} |",
                it.reads,
                it.notifications,
                it.fences,
                it.bytes as f64 / 1e6
            );
        }
    }
}
