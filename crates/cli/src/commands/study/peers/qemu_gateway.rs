//! QEMU's block layer as an initiator, as it is for a guest's disk: qemu-nbd, whose device is that
//! of a target in the network.

use super::peer::{NbdGateway, PeerProgram};
use super::qemu_nbd::{self, QEMU_NBD};
use crate::commands::study::program;
use crate::limits::PEER_START_S;
use std::time::Duration;
use weft_bench::suite::Through;
use weft_endpoint::url::nbd::{NbdPlace, NbdUrl};
use weft_endpoint::url::{ISCSI_PORT, IscsiUrl};
use weft_server::programs;

pub const ISCSI: NbdGateway = NbdGateway {
    name: "hypervisor-qemu-iscsi",
    own: "hypervisor-iscsi",
    behind: Through::Iscsi,
    programs: PROGRAMS,
    lacks: || lacks("iscsi"),
    plan: |wish, far| Ok(qemu_nbd::serving(wish, &["--cache=none", "--image-opts", &iscsi(far)?])),
};

pub const NBD: NbdGateway = NbdGateway {
    name: "hypervisor-qemu-nbd",
    own: "hypervisor-nbd",
    behind: Through::Nbd,
    programs: PROGRAMS,
    lacks: || lacks("nbd"),
    plan: |wish, far| Ok(qemu_nbd::serving(wish, &["--cache=none", "--image-opts", &nbd(far)?])),
};

const PROGRAMS: &[PeerProgram] =
    &[QEMU_NBD, PeerProgram { name: "qemu-img", package: Some("qemu-utils") }];

/// Returns why QEMU lacks a driver. Some are in a package of their own.
fn lacks(driver: &str) -> Option<String> {
    let mut command = programs::system("qemu-img");
    command.args(["info", "--image-opts", &format!("driver={driver}")]);
    // It always fails, as there is no address.
    let said = program::output("qemu-img", command, Duration::from_secs(PEER_START_S)).err()?;
    said.contains("Unknown driver")
        .then(|| format!("QEMU has no driver for {driver}: `apt-get install qemu-block-extra`"))
}

fn iscsi(far: &str) -> Result<String, String> {
    let url = IscsiUrl::parse(far, ISCSI_PORT).map_err(|e| e.to_string())?;
    let target = url.target.ok_or_else(|| format!("{far} names no target"))?;
    let (host, port) = (bracketed(url.address.host()), url.address.port());
    let (target, lun) = (escaped(&target.to_string()), url.lun.unwrap_or(0));
    Ok(format!("driver=iscsi,transport=tcp,portal={host}:{port},target={target},lun={lun}"))
}

fn nbd(far: &str) -> Result<String, String> {
    let url = NbdUrl::parse(far).map_err(|e| e.to_string())?;
    let NbdPlace::Tcp(at) = &url.place else { return Err(format!("{far} has no address")) };
    let (host, port, export) = (at.host(), at.port(), escaped(&url.export));
    Ok(format!("driver=nbd,server.type=inet,server.host={host},server.port={port},export={export}"))
}

/// An address of IPv6 in brackets.
fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// A comma in a value of QEMU's is written twice.
fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_written_as_options_of_qemu() {
        assert_eq!(
            iscsi("iscsi://[::1]:3261/iqn.2026-01.example:x/2").as_deref(),
            Ok("driver=iscsi,transport=tcp,portal=[::1]:3261,target=iqn.2026-01.example:x,lun=2")
        );
        assert_eq!(
            nbd("nbd://127.0.0.1:10809/a,b").as_deref(),
            Ok("driver=nbd,server.type=inet,server.host=127.0.0.1,server.port=10809,export=a,,b")
        );
        assert!(iscsi("iscsi://127.0.0.1").is_err() && nbd("nbd+unix:///x?socket=/s").is_err());
    }
}
