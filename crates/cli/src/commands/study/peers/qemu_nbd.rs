//! qemu-nbd: NBD, by the block layer of QEMU.

use super::device::Device;
use super::peer::{Peer, Plan, Program, Wish, words};
use weft_bench::suite::Through;

pub const PEER: Peer = Peer {
    name: "qemu-nbd",
    through: Through::Nbd,
    programs: &[Program { name: "qemu-nbd", package: Some("qemu-utils") }],
    plan,
};

fn plan(wish: &Wish<'_>) -> Result<Plan, String> {
    let (bind, port) =
        (format!("--bind={}", wish.address.ip()), format!("--port={}", wish.address.port()));
    let export = format!("--export-name={}", wish.name);
    let mut command = words(&[
        "qemu-nbd",
        &bind,
        &port,
        &export,
        "--persistent",
        "--shared=0",
        "--discard=unmap",
    ]);
    let null = |bytes: &u64| format!("driver=null-co,size={bytes},read-zeroes=on");
    // A comma in the path of an image would begin an option; with --format it is a plain path.
    command.extend(match wish.device {
        Device::Ram(_) => words(&["--format=raw", "--cache=writeback", wish.memory]),
        Device::Null(bytes) => words(&["--image-opts", &null(bytes)]),
        Device::File { path, direct: true } => {
            words(&["--format=raw", "--cache=none", "--aio=io_uring", path])
        }
        Device::File { path, direct: false } => words(&["--format=raw", "--cache=writeback", path]),
    });
    Ok(Plan { command, url: format!("nbd://{}/{}", wish.address, wish.name), ..Plan::default() })
}
