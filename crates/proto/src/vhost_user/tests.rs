use super::*;
use crate::limits::VHOST_USER_MESSAGE_BYTES_MAX;
use crate::virtio::feature::FeatureBits;

fn header(code: u32, flags: u32, len: u32) -> [u8; Header::BYTES] {
    let mut bytes = [0; Header::BYTES];
    for (at, number) in [code, flags, len].into_iter().enumerate() {
        bytes[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn parse(code: u32, body: &[u8]) -> Result<Request, Violation> {
    let header = Header::parse(header(code, 9, body.len() as u32))?;
    assert!(header.needs_reply);
    Request::parse(&header, body)
}

fn numbers(of: &[u64]) -> Vec<u8> {
    of.iter().flat_map(|number| number.to_le_bytes()).collect()
}

#[test]
fn messages_are_read_as_front_ends_write_them() {
    let region = MemoryRegion { guest: 0x1000, bytes: 0x2000, user: 0x7000, offset: 0x100 };
    let of_region = [0x1000, 0x2000, 0x7000, 0x100];
    let table = [numbers(&[2]), numbers(&of_region), numbers(&of_region)].concat();
    let one = [numbers(&[0]), numbers(&of_region)].concat();
    let config = [&[32, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0][..], &[1]].concat();
    let inflight = [&numbers(&[4096, 0])[..], &[4, 0, 128, 0, 0, 0, 0, 0]].concat();
    let address = VringAddress {
        index: 1,
        logs: true,
        descriptors: 0x10,
        used: 0x20,
        available: 0x30,
        log: 0x40,
    };
    for (code, body, expected) in [
        (code::GET_FEATURES, vec![], Request::GetFeatures),
        (code::SET_FEATURES, numbers(&[1 << 32]), Request::SetFeatures(FeatureBits::VERSION_1)),
        (code::SET_MEM_TABLE, table, Request::SetMemTable(vec![region; 2])),
        (code::ADD_MEM_REG, one.clone(), Request::AddMemReg(region)),
        (code::REM_MEM_REG, one, Request::RemMemReg(region)),
        (
            code::SET_VRING_NUM,
            numbers(&[3 | 256 << 32]),
            Request::SetVringNum(VringState { index: 3, number: 256 }),
        ),
        (
            code::SET_VRING_ADDR,
            numbers(&[1 | 1 << 32, 0x10, 0x20, 0x30, 0x40]),
            Request::SetVringAddr(address),
        ),
        (
            code::SET_VRING_CALL,
            numbers(&[0x102]),
            Request::SetVringCall(VringFile { index: 2, has_file: false }),
        ),
        (code::SET_CONFIG, config, Request::SetConfig { offset: 32, flags: 0, bytes: vec![1] }),
        (
            code::SET_INFLIGHT_FD,
            inflight,
            Request::SetInflightFd(InflightDescription {
                bytes: 4096,
                offset: 0,
                queues: 4,
                queue_size: 128,
            }),
        ),
        (
            code::SET_LOG_BASE,
            numbers(&[8192, 16]),
            Request::SetLogBase(LogDescription { bytes: 8192, offset: 16 }),
        ),
    ] {
        assert_eq!(parse(code, &body), Ok(expected));
    }
}

#[test]
fn messages_that_no_front_end_sends_are_refused() {
    for (flags, len) in [(0, 0), (2, 0), (5, 0), (1, VHOST_USER_MESSAGE_BYTES_MAX as u32)] {
        assert!(Header::parse(header(1, flags, len)).is_err(), "{flags} {len}");
    }
    for (code, body, why) in [
        (code::SET_FEATURES, numbers(&[]), Violation::Length(2)),
        (code::SET_FEATURES, numbers(&[1, 2]), Violation::Length(2)),
        (code::GET_FEATURES, numbers(&[1]), Violation::Length(1)),
        (code::SET_MEM_TABLE, numbers(&[9]), Violation::Value(5)),
        (code::SET_MEM_TABLE, numbers(&[1]), Violation::Length(5)),
        (code::SET_MEM_TABLE, numbers(&[1, 0, 0, 0, 0]), Violation::Value(5)),
        (code::SET_MEM_TABLE, numbers(&[1, u64::MAX, 2, 0, 0]), Violation::Value(5)),
        (code::ADD_MEM_REG, numbers(&[0, 0, 4096, 0, u64::MAX]), Violation::Value(37)),
        (code::SET_VRING_NUM, numbers(&[64]), Violation::Value(8)),
        (code::SET_VRING_KICK, numbers(&[64]), Violation::Value(12)),
        (code::SET_VRING_KICK, numbers(&[0x200]), Violation::Value(12)),
        (code::GET_CONFIG, numbers(&[u64::from(u32::MAX) << 32 | 1, 0]), Violation::Length(24)),
        (code::SET_CONFIG, numbers(&[1 << 32, 0]), Violation::Value(25)),
        (17 + 1000, vec![], Violation::Unsupported(1017)),
    ] {
        let found = parse(code, &body);
        assert!(found == Err(why) || code == code::GET_CONFIG && found.is_err(), "{found:?}");
    }
}

#[test]
fn answers_are_laid_out_as_structures_of_c() {
    let bytes = BackEndReply::Number(7).encode(code::GET_FEATURES);
    assert_eq!(bytes, [&header(1, 5, 8)[..], &numbers(&[7])].concat());
    let base = BackEndReply::Base { index: 2, base: 9 }.encode(code::GET_VRING_BASE);
    assert_eq!(base[12..], [2, 0, 0, 0, 9, 0, 0, 0]);
    let nothing = BackEndReply::Config { offset: 0, flags: 0, bytes: Vec::new() };
    assert_eq!(nothing.encode(code::GET_CONFIG), header(24, 5, 0));
    let some = BackEndReply::Config { offset: 8, flags: 1, bytes: vec![3; 2] };
    let body = [8, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 3, 3];
    assert_eq!(some.encode(code::GET_CONFIG)[12..], body);
    let inflight = InflightDescription { bytes: 1, offset: 2, queues: 3, queue_size: 4 };
    assert_eq!(BackEndReply::Inflight(inflight).encode(code::GET_INFLIGHT_FD).len(), 12 + 24);
    assert_eq!(Header::of_backend(backend_message::CONFIG_CHANGE), header(2, 1, 0));
}
