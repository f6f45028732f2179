//! nbdkit: NBD, with a plugin for each kind of device.

use super::device::Device;
use super::peer::{How, Peer, Plan, Program, Wish, words};
use weft_bench::suite::Through;

pub const PEER: Peer = Peer {
    name: "nbdkit",
    through: Through::Nbd,
    programs: &[Program { name: "nbdkit", package: Some("nbdkit") }],
    how: How::Program(plan),
};

fn plan(wish: &Wish<'_>) -> Result<Plan, String> {
    let plugin = match wish.device {
        Device::Ram(bytes) => ["memory".to_owned(), format!("size={bytes}")],
        Device::Null(bytes) => ["null".to_owned(), format!("size={bytes}")],
        Device::File { direct: true, .. } => {
            return Err(
                "nbdkit reads and writes through the page cache: give the source direct=off"
                    .to_owned(),
            );
        }
        Device::File { path, .. } => ["file".to_owned(), format!("file={path}")],
    };
    let ip = format!("--ipaddr={}", wish.address.ip());
    let port = format!("--port={}", wish.address.port());
    let mut command = words(&["nbdkit", "--foreground", "--exit-with-parent", &ip, &port]);
    command.extend(plugin);
    // It serves the same device by any name.
    Ok(Plan { command, url: format!("nbd://{}/{}", wish.address, wish.name), ..Plan::default() })
}
