//! Peers that break the rules, and what lies between.

use super::*;

/// Both challenge each other over a group: the longest exchange.
fn ends() -> (HostKeys, ControllerKeys) {
    let host = HostKeys { controller: Some(secret(2, Some(Hash::Sha512))), groups: vec![Group::Ffdhe2048], ..host_keys() };
    let controller = ControllerKeys {
        controller: Some(secret(2, Some(Hash::Sha512))),
        groups: vec![Group::Ffdhe2048],
        hashes: vec![Hash::Sha256],
        ..controller_keys()
    };
    (host, controller)
}

fn is_failure(ended: &Ended) -> bool {
    ended.host.is_err() || !matches!(ended.controller, Some(Ok(_)))
}

#[test]
fn a_message_that_is_cut_anywhere_authenticates_nobody() {
    let (host, controller) = ends();
    let whole = talk(host.clone(), controller.clone(), |_, _| {});
    assert!(!is_failure(&whole));
    for number in 0..whole.messages.len() {
        let len = whole.messages[number].len();
        // In the middle of public values every place is like its neighbour.
        for cut in (0..len).filter(|at| *at < 40 || *at + 40 > len || at % 64 == 0) {
            let ended = talk(host.clone(), controller.clone(), |at, message| {
                if at == number {
                    message.truncate(cut);
                }
            });
            assert!(is_failure(&ended), "message {number} cut at {cut}");
        }
    }
}

#[test]
fn a_byte_that_is_changed_authenticates_nobody_or_changes_nothing() {
    let (host, controller) = ends();
    let whole = talk(host.clone(), controller.clone(), |_, _| {});
    for (number, (message, reserved)) in whole.messages.iter().zip(RESERVED).enumerate() {
        let len = message.len();
        for place in (0..len).filter(|at| *at < 80 || at % 61 == 0) {
            let ended = talk(host.clone(), controller.clone(), |at, message| {
                if at == number {
                    message[place] ^= 0x41;
                }
            });
            // Reserved fields are not looked at, and what negotiates is not protected by anything.
            let counts = number > 0 && !reserved.contains(&place);
            assert!(is_failure(&ended) || !counts, "message {number}, byte {place}");
        }
    }
}

/// Places of each message that mean nothing, or nothing to an end that did not ask.
const RESERVED: [&[usize]; 5] =
    [&[], &[2, 3, 7], &[2, 3, 7, 9], &[2, 3, 7, 9, 10, 11, 12, 13, 14, 15], &[2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]];

#[test]
fn a_recorded_exchange_is_of_no_use() {
    let (host, controller) = ends();
    let recorded = talk(host, controller.clone(), |_, _| {}).messages;
    let mut numbers = Numbers(1234);
    let mut other = ControllerAuthentication::new(controller);
    assert!(matches!(other.sent(&recorded[0], 78, &mut |bytes| numbers.fill(bytes)), Verdict::Next));
    assert!(other.fetch(4096).is_some());
    assert!(matches!(other.sent(&recorded[2], 79, &mut |bytes| numbers.fill(bytes)), Verdict::Failed(FailureReason::FAILED)));
}

#[test]
fn messages_out_of_order_or_twice_are_refused() {
    let (host, controller) = ends();
    let recorded = talk(host, controller.clone(), |_, _| {}).messages;
    let sent = |order: &[usize]| {
        let mut numbers = Numbers(7);
        let mut end = ControllerAuthentication::new(controller.clone());
        let mut last = None;
        for number in order {
            last = Some(end.sent(&recorded[*number], 77, &mut |bytes| numbers.fill(bytes)));
            let _ = end.fetch(4096);
        }
        last.expect("something was sent")
    };
    for order in [&[2][..], &[4], &[0, 4], &[0, 2, 2], &[0, 2, 4, 4], &[0, 1], &[0, 3], &[1]] {
        assert!(matches!(sent(order), Verdict::Failed(_)), "{order:?}");
    }
    assert!(matches!(sent(&[0, 2, 4]), Verdict::Authenticated(None)));
    assert!(matches!(sent(&[0, 0]), Verdict::Next), "a host may begin anew");
}

#[test]
fn a_controller_that_reflects_our_challenge_learns_nothing() {
    let mut numbers = |bytes: &mut [u8]| bytes.fill(5);
    let keys = HostKeys { controller: Some(secret(2, None)), hashes: vec![Hash::Sha256], ..host_keys() };
    let (mut host, _) = HostAuthentication::begin(keys, 1);
    let _ = host.sent();
    // A challenge with the value that the host is about to choose.
    let mut challenge = vec![1, 1, 0, 0, 1, 0, 32, 0, 1, 0, 0, 0, 9, 0, 0, 0];
    challenge.extend_from_slice(&[5; 32]);
    let HostStep::Send(message) = host.received(&challenge, 3, &mut numbers) else { panic!("it says why") };
    assert_eq!(&message[..2], &[0, 0xf0], "Failure2");
    assert!(matches!(host.sent(), HostStep::Failed(FailureReason::FAILED, false)));
}

#[test]
fn a_weaker_hash_or_group_than_allowed_is_not_taken() {
    let keys = HostKeys { hashes: vec![Hash::Sha512], groups: vec![Group::Ffdhe2048], ..host_keys() };
    for (hash, bytes, group, reason) in
        [(1, 32, 1, FailureReason::HASH_UNUSABLE), (3, 64, 0, FailureReason::GROUP_UNUSABLE), (3, 32, 1, FailureReason::PAYLOAD)]
    {
        let (mut host, _) = HostAuthentication::begin(keys.clone(), 1);
        let _ = host.sent();
        let mut challenge = vec![1, 1, 0, 0, 1, 0, bytes, 0, hash, group, 0, 0, 9, 0, 0, 0];
        challenge.resize(16 + usize::from(bytes), 5);
        assert!(matches!(host.received(&challenge, 3, &mut |bytes| bytes.fill(5)), HostStep::Send(_)));
        assert!(matches!(host.sent(), HostStep::Failed(said, false) if said == reason), "{}", reason.name());
    }
}

#[test]
fn a_message_is_not_cut_to_a_short_buffer() {
    let (host, controller) = ends();
    let (_, HostStep::Send(negotiate)) = HostAuthentication::begin(host, 1) else { panic!("it begins") };
    let mut end = ControllerAuthentication::new(controller);
    assert!(end.fetch(4096).is_none(), "it is the host's turn");
    let _ = end.sent(&negotiate, 1, &mut |bytes| bytes.fill(1));
    assert!(end.fetch(16).is_none() && end.fetch(303).is_none() && end.fetch(304).is_some() && end.fetch(4096).is_none());
}
