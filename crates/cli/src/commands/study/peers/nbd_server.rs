//! nbd-server, the reference implementation of NBD. It has a process for each connection.

use super::device::Device;
use super::peer::{How, Peer, Plan, Program, Wish, words};
use weft_bench::suite::Through;

pub const PEER: Peer = Peer {
    name: "nbd-server",
    through: Through::Nbd,
    programs: &[Program { name: "nbd-server", package: Some("nbd-server") }],
    how: How::Program(plan),
};

fn plan(wish: &Wish<'_>) -> Result<Plan, String> {
    let path = match wish.device {
        Device::Ram(_) => wish.memory,
        Device::Null(_) => return Err("nbd-server has no null device".to_owned()),
        Device::File { direct: true, .. } => {
            return Err(
                "nbd-server reads and writes through the page cache: give the source direct=off"
                    .to_owned(),
            );
        }
        Device::File { path, .. }
            if path.contains(|letter: char| letter.is_control() || letter == '%') =>
        {
            return Err("nbd-server takes no path with a per cent sign or a line end".to_owned());
        }
        Device::File { path, .. } => path,
    };
    let (ip, port, name) = (wish.address.ip(), wish.address.port(), wish.name);
    let configuration =
        format!("[generic]\nlistenaddr = {ip}\nport = {port}\n[{name}]\nexportname = {path}\n");
    let file = format!("{}/config", wish.directory);
    let pid = format!("{}/pid", wish.directory);
    Ok(Plan {
        command: words(&["nbd-server", "--config-file", &file, "--pid-file", &pid]),
        files: vec![("config", configuration)],
        url: format!("nbd://{}/{name}", wish.address),
        forks: true,
        ..Plan::default()
    })
}
