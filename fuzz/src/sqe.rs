//! Commands of which every part is likely to be right by itself, so that the fuzzer gets behind the
//! first checks.

use weft_proto::nvme::sqe::{Sgl, Sqe};
use weft_proto::nvme::types::Nsid;

use crate::Input;

/// Opcodes of admin commands that controllers of a fabric know, and two that they do not.
const ADMIN: [u8; 12] = [0x02, 0x02, 0x06, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x18, 0x7f, 0x00, 0x80];

/// Opcodes of the NVM command set, and two that are not in it.
const NVM: [u8; 9] = [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x09, 0x7f, 0x84];

/// Values of CC: enable, disable, the two shutdowns.
const CC: [u32; 5] = [0x0046_0001, 0, 0x0046_4001, 0x0046_8001, 0x0046_0000];

/// A command without data pointer.
fn any(input: &mut Input, opcodes: &[u8]) -> Sqe {
    if input.one_in(32) {
        return Sqe(input.array());
    }
    let opcode = input.pick(opcodes);
    let nsid = if input.one_in(8) {
        Nsid(input.u32())
    } else {
        input.pick(&[Nsid(1), Nsid(2), Nsid(0), Nsid(3), Nsid::ALL])
    };
    let mut sqe = Sqe::new(opcode, nsid);
    sqe.0[2] = input.byte();
    if input.one_in(8) {
        sqe.0[1] = input.byte();
    }
    sqe
}

/// The data pointer that fits `bytes`, nearly always.
fn point(input: &mut Input, sqe: &mut Sqe, bytes: u32) {
    let length = if input.one_in(8) { input.u32() } else { bytes };
    let identifier = input.pick(&[Sgl::TRANSPORT, Sgl::TRANSPORT, Sgl::TRANSPORT, Sgl::IN_CAPSULE]);
    sqe.set_sgl(Sgl { address: 0, length, identifier });
}

/// A command for an admin queue.
pub fn admin(input: &mut Input) -> Sqe {
    let mut sqe = any(input, &ADMIN);
    if sqe.opcode() == 0x7f {
        return fabrics(input, sqe);
    }
    for dword in 10..16 {
        let value = if input.one_in(16) { input.u32() } else { u32::from(input.byte()) };
        sqe.set_dword(dword, value);
    }
    let dwords = input.pick(&[1023, 0, 127, 511]);
    let is_log = sqe.opcode() == 0x02;
    if is_log {
        sqe.set_dword(10, sqe.dword(10) & 0xffff | dwords << 16);
    }
    point(input, &mut sqe, if is_log { (dwords + 1) * 4 } else { 4096 });
    sqe
}

fn fabrics(input: &mut Input, mut sqe: Sqe) -> Sqe {
    sqe.0[4] = input.pick(&[0, 4, 4, 1, 5, 8]);
    sqe.0[40] = input.pick(&[0, 0, 1, 2]);
    sqe.set_dword(11, input.pick(&[0x14, 0x14, 0x00, 0x08, 0x1c, 0x20, 0x68, 0x24]));
    let value = if input.one_in(8) { input.u32() } else { input.pick(&CC) };
    sqe.set_dword(12, value);
    sqe
}

/// A command for an I/O queue of namespaces with blocks of 512 bytes.
pub fn nvm(input: &mut Input) -> Sqe {
    let mut sqe = any(input, &NVM);
    let lba = if input.one_in(8) { input.u64() } else { input.below(2100) as u64 };
    sqe.set_dword(10, lba as u32);
    sqe.set_dword(11, (lba >> 32) as u32);
    let blocks = if input.one_in(8) { u32::from(input.u16()) } else { input.below(16) as u32 };
    sqe.set_dword(12, blocks | if input.one_in(4) { u32::from(input.u16()) << 16 } else { 0 });
    let mut bytes = (blocks + 1) * 512;
    if sqe.opcode() == 0x09 {
        sqe.set_dword(10, input.below(20) as u32);
        sqe.set_dword(11, 4);
        bytes = 4096;
    }
    point(input, &mut sqe, bytes);
    sqe
}
