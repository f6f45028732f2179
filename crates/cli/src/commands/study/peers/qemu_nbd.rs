//! qemu-nbd: NBD, by the block layer of QEMU.

use super::device::PeerDevice;
use super::peer::{DeviceWish, PeerProgram, PeerTarget, StartMethod, TargetPlan, words};
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "qemu-nbd",
    through: Through::Nbd,
    programs: &[QEMU_NBD],
    how: StartMethod::Program(plan),
};

pub const QEMU_NBD: PeerProgram = PeerProgram { name: "qemu-nbd", package: Some("qemu-utils") };

fn plan(wish: &DeviceWish<'_>) -> Result<TargetPlan, String> {
    let null = |bytes: &u64| format!("driver=null-co,size={bytes},read-zeroes=on");
    // A comma in the path of an image would begin an option; with --format it is a plain path.
    Ok(match wish.device {
        PeerDevice::Ram(_) => serving(wish, &["--format=raw", "--cache=writeback", wish.memory]),
        PeerDevice::Null(bytes) => serving(wish, &["--image-opts", &null(bytes)]),
        PeerDevice::File { path, direct: true } => {
            serving(wish, &["--format=raw", "--cache=none", "--aio=io_uring", path])
        }
        PeerDevice::File { path, direct: false } => {
            serving(wish, &["--format=raw", "--cache=writeback", path])
        }
    })
}

/// Returns how to serve a device, which the last arguments name.
pub fn serving(wish: &DeviceWish<'_>, device: &[&str]) -> TargetPlan {
    let (bind, port) =
        (format!("--bind={}", wish.address.ip()), format!("--port={}", wish.address.port()));
    let export = format!("--export-name={}", wish.name);
    let all = ["qemu-nbd", &bind, &port, &export, "--persistent", "--shared=0", "--discard=unmap"];
    let command = words(&[&all[..], device].concat());
    TargetPlan {
        command,
        url: format!("nbd://{}/{}", wish.address, wish.name),
        ..TargetPlan::default()
    }
}
