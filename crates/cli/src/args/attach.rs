//! Options of `weft connect` and `weft connect-all` for attaching a device.

use crate::args::daemon::LastingArgs;
use crate::process::exit::Failure;
use crate::process::exit_on_loss::LossArgs;
use clap::{Args, ValueEnum};
use weft_block::ErrorKind;
use weft_server::attach::plan::{AttachProtocol, AttachSystem};
use weft_server::attach::run;

/// Options of both commands.
#[derive(Args, Debug)]
pub struct AttachArgs {
    /// Protocol between weft and this system; auto: ublk if its driver is loaded, iscsi if the
    /// system has an iSCSI initiator, nbd if it has nbd-client, otherwise loop [default: auto]
    #[arg(long = "as", value_enum)]
    protocol: Option<As>,
    /// Serve the device on the loopback, but do not attach it
    #[arg(long)]
    pub serve_only: bool,
    /// Other hosts write to the data, too: if the target restarts and has lost unflushed data,
    /// nothing is written again [default: if another host is registered with the NVMe namespace]
    #[arg(long, conflicts_with = "only_writer")]
    pub shared: bool,
    #[command(flatten)]
    pub lasting: LastingArgs,
    #[command(flatten)]
    pub loss: LossArgs,
}

/// `--as`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum As {
    /// The first of ublk, iscsi, nbd and loop that this system can attach.
    Auto,
    /// The iSCSI initiator of the system: open-iscsi on Linux, Microsoft's on Windows.
    Iscsi,
    /// nbd-client and the kernel's nbd on Linux; another NBD client elsewhere.
    Nbd,
    /// The ublk driver of Linux (6.5 and newer), without another program.
    Ublk,
    /// A loop device on the file of --as fuse, for root.
    Loop,
    /// The file `disk` in a directory, by the FUSE of Linux, for any user.
    Fuse,
}

impl AttachArgs {
    /// The protocol: `--as`, or one with which this system can attach devices. Commands that are
    /// only printed may be for another system.
    pub fn protocol(&self, is_printed: bool) -> Result<AttachProtocol, Failure> {
        match self.protocol {
            Some(As::Iscsi) => Ok(AttachProtocol::Iscsi),
            Some(As::Nbd) => Ok(AttachProtocol::Nbd),
            Some(As::Ublk) => Ok(AttachProtocol::Ublk),
            Some(As::Loop) => Ok(AttachProtocol::Loop),
            Some(As::Fuse) => Ok(AttachProtocol::Fuse),
            None | Some(As::Auto) => {
                let installed = run::is_installed;
                let here = AttachProtocol::of(
                    AttachSystem::here(),
                    self.serve_only,
                    run::drivers(),
                    installed,
                );
                // It needs no other program.
                here.or(is_printed.then_some(AttachProtocol::Ublk)).ok_or_else(|| {
                    let text =
                        "this system has neither the ublk driver (modprobe ublk_drv, Linux 6.5 and newer) nor iscsiadm (open-iscsi) nor nbd-client, and no loop devices for this user; load or install one of them, or use --as fuse or --serve-only";
                    Failure::of(ErrorKind::Unsupported, text)
                })
            }
        }
    }

    /// Rejects early what this system cannot attach.
    pub fn check_system(&self, protocol: AttachProtocol) -> Result<(), Failure> {
        let why = match (self.serve_only, protocol, AttachSystem::here()) {
            (true, AttachProtocol::Fuse, _) => {
                "a file by FUSE is attached as soon as it is served; leave out --serve-only"
            }
            (true, AttachProtocol::Loop, _) => {
                "a loop device is on a file by FUSE; to have that alone, use --as fuse without --serve-only"
            }
            (
                _,
                AttachProtocol::Fuse | AttachProtocol::Loop,
                AttachSystem::Windows | AttachSystem::Other,
            ) => {
                "weft makes files by FUSE and loop devices on Linux alone; use --as iscsi or --as nbd"
            }
            (_, AttachProtocol::Fuse, AttachSystem::Linux)
                if self.lasting.daemon.by_daemon && !run::is_mount_seen() =>
            {
                "the daemon has a table of mounts of its own, in which nobody else would see the file; use --as loop"
            }
            (_, AttachProtocol::Loop, AttachSystem::Linux) if !run::is_root() => {
                "only root makes loop devices; use --as fuse"
            }
            (true, AttachProtocol::Ublk, _) => {
                "a disk by ublk is attached as soon as it is served; leave out --serve-only"
            }
            (_, AttachProtocol::Ublk, AttachSystem::Windows | AttachSystem::Other) => {
                "ublk is a driver of Linux; use --as iscsi or --as nbd"
            }
            (true, ..)
            | (_, _, AttachSystem::Linux)
            | (_, AttachProtocol::Iscsi, AttachSystem::Windows) => {
                return Ok(());
            }
            (_, AttachProtocol::Nbd, AttachSystem::Windows) => {
                "Windows has no NBD client; use --as iscsi, or use --serve-only with another client"
            }
            (_, AttachProtocol::Iscsi, AttachSystem::Other) => {
                "weft knows no iSCSI initiator on this system; use --serve-only with another initiator"
            }
            (_, AttachProtocol::Nbd, AttachSystem::Other) => {
                "weft knows no NBD client on this system; use --serve-only with another client"
            }
        };
        Err(Failure::of(ErrorKind::Unsupported, why))
    }
}
