//! `weft ublk-owner`: whose disk one by ublk is, for the rules of udev. The kernel has this in no file.

use clap::Args;

use crate::process::exit::Failure;

/// Options of `weft ublk-owner`.
#[derive(Args, Debug)]
pub struct UblkOwnerArgs {
    /// The number N of /dev/ublkbN
    number: u32,
}

/// Prints user and group of the disk of a user.
#[cfg(target_os = "linux")]
pub fn run(args: &UblkOwnerArgs) -> Result<(), Failure> {
    use std::io::Write;
    let (user, group) = weft_endpoint::export::ublk_owner(args.number)?;
    crate::process::exit::printed(writeln!(std::io::stdout().lock(), "{user} {group}"))
}

/// Other systems have no such disks.
#[cfg(not(target_os = "linux"))]
pub fn run(args: &UblkOwnerArgs) -> Result<(), Failure> {
    let text = format!("/dev/ublkb{} would be a disk of Linux", args.number);
    Err(Failure::of(weft_block::ErrorKind::Unsupported, text))
}
