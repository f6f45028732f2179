use super::*;
use crate::limits::ANA_GROUPS;
use crate::liveness::Beat;
use std::collections::BTreeMap;

const S: fn(u64) -> Duration = Duration::from_secs;

/// How long a process lives without the monitors.
const SILENCE: Duration = Duration::from_secs(4);

/// How long a process may serve after its last beat.
const LEASE: Duration = Duration::from_secs(8);

/// A store that answers at once, if it is reached.
#[derive(Default)]
struct Store {
    record: Option<(u64, Vec<u8>)>,
    beats: BTreeMap<GatewayName, Beat>,
    is_cut: bool,
    /// The monitors answer until then.
    monitors_until: Duration,
}

impl Store {
    fn answer(&mut self, from: &GatewayName, request: GroupRequest) -> GatewayEvent {
        let version = self.record.as_ref().map_or(0, |(version, _)| *version);
        match request {
            GroupRequest::Read => GatewayEvent::Record(GroupAnswer::Record(self.record.clone())),
            GroupRequest::Write { version: before, .. } if before != version => {
                GatewayEvent::Record(GroupAnswer::Conflict)
            }
            GroupRequest::Write { text, .. } => {
                self.record = Some((version + 1, text));
                GatewayEvent::Record(GroupAnswer::Written(version + 1))
            }
            GroupRequest::Beat(beat) => {
                self.beats.insert(from.clone(), beat);
                GatewayEvent::Beats(GroupAnswer::Beats(version, self.beats.clone()))
            }
            GroupRequest::Fence(_) => GatewayEvent::Fence(GroupAnswer::Fenced),
        }
    }

    /// Lets a process do all that it can do now; what it orders besides.
    fn run(&mut self, process: &mut GatewayProcess, now: Duration) -> Vec<GatewayOrder> {
        let mut orders = Vec::new();
        while let Some(order) = process.next(now) {
            match order {
                GatewayOrder::Ask(_) if self.is_cut => {}
                GatewayOrder::Ask(request) => {
                    let answer = self.answer(&process.name.clone(), request);
                    process.take(now, answer);
                }
                order => {
                    if order == GatewayOrder::AskMonitors && now < self.monitors_until {
                        process.take(now, GatewayEvent::Monitors(true));
                    }
                    orders.push(order);
                }
            }
        }
        orders
    }
}

fn named(name: &str) -> GatewayName {
    GatewayName::new(name).unwrap()
}

fn process(name: &str, instance: u64) -> GatewayProcess {
    let settings = GatewaySettings {
        name: named(name),
        instance,
        client: name.to_owned(),
        listeners: vec![format!("nvme+tcp://{name}")],
        beat: S(1),
        lease: LEASE,
    };
    let mut process = GatewayProcess::new(settings, SILENCE);
    process.take(S(0), GatewayEvent::Weights((1..=ANA_GROUPS).map(|group| (group, 1)).collect()));
    process
}

fn optimized(role: &GatewayRole) -> usize {
    role.access.values().filter(|access| **access == AnaAccess::Optimized).count()
}

/// The role that was ordered last.
fn role(orders: &[GatewayOrder]) -> Option<&GatewayRole> {
    orders.iter().rev().find_map(|order| match order {
        GatewayOrder::Serve(role) => Some(role),
        _ => None,
    })
}

/// Two gateways that share the ANA groups, at this time.
fn two(store: &mut Store, now: u64) -> [GatewayProcess; 2] {
    let mut both = [process("a", 1), process("b", 2)];
    for process in &mut both {
        store.run(process, S(0));
        process.take(S(0), GatewayEvent::Ready);
    }
    for second in 0..=now {
        for process in &mut both {
            process.take(S(second), GatewayEvent::Changed);
            store.run(process, S(second));
            process.take(S(second), GatewayEvent::Served);
        }
    }
    assert!(both.iter().all(GatewayProcess::serves));
    both
}

#[test]
fn a_gateway_joins_and_serves_what_it_is_given_when_hosts_can_be_served() {
    let (mut store, mut process) = (Store::default(), process("a", 1));
    let orders = store.run(&mut process, S(0));
    assert!(orders.iter().any(|order| matches!(order, GatewayOrder::Joined { cntlids: (1, _) })));
    assert_eq!(optimized(role(&orders).expect("a role")), 0);
    assert!(process.deadline().is_some_and(|at| at <= S(1)), "it beats");
    process.take(S(1), GatewayEvent::Ready);
    let orders = store.run(&mut process, S(1));
    assert_eq!(optimized(role(&orders).expect("another role")), ANA_GROUPS as usize);
    assert!(process.serves());
    let record = process.record().expect("a record");
    assert!(record.groups.values().all(|group| group.owner == Some(named("a"))));
}

#[test]
fn who_leaves_gives_everything_away_and_is_in_the_group_until_nothing_is_under_way() {
    let mut store = Store::default();
    let [mut leaving, mut staying] = two(&mut store, 5);
    leaving.take(S(6), GatewayEvent::Leave);
    let mut orders = Vec::new();
    for second in 6..9 {
        staying.take(S(second), GatewayEvent::Changed);
        store.run(&mut staying, S(second));
        leaving.take(S(second), GatewayEvent::Changed);
        orders.extend(store.run(&mut leaving, S(second)));
        let was_told = orders.contains(&GatewayOrder::Resigned);
        assert!(!was_told || second > 6, "its hosts have to be told before that");
        leaving.take(S(second), GatewayEvent::Served);
    }
    assert!(orders.contains(&GatewayOrder::Resigned), "{orders:?}");
    assert!(leaving.record().is_some_and(|record| record.member(&named("a")).is_some()));
    leaving.take(S(9), GatewayEvent::Closed);
    let orders = store.run(&mut leaving, S(9));
    assert_eq!(orders.last(), Some(&GatewayOrder::End(Ending::Left)));
    assert_eq!((leaving.next(S(9)), leaving.deadline()), (None, None), "nothing follows");
}

#[test]
fn administrators_hear_of_their_orders_when_they_are_in_the_record() {
    let mut store = Store::default();
    let [mut process, _] = two(&mut store, 5);
    store.is_cut = true;
    process.take(S(6), GatewayEvent::Wish(7, Wish::Pin(3, Some(named("b")))));
    process.take(S(6), GatewayEvent::Wish(8, Wish::Forget(named("nobody"))));
    let orders = store.run(&mut process, S(6));
    assert_eq!(orders, [GatewayOrder::CarriedOut(8)], "there is nobody of that name");
    store.is_cut = false;
    process.take(S(7), GatewayEvent::Record(GroupAnswer::Failed("too slow".into())));
    assert_eq!(process.trouble(), Some("too slow"));
    assert!(store.run(&mut process, S(8)).contains(&GatewayOrder::CarriedOut(7)));
    let record = process.record().expect("a record");
    assert_eq!(record.groups[&3].pinned, Some(named("b")));
}

/// It stops serving when its lease is over, and lives on as long as the monitors answer.
#[test]
fn a_gateway_that_has_lost_the_cluster_ends() {
    let mut store = Store::default();
    let [mut process, _] = two(&mut store, 5);
    (store.is_cut, store.monitors_until) = (true, S(30));
    let mut now = S(5);
    let mut asked = Vec::new();
    let ending = loop {
        now = process.deadline().expect("it waits for something").max(now);
        for order in store.run(&mut process, now) {
            match order {
                GatewayOrder::AskMonitors => asked.push(now),
                GatewayOrder::Serve(role) => {
                    assert!(role.access.values().all(|access| *access == AnaAccess::Inaccessible));
                    assert!(now >= S(5) + LEASE * 7 / 8 && now <= S(5) + LEASE, "{now:?}");
                }
                _ => {}
            }
        }
        if process.has_ended {
            break now;
        }
    };
    assert!(asked.len() > 10, "they are asked again and again: {asked:?}");
    let last = asked.iter().rev().find(|at| **at < S(30)).expect("an answer");
    assert_eq!(ending, *last + SILENCE);
    assert_eq!(process.next(ending), None);
}

#[test]
fn a_gateway_alone_does_not_end() {
    let (mut store, mut process) = (Store::default(), process("a", 1));
    process.take(S(0), GatewayEvent::Ready);
    store.run(&mut process, S(0));
    assert!(process.serves());
    store.is_cut = true;
    for second in 1..100 {
        let orders = store.run(&mut process, S(second));
        assert!(
            !orders
                .iter()
                .any(|order| matches!(order, GatewayOrder::AskMonitors | GatewayOrder::End(_)))
        );
    }
    assert!(!process.serves());
}

#[test]
fn what_cannot_be_read_is_told_once() {
    let mut store = Store::default();
    let [mut process, _] = two(&mut store, 5);
    store.record = Some((99, b"damaged".to_vec()));
    process.take(S(6), GatewayEvent::Changed);
    let orders = store.run(&mut process, S(6));
    let [GatewayOrder::Unreadable(why)] = &orders[..] else { panic!("{orders:?}") };
    assert_eq!(process.trouble(), Some(why.as_str()));
    assert_eq!(store.run(&mut process, S(7)), []);
    assert!(process.serves(), "it goes on with what it has");
}
