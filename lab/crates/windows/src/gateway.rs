//! A Linux target's disk through the Windows build: weft.exe opens it over NVMe/TCP and serves it
//! by iSCSI and NBD, and Linux programs that we did not write (libiscsi in qemu-img, libnbd's
//! nbdcopy) write to it and read it back.
//!
//! The target is the kernel's own, in the virtual machine of the lab.

use std::{
    fs::{self, File},
    net::{Ipv4Addr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use xtask::sh;

use super::server::Server;

/// What is written and read back.
const IMAGE_BYTES: usize = 16 << 20;

/// How long the virtual machine may take to serve its disk.
const BOOT_LIMIT: Duration = Duration::from_secs(120);

/// Where nvmet listens inside the virtual machine.
const NVMET_PORT: u16 = 4420;

/// Runs the target, the gateway and the programs that use it.
pub(super) fn run(gateway: Command, scratch: &Path) -> Result<()> {
    // QEMU's iSCSI driver is a package of its own, which its tools only recommend.
    lab_host::require(&["qemu-utils", "qemu-block-extra", "libnbd-bin"])?;
    let share = scratch.join("share");
    fs::create_dir_all(&share)?;
    let port = free_port()?;
    // The limit for the boot begins when the runner is built.
    sh::output(&mut sh::chore(&["lab", "--help"])?)?;
    let log = scratch.join("target");
    let output = File::create(&log)?;
    let forward = format!("{port}:{NVMET_PORT}");
    let mut lab = sh::chore(&["lab", "run", "lab/serve/nvmet.sh", "--forward", &forward])?;
    lab.arg("--share").arg(&share).stdin(Stdio::null());
    let target = lab.stdout(output.try_clone()?).stderr(output).spawn();
    let mut target = target.context("cannot start the virtual machine")?;
    let tried = wait_for_target(&share, &mut target).and_then(|nqn| {
        let source = format!("nvme+tcp://127.0.0.1:{port}/{nqn}");
        through(gateway, &source, scratch)
    });
    fs::write(share.join("stop"), "")?;
    let status = target.wait()?;
    let said = String::from_utf8_lossy(&fs::read(log)?).into_owned();
    tried.with_context(|| format!("the target said: {said}"))?;
    ensure!(status.success(), "the target ended with {status}: {said}");
    Ok(())
}

/// Writes by one protocol and reads by the other, both ways.
fn through(gateway: Command, source: &str, scratch: &Path) -> Result<()> {
    let server = Server::serve(gateway, source, &["iscsi://127.0.0.1:0", "nbd://127.0.0.1:0"])?;
    let iscsi = server.url("iscsi://")?;
    let nbd = server.url("nbd://")?;
    let (first, second, back) =
        (scratch.join("first"), scratch.join("second"), scratch.join("back"));
    fs::write(&first, image(1))?;
    fs::write(&second, image(2))?;

    sh::run(
        Command::new("qemu-img")
            .args(["convert", "-n", "-f", "raw", "-O", "raw"])
            .arg(&first)
            .arg(&iscsi),
    )?;
    sh::run(Command::new("nbdcopy").arg(&nbd).arg(&back))?;
    starts_with(&back, &image(1)).context("written by libiscsi, read by libnbd")?;

    sh::run(Command::new("nbdcopy").arg(&second).arg(&nbd))?;
    sh::run(
        Command::new("qemu-img").args(["convert", "-f", "raw", "-O", "raw"]).arg(&iscsi).arg(&back),
    )?;
    starts_with(&back, &image(2)).context("written by libnbd, read by libiscsi")?;
    server.stop()
}

fn starts_with(file: &Path, expected: &[u8]) -> Result<()> {
    let found = fs::read(file)?;
    ensure!(
        found.starts_with(expected),
        "{} bytes came back, and not those that were written",
        found.len()
    );
    Ok(())
}

/// Bytes in which a block that is lost, stale or out of place shows.
fn image(seed: u64) -> Vec<u8> {
    let word = |n: u64| (n ^ seed << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    (0..IMAGE_BYTES as u64 / 8).flat_map(word).collect()
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Waits until the target serves; gives the name of its subsystem.
fn wait_for_target(share: &Path, target: &mut Child) -> Result<String> {
    let deadline = Instant::now() + BOOT_LIMIT;
    loop {
        match fs::read_to_string(share.join("ready")) {
            Ok(nqn) if nqn.ends_with('\n') => return Ok(nqn.trim().to_owned()),
            _ if target.try_wait()?.is_some() => {
                bail!("the virtual machine ended before it served anything")
            }
            _ if Instant::now() > deadline => {
                bail!("the virtual machine serves nothing after {} s", BOOT_LIMIT.as_secs())
            }
            _ => thread::sleep(Duration::from_millis(100)),
        }
    }
}
