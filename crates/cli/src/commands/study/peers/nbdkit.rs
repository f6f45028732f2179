//! nbdkit: NBD, with a plugin for each kind of device.

use super::device::PeerDevice;
use super::peer::{DeviceWish, PeerProgram, PeerTarget, StartMethod, TargetPlan, words};
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "nbdkit",
    through: Through::Nbd,
    programs: &[PeerProgram { name: "nbdkit", package: Some("nbdkit") }],
    how: StartMethod::Program(plan),
};

fn plan(wish: &DeviceWish<'_>) -> Result<TargetPlan, String> {
    let plugin = match wish.device {
        PeerDevice::Ram(bytes) => ["memory".to_owned(), format!("size={bytes}")],
        PeerDevice::Null(bytes) => ["null".to_owned(), format!("size={bytes}")],
        PeerDevice::File { direct: true, .. } => {
            return Err(
                "nbdkit reads and writes through the page cache: give the source direct=off"
                    .to_owned(),
            );
        }
        PeerDevice::File { path, .. } => ["file".to_owned(), format!("file={path}")],
    };
    let ip = format!("--ipaddr={}", wish.address.ip());
    let port = format!("--port={}", wish.address.port());
    let mut command = words(&["nbdkit", "--foreground", "--exit-with-parent", &ip, &port]);
    command.extend(plugin);
    // It serves the same device by any name.
    Ok(TargetPlan {
        command,
        url: format!("nbd://{}/{}", wish.address, wish.name),
        ..TargetPlan::default()
    })
}
