//! The bytes of each protocol under a fixed workload in virtual time, compared with
//! `tests/recordings`: a change that is not about a protocol leaves its bytes as they are.
//!
//! Operations run one after the other, so that the order of messages does not depend on how loops
//! batch them. A change that means to alter a protocol writes the recordings again:
//! `WEFT_RECORD=1 cargo test -p weft-endpoint --test endpoint recorded`

use crate::devices::Testing;
use crate::sim::failing::Testbed;
use crate::sim::protocols::Protocol;
use crate::sim::scene::{Setup, options, port};
use crate::sim::tap::{Streams, TAP, tap};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;
use weft_block::{Completion, Op, OpKind, Status, StatusKind};
use weft_endpoint::ConnectOptions;
use weft_io::Segments;
use weft_io::sim::Rng;
use weft_proto::crc32c::crc32c;
use weft_testing::committed;

const SEED: u64 = 50;
const WRITE: OpKind = OpKind::Write { fua: false };
const ZEROES: OpKind = OpKind::WriteZeroes { deallocate: true, fua: false };

/// Sizes of reads and writes in bytes: within a capsule or immediate data, just above, and in
/// several messages.
const SIZES: [usize; 5] = [512, 4096, 8192, 80 << 10, 1 << 20];

/// Runs of the same byte from this length on are shortened.
const RUN: usize = 8;

/// A message with a longer text is shortened to its first bytes, its length and its checksum.
const LINE_CHARS: usize = 1200;

#[test]
fn nvme_tcp_as_recorded() {
    check("nvme-tcp", Protocol::NvmeTcp, false);
}

#[test]
fn nvme_tcp_with_digests_as_recorded() {
    check("nvme-tcp-digests", Protocol::NvmeTcp, true);
}

#[test]
fn iscsi_as_recorded() {
    check("iscsi", Protocol::Iscsi, false);
}

#[test]
fn iscsi_with_digests_as_recorded() {
    check("iscsi-digests", Protocol::Iscsi, true);
}

#[test]
fn nbd_as_recorded() {
    check("nbd", Protocol::Nbd, false);
}

/// # Panics
/// At the first message that differs.
fn check(name: &str, protocol: Protocol, digests: bool) {
    let text = shown(&carried(protocol, digests), protocol, digests);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    committed::check(directory.join(name).with_extension("txt"), &text);
}

/// Everything that connections carry from opening a device until it is closed.
fn carried(protocol: Protocol, digests: bool) -> Streams {
    let disk = Testing::new("ram:16MiB");
    let mut scene = protocol.scene(Setup::new(SEED, disk.clone()));
    let streams = tap(&mut scene);
    let options = ConnectOptions { hdr_digest: digests, data_digest: digests, ..options() };
    let mut stage = Testbed::over(scene, &protocol.url_at(TAP, port().port()), &options);
    work(&mut stage);
    disk.knobs.fail_with(Status::new(StatusKind::Media));
    let status = run(&mut stage, OpKind::Read, 0, 4096, &[]).outcome.status();
    assert_eq!(status.kind, StatusKind::Media);
    stage.hang_up();
    let Testbed { mut scene, device, .. } = stage;
    drop(device);
    scene.settle(Duration::from_secs(60));
    streams.take()
}

/// The operations that succeed, and a comparison that does not.
fn work(stage: &mut Testbed) {
    let mut rng = Rng::new(SEED);
    for (n, bytes) in SIZES.into_iter().enumerate() {
        let mut data = vec![0; bytes];
        rng.fill(&mut data);
        let at = (n as u64) << 21;
        let write = OpKind::Write { fua: n == 1 };
        assert!(run(stage, write, at, bytes, &data).outcome.is_success());
        let read = run(stage, OpKind::Read, at, bytes, &[]);
        let same = read.op.data.iter().flat_map(|segment| segment.to_vec()).eq(data);
        assert!(read.outcome.is_success() && same);
    }
    for (kind, at) in [(OpKind::Flush, 0), (ZEROES, 4096), (OpKind::Discard, 8192)] {
        assert!(run(stage, kind, at, 4096, &[]).outcome.is_success(), "{kind:?}");
    }
    if stage.device.features().compare {
        let mut data = vec![0; 1024];
        data[512..].fill(1);
        let swap = OpKind::CompareAndWrite { fua: false };
        assert!(run(stage, WRITE, 0, 512, &data[..512]).outcome.is_success());
        assert!(run(stage, swap, 0, 512, &data).outcome.is_success());
        let status = run(stage, swap, 0, 512, &data).outcome.status();
        assert_eq!(status.kind, StatusKind::CompareFailed);
    }
}

/// Runs an operation at a place in bytes, with data if it has any.
fn run(stage: &mut Testbed, kind: OpKind, at: u64, bytes: usize, data: &[u8]) -> Completion {
    let (on, block) = (stage.scene.io_loop(0), stage.device.geometry().block_bytes);
    let blocks = if kind == OpKind::Flush { 0 } else { bytes as u32 / block };
    let mut segments = Segments::new();
    if kind.data_factor() > 0 {
        let mut memory = on.pool().take(bytes * kind.data_factor()).unwrap();
        memory[..data.len()].copy_from_slice(data);
        segments.push(memory.into());
    }
    stage.submit(Op::new(kind, at / u64::from(block), blocks, 1, segments));
    stage.answer()
}

/// The text of a recording.
fn shown(streams: &Streams, protocol: Protocol, digests: bool) -> String {
    let mut text = String::from(
        "# Bytes on the connections of weft's initiator (>) and target (<), a message a line.\n\
         # XX*N: N equal bytes. A long message: its first bytes, its length, its CRC32C.\n\
         # The version of weft, and a digest over it, is masked with the character #.\n",
    );
    let sides = streams.iter().flatten().enumerate();
    for (n, bytes) in sides {
        let (connection, from) = (n / 2, n % 2);
        let mark = ['>', '<'][from];
        let _ = writeln!(text, "\nconnection {connection} {mark} {} bytes", bytes.len());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let first = rest.len() == bytes.len();
            let len = match protocol {
                Protocol::NvmeTcp => (number(rest, 4, 4) as u32).swap_bytes() as usize,
                Protocol::Iscsi => iscsi_bytes(rest, digests),
                Protocol::Nbd => nbd_bytes(rest, from == 1, first),
            };
            let (message, after) = rest.split_at(len.clamp(1, rest.len()));
            let _ = writeln!(text, "{mark} {}", line(message, digests));
            rest = after;
        }
    }
    text
}

/// A number in network byte order; 0 where it is cut off.
fn number(bytes: &[u8], at: usize, len: usize) -> u64 {
    let bytes = bytes.get(at..at + len).unwrap_or_default();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Bytes of a PDU (RFC 7143 §11.2). Those of the login have no digests.
fn iscsi_bytes(pdu: &[u8], digests: bool) -> usize {
    let (ahs, data) = (number(pdu, 4, 1) as usize * 4, number(pdu, 5, 3) as usize);
    let is_login = matches!(pdu[0] & 0x3f, 0x03 | 0x23);
    let digest = if digests && !is_login { 4 } else { 0 };
    let of_data = if data > 0 { data.next_multiple_of(4) + digest } else { 0 };
    48 + ahs + digest + of_data
}

/// Bytes of a message of NBD's newstyle negotiation or of its transmission with structured or
/// extended replies.
fn nbd_bytes(message: &[u8], is_server: bool, is_first: bool) -> usize {
    let data = |at, len| number(message, at, len) as usize;
    let written = |at, len| if data(6, 2) == 1 { data(at, len) } else { 0 };
    match (data(0, 4), is_server) {
        (_, true) if is_first => 18,
        (_, false) if is_first => 4,
        (0x4948_4156, _) => 16 + data(12, 4),
        (0x0003_e889, _) => 20 + data(16, 4),
        (0x2560_9513, _) => 28 + written(24, 4),
        (0x21e4_1c71, _) => 32 + written(24, 8),
        (0x6744_6698, _) => 16,
        (0x668e_33ef, _) => 20 + data(16, 4),
        (0x6e8a_278c, _) => 32 + data(24, 8),
        _ => message.len(),
    }
}

/// A message as text.
fn line(message: &[u8], digests: bool) -> String {
    let message = masked(message, digests);
    let mut text = String::new();
    for run in message.chunk_by(|a, b| a == b) {
        if run.len() < RUN {
            text.extend(run.iter().map(|byte| format!("{byte:02x}")));
        } else {
            let _ = write!(text, " {:02x}*{} ", run[0], run.len());
        }
    }
    if text.len() > LINE_CHARS {
        text.truncate(200);
        let _ = write!(text, "... {} bytes, CRC32C {:08x}", message.len(), crc32c(&message));
    }
    text.trim_end().to_owned()
}

/// A message without the version of the program, as NVMe pads it and SCSI cuts it off.
fn masked(message: &[u8], digests: bool) -> Vec<u8> {
    let (mut message, version) = (message.to_vec(), env!("CARGO_PKG_VERSION"));
    let of_nvme = ("weft".to_owned() + &" ".repeat(36), format!("{version:<8}"));
    let of_scsi = (format!("{:16}", "virtual disk"), format!("{version:.4}"));
    for (before, revision) in [of_nvme, of_scsi] {
        let text = before.clone() + &revision;
        if let Some(at) = message.windows(text.len()).position(|found| found == text.as_bytes()) {
            message[at + before.len()..at + text.len()].fill(b'#');
            let end = message.len();
            message[end - if digests { 4 } else { 0 }..].fill(b'#');
        }
    }
    message
}
