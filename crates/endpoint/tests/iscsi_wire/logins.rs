//! Logins: the names that are let in, and the number of attempts.

use super::host::{Host, secret, serve, serve_with, user};
use weft_endpoint::export::iscsi::{Settings, TargetLimits};
use weft_endpoint::limits::{LOGIN_FAILURES_MAX, LOGIN_NAMES_MAX};
use weft_proto::iscsi::pdu::{LoginResponse, LoginStatus};
use weft_proto::iscsi::target::ChapUser;
use weft_testing::wait::until;

const ALICES: &str = "iqn.2026-01.example.weft:alices";
const BOBS: &str = "iqn.2026-01.example.weft:bobs";
const POOL: usize = 64 << 20;

fn with_users(users: Vec<ChapUser>) -> Settings {
    Settings { chap: users, ..Settings::default() }
}

/// bob knows his secret and the name of alice's initiator: he gets neither her session nor her
/// reservation.
#[test]
fn nobody_takes_over_the_session_of_somebody_else() {
    for users in [
        vec![user("alice", &[ALICES]), user("bob", &[])],
        vec![user("alice", &[]), user("bob", &[])],
    ] {
        let served = serve_with(&["ram:16MiB"], POOL, with_users(users), TargetLimits::default());
        let mut alice = Host::connect(&served);
        assert_eq!(alice.log_in_as(ALICES, "alice", &secret("alice")), LoginStatus::SUCCESS);
        alice.settle();
        let mut register = [0; 16];
        register[..9].copy_from_slice(&[0x5f, 0x06, 0, 0, 0, 0, 0, 0, 24]);
        let mut list = [0; 24];
        list[15] = 7;
        assert_eq!(alice.command(&register, 0, &list, 24).status, 0);
        let mut bob = Host::connect(&served);
        assert_eq!(
            bob.log_in_as(ALICES, "bob", &secret("bob")),
            LoginStatus::AUTHORIZATION_FAILURE
        );
        assert_eq!(alice.command(&[0; 16], 0, &[], 0).status, 0, "her session goes on");
        // Nor when she is away.
        drop(alice);
        until("her session ends", || served.sessions() == 0);
        let mut bob = Host::connect(&served);
        assert_eq!(
            bob.log_in_as(ALICES, "bob", &secret("bob")),
            LoginStatus::AUTHORIZATION_FAILURE
        );
        let mut bob = Host::connect(&served);
        assert_eq!(bob.log_in_as(BOBS, "bob", &secret("bob")), LoginStatus::SUCCESS);
        let mut alice = Host::connect(&served);
        assert_eq!(alice.log_in_as(ALICES, "alice", &secret("alice")), LoginStatus::SUCCESS);
    }
}

#[test]
fn a_user_does_not_take_all_names() {
    let users = vec![user("alice", &[]), user("bob", &[])];
    let served = serve_with(&["ram:16MiB"], POOL, with_users(users), TargetLimits::default());
    let log_in = |n: usize, who: &str| {
        Host::connect(&served).log_in_as(&format!("{BOBS}-{n}"), who, &secret(who))
    };
    for n in 0..LOGIN_NAMES_MAX {
        assert_eq!(log_in(n, "bob"), LoginStatus::SUCCESS);
    }
    assert_eq!(log_in(LOGIN_NAMES_MAX, "bob"), LoginStatus::AUTHORIZATION_FAILURE);
    assert_eq!(log_in(0, "bob"), LoginStatus::SUCCESS);
    assert_eq!(log_in(LOGIN_NAMES_MAX, "alice"), LoginStatus::SUCCESS);
}

#[test]
fn whoever_guesses_secrets_is_turned_away() {
    let users = vec![user("alice", &[]), user("carol", &[])];
    let served = serve_with(&["ram:16MiB"], POOL, with_users(users), TargetLimits::default());
    // Somebody who is there already is not concerned.
    let mut alice = Host::connect(&served);
    assert_eq!(alice.log_in_as(ALICES, "alice", &secret("alice")), LoginStatus::SUCCESS);
    alice.settle();
    for n in 0..LOGIN_FAILURES_MAX {
        // Whatever name the initiator has.
        let status = Host::connect(&served).log_in_as(
            &format!("{BOBS}-{n}"),
            "alice",
            &format!("guess number {n}"),
        );
        assert_eq!(status, LoginStatus::AUTHENTICATION_FAILURE);
    }
    for secret in [secret("alice"), "one more guess".into()] {
        assert_eq!(
            Host::connect(&served).log_in_as(BOBS, "alice", &secret),
            LoginStatus::SERVICE_UNAVAILABLE
        );
    }
    assert_eq!(alice.command(&[0; 16], 0, &[], 0).status, 0);
    // Nor is another user, though all of this comes from one address.
    assert_eq!(
        Host::connect(&served).log_in_as(BOBS, "carol", &secret("carol")),
        LoginStatus::SUCCESS
    );
}

/// As `weft connect` makes them: a local user who tries in vain does not keep the system's own
/// initiator out.
#[test]
fn guesses_at_random_secrets_keep_nobody_out() {
    let settings = Settings { random_secrets: true, ..with_users(vec![user("weft", &[])]) };
    let served = serve_with(&["ram:16MiB"], POOL, settings, TargetLimits::default());
    for n in 0..LOGIN_FAILURES_MAX * 2 {
        let status = Host::connect(&served).log_in_as(BOBS, "weft", &format!("guess number {n}"));
        assert_eq!(status, LoginStatus::AUTHENTICATION_FAILURE);
    }
    assert_eq!(
        Host::connect(&served).log_in_as(ALICES, "weft", &secret("weft")),
        LoginStatus::SUCCESS
    );
}

/// 100 of these took 268 MB.
#[test]
fn keys_without_end_are_not_answered() {
    let served = serve(&["ram:16MiB"], POOL);
    let mut host = Host::connect(&served);
    let keys: String = (0..1000).map(|n| format!("k{n}= ")).collect();
    let answer = host.login(BOBS, &keys).expect("an answer");
    assert_eq!(LoginResponse::decode(&answer.bhs).status, LoginStatus::INITIATOR_ERROR);
    assert!(answer.data.is_empty() && host.pdu().is_none());
}
