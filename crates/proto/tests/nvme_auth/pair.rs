//! Two ends that keep the rules.

use super::*;

fn nothing(_: usize, _: &mut Vec<u8>) {}

#[test]
fn every_hash_authenticates_without_and_with_groups() {
    for hash in Hash::ALL {
        for group in Group::ALL {
            for controller in [None, Some(secret(2, None))] {
                let host = HostKeys {
                    hashes: vec![hash],
                    groups: vec![group],
                    controller: controller.clone(),
                    ..host_keys()
                };
                let target = ControllerKeys {
                    groups: Group::ALL.into(),
                    controller: controller.clone(),
                    ..controller_keys()
                };
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
    let old_and_new = ControllerKeys {
        secrets: vec![secret(9, None), secret(1, Some(Hash::Sha256))],
        ..controller_keys()
    };
    assert!(talk(host_keys(), old_and_new.clone(), nothing).host.is_ok());
    let host = HostKeys { secret: secret(9, None), ..host_keys() };
    assert!(talk(host, old_and_new, nothing).host.is_ok());
}

/// A host that asks for a key.
fn concatenating() -> HostKeys {
    HostKeys { concatenation: Concatenation::New, ..host_keys() }
}

/// A controller that makes one.
fn making() -> ControllerKeys {
    ControllerKeys {
        groups: vec![Group::Null, Group::Ffdhe2048],
        channel: SecureChannel::Allowed,
        ..controller_keys()
    }
}

#[test]
fn concatenation_brings_both_the_same_key() {
    for controller in [None, Some(secret(2, None))] {
        // Without a proof of the controller nothing follows Success1.
        let messages = if controller.is_some() { 5 } else { 4 };
        let host = HostKeys { controller: controller.clone(), ..concatenating() };
        let ended = talk(host, ControllerKeys { controller, ..making() }, nothing);
        let (Ok(Some(ours)), Some(Ok(Some(theirs)))) = (ended.host, ended.controller) else {
            panic!("no key")
        };
        assert!(
            ours.key.is(theirs.key.as_bytes())
                && ours.hash == theirs.hash
                && ended.messages.len() == messages
        );
    }
}

#[test]
fn a_connection_with_tls_has_its_key_replaced() {
    let host = HostKeys { concatenation: Concatenation::Replace, ..host_keys() };
    let ended = talk(host.clone(), ControllerKeys { has_tls: true, ..making() }, nothing);
    assert!(matches!((ended.host, ended.controller), (Ok(Some(_)), Some(Ok(Some(_))))));
    assert_eq!(
        talk(host, making(), nothing).host.err(),
        Some((FailureReason::CONCATENATION_MISMATCH, true))
    );
}

#[test]
fn concatenation_is_for_the_admin_queue_and_takes_a_group_and_a_cipher() {
    let refused = |host: HostKeys, target: ControllerKeys| talk(host, target, nothing).host.err();
    let mismatch = Some((FailureReason::CONCATENATION_MISMATCH, true));
    assert_eq!(refused(concatenating(), ControllerKeys { is_admin: false, ..making() }), mismatch);
    assert_eq!(refused(concatenating(), ControllerKeys { has_tls: true, ..making() }), mismatch);
    assert_eq!(
        refused(concatenating(), ControllerKeys { channel: SecureChannel::None, ..making() }),
        mismatch
    );
    let groups = vec![Group::Null];
    let no_group = Some((FailureReason::GROUP_UNUSABLE, true));
    assert_eq!(
        refused(concatenating(), ControllerKeys { groups: groups.clone(), ..making() }),
        no_group
    );
    assert_eq!(refused(HostKeys { groups, ..concatenating() }, making()), no_group);
    let hashes = vec![Hash::Sha512];
    let no_cipher = Some((FailureReason::HASH_UNUSABLE, true));
    assert_eq!(
        refused(concatenating(), ControllerKeys { hashes: hashes.clone(), ..making() }),
        no_cipher
    );
    assert_eq!(refused(HostKeys { hashes, ..concatenating() }, making()), no_cipher);
    let preferred = ControllerKeys { hashes: vec![Hash::Sha512, Hash::Sha384], ..making() };
    assert!(
        matches!(talk(concatenating(), preferred, nothing).host, Ok(Some(psk)) if psk.hash == Hash::Sha384)
    );
}

#[test]
fn whoever_has_to_ask_for_a_key_is_refused_without() {
    let required = ControllerKeys { channel: SecureChannel::Required, ..making() };
    let refused = talk(host_keys(), required.clone(), nothing).host.err();
    assert_eq!(refused, Some((FailureReason::CONCATENATION_MISMATCH, true)));
    assert!(matches!(talk(concatenating(), required.clone(), nothing).host, Ok(Some(_))));
    assert!(matches!(
        talk(host_keys(), ControllerKeys { has_tls: true, ..required }, nothing).host,
        Ok(None)
    ));
    assert!(matches!(talk(host_keys(), making(), nothing).host, Ok(None)));
}

/// As hosts of Linux do that know a secret of the controller: the challenge is for the key alone,
/// and Success2 comes all the same.
#[test]
fn a_word_too_much_behind_a_key_does_no_harm() {
    let mut numbers = Numbers(7);
    let (mut host, step) = HostAuthentication::begin(concatenating(), 5);
    let mut target = ControllerAuthentication::new(making());
    let mut step = Some(step);
    while let Some(now) = step.take() {
        match now {
            HostStep::Send(message) => {
                told(&mut target, &message, 1, &mut |bytes| numbers.fill(bytes));
                step = Some(host.sent());
            }
            HostStep::Receive(bytes) => {
                let message = target.fetch(bytes).unwrap();
                step = Some(host.received(&message, 1, &mut |bytes| numbers.fill(bytes)));
            }
            HostStep::Done(psk) => assert!(psk.is_some()),
            HostStep::Failed(reason, _) => panic!("{}", reason.name()),
        }
    }
    assert!(target.is_idle());
    let mut success2 = [0; 16];
    (success2[0], success2[1], success2[4]) = (1, 4, 5);
    assert!(matches!(
        told(&mut target, &success2, 2, &mut |_| ()),
        AuthenticationVerdict::Authenticated(None)
    ));
    assert!(target.is_idle());
    assert!(
        matches!(
            told(&mut target, &success2, 2, &mut |_| ()),
            AuthenticationVerdict::Failed(FailureReason::MESSAGE)
        ),
        "twice"
    );
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
    fails(
        host_keys(),
        ControllerKeys { secrets: vec![], ..controller_keys() },
        FailureReason::FAILED,
    );
    fails(
        host_keys(),
        ControllerKeys { hostnqn: "nqn.2014-08.org.example:other".into(), ..controller_keys() },
        FailureReason::FAILED,
    );
    let sha256 = HostKeys { hashes: vec![Hash::Sha256], ..host_keys() };
    fails(
        sha256,
        ControllerKeys { hashes: vec![Hash::Sha512], ..controller_keys() },
        FailureReason::HASH_UNUSABLE,
    );
    let null = HostKeys { groups: vec![Group::Null], ..host_keys() };
    fails(
        null,
        ControllerKeys { groups: vec![Group::Ffdhe2048], ..controller_keys() },
        FailureReason::GROUP_UNUSABLE,
    );
    let mutual = HostKeys { controller: Some(secret(2, None)), ..host_keys() };
    fails(mutual, controller_keys(), FailureReason::FAILED);
}

#[test]
fn a_controller_that_does_not_know_its_secret_is_left() {
    let host = HostKeys { controller: Some(secret(2, None)), ..host_keys() };
    let target = ControllerKeys { controller: Some(secret(3, None)), ..controller_keys() };
    let ended = talk(host, target, nothing);
    assert_eq!(ended.host.err(), Some((FailureReason::FAILED, false)));
    assert!(
        matches!(ended.controller, Some(Err(FailureReason::FAILED))),
        "the host gave up and said so"
    );
}
