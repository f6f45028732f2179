//! Tables of several gateways over one store.

mod cluster;

use crate::reservations::*;
use cluster::{Cluster, Mishap};
use std::collections::VecDeque;
use std::sync::mpsc;
use weft_base::lock::Lock;
use weft_proto::nvme::types::{Id128, Nqn};
use weft_proto::reservation::{
    Action, Changes, Effect, KeyCheck, Kind, Notice, Registrant, ReservationRefusal,
    ReservationRequest, ReservationState,
};
use weft_testing::wait::{PATIENCE, until};

const UUID: Uuid = Uuid::from_bytes([7; 16]);

/// An export that keeps what it is told, and has commands of whom is aborted.
#[derive(Default)]
struct Export(Lock<Vec<(Changes, Arc<PendingChange>)>>);

impl ReservationFollower for Export {
    fn reservations_changed(&self, _: Uuid, changes: &Changes, pending: &Arc<PendingChange>) {
        if !changes.aborted.is_empty() {
            self.0.lock().push((changes.clone(), Arc::clone(pending)));
        }
    }
}

fn host(n: u8) -> Registrant {
    Registrant::Host(Id128([n; 16]))
}

fn begin(
    table: &ReservationTable,
    by: u8,
    action: Action,
) -> mpsc::Receiver<Result<(), ReservationRefusal>> {
    let (sender, receiver) = mpsc::channel();
    let of = table.of(UUID).unwrap();
    of.execute(
        ReservationRequest { by: host(by), action, persist: None },
        Box::new(move |outcome| _ = sender.send(outcome)),
    );
    receiver
}

fn run(table: &ReservationTable, by: u8, action: Action) -> Result<(), ReservationRefusal> {
    begin(table, by, action).recv_timeout(PATIENCE).expect("an answer")
}

fn register(table: &ReservationTable, by: u8) -> Result<(), ReservationRefusal> {
    run(table, by, Action::Register { check: KeyCheck::Ignore, key: by.into(), all_ports: false })
}

fn acquire(table: &ReservationTable, by: u8) -> Result<(), ReservationRefusal> {
    run(table, by, Action::Acquire { key: by.into(), kind: Kind::WriteExclusiveRegistrantsOnly })
}

fn preempt(by: u8, whom: u8) -> Action {
    Action::Preempt {
        key: by.into(),
        target: whom.into(),
        kind: Kind::WriteExclusiveRegistrantsOnly,
        abort: true,
    }
}

fn may_write(table: &ReservationTable, who: u8) -> bool {
    table.of(UUID).unwrap().shared().access(&host(who)).allows(Effect::Writes)
}

fn is_ahead(table: &ReservationTable) -> bool {
    table.of(UUID).unwrap().shared().is_ahead()
}

#[test]
fn all_gateways_keep_out_whom_one_has_preempted() {
    let tables = Arc::<Cluster>::default().tables::<3>();
    let exports = [(); 3].map(|()| Arc::new(Export::default()));
    tables.iter().zip(&exports).for_each(|(table, export)| table.join(export));
    tables.iter().for_each(|table| drop(table.of(UUID).unwrap()));
    register(&tables[0], 1).unwrap();
    register(&tables[1], 2).unwrap();
    acquire(&tables[0], 1).unwrap();
    assert!(
        tables
            .iter()
            .all(|table| may_write(table, 1) && may_write(table, 2) && !may_write(table, 3))
    );
    let answer = begin(&tables[1], 2, preempt(2, 1));
    for export in &exports {
        // Each has told its hosts, and waits for their commands.
        until("the export is told", || !export.0.lock().is_empty());
        assert!(answer.try_recv().is_err());
        let (changes, _) = export.0.lock().pop().unwrap();
        assert_eq!(changes.notices, [(host(1), Notice::RegistrationPreempted)]);
        assert_eq!(changes.aborted, [host(1)]);
    }
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(())));
    assert!(tables.iter().all(|table| !may_write(table, 1) && may_write(table, 2)));
    assert!(
        !is_ahead(&tables[1]) && is_ahead(&tables[0]),
        "who was told does not know whether others were"
    );
}

#[test]
fn a_gateway_that_does_not_hear_holds_the_answer_back_until_it_is_kept_out() {
    let cluster = Arc::<Cluster>::default();
    let tables = cluster.tables::<2>();
    tables[1].of(UUID).unwrap();
    register(&tables[0], 1).unwrap();
    register(&tables[0], 2).unwrap();
    acquire(&tables[0], 1).unwrap();
    cluster.change(|inner| inner.deaf.push(1));
    let answer = begin(&tables[0], 2, preempt(2, 1));
    until("the change is in force here", || !may_write(&tables[0], 1));
    assert!(answer.try_recv().is_err() && may_write(&tables[1], 1));
    // It says nothing of it to others meanwhile.
    assert!(
        tables[0].of(UUID).unwrap().shared().look_settled(ReservationState::generation).is_none()
    );
    cluster.change(|inner| inner.fenced.push(1));
    assert_eq!(answer.recv_timeout(PATIENCE), Ok(Ok(())));
    // One that was only late hears it, and what it has missed.
    let export = Arc::new(Export::default());
    tables[1].join(&export);
    let (sender, receiver) = mpsc::channel();
    tables[1].missed(Box::new(move || sender.send(()).unwrap()));
    until("it is told", || !export.0.lock().is_empty());
    assert!(receiver.try_recv().is_err() && !may_write(&tables[1], 1));
    export.0.lock().clear();
    receiver.recv_timeout(PATIENCE).unwrap();
}

#[test]
fn gateways_that_tell_each_other_at_a_time_do_not_wait_for_each_other() {
    let tables = Arc::<Cluster>::default().tables::<3>();
    for n in 1..=3 {
        register(&tables[usize::from(n) - 1], n).unwrap();
    }
    for round in 0..30 {
        let kind = Kind::WriteExclusiveRegistrantsOnly;
        let of = |n: u8| {
            let action = match (round + n) % 3 {
                0 => Action::Acquire { key: n.into(), kind },
                1 => Action::Release { key: n.into(), kind },
                _ => Action::Register { check: KeyCheck::Ignore, key: n.into(), all_ports: false },
            };
            begin(&tables[usize::from(n) - 1], n, action)
        };
        let answers = [1, 2, 3].map(of);
        for answer in answers {
            let outcome = answer.recv_timeout(PATIENCE).expect("an answer");
            assert!(matches!(outcome, Ok(()) | Err(ReservationRefusal::Conflict)), "{outcome:?}");
        }
    }
    let states = tables.map(|table| table.of(UUID).unwrap().shared().look(ReservationState::clone));
    assert!(states.iter().all(|state| *state == states[0]), "{states:?}");
}

#[test]
fn what_failed_is_tried_again_and_executed_once() {
    let cluster = Arc::<Cluster>::default();
    let [table, other] = cluster.tables();
    other.of(UUID).unwrap();
    for mishap in [Mishap::Fails, Mishap::AnswerLost, Mishap::Conflict] {
        let before = table.of(UUID).unwrap().shared().look(ReservationState::generation);
        cluster.change(|inner| inner.mishaps = [mishap].into());
        // Another key each time: executed twice, it would conflict.
        let check = KeyCheck::Current(u64::from(before));
        run(&table, 1, Action::Register { check, key: u64::from(before) + 1, all_ports: false })
            .unwrap();
        assert_eq!(other.of(UUID).unwrap().shared().look(ReservationState::generation), before + 1);
    }
    // It goes on failing, and was executed in the end: the host does not know, and who asks next
    // learns it.
    cluster
        .change(|inner| inner.mishaps = [Mishap::Fails, Mishap::Fails, Mishap::AnswerLost].into());
    assert_eq!(register(&table, 2), Err(ReservationRefusal::NotStored));
    assert_eq!(
        run(&other, 2, Action::Register { check: KeyCheck::Current(0), key: 5, all_ports: false }),
        Err(ReservationRefusal::Conflict)
    );
    assert!(
        [&table, &other].iter().all(|it| it
            .of(UUID)
            .unwrap()
            .shared()
            .look(|state| state.key(&host(2)))
            == Some(2))
    );
}

#[test]
fn a_refusal_by_what_others_do_not_know_yet_waits_for_them() {
    let cluster = Arc::<Cluster>::default();
    let [one, two, three] = cluster.tables();
    for table in [&one, &two, &three] {
        table.of(UUID).unwrap();
    }
    register(&one, 1).unwrap();
    acquire(&one, 1).unwrap();
    register(&two, 2).unwrap();
    // The gateway dies before it has told anybody.
    cluster.change(|inner| {
        inner.mishaps = [Mishap::Fails, Mishap::Fails, Mishap::AnswerLost].into();
        inner.deaf = vec![0, 2];
        inner.fenced.push(0);
    });
    assert_eq!(run(&one, 1, preempt(1, 2)), Err(ReservationRefusal::NotStored));
    assert!(may_write(&three, 2) && may_write(&two, 2));
    let refused =
        begin(&two, 2, Action::Release { key: 2, kind: Kind::WriteExclusiveRegistrantsOnly });
    until("the gateway knows", || !may_write(&two, 2));
    assert!(refused.try_recv().is_err() && may_write(&three, 2));
    cluster.change(|inner| inner.deaf.clear());
    assert_eq!(refused.recv_timeout(PATIENCE), Ok(Err(ReservationRefusal::Conflict)));
    assert!(!may_write(&three, 2));
}

#[test]
fn a_report_waits_until_everybody_has_what_it_says() {
    let cluster = Arc::<Cluster>::default();
    let [one, two] = cluster.tables();
    two.of(UUID).unwrap();
    register(&one, 1).unwrap();
    assert!(is_ahead(&two));
    let told = cluster.lock().told;
    let (sender, receiver) = mpsc::channel();
    two.of(UUID).unwrap().confirm(Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(())));
    assert_eq!((is_ahead(&two), cluster.lock().told), (false, told + 1));
}

#[test]
fn a_report_tells_what_a_gateway_stored_that_ended_before_it_told_anybody() {
    let cluster = Arc::<Cluster>::default();
    let [one, two, three] = cluster.tables();
    register(&one, 1).unwrap();
    register(&two, 2).unwrap();
    acquire(&two, 2).unwrap();
    cluster.change(|inner| {
        inner.mishaps = [Mishap::Fails, Mishap::Fails, Mishap::AnswerLost].into();
        inner.fenced.push(0);
    });
    assert_eq!(run(&one, 1, preempt(1, 2)), Err(ReservationRefusal::NotStored));
    assert!(
        may_write(&two, 2) && !may_write(&three, 2),
        "the second was not told, and the third begins with what is stored"
    );
    let (sender, receiver) = mpsc::channel();
    two.of(UUID).unwrap().confirm(Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(())));
    assert!(!may_write(&two, 2));
    // What cannot be read is not reported.
    cluster.change(|inner| inner.reads_fail = true);
    let (sender, receiver) = mpsc::channel();
    two.of(UUID).unwrap().confirm(Box::new(move |outcome| sender.send(outcome).unwrap()));
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Err(ReservationRefusal::NotStored)));
}

#[test]
fn a_gateway_begins_with_what_is_stored_and_not_without() {
    let cluster = Arc::<Cluster>::default();
    let [one, two, three] = cluster.tables();
    register(&one, 1).unwrap();
    acquire(&one, 1).unwrap();
    assert!(may_write(&two, 1) && !may_write(&two, 2));
    cluster.change(|inner| inner.reads_fail = true);
    assert!(three.of(UUID).is_err());
    // What it is told while it cannot read is acknowledged when it can.
    let (sender, receiver) = mpsc::channel();
    three.changed_elsewhere(UUID, Box::new(move || sender.send(()).unwrap()));
    assert!(receiver.try_recv().is_err());
    cluster.change(|inner| inner.reads_fail = false);
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(!may_write(&three, 2));
    // All have gone meanwhile.
    cluster.change(|inner| inner.life = 1);
    assert!(may_write(&cluster.join(), 2), "it was not to persist");
}

fn register_as(table: &ReservationTable, name: &str, by: u8) -> Result<(), ReservationRefusal> {
    let (sender, receiver) = mpsc::channel();
    let action = Action::Register { check: KeyCheck::Ignore, key: by.into(), all_ports: false };
    let operation = ReservationRequest { by: host(by), action, persist: None };
    let answer = Box::new(move |outcome| _ = sender.send(outcome));
    table.of(UUID).unwrap().execute_as(operation, Some(Nqn::new(name).unwrap()), answer);
    receiver.recv_timeout(PATIENCE).expect("an answer")
}

#[test]
fn whoever_has_proved_its_name_at_one_gateway_has_its_identifier_at_all() {
    let cluster = Arc::<Cluster>::default();
    let tables = cluster.tables::<2>();
    let owner = |table: &ReservationTable| {
        table
            .of(UUID)
            .unwrap()
            .shared()
            .look(|state| state.proven(&host(1)).map(|name| name.as_str().to_owned()))
    };
    tables.iter().for_each(|table| drop(table.of(UUID).unwrap()));
    assert_eq!(register_as(&tables[0], "a", 1), Ok(()));
    assert_eq!(tables.each_ref().map(owner), [(); 2].map(|()| Some("a".to_owned())));
    assert_eq!(register_as(&tables[1], "b", 1), Err(ReservationRefusal::Conflict));
    assert_eq!(register_as(&tables[1], "a", 1), Ok(()));
}

#[test]
fn while_a_gateway_knows_version_1_only_that_is_written() {
    let cluster = Arc::<Cluster>::default();
    cluster.change(|inner| inner.has_old = true);
    let [table] = cluster.tables();
    let begins = |with: &str| {
        String::from_utf8(cluster.lock().objects[&UUID].1.clone()).unwrap().starts_with(with)
    };
    assert_eq!(register_as(&table, "a", 1), Ok(()));
    assert!(
        begins("{\"version\":1,")
            && !String::from_utf8(cluster.lock().objects[&UUID].1.clone())
                .unwrap()
                .contains("proven")
    );
    cluster.change(|inner| inner.has_old = false);
    assert_eq!(register_as(&table, "a", 1), Ok(()));
    assert!(begins("{\"version\":2,"));
}

#[test]
fn an_older_state_does_not_come_back() {
    let cluster = Arc::<Cluster>::default();
    let [one, two] = cluster.tables();
    two.of(UUID).unwrap();
    register(&one, 1).unwrap();
    let old = cluster.lock().objects[&UUID].clone();
    acquire(&one, 1).unwrap();
    cluster.change(|inner| drop(inner.objects.insert(UUID, old)));
    let (sender, receiver) = mpsc::channel();
    two.missed(Box::new(move || sender.send(()).unwrap()));
    receiver.recv_timeout(PATIENCE).unwrap();
    assert!(!may_write(&two, 2));
    assert_eq!(register(&two, 2), Err(ReservationRefusal::NotStored));
    assert!(!may_write(&one, 2) && !may_write(&two, 2));
}

#[test]
fn namespaces_do_not_wait_for_each_other() {
    let cluster = Arc::<Cluster>::default();
    let [one, two] = cluster.tables();
    let export = Arc::new(Export::default());
    two.join(&export);
    two.of(UUID).unwrap();
    register(&one, 1).unwrap();
    register(&one, 2).unwrap();
    let slow = begin(&one, 1, preempt(1, 2));
    until("it waits for the other gateway", || !export.0.lock().is_empty());
    let (sender, receiver) = mpsc::channel();
    let action = Action::Register { check: KeyCheck::Ignore, key: 1, all_ports: false };
    let of = one.of(Uuid::from_bytes([8; 16])).unwrap();
    of.execute(
        ReservationRequest { by: host(1), action, persist: Some(true) },
        Box::new(move |outcome| sender.send(outcome).unwrap()),
    );
    assert_eq!(receiver.recv_timeout(PATIENCE), Ok(Ok(())));
    assert!(slow.try_recv().is_err());
    export.0.lock().clear();
    assert_eq!(slow.recv_timeout(PATIENCE), Ok(Ok(())));
}

/// Numbers that look like chance.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Four hosts at three gateways: each preempts the next one while the others register and report,
/// and the cluster fails now and then.
#[test]
fn whoever_was_preempted_writes_nowhere_after_the_answer() {
    for seed in 0..12 {
        let mut dice = Dice(seed);
        let cluster = Arc::<Cluster>::default();
        let tables = cluster.tables::<3>();
        tables.iter().for_each(|table| drop(table.of(UUID).unwrap()));
        (1..=4).for_each(|n| register(&tables[dice.below(3) as usize], n).unwrap());
        acquire(&tables[0], 1).unwrap();
        for victim in 1..=4 {
            let by = victim % 4 + 1;
            let mishaps: VecDeque<_> = (0..dice.below(3))
                .map(|_| {
                    [Mishap::Fails, Mishap::AnswerLost, Mishap::Conflict][dice.below(3) as usize]
                })
                .collect();
            cluster.change(|inner| inner.mishaps = mishaps);
            let others = (1..=4).filter(|other| ![victim, by].contains(other)).map(|other| {
                let action = Action::Register {
                    check: KeyCheck::Ignore,
                    key: other.into(),
                    all_ports: false,
                };
                begin(&tables[dice.below(3) as usize], other, action)
            });
            let others: Vec<_> = others.collect();
            // Two that want the same thing of different gateways: one does it, the other one learns
            // that it was done.
            let both = [dice.below(3), dice.below(3)]
                .map(|at| begin(&tables[at as usize], by, preempt(by, victim)));
            let outcomes = both.map(|answer| answer.recv_timeout(PATIENCE).expect("an answer"));
            if outcomes.iter().any(|outcome| *outcome != Err(ReservationRefusal::NotStored)) {
                let writes: Vec<_> = tables.iter().map(|table| may_write(table, victim)).collect();
                assert_eq!(writes, [false; 3], "seed {seed}: {victim} was preempted: {outcomes:?}");
            }
            others
                .into_iter()
                .for_each(|answer| _ = answer.recv_timeout(PATIENCE).expect("an answer"));
            cluster.change(|inner| inner.mishaps.clear());
            let at = &tables[dice.below(3) as usize];
            register(at, victim).unwrap();
        }
    }
}
