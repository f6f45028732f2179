//! Two ends that keep the rules.

use super::*;

fn nothing(_: usize, _: &mut Vec<u8>) {}

#[test]
fn every_hash_authenticates_without_and_with_groups() {
    for hash in Hash::ALL {
        for group in Group::ALL {
            for controller in [None, Some(secret(2, None))] {
                let host = HostKeys { hashes: vec![hash], groups: vec![group], controller: controller.clone(), ..host_keys() };
                let target = ControllerKeys { groups: Group::ALL.into(), controller: controller.clone(), ..controller_keys() };
                let ended = talk(host, target, nothing);
                assert!(matches!(ended.host, Ok(None)), "{hash:?} {group:?}");
                assert!(matches!(ended.controller, Some(Ok(None))), "{hash:?} {group:?}");
                assert_eq!(ended.messages.len(), if controller.is_some() { 5 } else { 4 });
            }
        }
    }
}

#[test]
fn the_controllers_order_decides() {
    let target = ControllerKeys { hashes: vec![Hash::Sha384, Hash::Sha512], ..controller_keys() };
    let ended = talk(host_keys(), target, nothing);
    assert_eq!((ended.messages[1][8], ended.messages[1][6]), (2, 48), "HashID and HL");
}

#[test]
fn a_secret_can_be_changed_without_an_outage() {
    let old_and_new = ControllerKeys { secrets: vec![secret(9, None), secret(1, Some(Hash::Sha256))], ..controller_keys() };
    assert!(talk(host_keys(), old_and_new.clone(), nothing).host.is_ok());
    let host = HostKeys { secret: secret(9, None), ..host_keys() };
    assert!(talk(host, old_and_new, nothing).host.is_ok());
}

#[test]
fn concatenation_brings_both_the_same_key() {
    for controller in [None, Some(secret(2, None))] {
        let host = HostKeys {
            concatenation: Concatenation::New,
            controller: controller.clone(),
            groups: vec![Group::Ffdhe2048],
            ..host_keys()
        };
        let target = ControllerKeys { groups: vec![Group::Null, Group::Ffdhe2048], controller, ..controller_keys() };
        let ended = talk(host, target, nothing);
        let (Ok(Some(ours)), Some(Ok(Some(theirs)))) = (ended.host, ended.controller) else { panic!("no key") };
        assert!(ours.key.is(theirs.key.as_bytes()) && ours.hash == theirs.hash && ended.messages.len() == 5);
    }
}

#[test]
fn concatenation_is_for_the_admin_queue_and_takes_a_group() {
    let host = HostKeys { concatenation: Concatenation::New, ..host_keys() };
    let io = ControllerKeys { is_admin: false, groups: vec![Group::Ffdhe2048], ..controller_keys() };
    assert_eq!(talk(host.clone(), io, nothing).host.err(), Some((FailureReason::CONCATENATION_MISMATCH, true)));
    let with_tls = ControllerKeys { has_tls: true, groups: vec![Group::Ffdhe2048], ..controller_keys() };
    assert_eq!(talk(host.clone(), with_tls, nothing).host.err(), Some((FailureReason::CONCATENATION_MISMATCH, true)));
    assert_eq!(talk(host, controller_keys(), nothing).host.err(), Some((FailureReason::GROUP_UNUSABLE, true)));
}

#[test]
fn what_one_end_lacks_is_said() {
    let fails = |host: HostKeys, controller: ControllerKeys, reason| {
        let ended = talk(host, controller, nothing);
        assert_eq!(ended.host.err(), Some((reason, true)), "{}", reason.name());
        assert!(matches!(ended.controller, Some(Err(theirs)) if theirs == reason));
    };
    let wrong = HostKeys { secret: secret(3, Some(Hash::Sha256)), ..host_keys() };
    fails(wrong, controller_keys(), FailureReason::FAILED);
    let untransformed = HostKeys { secret: secret(1, None), ..host_keys() };
    fails(untransformed, controller_keys(), FailureReason::FAILED);
    fails(host_keys(), ControllerKeys { secrets: vec![], ..controller_keys() }, FailureReason::FAILED);
    fails(
        host_keys(),
        ControllerKeys { hostnqn: "nqn.2014-08.org.example:other".into(), ..controller_keys() },
        FailureReason::FAILED,
    );
    let sha256 = HostKeys { hashes: vec![Hash::Sha256], ..host_keys() };
    fails(sha256, ControllerKeys { hashes: vec![Hash::Sha512], ..controller_keys() }, FailureReason::HASH_UNUSABLE);
    let null = HostKeys { groups: vec![Group::Null], ..host_keys() };
    fails(null, ControllerKeys { groups: vec![Group::Ffdhe2048], ..controller_keys() }, FailureReason::GROUP_UNUSABLE);
    let mutual = HostKeys { controller: Some(secret(2, None)), ..host_keys() };
    fails(mutual, controller_keys(), FailureReason::FAILED);
}

#[test]
fn a_controller_that_does_not_know_its_secret_is_left() {
    let host = HostKeys { controller: Some(secret(2, None)), ..host_keys() };
    let target = ControllerKeys { controller: Some(secret(3, None)), ..controller_keys() };
    let ended = talk(host, target, nothing);
    assert_eq!(ended.host.err(), Some((FailureReason::FAILED, false)));
    assert!(matches!(ended.controller, Some(Err(FailureReason::FAILED))), "the host gave up and said so");
}
