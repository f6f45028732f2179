//! Requests and replies, in all three forms.

use crate::nbd::negotiation::request;
use crate::nbd::pair::{DISK_BYTES, Pair, exports};
use weft_proto::nbd::code::{CommandCode, CommandFlags, ErrorCode, TransmissionFlags};
use weft_proto::nbd::server::CommandKind;
use weft_proto::nbd::{ClientConfig, Form, ServerConfig};

const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

pub fn ready(form: Form) -> Pair {
    let mut pair = Pair::new(
        ClientConfig { form, ..ClientConfig::new("second") },
        ServerConfig::new(exports()),
    );
    pair.run();
    assert!(pair.ready && pair.client.engine.form() == form);
    pair
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

#[test]
fn data_comes_back_in_every_form() {
    for form in FORMS {
        let mut pair = ready(form);
        pair.write(4096, pattern(65_536));
        assert!(pair.read(4096, 65_536) == pattern(65_536));
        assert!(pair.read(0, 4096) == vec![0; 4096]);
        assert_eq!(
            pair.target.log,
            [CommandKind::Write { fua: true }, CommandKind::Read, CommandKind::Read]
        );
        assert_eq!(
            (pair.client.engine.outstanding(), pair.target.end.engine.outstanding()),
            (0, 0)
        );
    }
}

/// QEMU 10 sets no `PAYLOAD_LEN`.
#[test]
fn an_extended_write_has_a_payload_also_without_the_flag_that_says_so() {
    let mut pair = ready(Form::Extended);
    for (flags, at) in [(CommandFlags::default(), 1u64), (CommandFlags::PAYLOAD_LEN, 2)] {
        let mut bytes = request(true, CommandCode::WRITE, at, at * 512, 512);
        bytes[4..6].copy_from_slice(&flags.0.to_be_bytes());
        pair.target.receive(&[&bytes[..], &[at as u8; 512]].concat());
        let reply = pair.target.transmit();
        assert_eq!(reply[8..16], at.to_be_bytes());
        assert_eq!(reply[6..8], [0, 0], "a chunk of no data: success");
    }
    assert_eq!(pair.target.log, [CommandKind::Write { fua: false }; 2]);
    assert!(pair.read(512, 1024) == [[1; 512], [2; 512]].concat());
}

#[test]
fn flags_reach_the_server() {
    for form in FORMS {
        let mut pair = ready(form);
        let none = CommandFlags::default();
        let cases = [
            (CommandCode::FLUSH, none, CommandKind::Flush),
            (CommandCode::TRIM, CommandFlags::FUA, CommandKind::Trim { fua: true }),
            (
                CommandCode::WRITE_ZEROES,
                none,
                CommandKind::WriteZeroes { may_free: true, fua: false },
            ),
            (
                CommandCode::WRITE_ZEROES,
                CommandFlags::NO_HOLE.with(CommandFlags::FUA),
                CommandKind::WriteZeroes { may_free: false, fua: true },
            ),
        ];
        for (code, flags, kind) in cases {
            let length = if code == CommandCode::FLUSH { 0 } else { DISK_BYTES as u64 };
            assert_eq!(pair.command(code, flags, 0, length, Vec::new()).0, ErrorCode::SUCCESS);
            assert_eq!(pair.target.log.pop(), Some(kind));
        }
    }
}

#[test]
fn rules_are_kept_by_the_server() {
    let end = DISK_BYTES as u64;
    let none = CommandFlags::default();
    let cases = [
        ("unaligned read", CommandCode::READ, none, 1, 512, ErrorCode::EINVAL),
        ("read beyond the end", CommandCode::READ, none, end, 512, ErrorCode::EINVAL),
        (
            "read around the end of numbers",
            CommandCode::READ,
            none,
            u64::MAX - 511,
            512,
            ErrorCode::EINVAL,
        ),
        ("nothing to read", CommandCode::READ, none, 0, 0, ErrorCode::EINVAL),
        ("long read", CommandCode::READ, none, 0, 131_072, ErrorCode::EOVERFLOW),
        ("long write", CommandCode::WRITE, none, 0, 131_072, ErrorCode::EINVAL),
        ("write beyond the end", CommandCode::WRITE, none, end - 512, 1024, ErrorCode::ENOSPC),
        ("zeroes beyond the end", CommandCode::WRITE_ZEROES, none, end, 512, ErrorCode::ENOSPC),
        ("trim beyond the end", CommandCode::TRIM, none, end, 512, ErrorCode::EINVAL),
        (
            "fast zeroes",
            CommandCode::WRITE_ZEROES,
            CommandFlags::FAST_ZERO,
            0,
            512,
            ErrorCode::ENOTSUP,
        ),
        (
            "flag of another command",
            CommandCode::READ,
            CommandFlags::NO_HOLE,
            0,
            512,
            ErrorCode::EINVAL,
        ),
        ("unknown flag", CommandCode::WRITE, CommandFlags(1 << 9), 0, 512, ErrorCode::EINVAL),
        ("flush of a range", CommandCode::FLUSH, none, 512, 0, ErrorCode::EINVAL),
        ("cache", CommandCode::CACHE, none, 0, 512, ErrorCode::EINVAL),
        ("unknown command", CommandCode(99), none, 0, 512, ErrorCode::EINVAL),
        ("status beyond the end", CommandCode::BLOCK_STATUS, none, end, 512, ErrorCode::EINVAL),
    ];
    for form in FORMS {
        let mut pair = ready(form);
        for (name, code, flags, offset, length, expected) in cases {
            let data =
                if code == CommandCode::WRITE { vec![1; length as usize] } else { Vec::new() };
            assert_eq!(
                pair.command(code, flags, offset, length, data).0,
                expected,
                "{name}, {form:?}"
            );
        }
        assert!(pair.target.log.is_empty(), "{:?}", pair.target.log);
        pair.write(0, pattern(512));
    }
}

#[test]
fn an_export_for_reading_is_not_written_to() {
    let mut pair = Pair::plain("");
    pair.target.info.flags = pair.target.info.flags.with(TransmissionFlags::READ_ONLY);
    pair.run();
    for code in [CommandCode::WRITE, CommandCode::TRIM, CommandCode::WRITE_ZEROES] {
        let data = if code == CommandCode::WRITE { vec![1; 512] } else { Vec::new() };
        assert_eq!(pair.command(code, CommandFlags::default(), 0, 512, data).0, ErrorCode::EPERM);
    }
    assert!(pair.target.log.is_empty());
    pair.read(0, 512);
}

#[test]
fn answers_come_in_any_order_and_slots_have_an_end() {
    let server = ServerConfig { requests_max: 4, ..ServerConfig::new(exports()) };
    let mut pair = Pair::new(ClientConfig { requests_max: 8, ..ClientConfig::new("") }, server);
    pair.run();
    pair.target.hold = true;
    let tags: Vec<_> = (0..8)
        .map(|n| {
            pair.submit(CommandCode::READ, CommandFlags::default(), n * 512, 512, vec![0xee; 512])
        })
        .collect();
    pair.run();
    assert!(pair.target.full && pair.target.held.len() == 4 && pair.responses.is_empty());
    pair.target.held.reverse();
    pair.target.complete_held();
    pair.run();
    assert_eq!(
        pair.responses.iter().map(|(tag, _)| *tag).collect::<Vec<_>>(),
        [tags[3], tags[2], tags[1], tags[0]]
    );
    pair.target.resume();
    pair.run();
    assert_eq!(pair.responses.len(), 8);
    for (tag, error) in core::mem::take(&mut pair.responses) {
        assert_eq!(error, ErrorCode::SUCCESS);
        pair.client.engine.release(tag);
    }
    assert_eq!(pair.client.engine.outstanding(), 0);
}

#[test]
fn leave_is_taken_behind_what_was_submitted() {
    for form in FORMS {
        let mut pair = ready(form);
        pair.submit(CommandCode::FLUSH, CommandFlags::default(), 0, 0, Vec::new());
        pair.client.engine.disconnect();
        pair.run();
        assert!(pair.target.left);
        assert_eq!(pair.target.log, [CommandKind::Flush]);
        assert_eq!(pair.target.end.engine.violation(), None);
    }
}

#[test]
fn extents_are_told_where_the_form_can() {
    for form in FORMS {
        let mut pair = ready(form);
        let tells = form != Form::Simple;
        assert_eq!(pair.client.engine.tells_extents(), tells);
        let none = CommandFlags::default();
        let (error, _) = pair.command(CommandCode::BLOCK_STATUS, none, 4096, 8192, Vec::new());
        let expected = if tells { ErrorCode::SUCCESS } else { ErrorCode::EINVAL };
        assert_eq!(error, expected, "{form:?}");
        assert_eq!(pair.extents, [(8192, false)][..usize::from(tells)]);
        pair.write(0, pattern(512));
    }
}
