use super::*;
use crate::nvme::types::Id128;

fn host(n: u8) -> Registrant {
    Registrant::Host(Id128([n; 16]))
}

#[test]
fn types_have_their_codes_in_both_standards() {
    assert_eq!(Kind::ALL.map(Kind::nvme), [1, 2, 3, 4, 5, 6]);
    assert_eq!(Kind::ALL.map(Kind::scsi), [1, 3, 5, 6, 7, 8]);
    assert!(Kind::ALL.into_iter().all(|kind| Kind::of_nvme(kind.nvme()) == Some(kind)));
    assert!(Kind::ALL.into_iter().all(|kind| Kind::of_scsi(kind.scsi()) == Some(kind)));
    assert_eq!((Kind::of_nvme(0), Kind::of_nvme(7), Kind::of_scsi(2)), (None, None, None));
}

#[test]
fn the_epoch_tells_whether_anybody_is_kept_out() {
    let shared = Reservations::volatile();
    let register = Action::Register { check: KeyCheck::New, key: 7, all_ports: false };
    let run = |action| shared.execute(&ReservationRequest { by: host(1), action, persist: None });
    run(register).unwrap();
    assert_eq!(shared.epoch(), 0, "a registration alone keeps nobody out");
    run(Action::Acquire { key: 7, kind: Kind::WriteExclusive }).unwrap();
    let epoch = shared.epoch();
    assert!(shared.allows_strangers(Effect::Reads) && !shared.allows_strangers(Effect::Writes));
    run(Action::Preempt { key: 7, target: 7, kind: Kind::ExclusiveAccess, abort: false }).unwrap();
    assert!(shared.epoch() != 0 && shared.epoch() != epoch);
    assert!(!shared.allows_strangers(Effect::Reads) && !shared.allows_strangers(Effect::Writes));
    run(Action::Clear { key: 7 }).unwrap();
    assert_eq!(shared.epoch(), 0);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let register = Action::Register { check: KeyCheck::New, key: 7, all_ports: false };
    let operation = ReservationRequest { by: host(1), action: register, persist: Some(true) };
    assert_eq!(
        Reservations::volatile().execute(&operation),
        Err(ReservationRefusal::CannotPersist)
    );
    let stored = Reservations::new(ReservationState::default(), true);
    stored.execute(&operation).unwrap();
    assert!(stored.look(ReservationState::is_persistent));
}

#[test]
fn persistence_is_for_registrants_to_decide() {
    let stored = Reservations::new(ReservationState::default(), true);
    let persist = |by, persist| {
        stored.execute(&ReservationRequest { by, action: Action::Persist, persist: Some(persist) })
    };
    assert!(persist(host(1), true).is_ok(), "while nobody is registered");
    let register = Action::Register { check: KeyCheck::New, key: 7, all_ports: false };
    stored.execute(&ReservationRequest { by: host(1), action: register, persist: None }).unwrap();
    assert_eq!(persist(host(2), false), Err(ReservationRefusal::Conflict));
    assert!(stored.look(ReservationState::is_persistent));
    assert!(persist(host(1), false).is_ok() && !stored.look(ReservationState::is_persistent));
}

#[test]
fn only_a_sound_state_is_restored() {
    let known = |n, key| Registration { registrant: host(n), key, all_ports: false, proven: None };
    let held = |n| Some(Reservation { kind: Kind::WriteExclusive, holder: host(n) });
    assert!(
        ReservationState::restore(vec![known(1, 1), known(2, 1)], held(2))
            .unwrap()
            .is_holder(&host(2))
    );
    assert_eq!(ReservationState::restore(vec![known(1, 1)], held(2)), Err(RestoreError::Holder));
    assert_eq!(
        ReservationState::restore(vec![known(1, 1), known(1, 2)], None),
        Err(RestoreError::Registration)
    );
    assert_eq!(ReservationState::restore(vec![known(1, 0)], None), Err(RestoreError::Registration));
    let many = (0..=crate::limits::REGISTRANTS_MAX).map(|n| known(n as u8, 1)).collect();
    assert_eq!(ReservationState::restore(many, None), Err(RestoreError::TooMany));
}

#[test]
fn a_report_of_a_group_waits_for_what_is_stored_whatever_is_known() {
    let (own, group) =
        (Reservations::new(ReservationState::default(), true), Reservations::of_group());
    assert!(!own.has_to_confirm());
    assert!(
        !group.is_ahead() && group.has_to_confirm(),
        "another gateway may have stored something and told nobody"
    );
    group.set_ahead(true);
    assert!(group.has_to_confirm());
}
