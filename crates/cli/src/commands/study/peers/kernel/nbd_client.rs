//! The kernel's NBD client, which nbd-client connects.

use super::super::peer::{PeerProgram, words};
use super::initiator::{KernelInitiator, Remote, appeared, place};
use super::session::KernelGroup;
use super::steps::KernelSteps;
use crate::commands::internal::study_kernel::step::KernelStep;
use std::path::Path;
use weft_bench::suite::Through;
use weft_endpoint::url::nbd::{NbdPlace, NbdUrl};
use weft_server::attach::run::find_free_nbd;

pub const INITIATOR: KernelInitiator = KernelInitiator {
    name: "nbd-client",
    through: Through::Nbd,
    programs: &[
        PeerProgram { name: "modprobe", package: Some("kmod") },
        PeerProgram { name: "rmmod", package: Some("kmod") },
        PeerProgram { name: "nbd-client", package: Some("nbd-client") },
    ],
    modules: &["nbd"],
    is_optional: true,
    refusal: |_| None,
    attach,
};

/// The kernel's list of disks.
const DISKS: &str = "/sys/block";

fn attach(group: &KernelGroup, remote: &Remote<'_>) -> Result<String, String> {
    let url = NbdUrl::parse(remote.url).map_err(|e| e.to_string())?;
    let NbdPlace::Tcp(address) = &url.place else {
        return Err(format!("{} has no address", remote.url));
    };
    let address = place(address)?;
    group.perform(KernelSteps::default().load("nbd", &[]).into_inner())?;
    let device = find_free_nbd().map_err(|e| e.to_string())?;
    // Some servers have one connection for each client.
    let several = group.perform(vec![client(address, &url.export, &device, remote.queues)]);
    if several.is_err() {
        group.perform(vec![client(address, &url.export, &device, 1)])?;
    }
    let name = device.trim_start_matches("/dev/").to_owned();
    let place = Path::new(DISKS).join(&name);
    let is_there = || std::fs::read_to_string(place.join("size")).is_ok_and(|it| it.trim() != "0");
    appeared(&device, || is_there().then(|| name.clone()))
}

/// The command that connects. It takes the size of a block in front of the others only.
fn client(at: std::net::SocketAddr, export: &str, device: &str, queues: u16) -> KernelStep {
    let (ip, port) = (at.ip().to_string(), at.port().to_string());
    let mut command = words(&["nbd-client", "-b", "512", &ip, &port, device, "-N", export]);
    if queues > 1 {
        command.extend(words(&["-C", &queues.to_string()]));
    }
    // A client that failed has no device, and another one may have it by now.
    KernelStep::Run { command, undo: words(&["nbd-client", "-d", device]), in_part: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_asked_for_several_connections() {
        let at = "127.0.0.1:10809".parse().unwrap();
        let line = |queues| client(at, "x", "/dev/nbd3", queues).to_string();
        assert_eq!(line(2), "nbd-client -b 512 127.0.0.1 10809 /dev/nbd3 -N x -C 2");
        assert_eq!(line(1), "nbd-client -b 512 127.0.0.1 10809 /dev/nbd3 -N x");
    }
}
