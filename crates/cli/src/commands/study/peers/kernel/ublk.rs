//! The ublk driver of Linux, whose disk is served by weft's own initiator: `weft connect --as
//! ublk`. It shows what the kernel's initiator in place of weft's would change for a disk.

use super::super::peer::words;
use super::initiator::{KernelInitiator, Remote, appeared};
use super::needs::KMOD;
use super::session::KernelGroup;
use super::steps::KernelSteps;
use crate::limits::{PEER_KEEP_ALIVE_S, PEER_OUTAGE_S};
use weft_bench::suite::Through;
use weft_server::attach::entries::Runtime;

pub const INITIATOR: KernelInitiator = KernelInitiator {
    name: "ublk",
    through: Through::NvmeTcp,
    programs: KMOD,
    modules: &[MODULE],
    is_optional: true,
    refusal: |_| None,
    attach,
};

const MODULE: &str = "ublk_drv";

fn attach(group: &KernelGroup, remote: &Remote<'_>) -> Result<String, String> {
    let name = format!("study-{}", uuid::Uuid::new_v4());
    let undo = words(&["weft", "disconnect", &name, "--force"]);
    let steps = KernelSteps::default().load(MODULE, &[]).run(command(&name, remote), undo);
    group.perform(steps.into_inner())?;
    let runtime = Runtime::open().map_err(|e| e.to_string())?;
    appeared(remote.url, || {
        let device = runtime.find(&name)?.device;
        device.strip_prefix("/dev/").map(str::to_owned)
    })
}

/// The command that attaches the disk, which gives up a target that is gone as soon as the study
/// does.
fn command(name: &str, remote: &Remote<'_>) -> Vec<String> {
    let (queues, entries) = (remote.queues.max(1).to_string(), remote.queue_size.to_string());
    let outage = PEER_OUTAGE_S.to_string();
    let mut command = words(&[
        "weft",
        "connect",
        remote.url,
        "--as",
        "ublk",
        "--name",
        name,
        "--nr-io-queues",
        &queues,
        "--queue-size",
        &entries,
        "--fast_io_fail_tmo",
        &outage,
    ]);
    if remote.rests {
        command.extend(words(&["--keep-alive-tmo", &PEER_KEEP_ALIVE_S.to_string()]));
    }
    command
}
