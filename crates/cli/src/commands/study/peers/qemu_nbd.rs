//! qemu-nbd: NBD, by the block layer of QEMU.

use super::device::Device;
use super::peer::{How, Peer, Plan, Program, Wish, words};
use weft_bench::suite::Through;

pub const PEER: Peer = Peer {
    name: "qemu-nbd",
    through: Through::Nbd,
    programs: &[QEMU_NBD],
    how: How::Program(plan),
};

pub const QEMU_NBD: Program = Program { name: "qemu-nbd", package: Some("qemu-utils") };

fn plan(wish: &Wish<'_>) -> Result<Plan, String> {
    let null = |bytes: &u64| format!("driver=null-co,size={bytes},read-zeroes=on");
    // A comma in the path of an image would begin an option; with --format it is a plain path.
    Ok(match wish.device {
        Device::Ram(_) => serving(wish, &["--format=raw", "--cache=writeback", wish.memory]),
        Device::Null(bytes) => serving(wish, &["--image-opts", &null(bytes)]),
        Device::File { path, direct: true } => {
            serving(wish, &["--format=raw", "--cache=none", "--aio=io_uring", path])
        }
        Device::File { path, direct: false } => {
            serving(wish, &["--format=raw", "--cache=writeback", path])
        }
    })
}

/// Returns how to serve a device, which the last arguments name.
pub fn serving(wish: &Wish<'_>, device: &[&str]) -> Plan {
    let (bind, port) =
        (format!("--bind={}", wish.address.ip()), format!("--port={}", wish.address.port()));
    let export = format!("--export-name={}", wish.name);
    let all = ["qemu-nbd", &bind, &port, &export, "--persistent", "--shared=0", "--discard=unmap"];
    let command = words(&[&all[..], device].concat());
    Plan { command, url: format!("nbd://{}/{}", wish.address, wish.name), ..Plan::default() }
}
