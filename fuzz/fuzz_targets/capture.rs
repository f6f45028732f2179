//! Bytes of both ends of a connection, cut and lost anywhere, through what blanks secrets in
//! captures: no byte is added.

use weft_proto::capture::{CaptureBytes, End, Protocol, Redactor};

/// The first byte tells the protocol; then come steps: what happens, a length, and bytes.
pub fn run(bytes: &[u8]) {
    let Some((&first, mut rest)) = bytes.split_first() else { return };
    let protocol = match first % 3 {
        0 => Protocol::NvmeTcp,
        1 => Protocol::Iscsi,
        _ => Protocol::Nbd,
    };
    let mut redactor = Redactor::new(protocol, first & 0x80 != 0);
    let (mut given, mut shown) = (0, 0);
    while let &[step, length, ref behind @ ..] = rest {
        let (now, later) = behind.split_at(usize::from(length).min(behind.len()));
        rest = later;
        let from = if step & 1 == 0 { End::Host } else { End::Target };
        if step >= 0xf0 {
            redactor.lose(from);
        }
        let mut out = CaptureBytes::default();
        redactor.pass(from, now, &mut out);
        given += now.len() as u64;
        shown += out.bytes.len() as u64 + out.withheld;
        assert!(shown <= given, "no byte is added");
    }
    let _ = redactor.host();
}
