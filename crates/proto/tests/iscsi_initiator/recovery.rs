//! Time limits, task management, pings, asynchronous messages, rejects and logout.

use crate::iscsi_initiator::world::{World, config, good};
use core::time::Duration;
use weft_proto::iscsi::initiator::{
    CommandOutcome, InitiatorCommand, InitiatorEvent, ScsiData, SessionFault, SubmitError,
    Violation,
};
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::serial::Serial;
use weft_proto::stream::{StreamEngine, Tag};

fn world() -> World {
    World::logged_in(config(), "")
}

/// A command that was sent.
fn command(world: &mut World, data: ScsiData) -> (Tag, ScsiCommand) {
    let tag = world.submit(data, 1);
    (tag, ScsiCommand::decode(&world.sent_one().bhs))
}

fn task_response(world: &mut World, task: TaskTag, response: TaskResult) {
    let response =
        TaskResponse { response, task, stat_sn: world.next_stat_sn(), ..TaskResponse::default() };
    world.reply(response.encode(0), &[]);
}

/// The task management request that the initiator has sent.
fn request(world: &mut World) -> TaskRequest {
    let requests: Vec<_> =
        world.sent().into_iter().filter(|pdu| pdu.opcode() == Opcode::TASK_REQUEST).collect();
    assert_eq!(requests.len(), 1);
    TaskRequest::decode(&requests[0].bhs)
}

/// Lets `seconds` pass in which the target answers pings.
fn wait(world: &mut World, seconds: u64) -> Option<TaskRequest> {
    let mut found = None;
    for _ in 0..seconds {
        world.tick(1);
        for pdu in world.sent() {
            match pdu.opcode() {
                Opcode::NOP_OUT => pong(world, &pdu.bhs),
                Opcode::TASK_REQUEST => found = Some(TaskRequest::decode(&pdu.bhs)),
                _ => {}
            }
        }
    }
    found
}

fn pong(world: &mut World, ping: &[u8; 48]) {
    let ping = NopOut::decode(ping);
    assert!(ping.immediate && ping.transfer == TaskTag::NONE && ping.task != TaskTag::NONE);
    let pong = NopIn { task: ping.task, stat_sn: world.next_stat_sn(), ..NopIn::default() };
    world.reply(pong.encode(0), &[]);
}

#[test]
fn an_overdue_command_is_aborted() {
    for response in [TaskResult::COMPLETE, TaskResult::NO_TASK] {
        let mut world = world();
        let (tag, command) = command(&mut world, ScsiData::Out(512));
        let request = wait(&mut world, 40).expect("aborted");
        assert_eq!(
            (request.function, request.referenced),
            (TaskFunction::ABORT_TASK, command.task)
        );
        assert_eq!((request.ref_cmd_sn, request.cmd_sn), (command.cmd_sn, Serial(2)));
        assert_eq!(world.take_events(), []);
        task_response(&mut world, request.task, response);
        assert_eq!(world.ended(), (tag, CommandOutcome::Aborted));
        world.end.engine.release(tag);
        assert_eq!(wait(&mut world, 100), None);
        assert!(!world.closed && world.fault().is_empty());
    }
}

#[test]
fn an_answer_may_overtake_the_abort() {
    let mut world = world();
    let (tag, command) = command(&mut world, ScsiData::None);
    let request = wait(&mut world, 40).expect("aborted");
    world.respond(command.task, 0);
    assert_eq!(world.ended(), (tag, good(0)));
    world.end.engine.release(tag);
    task_response(&mut world, request.task, TaskResult::NO_TASK);
    assert_eq!(world.take_events(), []);
    assert!(!world.closed);
}

#[test]
fn what_cannot_be_aborted_is_reset_and_then_given_up() {
    for refused in [true, false] {
        let mut world = world();
        let (tag, _) = command(&mut world, ScsiData::None);
        let (other, _) = command(&mut world, ScsiData::In(512));
        let abort = wait(&mut world, 40).expect("aborted");
        let reset = if refused {
            task_response(&mut world, abort.task, TaskResult::NOT_SUPPORTED);
            request(&mut world)
        } else {
            wait(&mut world, 10).expect("reset")
        };
        assert_eq!(
            (reset.function, reset.referenced),
            (TaskFunction::LOGICAL_UNIT_RESET, TaskTag::NONE)
        );
        task_response(&mut world, reset.task, TaskResult::COMPLETE);
        let mut ended: Vec<_> = world.take_events();
        ended.sort_by_key(|event| format!("{event:?}"));
        assert_eq!(
            ended,
            [tag, other].map(|tag| InitiatorEvent::Ended { tag, end: CommandOutcome::Aborted })
        );
    }
    let mut world = world();
    let (tag, _) = command(&mut world, ScsiData::None);
    assert!(wait(&mut world, 100).is_some());
    assert_eq!(world.end.engine.fault(), Some(&SessionFault::Stuck));
    assert!(world.end.engine.is_closed() && !world.end.engine.never_sent(tag));
}

#[test]
fn what_was_not_sent_ends_as_such() {
    let mut world = World::new(config());
    let tag = world.submit(ScsiData::None, 0);
    assert!(world.end.engine.never_sent(tag));
    assert_eq!(
        world.end.engine.abort(tag),
        Some(InitiatorEvent::Ended { tag, end: CommandOutcome::NotSent })
    );
    world.end.engine.release(tag);
    // A window that never opens.
    world.max_cmd_sn = 0;
    world.login(LoginStage::SECURITY, Some(LoginStage::OPERATIONAL), "");
    world.login(LoginStage::OPERATIONAL, Some(LoginStage::FULL_FEATURE), "");
    world.take_events();
    let tag = world.submit(ScsiData::None, 0);
    wait(&mut world, 40);
    assert_eq!(world.ended(), (tag, CommandOutcome::NotSent));
}

#[test]
fn unwanted_commands_are_aborted_one_by_one_and_nothing_else_comes_of_it() {
    let mut world = world();
    let (first, _) = command(&mut world, ScsiData::None);
    let (second, of_second) = command(&mut world, ScsiData::None);
    for tag in [first, second, first] {
        assert_eq!(world.end.engine.abort(tag), None);
    }
    let abort = request(&mut world);
    task_response(&mut world, abort.task, TaskResult::REJECTED);
    let abort = request(&mut world);
    assert_eq!((abort.function, abort.referenced), (TaskFunction::ABORT_TASK, of_second.task));
    task_response(&mut world, abort.task, TaskResult::COMPLETE);
    assert_eq!(world.ended(), (second, CommandOutcome::Aborted));
    assert!(world.sent().is_empty());
}

#[test]
fn pings_go_both_ways() {
    let mut world = world();
    let question = NopIn { lun: Lun(3), transfer: TaskTag(77), ..NopIn::default() };
    world.reply(question.encode(0), &[]);
    let answer = NopOut::decode(&world.sent_one().bhs);
    assert_eq!(
        (answer.immediate, answer.task, answer.transfer, answer.lun),
        (true, TaskTag::NONE, TaskTag(77), Lun(3))
    );
    assert_eq!(wait(&mut world, 60), None);
    assert!(!world.end.engine.is_closed());
    let mut waited = 0;
    while !world.end.engine.is_closed() {
        world.tick(1);
        world.end.flush();
        waited += 1;
        assert!(waited < 20);
    }
    assert_eq!(world.end.engine.fault(), Some(&SessionFault::Silent));
    assert!(!world.end.engine.never_sent(Tag(0)));
}

#[test]
fn pings_without_end_are_cut_off() {
    let mut world = world();
    let question = NopIn { transfer: TaskTag(77), ..NopIn::default() };
    let bytes = world.bytes(question.encode(0), &[]).repeat(100);
    world.reply_bytes(&bytes);
    assert_eq!(world.end.engine.fault(), Some(&Violation::Pings.into()));
}

fn message(world: &mut World, event: AsyncEvent, data: &[u8]) {
    let message = AsyncMessage {
        event,
        parameter3: 5,
        stat_sn: world.next_stat_sn(),
        ..AsyncMessage::default()
    };
    world.reply(message.encode(data.len() as u32), data);
}

#[test]
fn a_target_that_wants_us_to_leave_is_left_in_order() {
    for event in [AsyncEvent::LOGOUT_REQUEST, AsyncEvent::NEGOTIATE] {
        let mut world = world();
        let (tag, command) = command(&mut world, ScsiData::None);
        message(&mut world, event, &[]);
        assert_eq!(world.take_events(), [InitiatorEvent::Leaving]);
        let late = InitiatorCommand { lun: Lun(0), cdb: [0; 16], data: ScsiData::None };
        assert_eq!(world.end.engine.submit(world.now, late), Err(SubmitError::Closed));
        assert!(world.sent().is_empty());
        world.respond(command.task, 0);
        assert_eq!(world.ended(), (tag, good(0)));
        world.end.engine.release(tag);
        let logout = LogoutRequest::decode(&world.sent_one().bhs);
        assert_eq!((logout.immediate, logout.reason), (true, LogoutReason::CLOSE_SESSION));
        let response = LogoutResponse {
            task: logout.task,
            stat_sn: world.next_stat_sn(),
            ..LogoutResponse::default()
        };
        world.reply(response.encode(0), &[]);
        assert_eq!(
            (world.closed, world.end.engine.fault()),
            (true, Some(&SessionFault::LoggedOut))
        );
    }
}

#[test]
fn logging_out_waits_so_long_and_no_longer() {
    let mut world = world();
    let (tag, _) = command(&mut world, ScsiData::None);
    world.end.engine.log_out(Duration::from_secs(2));
    assert!(world.sent().is_empty());
    world.tick(2);
    assert_eq!(world.sent_one().opcode(), Opcode::LOGOUT_REQUEST);
    world.tick(2);
    assert!(!world.end.engine.is_closed());
    world.tick(1);
    assert!(world.end.engine.is_closed() && !world.end.engine.never_sent(tag));
}

#[test]
fn other_messages() {
    for event in [AsyncEvent::CONNECTION_DROP, AsyncEvent::SESSION_DROP] {
        let mut world = world();
        message(&mut world, event, &[]);
        assert_eq!(world.end.engine.fault(), Some(&SessionFault::Dropped));
    }
    let mut world = world();
    let (tag, _) = command(&mut world, ScsiData::None);
    message(&mut world, AsyncEvent(255), b"whatever");
    let sense = [0, 18, 0x70, 0, 6, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0x2a, 9, 0, 0, 0, 0];
    message(&mut world, AsyncEvent::SCSI, &sense);
    assert_eq!(
        world.take_events(),
        [InitiatorEvent::Reported { lun: Lun(0), key: 6, code: 0x2a09 }]
    );
    for short in 0..sense.len() {
        message(&mut world, AsyncEvent::SCSI, &sense[..short]);
    }
    world.take_events();
    message(&mut world, AsyncEvent::TASK_TERMINATION, &[]);
    assert_eq!(world.ended(), (tag, CommandOutcome::Aborted));
}

fn reject(world: &mut World, reason: RejectReason, refused: &[u8]) {
    let reject = Reject { reason, stat_sn: world.next_stat_sn(), ..Reject::default() };
    world.reply(reject.encode(refused.len() as u32), refused);
}

#[test]
fn rejected_pdus() {
    let mut world = world();
    let (tag, command) = command(&mut world, ScsiData::Out(512));
    let bhs = command.encode(512);
    // Its data was damaged: the target will say how the command ended.
    reject(&mut world, RejectReason::DATA_DIGEST, &bhs);
    assert_eq!(world.take_events(), []);
    reject(&mut world, RejectReason::INVALID_FIELD, &bhs);
    assert_eq!(world.ended(), (tag, CommandOutcome::Rejected(RejectReason::INVALID_FIELD)));
    reject(&mut world, RejectReason::INVALID_FIELD, &bhs);
    assert_eq!(world.take_events(), []);
    world.end.engine.release(tag);
    // A rejected abort is one that failed.
    let tag = world.submit(ScsiData::None, 0);
    world.sent();
    let abort = wait(&mut world, 40).expect("aborted");
    reject(&mut world, RejectReason::NOT_SUPPORTED, &abort.encode(0));
    assert_eq!(request(&mut world).function, TaskFunction::LOGICAL_UNIT_RESET);
    assert!(!world.end.engine.never_sent(tag));
    // What is not even told.
    reject(&mut world, RejectReason::PROTOCOL_ERROR, &[1, 2, 3]);
    assert_eq!(
        world.end.engine.fault(),
        Some(&SessionFault::Rejected(RejectReason::PROTOCOL_ERROR))
    );
}

#[test]
fn deadlines_are_told() {
    let mut world = world();
    assert_eq!(world.end.engine.deadline(), Some(Duration::from_secs(5)));
    let tag = world.submit(ScsiData::None, 0);
    for _ in 0..1000 {
        let Some(deadline) = world.end.engine.deadline() else { break };
        world.now = world.now.max(deadline);
        world.tick(0);
        for pdu in world.sent() {
            if pdu.opcode() == Opcode::NOP_OUT {
                pong(&mut world, &pdu.bhs);
            }
        }
    }
    // Following the deadlines alone, a target that never answers a command is given up.
    assert_eq!(world.end.engine.fault(), Some(&SessionFault::Stuck));
    assert!(!world.end.engine.never_sent(tag));
    assert!(world.now < Duration::from_secs(90), "{:?}", world.now);
}
