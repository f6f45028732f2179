//! Pings, texts, task management, logout, Reject, asynchronous messages.

use crate::iscsi_target::world::*;
use std::sync::Arc;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::iscsi::target::{Portals, TargetEvent, TargetResponse, Violation};
use weft_proto::iscsi::text::pairs;

fn text(flags: TextFlags, transfer: TaskTag) -> TextRequest {
    TextRequest { immediate: true, flags, task: TaskTag(50), transfer, ..TextRequest::default() }
}

#[test]
fn pings_go_both_ways() {
    let mut world = World::logged_in(config(), "HeaderDigest=CRC32C DataDigest=CRC32C");
    let nop = NopOut { immediate: true, task: TaskTag(7), ..NopOut::default() };
    world.send(nop.encode(5), b"hello");
    let pdu = world.pdu();
    assert_eq!((NopIn::decode(&pdu.bhs).task, &pdu.data[..]), (TaskTag(7), &b"hello"[..]));
    // One that wants no answer gets none.
    world.send(NopOut { task: TaskTag::NONE, ..nop }.encode(0), &[]);
    assert_eq!(world.try_pdu(), None);
    world.end.engine.ping();
    let ping = NopIn::decode(&world.pdu().bhs);
    assert_eq!(ping.task, TaskTag::NONE);
    let pong = NopOut { immediate: true, transfer: ping.transfer, ..NopOut::default() };
    world.send(pong.encode(0), &[]);
    assert_eq!(world.events, [TargetEvent::Pong]);
}

#[test]
fn discovery_names_the_target() {
    let mut world = World::new(config());
    let keys = format!("InitiatorName={INITIATOR} SessionType=Discovery MaxBurstLength=512");
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), &keys);
    world.end.engine.admit(1, None);
    assert_eq!(world.pdu().value("MaxBurstLength").as_deref(), Some("Irrelevant"));
    world.send(text(TextFlags::FINAL, TaskTag::NONE).encode(16), b"SendTargets=All\0");
    let pdu = world.pdu();
    assert_eq!(pdu.value("TargetName").as_deref(), Some(TARGET));
    assert_eq!(pdu.value("TargetAddress"), Some(format!("{PORTAL},1")));
    assert!(TextResponse::decode(&pdu.bhs).flags.has(TextFlags::FINAL));
    // No commands here.
    world.events.clear();
    let command = world.scsi(READ, 0);
    world.send(command.encode(0), &[]);
    assert_eq!(Reject::decode(&world.pdu().bhs).reason, RejectReason::PROTOCOL_ERROR);
}

#[test]
fn discovery_names_portals_of_other_machines_once_and_last() {
    let others = [("192.0.2.9:3260", 1001), (PORTAL, 7), ("[2001:db8::9]:3260", 1002)];
    let others = others.map(|(portal, group)| (portal.to_owned(), group));
    let portals = Portals { others: Arc::new(others), ..Portals::one(PORTAL) };
    let mut world = World::at(portals, config());
    world.log_in("");
    world.send(text(TextFlags::FINAL, TaskTag::NONE).encode(13), b"SendTargets=\0");
    let pdu = world.pdu();
    let told = pairs(&pdu.data).map(Result::unwrap).filter(|(name, _)| *name == "TargetAddress");
    let told: Vec<_> = told.map(|(_, portal)| portal.to_owned()).collect();
    assert_eq!(told, [&format!("{PORTAL},1"), "192.0.2.9:3260,1001", "[2001:db8::9]:3260,1002"]);
}

#[test]
fn a_long_answer_comes_in_pieces() {
    let mut world = World::logged_in(config(), "");
    let names: String = (0..500).map(|n| format!("X-{n}=1\0")).collect();
    world.send(text(TextFlags::FINAL, TaskTag::NONE).encode(names.len() as u32), names.as_bytes());
    let (mut whole, mut pieces) = (Vec::new(), 0);
    loop {
        let pdu = world.pdu();
        let head = TextResponse::decode(&pdu.bhs);
        whole.extend_from_slice(&pdu.data);
        pieces += 1;
        if !head.flags.has(TextFlags::CONTINUE) {
            break;
        }
        world.send(text(TextFlags::FINAL, head.transfer).encode(0), &[]);
    }
    assert_eq!(pieces, 2);
    assert_eq!(
        whole.split(|&byte| byte == 0).filter(|pair| pair.ends_with(b"=NotUnderstood")).count(),
        500
    );
}

#[test]
fn keys_of_login_are_rejected_later() {
    let mut world = World::logged_in(config(), "");
    let asks = b"MaxConnections=1\0SendTargets=All\0SendTargets=\0MaxRecvDataSegmentLength=1024\0";
    world.send(text(TextFlags::FINAL, TaskTag::NONE).encode(asks.len() as u32), asks);
    let pdu = world.pdu();
    assert_eq!(pdu.value("MaxConnections").as_deref(), Some("Reject"));
    assert_eq!(pdu.value("TargetName").as_deref(), Some(TARGET));
    assert_eq!(world.end.engine.parameters().max_send_bytes, 1024);
}

fn function(function: TaskFunction, referenced: TaskTag) -> TaskRequest {
    TaskRequest {
        immediate: true,
        function,
        task: TaskTag(60),
        referenced,
        ..TaskRequest::default()
    }
}

#[test]
fn functions_name_their_task() {
    let mut world = World::logged_in(config(), "");
    let command = world.scsi(READ, 512);
    let tag = world.submit(&command, &[]);
    let request = function(TaskFunction::ABORT_TASK, command.task);
    world.send(request.encode(0), &[]);
    let Some(TargetEvent::Task { tag: own, referenced, .. }) = world.events.pop() else {
        panic!("no function")
    };
    assert_eq!(referenced, Some(tag));
    assert!(world.end.engine.abandon(tag));
    world.end.engine.complete_task(own, TaskResult::COMPLETE);
    assert_eq!(TaskResponse::decode(&world.pdu().bhs).response, TaskResult::COMPLETE);
    // It is gone.
    world.send(request.encode(0), &[]);
    assert_eq!(TaskResponse::decode(&world.pdu().bhs).response, TaskResult::NO_TASK);
    for (which, result) in [
        (TaskFunction::TASK_REASSIGN, TaskResult::REASSIGN_NOT_SUPPORTED),
        (TaskFunction::CLEAR_ACA, TaskResult::NOT_SUPPORTED),
        (TaskFunction(77), TaskResult::NOT_SUPPORTED),
    ] {
        world.send(function(which, TaskTag::NONE).encode(0), &[]);
        assert_eq!(TaskResponse::decode(&world.pdu().bhs).response, result);
    }
}

#[test]
fn a_function_is_answered_behind_what_was_answered_before() {
    let mut world = World::logged_in(config(), "MaxRecvDataSegmentLength=512");
    let command = world.scsi(READ, 1024);
    let tag = world.submit(&command, &[]);
    world.good(tag, &[1; 1024], 1024);
    world.send(function(TaskFunction::LOGICAL_UNIT_RESET, TaskTag::NONE).encode(0), &[]);
    let Some(TargetEvent::Task { tag: own, .. }) = world.events.pop() else {
        panic!("no function")
    };
    world.end.engine.complete_task(own, TaskResult::COMPLETE);
    let order: Vec<_> = (0..3).map(|_| world.pdu().opcode()).collect();
    assert_eq!(order, [Opcode::DATA_IN, Opcode::DATA_IN, Opcode::TASK_RESPONSE]);
}

#[test]
fn logout_is_the_last_answer() {
    let mut world = World::logged_in(config(), "");
    let command = world.scsi(READ, 0);
    let tag = world.submit(&command, &[]);
    let logout =
        LogoutRequest { immediate: true, task: TaskTag(70), cid: 1, ..LogoutRequest::default() };
    // Another connection, and recovery, are none of this session's.
    for (reason, cid, result) in [
        (LogoutReason::CLOSE_CONNECTION, 8, LogoutResult::NO_CONNECTION),
        (LogoutReason::RECOVERY, 1, LogoutResult::NO_RECOVERY),
    ] {
        world.send(LogoutRequest { reason, cid, ..logout }.encode(0), &[]);
        assert_eq!(LogoutResponse::decode(&world.pdu().bhs).response, result);
    }
    world.send(logout.encode(0), &[]);
    assert_eq!(world.events, [TargetEvent::Logout]);
    world.end.engine.complete(tag, &TargetResponse::GOOD);
    world.end.engine.logged_out();
    assert_eq!(
        [world.pdu().opcode(), world.pdu().opcode()],
        [Opcode::SCSI_RESPONSE, Opcode::LOGOUT_RESPONSE]
    );
    world.send(command.encode(0), &[]);
    assert!(world.closed);
    assert_eq!(world.violation(), None);
}

#[test]
fn what_is_not_understood_is_rejected_with_its_header() {
    let mut world = World::logged_in(config(), "HeaderDigest=CRC32C DataDigest=CRC32C");
    let odd = |opcode: u8| {
        let mut bhs = NopOut { immediate: true, ..NopOut::default() }.encode(3);
        bhs[0] = opcode;
        bhs
    };
    for (bhs, reason) in [
        (odd(0x1c), RejectReason::NOT_SUPPORTED),
        (odd(0x50), RejectReason::SNACK),
        (odd(0x43), RejectReason::PROTOCOL_ERROR),
        (odd(0x42), RejectReason::PROTOCOL_ERROR),
    ] {
        world.send(bhs, b"abc");
        let pdu = world.pdu();
        assert_eq!((Reject::decode(&pdu.bhs).reason, &pdu.data[..]), (reason, &bhs[..]));
    }
    // A damaged ping too.
    let mut wire = world.bytes(
        NopOut { immediate: true, task: TaskTag(1), ..NopOut::default() }.encode(4),
        b"ping",
    );
    wire[53] ^= 1;
    world.feed(&wire);
    assert_eq!(Reject::decode(&world.pdu().bhs).reason, RejectReason::DATA_DIGEST);
    assert!(!world.closed);
}

#[test]
fn initiators_are_told_what_happens() {
    let mut world = World::logged_in(config(), "");
    world.end.engine.request_logout(3);
    world.end.engine.announce_event(Lun::single_level(2), &[0x70, 0, 6]);
    world.end.engine.announce_drop(1);
    let told: Vec<_> = (0..3).map(|_| world.pdu()).collect();
    let heads: Vec<_> = told.iter().map(|pdu| AsyncMessage::decode(&pdu.bhs)).collect();
    let events: Vec<_> = heads.iter().map(|head| head.event).collect();
    assert_eq!(events, [AsyncEvent::LOGOUT_REQUEST, AsyncEvent::SCSI, AsyncEvent::SESSION_DROP]);
    assert_eq!(
        (heads[0].parameter3, heads[1].lun, &told[1].data[..]),
        (3, Lun::single_level(2), &[0, 3, 0x70, 0, 6][..])
    );
    assert_eq!(heads[2].stat_sn, Serial(heads[0].stat_sn.0 + 2));
}

#[test]
fn a_text_is_not_answered_without_end() {
    let mut world = World::logged_in(config(), "");
    let asks = "SendTargets=\0".repeat(300);
    for piece in 0..4 {
        let flags = if piece == 3 { TextFlags::FINAL } else { TextFlags::CONTINUE };
        let transfer = if piece == 0 { TaskTag::NONE } else { TaskTag(0) };
        world.send(text(flags, transfer).encode(asks.len() as u32), asks.as_bytes());
    }
    assert_eq!(world.violation(), Some(Violation::Flood));
}
