//! The state machine of reservations against a naive model: the sentences of the standards (Base
//! 2.1 §8.1.22, SPC-4 §5.12) one by one, without any of the machine's shortcuts.

mod model;

use model::{HOSTS, KEYS, Model, Told, number, registrant};
use proptest::prelude::*;
use weft_proto::reservation::{
    Action, Changes, KeyCheck, Kind, ReservationRequest, ReservationState,
};

fn key() -> impl Strategy<Value = u64> {
    1..KEYS
}

fn kind() -> impl Strategy<Value = Kind> {
    proptest::sample::select(Kind::ALL.to_vec())
}

fn check() -> impl Strategy<Value = KeyCheck> {
    prop_oneof![
        (0..KEYS).prop_map(KeyCheck::Current),
        Just(KeyCheck::Ignore),
        Just(KeyCheck::New),
        proptest::option::of(key()).prop_map(KeyCheck::Registered),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => (check(), 0..KEYS).prop_map(|(check, key)| Action::Register { check, key, all_ports: false }),
        4 => (key(), kind()).prop_map(|(key, kind)| Action::Acquire { key, kind }),
        2 => (key(), kind()).prop_map(|(key, kind)| Action::Release { key, kind }),
        1 => key().prop_map(|key| Action::Clear { key }),
        4 => (key(), 0..KEYS, kind(), any::<bool>()).prop_map(|(key, target, kind, abort)| {
            Action::Preempt { key, target, kind, abort }
        }),
        1 => (key(), 0..HOSTS, key(), any::<bool>()).prop_map(|(key, to, to_key, unregister)| {
            Action::Move { key, to: registrant(to), to_key, unregister }
        }),
    ]
}

fn told(changes: &Changes) -> Told {
    let notices = changes.notices.iter().map(|(who, notice)| (number(who), *notice));
    (notices.collect(), changes.aborted.iter().map(number).collect())
}

fn sorted((mut notices, mut aborted): Told) -> Told {
    notices.sort_by_key(|(who, notice)| (*who, *notice as u8));
    aborted.sort_unstable();
    (notices, aborted)
}

proptest! {
    #![proptest_config(weft_testing::properties!())]

    #[test]
    fn the_machine_does_what_the_standards_say(commands in proptest::collection::vec((0..HOSTS, action()), 1..60)) {
        let (mut state, mut model) = (ReservationState::default(), Model::default());
        for (by, action) in commands {
            let operation = ReservationRequest { by: registrant(by), action: action.clone(), persist: None };
            let mut next = state.clone();
            let (is, should) = (next.apply(&operation), model.clone().apply(by, &action));
            prop_assert_eq!(is.as_ref().map(|changes| sorted(told(changes))).map_err(|e| *e), should.map(sorted), "{:?}", operation);
            if is.is_ok() {
                state = next;
                let _ = model.apply(by, &action);
            }
            prop_assert_eq!(state.generation(), model.generation);
            prop_assert_eq!(state.registrations().len(), model.keys.len());
            for who in 0..HOSTS {
                let named = registrant(who);
                prop_assert_eq!(state.key(&named), model.keys.get(&who).copied());
                prop_assert_eq!(state.access(&named), model.access(who), "{} after {:?}", who, operation);
                let holds = model.held.as_ref().is_some_and(|(_, holders)| holders.contains(&who));
                prop_assert_eq!(state.is_holder(&named), holds);
            }
        }
    }
}
