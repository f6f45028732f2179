//! nbd-server, the reference implementation of NBD. It has a process for each connection.

use super::device::PeerDevice;
use super::peer::{DeviceWish, PeerProgram, PeerTarget, StartMethod, TargetPlan, words};
use weft_bench::suite::Through;

pub const PEER: PeerTarget = PeerTarget {
    name: "nbd-server",
    through: Through::Nbd,
    programs: &[PeerProgram { name: "nbd-server", package: Some("nbd-server") }],
    how: StartMethod::Program(plan),
};

fn plan(wish: &DeviceWish<'_>) -> Result<TargetPlan, String> {
    let path = match wish.device {
        PeerDevice::Ram(_) => wish.memory,
        PeerDevice::Null(_) => return Err("nbd-server has no null device".to_owned()),
        PeerDevice::File { direct: true, .. } => {
            return Err(
                "nbd-server reads and writes through the page cache: give the source direct=off"
                    .to_owned(),
            );
        }
        PeerDevice::File { path, .. }
            if path.contains(|letter: char| letter.is_control() || letter == '%') =>
        {
            return Err("nbd-server takes no path with a per cent sign or a line end".to_owned());
        }
        PeerDevice::File { path, .. } => path,
    };
    let (ip, port, name) = (wish.address.ip(), wish.address.port(), wish.name);
    let configuration =
        format!("[generic]\nlistenaddr = {ip}\nport = {port}\n[{name}]\nexportname = {path}\n");
    let file = format!("{}/config", wish.directory);
    let pid = format!("{}/pid", wish.directory);
    Ok(TargetPlan {
        command: words(&["nbd-server", "--config-file", &file, "--pid-file", &pid]),
        files: vec![("config", configuration)],
        url: format!("nbd://{}/{name}", wish.address),
        forks: true,
        ..TargetPlan::default()
    })
}
