//! The stream cut at every position: the result does not depend on how the bytes arrive.

use crate::iscsi_target::world::*;
use weft_proto::iscsi::digest::Digests;
use weft_proto::iscsi::pdu::*;
use weft_proto::iscsi::target::{TargetEvent, TargetResponse};

/// A session's bytes behind login: a read, a write with data of every kind, a ping, a text, a
/// function, a logout.
fn stream(world: &mut World) -> Vec<u8> {
    let mut wire = Vec::new();
    let read = world.scsi(READ, 512);
    wire.extend(world.bytes(read.encode(0), &[]));
    let write = world.scsi(WRITE_MORE, 901);
    wire.extend(world.bytes(write.encode(301), &[3; 301]));
    let rest =
        DataOut { flags: DataOutFlags::FINAL, task: write.task, offset: 301, ..DataOut::default() };
    wire.extend(world.bytes(rest.encode(600), &[4; 600]));
    let ping = NopOut { immediate: true, task: TaskTag(1), ..NopOut::default() };
    wire.extend(world.bytes(ping.encode(3), b"png"));
    let text = TextRequest {
        immediate: true,
        flags: TextFlags::FINAL,
        task: TaskTag(2),
        ..TextRequest::default()
    };
    wire.extend(world.bytes(text.encode(13), b"SendTargets=\0"));
    let reset = TaskRequest {
        immediate: true,
        function: TaskFunction::LOGICAL_UNIT_RESET,
        task: TaskTag(3),
        ..TaskRequest::default()
    };
    wire.extend(world.bytes(reset.encode(0), &[]));
    let logout =
        LogoutRequest { immediate: true, task: TaskTag(4), cid: 1, ..LogoutRequest::default() };
    wire.extend(world.bytes(logout.encode(0), &[]));
    wire
}

/// Plays the layer above until nothing more happens.
fn serve(world: &mut World) {
    loop {
        world.go_on();
        if world.events.is_empty() {
            return;
        }
        for event in std::mem::take(&mut world.events) {
            match event {
                TargetEvent::Command { tag, command } if command.flags.has(CommandFlags::WRITE) => {
                    world.end.memory(tag, command.expected_bytes as usize);
                    world.end.engine.fetch(tag, command.expected_bytes);
                }
                TargetEvent::Command { tag, command } => {
                    world.good(tag, &[9; 512], command.expected_bytes)
                }
                TargetEvent::DataArrived { tag } => {
                    assert_eq!(
                        world.end.memory[tag.index()],
                        [vec![3; 301], vec![4; 600]].concat()
                    );
                    world.end.engine.complete(
                        tag,
                        &TargetResponse { total_bytes: 901, ..TargetResponse::GOOD },
                    );
                }
                TargetEvent::Task { tag, .. } => {
                    world.end.engine.complete_task(tag, TaskResult::COMPLETE)
                }
                TargetEvent::Logout => world.end.engine.logged_out(),
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Output of the target, by kind.
fn answers(world: &mut World) -> Vec<(Opcode, Vec<u8>)> {
    let mut answers: Vec<_> =
        std::iter::from_fn(|| world.try_pdu()).map(|pdu| (pdu.opcode(), pdu.data)).collect();
    answers.sort_by_key(|(opcode, _)| opcode.0);
    answers
}

#[test]
fn every_cut_comes_to_the_same() {
    for keys in ["InitialR2T=No", "InitialR2T=No HeaderDigest=CRC32C DataDigest=CRC32C"] {
        let fresh = || World::logged_in(config(), keys);
        let mut world = fresh();
        let wire = stream(&mut world);
        world.end.stage(&wire);
        serve(&mut world);
        let expected = answers(&mut world);
        let kinds: Vec<_> = expected.iter().map(|(opcode, _)| *opcode).collect();
        let all = [
            Opcode::NOP_IN,
            Opcode::SCSI_RESPONSE,
            Opcode::TASK_RESPONSE,
            Opcode::TEXT_RESPONSE,
            Opcode::DATA_IN,
            Opcode::LOGOUT_RESPONSE,
        ];
        assert_eq!(kinds, all);
        for cut in 0..wire.len() {
            let mut world = fresh();
            stream(&mut world);
            for piece in [&wire[..cut], &wire[cut..]] {
                world.end.stage(piece);
                serve(&mut world);
            }
            assert_eq!(answers(&mut world), expected, "cut at {cut}");
        }
    }
}

#[test]
fn single_bytes_come_to_the_same() {
    let mut world =
        World::logged_in(config(), "InitialR2T=No HeaderDigest=CRC32C DataDigest=CRC32C");
    assert_eq!(world.digests, Digests::BOTH);
    let wire = stream(&mut world);
    for byte in &wire {
        world.end.stage(&[*byte]);
        serve(&mut world);
    }
    assert_eq!(answers(&mut world).len(), 6);
}
