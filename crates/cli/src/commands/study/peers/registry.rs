//! All targets and load generators of other projects.

use super::device::PeerDevice;
use super::kernel::initiator::KernelInitiator;
use super::kernel::{lio, nbd_client, nvme_tcp, nvmet, open_iscsi, ublk};
use super::load::{FIO, Load};
use super::peer::{
    DeviceWish, NbdGateway, PeerProgram, PeerTarget, StartMethod, TargetPlan, words,
};
use super::qemu_nbd::QEMU_NBD;
use super::tool::{Tool, ToolResult, is_plain, seconds};
use super::{nbdkit, qemu_nbd, spdk, spdk_perf, tgt};
use crate::commands::study::program;
use crate::limits::PEER_START_S;
use std::time::Duration;
use weft_bench::suite::Through;
use weft_bench::{Direction, JobSpec};
use weft_endpoint::url::nbd::{NbdPlace, NbdUrl};
use weft_endpoint::url::{ISCSI_PORT, IscsiUrl};
use weft_server::programs;

/// The targets, by their rate of 4 KiB random reads in the suite `matrix` (docs/study/peers.md):
/// `auto` takes the first that is installed.
pub const TARGETS: [&PeerTarget; 5] =
    [&spdk::PEER, &nbdkit::PEER, &PEER, &qemu_nbd::PEER, &tgt::PEER];

/// The gateways, which are used only if they are named.
pub const GATEWAYS: [&NbdGateway; 2] = [&ISCSI, &NBD];

/// The targets of the kernel, which are used only if they are named.
pub const KERNEL_TARGETS: [&PeerTarget; 2] = [&nvmet::PEER, &lio::PEER];

/// The initiators of the kernel, which are used only if they are named.
pub const INITIATORS: [&KernelInitiator; 4] =
    [&nvme_tcp::INITIATOR, &open_iscsi::INITIATOR, &nbd_client::INITIATOR, &ublk::INITIATOR];

/// The load generators; the first for a protocol is taken where none is named.
pub const LOADS: [&Load; 3] = [&LOAD, &FIO, &spdk_perf::LOAD];

// nbd-server, the reference implementation of NBD. It has a process for each connection.

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

// `iscsi-perf` of libiscsi: reads over iSCSI. It reports a rate and no latencies.

pub const LOAD: Load = Load {
    name: TOOL.name,
    program: PeerProgram { name: TOOL.program, package: Some("libiscsi-bin") },
    disks: false,
    reaches: |through| through == Through::Iscsi,
    lacks: |_| None,
    on: |subject| Ok(TOOL.on(subject)?),
};

static TOOL: Tool = Tool {
    name: "iscsi-perf",
    program: "iscsi-perf",
    arguments,
    read: |output| Some(ToolResult { iops: iops(output)? as f64, latencies: Vec::new() }),
    cannot,
    polls: false,
};

fn arguments(url: &str, block_bytes: u32, spec: &JobSpec) -> Vec<String> {
    let blocks = spec.bs_bytes / block_bytes.max(1);
    let (depth, blocks, time) =
        (spec.iodepth.to_string(), blocks.to_string(), seconds(spec).to_string());
    let mut arguments = words(&["-m", &depth, "-b", &blocks, "-t", &time]);
    if spec.rw.is_random() {
        arguments.push("-r".to_owned());
    }
    arguments.push(url.to_owned());
    arguments
}

/// The mean rate of a run.
fn iops(output: &str) -> Option<u64> {
    let last = output.rsplit("iops average ").next().filter(|rest| rest.len() < output.len())?;
    last.split_ascii_whitespace().next()?.parse().ok().filter(|iops| *iops > 0)
}

fn cannot(spec: &JobSpec) -> Option<String> {
    let suits = is_plain(spec) && spec.rw.has(Direction::Read);
    (!suits).then(|| {
        "iscsi-perf reads as fast as it can, as one job: it has no row for other workloads."
            .to_owned()
    })
}

// QEMU's block layer as an initiator, as it is for a guest's disk: qemu-nbd, whose device is that
// of a target in the network.

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
    fn the_mean_rate_is_read() {
        let text = "connected to iscsi://h/t/1\n\r00:00:01 - lba 53066, iops current 41075 (160 MB/s), \
                    iops average 41075 (160 MB/s), in_flight 32, busy 0        \riops average 41323 (161 MB/s)   \n\nfinished.\n";
        assert_eq!(iops(text), Some(41323));
        for wrong in ["", "iops average ", "iops average x", "iops average 0 (0 MB/s)", "41323"] {
            assert_eq!(iops(wrong), None, "{wrong}");
        }
    }

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
