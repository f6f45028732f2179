//! Login: stages, keys, CHAP, refusals.

use crate::iscsi_target::world::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use weft_proto::iscsi::chap::{self, Algorithm, Credentials};
use weft_proto::iscsi::deviation::Deviation;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::target::{
    ChapPolicy, ChapUser, Guard, LoginAttempt, SessionKind, TargetEvent, Violation,
};
use weft_proto::iscsi::text::{Name, binary};

fn names() -> String {
    format!("InitiatorName={INITIATOR} TargetName={TARGET} ")
}

/// The status of the one response.
fn refused(world: &mut World) -> LoginStatus {
    let response = LoginResponse::decode(&world.pdu().bhs);
    world.go_on();
    assert!(world.closed);
    assert_eq!(world.end.engine.violation(), Some(Violation::LoginRefused(response.status)));
    response.status
}

#[test]
fn two_stages_lead_to_the_full_feature_phase() {
    let mut world = World::new(config());
    world.login(
        LoginStage::SECURITY,
        Some(LoginStage::OPERATIONAL),
        &(names() + "AuthMethod=CHAP,None"),
    );
    let first = world.pdu();
    assert_eq!(first.value("AuthMethod").as_deref(), Some("None"));
    assert_eq!(first.value("TargetPortalGroupTag").as_deref(), Some("1"));
    assert_eq!(LoginResponse::decode(&first.bhs).flags.next(), LoginStage::OPERATIONAL);
    world.login(
        LoginStage::OPERATIONAL,
        Some(LoginStage::FULL_FEATURE),
        "MaxBurstLength=512 ImmediateData=No X-own=1",
    );
    assert_eq!(world.events, [TargetEvent::Login]);
    let login = world.end.engine.login().unwrap().clone();
    assert_eq!(
        (login.initiator.as_str(), login.kind, login.cid),
        (INITIATOR, SessionKind::Normal, 1)
    );
    world.end.engine.admit(9, None);
    let last = world.pdu();
    assert_eq!(last.value("MaxBurstLength").as_deref(), Some("512"));
    assert_eq!(last.value("MaxRecvDataSegmentLength").as_deref(), Some("4096"));
    assert_eq!(last.value("X-own").as_deref(), Some("NotUnderstood"));
    let response = LoginResponse::decode(&last.bhs);
    assert_eq!(
        (response.tsih, response.stat_sn.0, response.exp_cmd_sn.0, response.max_cmd_sn.0),
        (9, 1, 1, 4)
    );
    assert!(!world.end.engine.parameters().immediate_data);
}

#[test]
fn a_text_may_come_in_pieces() {
    let mut world = World::new(config());
    let text = format!("InitiatorName={INITIATOR}\0TargetName={TARGET}\0InitialR2T=Yes\0");
    let (first, second) = text.as_bytes().split_at(20);
    let request = |flags| LoginRequest { flags, ..World::new(config()).login_request() };
    world.send(
        request(LoginFlags::new(LoginStage::OPERATIONAL, None).continued()).encode(20),
        first,
    );
    let empty = world.pdu();
    assert!(empty.data.is_empty() && !LoginResponse::decode(&empty.bhs).flags.is_transit());
    let last = LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE));
    world.send(request(last).encode(second.len() as u32), second);
    assert_eq!(world.events, [TargetEvent::Login]);
}

#[test]
fn those_who_may_not_are_told_why() {
    let operational = |text: &str| {
        let mut world = World::new(config());
        world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), text);
        refused(&mut world)
    };
    assert_eq!(operational("TargetName=x"), LoginStatus::MISSING_PARAMETER);
    assert_eq!(operational(&format!("InitiatorName={INITIATOR}")), LoginStatus::MISSING_PARAMETER);
    assert_eq!(
        operational(&format!(
            "InitiatorName={INITIATOR} TargetName=iqn.2026-01.example.weft:other"
        )),
        LoginStatus::NOT_FOUND
    );
    assert_eq!(operational(&(names() + "SessionType=Odd")), LoginStatus::SESSION_TYPE);
    assert_eq!(operational(&(names() + "MaxBurstLength=1")), LoginStatus::INITIATOR_ERROR);
    assert_eq!(operational("InitiatorName="), LoginStatus::INITIATOR_ERROR);
    let mut closed = config();
    closed.allow = Some(vec![Name::new("iqn.2026-01.example.weft:somebody").unwrap()]);
    let mut world = World::new(closed);
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &names());
    assert_eq!(refused(&mut world), LoginStatus::AUTHORIZATION_FAILURE);
    let mut world = World::new(config());
    let request = LoginRequest { version_min: 1, version_max: 1, ..world.login_request() };
    world.login_with(
        LoginRequest { flags: LoginFlags::new(LoginStage::OPERATIONAL, None), ..request },
        &names(),
    );
    assert_eq!(refused(&mut world), LoginStatus::UNSUPPORTED_VERSION);
}

/// LIO and tgt take any name, and hosts are called by their users.
#[test]
fn initiators_have_names_of_any_form() {
    for name in [
        "me",
        "iqn.2004-10.com.ubuntu:my_host",
        "iqn.2015-1.workgroup:raid",
        "Hello?",
        "iqn.2008-11.org.linux-kvm:a_vm",
    ] {
        let mut world = World::new(config());
        let keys = format!("InitiatorName={name} TargetName={TARGET}");
        world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &keys);
        assert_eq!(world.events, [TargetEvent::Login], "{name}");
        assert_eq!(world.end.engine.login().unwrap().initiator.as_str(), name.to_lowercase());
    }
}

fn deviations(world: &World) -> Vec<Deviation> {
    world.end.engine.deviations().iter().collect()
}

/// LIO and tgt let all this pass.
#[test]
fn what_initiators_do_otherwise_is_let_pass() {
    let mut world = World::new(config());
    world.login(
        LoginStage::SECURITY,
        Some(LoginStage::OPERATIONAL),
        &(names() + "MaxBurstLength=512 AuthMethod=None"),
    );
    assert_eq!(world.pdu().value("MaxBurstLength").as_deref(), Some("512"));
    assert_eq!(deviations(&world), []);
    // Said again, in the stage that is meant for it; and what only targets say, with what is no
    // answer to it.
    let again = names()
        + "MaxBurstLength=768 ErrorRecoveryLevel=0 ErrorRecoveryLevel=0 TargetPortalGroupTag=NotUnderstood TargetAlias=Irrelevant";
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &again);
    world.end.engine.admit(9, None);
    let last = world.pdu();
    assert_eq!(
        (last.value("MaxBurstLength").as_deref(), last.value("TargetPortalGroupTag")),
        (Some("768"), None)
    );
    assert_eq!(
        (world.end.engine.parameters().max_burst_bytes, deviations(&world)),
        (768, vec![Deviation::RepeatedKey])
    );
    // A text without its last null byte, and a host's name in its system's bytes.
    let mut world = World::new(config());
    let text = [
        b"InitiatorAlias=M\xfcller\0",
        format!("InitiatorName={INITIATOR}\0TargetName={TARGET}").as_bytes(),
    ]
    .concat();
    let flags = LoginFlags::new(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE));
    world.send(LoginRequest { flags, ..world.login_request() }.encode(text.len() as u32), &text);
    assert_eq!(world.events, [TargetEvent::Login]);
    assert_eq!(deviations(&world), [Deviation::Unterminated, Deviation::Unreadable]);
    // A name that nobody can tell from another one is none.
    let mut world = World::new(config());
    let text = [
        &b"InitiatorName=iqn.2026-01.example:\xff\0"[..],
        format!("TargetName={TARGET}\0").as_bytes(),
    ]
    .concat();
    world.send(LoginRequest { flags, ..world.login_request() }.encode(text.len() as u32), &text);
    assert_eq!(refused(&mut world), LoginStatus::INITIATOR_ERROR);
}

/// Whichever target it names.
#[test]
fn discovery_is_of_all_targets() {
    let mut world = World::new(config());
    let keys = format!(
        "InitiatorName={INITIATOR} TargetName=iqn.2026-01.example.weft:other SessionType=Discovery"
    );
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &keys);
    assert_eq!(world.events, [TargetEvent::Login]);
    assert_eq!(world.end.engine.login().unwrap().kind, SessionKind::Discovery);
}

#[test]
fn the_layer_above_may_refuse() {
    let mut world = World::new(config());
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &names());
    world.end.engine.refuse(LoginStatus::OUT_OF_RESOURCES);
    assert_eq!(refused(&mut world), LoginStatus::OUT_OF_RESOURCES);
}

#[test]
fn the_order_of_login_is_kept() {
    let steps: [&dyn Fn(&mut World); 4] = [
        // No such stage.
        &|world| world.login(LoginStage(2), None, &names()),
        // Backwards.
        &|world| world.login(LoginStage::OPERATIONAL, Some(LoginStage::OPERATIONAL), &names()),
        // Another session in the second request.
        &|world| {
            world.login(LoginStage::OPERATIONAL, None, &names());
            world.pdu();
            let request = LoginRequest {
                task: TaskTag(9),
                flags: LoginFlags::new(LoginStage::OPERATIONAL, None),
                ..world.login_request()
            };
            world.login_with(request, "");
        },
        // For ever.
        &|world| {
            world.login(LoginStage::OPERATIONAL, None, &names());
            (0..100).for_each(|_| world.login(LoginStage::OPERATIONAL, None, ""));
        },
    ];
    for step in steps {
        let mut world = World::new(config());
        step(&mut world);
        assert!(matches!(
            world.violation(),
            Some(Violation::Login(_) | Violation::LoginRefused(_))
        ));
    }
}

fn chap_config() -> weft_proto::iscsi::target::IscsiTargetConfig {
    let credentials =
        |name: &str, secret: &str| Credentials { name: name.to_owned(), secret: secret.into() };
    let user = |name: &str, initiators: &[&str]| ChapUser {
        credentials: credentials(name, &format!("{name}'s secret")),
        initiators: initiators.iter().map(|name| Name::new(name).unwrap()).collect(),
    };
    let own = [INITIATOR, "iqn.2026-01.example.weft:other"];
    let users = vec![user("alice", &own), user("carol", &own[1..]), user("dave", &[])];
    let mut config = config();
    config.chap =
        Some(ChapPolicy { users, target: Some(credentials("disk", "the disk's secret")) });
    config
}

/// Goes as far as the challenge; gives it.
fn challenged(world: &mut World) -> (Algorithm, u8, Vec<u8>) {
    world.login(
        LoginStage::SECURITY,
        Some(LoginStage::OPERATIONAL),
        &(names() + "AuthMethod=None,CHAP"),
    );
    let pdu = world.pdu();
    assert_eq!(pdu.value("AuthMethod").as_deref(), Some("CHAP"));
    assert!(!LoginResponse::decode(&pdu.bhs).flags.is_transit());
    world.login(LoginStage::SECURITY, None, "CHAP_A=6,7,5");
    let pdu = world.pdu();
    assert_eq!(pdu.value("CHAP_A").as_deref(), Some("7"));
    let identifier = chap::identifier(&pdu.value("CHAP_I").unwrap()).unwrap();
    (Algorithm::SHA256, identifier, chap::challenge(&pdu.value("CHAP_C").unwrap()).unwrap())
}

fn answer(world: &mut World, name: &str, secret: &str, more: &str) {
    let (algorithm, identifier, challenge) = challenged(world);
    let response =
        chap::respond(algorithm, identifier, secret.as_bytes(), &challenge).unwrap().text();
    world.login(
        LoginStage::SECURITY,
        Some(LoginStage::OPERATIONAL),
        &format!("CHAP_N={name} CHAP_R={response} {more}"),
    );
}

#[test]
fn both_prove_who_they_are() {
    let mut world = World::new(chap_config());
    answer(
        &mut world,
        "alice",
        "alice's secret",
        &format!("CHAP_I=3 CHAP_C={}", binary::encode(b"a challenge")),
    );
    let pdu = world.pdu();
    let expected =
        chap::respond(Algorithm::SHA256, 3, b"the disk's secret", b"a challenge").unwrap().text();
    assert_eq!(
        (pdu.value("CHAP_N").as_deref(), pdu.value("CHAP_R")),
        (Some("disk"), Some(expected))
    );
    assert_eq!(LoginResponse::decode(&pdu.bhs).flags.next(), LoginStage::OPERATIONAL);
}

#[test]
fn nobody_comes_in_without_the_secret() {
    let attempts: [&dyn Fn(&mut World); 7] = [
        &|world| answer(world, "alice", "another secret", ""),
        &|world| answer(world, "bob", "alice's secret", ""),
        &|world| answer(world, "bob", "", ""),
        // Its own challenge, for the target to answer.
        &|world| {
            let (_, _, challenge) = challenged(world);
            world.login(
                LoginStage::SECURITY,
                None,
                &format!("CHAP_N=alice CHAP_R=0x00 CHAP_I=1 CHAP_C={}", binary::encode(&challenge)),
            );
        },
        // Security left out.
        &|world| world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &names()),
        // No method in common.
        &|world| {
            world.login(
                LoginStage::SECURITY,
                Some(LoginStage::OPERATIONAL),
                &(names() + "AuthMethod=None"),
            )
        },
        &|world| {
            world.login(
                LoginStage::SECURITY,
                Some(LoginStage::OPERATIONAL),
                &(names() + "AuthMethod=KRB5,SRP"),
            )
        },
    ];
    for attempt in attempts {
        let mut world = World::new(chap_config());
        attempt(&mut world);
        assert_eq!(world.events, []);
        assert_eq!(refused(&mut world), LoginStatus::AUTHENTICATION_FAILURE);
    }
    // Going on without having answered gets nobody further.
    let mut world = World::new(chap_config());
    challenged(&mut world);
    world.login(LoginStage::SECURITY, Some(LoginStage::FULL_FEATURE), "");
    assert_eq!(refused(&mut world), LoginStatus::AUTHENTICATION_FAILURE);
}

/// The name of an initiator is not secret: somebody with another proven name does not get its
/// session and reservations.
#[test]
fn a_user_logs_in_under_names_of_his_own() {
    let log_in = |user: &str, initiator: &str| {
        let mut world = World::new(chap_config());
        let named = format!("InitiatorName={initiator} TargetName={TARGET} AuthMethod=CHAP");
        world.login(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL), &named);
        world.pdu();
        world.login(LoginStage::SECURITY, None, "CHAP_A=7");
        let pdu = world.pdu();
        let challenge = chap::challenge(&pdu.value("CHAP_C").unwrap()).unwrap();
        let identifier = chap::identifier(&pdu.value("CHAP_I").unwrap()).unwrap();
        let secret = format!("{user}'s secret");
        let response = chap::respond(Algorithm::SHA256, identifier, secret.as_bytes(), &challenge)
            .unwrap()
            .text();
        world.login(
            LoginStage::SECURITY,
            Some(LoginStage::OPERATIONAL),
            &format!("CHAP_N={user} CHAP_R={response}"),
        );
        world
    };
    let (own, free) = (INITIATOR, "iqn.2026-01.example.weft:free");
    for (user, initiator) in
        [("alice", own), ("carol", "iqn.2026-01.example.weft:other"), ("dave", free)]
    {
        let mut world = log_in(user, initiator);
        assert_eq!(LoginResponse::decode(&world.pdu().bhs).status, LoginStatus::SUCCESS, "{user}");
        world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), "");
        assert_eq!(world.end.engine.login().unwrap().user.as_deref(), Some(user));
    }
    for (user, initiator) in [("carol", own), ("dave", own), ("alice", free)] {
        let mut world = log_in(user, initiator);
        assert_eq!(refused(&mut world), LoginStatus::AUTHORIZATION_FAILURE, "{user}");
        let who = LoginAttempt { initiator: Some(initiator.into()), user: Some(user.into()) };
        assert_eq!(world.end.engine.attempt(), who, "for the log");
    }
}

#[test]
fn keys_that_are_not_understood_are_not_answered_for_ever() {
    let keys = |from: u32, count: u32| {
        (from..from + count).map(|n| format!("x{n}=1 ")).collect::<String>()
    };
    let mut world = World::new(config());
    world.login(LoginStage::OPERATIONAL, None, &(names() + &keys(0, 60)));
    let answer = world.pdu();
    assert_eq!(answer.value("x59").as_deref(), Some("NotUnderstood"));
    assert!(answer.data.len() <= 8192, "longer than an initiator takes during login");
    world.login(LoginStage::OPERATIONAL, None, &keys(60, 5));
    assert_eq!(refused(&mut world), LoginStatus::INITIATOR_ERROR);
    // Nor are those that come again and again.
    let mut world = World::new(config());
    world.login(LoginStage::OPERATIONAL, None, &(names() + &"InitialR2T=No ".repeat(66)));
    assert_eq!(refused(&mut world), LoginStatus::INITIATOR_ERROR);
}

/// An initiator that does not read its answers.
#[test]
fn responses_do_not_pile_up_before_login() {
    let mut world = World::new(config());
    let long = |n: u32| (0..4).map(|k| format!("{}{n}k{k}=1 ", "x".repeat(50))).collect::<String>();
    world.login(LoginStage::OPERATIONAL, None, &names());
    let mut steps = 0;
    while !world.closed {
        world.login(LoginStage::OPERATIONAL, None, &long(steps));
        steps += 1;
        assert!(steps < 64);
    }
    let mut bytes = 0;
    while let Some(pdu) = world.try_pdu() {
        bytes += 48 + pdu.data.len();
    }
    assert!(bytes <= 2 * weft_proto::limits::LOGIN_REPLIES_BYTES_MAX, "{bytes}");
}

/// Heeds nobody, and notes what it is asked.
#[derive(Default)]
struct Deaf(Mutex<Vec<(String, bool)>>);

impl Guard for Deaf {
    fn heeds(&self, user: &str, right: bool, _: Duration) -> bool {
        self.0.lock().unwrap().push((user.to_owned(), right));
        false
    }
}

#[test]
fn whoever_is_turned_away_does_not_learn_whether_the_secret_was_right() {
    let guard = Arc::new(Deaf::default());
    for (user, secret) in [("alice", "alice's secret"), ("alice", "a guess"), ("nobody", "")] {
        let mut world = World::new(chap_config());
        world.end.engine.set_guard(guard.clone());
        answer(&mut world, user, secret, "");
        assert_eq!(refused(&mut world), LoginStatus::SERVICE_UNAVAILABLE);
        assert_eq!(world.end.engine.attempt().initiator.as_deref(), Some(INITIATOR));
    }
    let asked = [("alice", true), ("alice", false), ("nobody", false)]
        .map(|(user, right)| (user.to_owned(), right));
    assert_eq!(*guard.0.lock().unwrap(), asked);
}
