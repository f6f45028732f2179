//! Peers that break the rules, and what lies between.

use super::*;

/// Both challenge each other over a group: the longest exchange.
fn ends() -> (HostKeys, ControllerKeys) {
    let host = HostKeys {
        controller: Some(secret(2, Some(Hash::Sha512))),
        groups: vec![Group::Ffdhe2048],
        ..host_keys()
    };
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
const RESERVED: [&[usize]; 5] = [
    &[],
    &[2, 3, 7],
    &[2, 3, 7, 9],
    &[2, 3, 7, 9, 10, 11, 12, 13, 14, 15],
    &[2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
];

#[test]
fn a_recorded_exchange_is_of_no_use() {
    let (host, controller) = ends();
    let recorded = talk(host, controller.clone(), |_, _| {}).messages;
    let mut numbers = Numbers(1234);
    let mut other = ControllerAuthentication::new(controller);
    assert!(matches!(
        told(&mut other, &recorded[0], 78, &mut |bytes| numbers.fill(bytes)),
        AuthenticationVerdict::Next
    ));
    assert!(other.fetch(4096).is_some());
    assert!(matches!(
        told(&mut other, &recorded[2], 79, &mut |bytes| numbers.fill(bytes)),
        AuthenticationVerdict::Failed(FailureReason::FAILED)
    ));
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
            last = Some(told(&mut end, &recorded[*number], 77, &mut |bytes| numbers.fill(bytes)));
            let _ = end.fetch(4096);
        }
        last.expect("something was sent")
    };
    for order in [&[2][..], &[4], &[0, 4], &[0, 2, 2], &[0, 2, 4, 4], &[0, 1], &[0, 3], &[1]] {
        assert!(matches!(sent(order), AuthenticationVerdict::Failed(_)), "{order:?}");
    }
    assert!(matches!(sent(&[0, 2, 4]), AuthenticationVerdict::Authenticated(None)));
    assert!(matches!(sent(&[0, 0]), AuthenticationVerdict::Next), "a host may start again");
}

#[test]
fn a_controller_that_reflects_our_challenge_learns_nothing() {
    let mut numbers = |bytes: &mut [u8]| bytes.fill(5);
    let keys =
        HostKeys { controller: Some(secret(2, None)), hashes: vec![Hash::Sha256], ..host_keys() };
    let (mut host, _) = HostAuthentication::begin(keys, 1);
    let _ = host.sent();
    // A challenge with the value that the host is about to choose.
    let mut challenge = vec![1, 1, 0, 0, 1, 0, 32, 0, 1, 0, 0, 0, 9, 0, 0, 0];
    challenge.extend_from_slice(&[5; 32]);
    let HostStep::Send(message) = host.received(&challenge, 3, &mut numbers) else {
        panic!("it says why")
    };
    assert_eq!(&message[..2], &[0, 0xf0], "Failure2");
    assert!(matches!(host.sent(), HostStep::Failed(FailureReason::FAILED, false)));
}

#[test]
fn a_weaker_hash_or_group_than_allowed_is_not_taken() {
    let keys =
        HostKeys { hashes: vec![Hash::Sha512], groups: vec![Group::Ffdhe2048], ..host_keys() };
    for (hash, bytes, group, reason) in [
        (1, 32, 1, FailureReason::HASH_UNUSABLE),
        (3, 64, 0, FailureReason::GROUP_UNUSABLE),
        (3, 32, 1, FailureReason::PAYLOAD),
    ] {
        let (mut host, _) = HostAuthentication::begin(keys.clone(), 1);
        let _ = host.sent();
        let mut challenge = vec![1, 1, 0, 0, 1, 0, bytes, 0, hash, group, 0, 0, 9, 0, 0, 0];
        challenge.resize(16 + usize::from(bytes), 5);
        assert!(matches!(
            host.received(&challenge, 3, &mut |bytes| bytes.fill(5)),
            HostStep::Send(_)
        ));
        assert!(
            matches!(host.sent(), HostStep::Failed(said, false) if said == reason),
            "{}",
            reason.name()
        );
    }
}

#[test]
fn a_message_is_not_cut_to_a_short_buffer() {
    let (host, controller) = ends();
    let (_, HostStep::Send(negotiate)) = HostAuthentication::begin(host, 1) else {
        panic!("it begins")
    };
    let mut end = ControllerAuthentication::new(controller);
    assert!(end.fetch(4096).is_none(), "it is the host's turn");
    let _ = told(&mut end, &negotiate, 1, &mut |bytes| bytes.fill(1));
    assert!(
        end.fetch(16).is_none()
            && end.fetch(303).is_none()
            && end.fetch(304).is_some()
            && end.fetch(4096).is_none()
    );
}

/// Without a group, both ways: short messages, so that every place can be tried.
fn short_ends() -> (HostKeys, ControllerKeys) {
    let (host, controller) = ends();
    let groups = vec![Group::Null];
    (
        HostKeys { groups: groups.clone(), hashes: vec![Hash::Sha256], ..host },
        ControllerKeys { groups, ..controller },
    )
}

#[test]
fn without_a_group_every_cut_and_every_length_is_tried() {
    let (host, controller) = short_ends();
    let whole = talk(host.clone(), controller.clone(), |_, _| {});
    assert!(!is_failure(&whole));
    for (number, message) in whole.messages.iter().enumerate() {
        for cut in 0..message.len() {
            let ended = talk(host.clone(), controller.clone(), |at, message| {
                if at == number {
                    message.truncate(cut);
                }
            });
            assert!(is_failure(&ended), "message {number} cut at {cut}");
        }
        // HL, and both bytes of DHVLEN; of the first message the numbers of descriptors, of hash
        // functions and of groups.
        let places: &[usize] = if number == 0 { &[7, 10, 11] } else { &[6, 10, 11] };
        for (place, value) in
            places.iter().flat_map(|place| (0..=255).map(move |value| (*place, value)))
        {
            if message.get(place) == Some(&value) || RESERVED[number].contains(&place) {
                continue;
            }
            let ended = talk(host.clone(), controller.clone(), |at, message| {
                if at == number {
                    message[place] = value;
                }
            });
            // More descriptors, or identifiers, than there are, are zeros: as good as none.
            assert!(
                is_failure(&ended) || number == 0 && value > 0,
                "message {number}, byte {place} = {value}"
            );
        }
    }
}

#[test]
fn a_host_takes_no_message_but_the_next_and_none_of_another_exchange() {
    let (keys, controller) = short_ends();
    let recorded = talk(keys.clone(), controller.clone(), |_, _| {}).messages;
    let failures: Vec<Vec<u8>> = [0xf0, 0xf1].map(|id| vec![0, id, 0, 0, 0x34, 0x12, 1, 1]).into();
    let take = |state: usize, message: &[u8]| {
        let mut numbers = Numbers(8);
        let mut end = ControllerAuthentication::new(controller.clone());
        let (mut host, _) = HostAuthentication::begin(keys.clone(), 0x1234);
        let _ = told(&mut end, &recorded[0], 55, &mut |bytes| numbers.fill(bytes));
        let _ = host.sent();
        if state == 1 {
            let challenge = end.fetch(4096).expect("a challenge");
            assert!(matches!(
                host.received(&challenge, 99, &mut |bytes| numbers.fill(bytes)),
                HostStep::Send(_)
            ));
            let _ = host.sent();
        }
        match host.received(message, 99, &mut |bytes| numbers.fill(bytes)) {
            HostStep::Send(answer) => answer[1],
            HostStep::Failed(_, by_controller) => u8::from(by_controller),
            HostStep::Done(_) => panic!("a host is content with message {message:?}"),
            HostStep::Receive(_) => panic!("a host asks again after message {message:?}"),
        }
    };
    const REPLY: u8 = 0x02;
    const FAILURE_2: u8 = 0xf0;
    for (number, message) in recorded.iter().enumerate() {
        // In the first state a recorded challenge is as good as any: the host proves itself to
        // whoever asks.
        assert_eq!(
            take(0, message),
            if number == 1 { REPLY } else { FAILURE_2 },
            "message {number}"
        );
        // In the second one a recorded response is one to another challenge.
        assert_eq!(take(1, message), FAILURE_2, "message {number} instead of Success1");
    }
    for state in [0, 1] {
        assert_eq!(
            (take(state, &failures[0]), take(state, &failures[1])),
            (FAILURE_2, 1),
            "Failure2 is a host's own word"
        );
        assert_eq!(take(state, &[]), FAILURE_2);
    }
}
