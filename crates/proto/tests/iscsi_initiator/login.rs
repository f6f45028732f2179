//! Login in all its ways, and discovery.

use crate::iscsi_initiator::world::{TARGET, World, config};
use weft_proto::iscsi::chap::{self, Algorithm, Credentials};
use weft_proto::iscsi::deviation::Deviation;
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::initiator::{
    InitiatorConfig, InitiatorEvent, SessionFault, TargetProof, Violation,
};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::text::binary;

const SECURITY: LoginStage = LoginStage::SECURITY;
const OPERATIONAL: LoginStage = LoginStage::OPERATIONAL;

fn credentials(name: &str, secret: &str) -> Credentials {
    Credentials { name: name.into(), secret: secret.into() }
}

fn with_chap(mutual: bool) -> InitiatorConfig {
    let proof = TargetProof {
        credentials: credentials("target", "the target's secret"),
        identifier: 9,
        challenge: vec![5; 32],
    };
    InitiatorConfig {
        credentials: Some(credentials("me", "my own secret")),
        target_proof: mutual.then_some(proof),
        ..config()
    }
}

#[test]
fn without_authentication() {
    let mut world = World::new(config());
    let first = world.sent_one();
    let request = LoginRequest::decode(&first.bhs);
    assert!(request.immediate);
    assert_eq!((request.flags, request.tsih), (LoginFlags::new(SECURITY, Some(OPERATIONAL)), 0));
    assert_eq!(first.value("TargetName").as_deref(), Some(TARGET));
    assert_eq!(first.value("SessionType").as_deref(), Some("Normal"));
    assert_eq!(first.value("AuthMethod").as_deref(), Some("None"));
    world.login(SECURITY, Some(OPERATIONAL), "AuthMethod=None TargetPortalGroupTag=1 ");
    let second = world.sent_one();
    assert_eq!(LoginRequest::decode(&second.bhs).exp_stat_sn, Serial(101));
    assert_eq!(second.value("InitialR2T").as_deref(), Some("No"));
    assert_eq!(second.value("MaxOutstandingR2T").as_deref(), Some("8"));
    // Asked something, and answering in two steps.
    world.login(
        OPERATIONAL,
        None,
        "HeaderDigest=None DataDigest=None InitialR2T=Yes X-own=1 IFMarker=No MaxRecvDataSegmentLength=65536 ",
    );
    let third = world.sent_one();
    assert_eq!(
        third.text(),
        [("X-own".into(), "NotUnderstood".into()), ("IFMarker".into(), "No".into())]
    );
    world.login(
        OPERATIONAL,
        Some(LoginStage::FULL_FEATURE),
        "FirstBurstLength=8192 MaxBurstLength=16384 ",
    );
    assert_eq!(world.take_events(), [InitiatorEvent::Ready]);
    let parameters = world.end.engine.parameters();
    assert_eq!(
        (parameters.max_send_bytes, parameters.first_burst(), parameters.max_burst_bytes),
        (65_536, 8192, 16_384)
    );
    assert!(parameters.initial_r2t);
}

#[test]
fn texts_may_come_in_pieces() {
    let mut world = World::new(config());
    world.sent();
    world.login_flags(LoginFlags::new(SECURITY, None).continued(), LoginStatus::SUCCESS, "AuthMet");
    let empty = world.sent_one();
    assert!(empty.data.is_empty() && !LoginRequest::decode(&empty.bhs).flags.is_transit());
    world.login(SECURITY, Some(OPERATIONAL), "hod=None ");
    assert!(world.sent_one().value("MaxBurstLength").is_some());
}

/// Plays the target up to its proof.
fn challenge(world: &mut World, algorithm: Algorithm) -> crate::iscsi_initiator::world::Pdu {
    let first = world.sent_one();
    assert!(!LoginRequest::decode(&first.bhs).flags.is_transit());
    world.login(SECURITY, None, "AuthMethod=CHAP ");
    assert_eq!(world.sent_one().value("CHAP_A").as_deref(), Some("8,5,7"));
    let text = format!("CHAP_A={} CHAP_I=7 CHAP_C={} ", algorithm.0, binary::encode(b"challenge"));
    world.login(SECURITY, None, &text);
    let answer = world.sent_one();
    let expected = chap::respond(algorithm, 7, b"my own secret", b"challenge").unwrap();
    assert_eq!(answer.value("CHAP_N").as_deref(), Some("me"));
    assert!(expected.matches(&answer.value("CHAP_R").unwrap()));
    answer
}

#[test]
fn chap_one_way() {
    for algorithm in Algorithm::SUPPORTED {
        let mut world = World::new(with_chap(false));
        let answer = challenge(&mut world, algorithm);
        assert_eq!(answer.value("CHAP_C"), None);
        world.login(SECURITY, Some(OPERATIONAL), "");
        assert!(world.sent_one().value("MaxBurstLength").is_some());
    }
}

/// However a target that reads one number says so. A wrong secret comes later.
#[test]
fn targets_that_do_not_take_the_algorithms_are_told_apart() {
    let offered = |algorithms: &'static [Algorithm]| {
        let mut world = World::new(InitiatorConfig { algorithms, ..with_chap(false) });
        world.sent();
        world.login(SECURITY, None, "AuthMethod=CHAP ");
        let offered = world.sent_one().value("CHAP_A").unwrap();
        assert_eq!(world.end.engine.unanswered_algorithms().as_ref(), Some(&offered));
        (world, offered)
    };
    let lists: [&'static [Algorithm]; 2] = [&Algorithm::OFFERED, &Algorithm::ONLY_MD5];
    for algorithms in lists {
        for status in [LoginStatus::INITIATOR_ERROR, LoginStatus::AUTHENTICATION_FAILURE] {
            let (mut world, offered) = offered(algorithms);
            world.login_flags(LoginFlags::NONE, status, "");
            let fault = SessionFault::Algorithms { offered, status: Some(status) };
            assert_eq!(world.end.engine.fault(), Some(&fault));
        }
        for text in ["CHAP_A=Reject ", "CHAP_A=None ", "CHAP_A=6 CHAP_I=7 CHAP_C=0x11 ", ""] {
            let (mut world, offered) = offered(algorithms);
            world.login(SECURITY, None, text);
            let fault = SessionFault::Algorithms { offered, status: None };
            assert_eq!(world.end.engine.fault(), Some(&fault), "{text}");
        }
        for status in [LoginStatus::OUT_OF_RESOURCES, LoginStatus::NOT_FOUND] {
            let (mut world, _) = offered(algorithms);
            world.login_flags(LoginFlags::NONE, status, "");
            assert_eq!(world.end.engine.fault(), Some(&SessionFault::Refused(status)));
        }
        let (mut world, _) = offered(algorithms);
        world.login(SECURITY, None, "CHAP_A=5 CHAP_I=7 CHAP_C=0x1122 ");
        assert_eq!(world.end.engine.unanswered_algorithms(), None);
        let status = LoginStatus::AUTHENTICATION_FAILURE;
        world.login_flags(LoginFlags::NONE, status, "");
        assert_eq!(
            world.end.engine.fault(),
            Some(&SessionFault::Refused(status)),
            "the secret is wrong"
        );
    }
    // Only what was offered can be chosen.
    let (mut world, offered) = offered(&Algorithm::ONLY_MD5);
    world.login(SECURITY, None, "CHAP_A=7 CHAP_I=7 CHAP_C=0x1122 ");
    let fault = SessionFault::Algorithms { offered, status: None };
    assert_eq!(world.end.engine.fault(), Some(&fault));
    assert!(world.fault().contains("CHAP_A=5"), "{}", world.fault());
}

#[test]
fn chap_both_ways() {
    let mut world = World::new(with_chap(true));
    let answer = challenge(&mut world, Algorithm::SHA256);
    assert_eq!(answer.value("CHAP_I").as_deref(), Some("9"));
    assert_eq!(answer.value("CHAP_C"), Some(binary::encode(&[5; 32])));
    let proof = chap::respond(Algorithm::SHA256, 9, b"the target's secret", &[5; 32]).unwrap();
    world.login(SECURITY, Some(OPERATIONAL), &format!("CHAP_N=target CHAP_R={} ", proof.text()));
    assert!(world.sent_one().value("MaxBurstLength").is_some());
}

#[test]
fn a_target_that_cannot_prove_itself_is_left() {
    let proof = chap::respond(Algorithm::MD5, 9, b"another secret", &[5; 32]).unwrap();
    let right = chap::respond(Algorithm::MD5, 9, b"the target's secret", &[5; 32]).unwrap();
    for text in [
        String::new(),
        "CHAP_N=target ".into(),
        format!("CHAP_N=target CHAP_R={} ", proof.text()),
        format!("CHAP_N=other CHAP_R={} ", right.text()),
    ] {
        let mut world = World::new(with_chap(true));
        challenge(&mut world, Algorithm::MD5);
        world.login(SECURITY, Some(OPERATIONAL), &text);
        assert_eq!(
            (world.end.engine.fault(), world.closed),
            (Some(&SessionFault::Impostor), true),
            "{text}"
        );
        assert!(world.sent().is_empty());
    }
}

#[test]
fn our_challenge_is_not_answered_for_the_target() {
    let mut world = World::new(with_chap(true));
    world.sent();
    world.login(SECURITY, None, "AuthMethod=CHAP ");
    world.login(SECURITY, None, &format!("CHAP_A=5 CHAP_I=7 CHAP_C={} ", binary::encode(&[5; 32])));
    assert_eq!(world.end.engine.fault(), Some(&Violation::Chap.into()));
}

#[test]
fn methods_that_do_not_meet() {
    for (config, text) in [
        (config(), "AuthMethod=CHAP "),
        (with_chap(true), "AuthMethod=None "),
        (with_chap(false), "AuthMethod=Reject "),
    ] {
        let mut world = World::new(config);
        world.login(SECURITY, None, text);
        assert_eq!(world.end.engine.fault(), Some(&SessionFault::Method), "{text}");
    }
    // A target that asks for no proof of us, where none is asked of it.
    let mut world = World::new(with_chap(false));
    world.sent();
    world.login(SECURITY, None, "AuthMethod=None ");
    assert!(LoginRequest::decode(&world.sent_one().bhs).flags.is_transit());
}

#[test]
fn refusals_say_why() {
    for status in
        [LoginStatus::AUTHENTICATION_FAILURE, LoginStatus::NOT_FOUND, LoginStatus::OUT_OF_RESOURCES]
    {
        let mut world = World::new(config());
        world.login_flags(LoginFlags::NONE, status, "");
        assert_eq!(world.end.engine.fault(), Some(&SessionFault::Refused(status)));
        assert!(world.fault().contains(status.text()));
    }
    let mut world = World::new(config());
    world.login_flags(
        LoginFlags::NONE,
        LoginStatus::MOVED_TEMPORARILY,
        "TargetAddress=[::1]:3261,1 ",
    );
    assert_eq!(
        world.end.engine.fault(),
        Some(&SessionFault::Moved { address: "[::1]:3261".into() })
    );
}

#[test]
fn digests_are_asked_for() {
    for (required, offered) in [(Digests::NONE, "CRC32C,None"), (Digests::BOTH, "CRC32C")] {
        let mut world = World::new(config().with_digests(Digests::BOTH, required));
        world.sent();
        world.login(SECURITY, Some(OPERATIONAL), "");
        assert_eq!(world.sent_one().value("DataDigest").as_deref(), Some(offered));
        world.login(
            OPERATIONAL,
            Some(LoginStage::FULL_FEATURE),
            "HeaderDigest=None DataDigest=None ",
        );
        assert_eq!(world.closed, required == Digests::BOTH, "{}", world.fault());
    }
}

/// Whatever a target makes of the question.
#[test]
fn digests_that_are_insisted_on_are_not_dropped() {
    let data = Digests { header: false, data: true };
    let header = Digests { header: true, data: false };
    for (required, answer, lacks) in [
        (Digests::BOTH, "", Some("header digest")),
        (Digests::BOTH, "HeaderDigest=CRC32C ", Some("data digest")),
        (data, "HeaderDigest=CRC32C DataDigest=NotUnderstood ", Some("data digest")),
        (data, "HeaderDigest=None DataDigest=Irrelevant ", Some("data digest")),
        (header, "HeaderDigest=NotUnderstood DataDigest=CRC32C ", Some("header digest")),
        (header, "HeaderDigest=CRC32C DataDigest=None ", None),
        (Digests::NONE, "", None),
    ] {
        let mut world = World::new(config().with_digests(Digests::BOTH, required));
        world.login(SECURITY, Some(OPERATIONAL), "");
        world.login(OPERATIONAL, Some(LoginStage::FULL_FEATURE), answer);
        assert_eq!(
            world.end.engine.fault(),
            lacks.map(SessionFault::NoDigest).as_ref(),
            "{answer}"
        );
        assert_eq!(world.closed, lacks.is_some());
    }
}

/// open-iscsi and libiscsi take the end of the login as it comes.
#[test]
fn offers_that_nobody_can_answer_do_not_end_the_login() {
    for text in ["X-com.example.array=1 ", "iSCSIProtocolLevel=2 ", "TargetAlias=M\u{fc}ller "] {
        let mut world = World::new(config());
        world.login(SECURITY, Some(OPERATIONAL), "");
        world.login(OPERATIONAL, Some(LoginStage::FULL_FEATURE), text);
        assert_eq!(
            (world.closed, world.take_events().last()),
            (false, Some(&InitiatorEvent::Ready)),
            "{text}"
        );
        let answered = text.starts_with("TargetAlias");
        assert_eq!(
            world.end.engine.deviations().iter().next(),
            (!answered).then_some(Deviation::Unanswered),
            "{text}"
        );
    }
}

#[test]
fn endless_logins_end() {
    let mut world = World::new(config());
    world.login(SECURITY, Some(OPERATIONAL), "");
    for _ in 0..1000 {
        world.login(OPERATIONAL, None, "");
        world.sent();
    }
    assert_eq!((world.end.engine.fault(), world.closed), (Some(&Violation::Endless.into()), true));
    let mut world = World::new(config());
    let flood = "X=".to_owned() + &"y".repeat(8000);
    for _ in 0..10 {
        world.login_flags(
            LoginFlags::new(SECURITY, None).continued(),
            LoginStatus::SUCCESS,
            &flood,
        );
    }
    assert!(world.fault().contains("text is longer"), "{}", world.fault());
}

#[test]
fn responses_that_do_not_continue_the_login() {
    for (flags, text) in [
        (LoginFlags::new(OPERATIONAL, None), ""),
        (LoginFlags::new(SECURITY, Some(LoginStage::FULL_FEATURE)), ""),
        (LoginFlags::new(SECURITY, Some(LoginStage(2))), ""),
        (LoginFlags::new(SECURITY, Some(OPERATIONAL)), "nonsense "),
    ] {
        let mut world = World::new(config());
        world.login_flags(flags, LoginStatus::SUCCESS, text);
        assert!(
            world.closed && matches!(world.end.engine.fault(), Some(SessionFault::Violation(_))),
            "{flags:?} {text}"
        );
    }
}

#[test]
fn discovery_lists_targets() {
    let mut world = World::new(InitiatorConfig { target: None, ..config() });
    assert_eq!(world.sent_one().value("SessionType").as_deref(), Some("Discovery"));
    world.login(SECURITY, Some(OPERATIONAL), "");
    assert_eq!(world.sent_one().value("MaxBurstLength"), None);
    world.login(OPERATIONAL, Some(LoginStage::FULL_FEATURE), "");
    assert_eq!(world.take_events(), []);
    assert_eq!(world.sent_one().text(), [("SendTargets".into(), "All".into())]);
    let respond = |world: &mut World, flags, transfer, text: &[u8]| {
        let response = TextResponse {
            flags,
            task: TaskTag(0x8000_0001),
            transfer,
            stat_sn: world.next_stat_sn(),
            exp_cmd_sn: Serial(1),
            max_cmd_sn: Serial(32),
            ..TextResponse::default()
        };
        world.reply(response.encode(text.len() as u32), text);
    };
    respond(
        &mut world,
        TextFlags::CONTINUE,
        TaskTag(5),
        b"TargetName=iqn.2026-01.example:a\0TargetAddr",
    );
    assert_eq!(TextRequest::decode(&world.sent_one().bhs).transfer, TaskTag(5));
    respond(
        &mut world,
        TextFlags::FINAL,
        TaskTag::NONE,
        b"ess=192.0.2.1:3260,1\0TargetName=iqn.2026-01.example:b\0",
    );
    assert_eq!(world.take_events(), [InitiatorEvent::Targets]);
    let targets = world.end.engine.take_targets();
    assert_eq!(targets.len(), 2);
    assert_eq!(targets[0].addresses, ["192.0.2.1:3260,1"]);
    world.end.engine.log_out(core::time::Duration::ZERO);
    assert_eq!(world.sent_one().opcode(), Opcode::LOGOUT_REQUEST);
}

#[test]
fn a_flood_of_targets_ends() {
    let mut world = World::new(InitiatorConfig { target: None, ..config() });
    world.login(SECURITY, Some(OPERATIONAL), "");
    world.login(OPERATIONAL, Some(LoginStage::FULL_FEATURE), "");
    let text = [b'x'; 8192];
    let mut responses = 0;
    while !world.closed {
        let response = TextResponse {
            flags: TextFlags::CONTINUE,
            task: TaskTag(0x8000_0001),
            transfer: TaskTag(5),
            ..TextResponse::default()
        };
        world.reply(response.encode(8192), &text);
        world.sent();
        responses += 1;
        assert!(responses < 1000);
    }
    assert_eq!(world.end.engine.fault(), Some(&Violation::Endless.into()));
}
