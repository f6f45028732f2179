//! Disks of users who are not root: the driver allows them less, and udev has to give each to its
//! user.
//!
//! Such a disk ends with its process, also with one that is killed: the driver keeps none that
//! waits for another process. What stays of it is a device without a disk, which is in the way of
//! the next one.

use std::io;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind};
use weft_connection::limits::{UBLK_CLOSE_S, UBLK_OPEN_S};
use weft_io::ublk::{Info, State, UblkControl, flag, is_usable};

/// The rules of udev that give disks to their users.
const RULES: &str = "packaging/61-weft-users.rules";

/// `EPERM`: only root may do this. The driver has `EACCES` where there are too many disks of users.
const EPERM: i32 = 1;

/// Pause before it is looked again whether udev is done.
const PAUSE: Duration = Duration::from_millis(20);

/// Makes a device like that of root and, where the driver refuses it to this process, one of a
/// user.
pub(super) fn add(control: &UblkControl, wanted: &Info) -> Result<Info, Error> {
    let features = control.features();
    let whole = Info { flags: flags(features), ..*wanted };
    match control.add(&whole) {
        Err(e) if e.raw_os_error() == Some(EPERM) => {}
        added => return added.map_err(|e| not_made(wanted.device, e)),
    }
    if features & flag::UNPRIVILEGED_DEV == 0 {
        return Err(refused(
            "the ublk driver of this system makes disks only for root: run weft as root",
        ));
    }
    let own = Info { flags: flags_of_user(features), ..*wanted };
    control.add(&own).map_err(|e| match (e.raw_os_error(), e.kind()) {
        (Some(EPERM), _) => refused("the ublk driver makes no disk for this user: run weft as root"),
        (_, io::ErrorKind::PermissionDenied) => refused(
            "the ublk driver makes no more disks of users: /sys/module/ublk_drv/parameters/ublks_max has their number",
        ),
        _ => not_made(wanted.device, e),
    })
}

fn not_made(number: u32, e: io::Error) -> Error {
    match e.kind() {
        // Who asks was told before of one that is there.
        io::ErrorKind::AlreadyExists => still_open(number),
        _ => Error::io(format!("the ublk driver makes no disk: {e}"), e),
    }
}

fn still_open(number: u32) -> Error {
    let text = format!(
        "/dev/ublkb{number} has ended, and is mounted or open yet: unmount and close it, or choose another number"
    );
    Error::new(ErrorKind::InUse, text)
}

fn refused(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::PermissionDenied, text)
}

/// What a disk of root is made with, of what the driver can do.
fn flags(features: u64) -> u64 {
    let recovery = flag::USER_RECOVERY | flag::USER_RECOVERY_REISSUE;
    (recovery | flag::USER_COPY | flag::CMD_IOCTL_ENCODE | flag::UPDATE_SIZE) & features
}

/// What a disk of a user is made with: the driver copies its data, and keeps it for nobody.
fn flags_of_user(features: u64) -> u64 {
    (flag::UNPRIVILEGED_DEV | flag::CMD_IOCTL_ENCODE) & features
}

/// Why nothing is learned of a device.
pub(super) fn not_ours(number: u32) -> Error {
    refused(format!(
        "/dev/ublkb{number} is there, and belongs to another user; choose another number, or ublk: for any"
    ))
}

/// What is wrong where a device cannot be opened that was made for this user.
pub(super) fn not_given(info: &Info, e: io::Error) -> Error {
    if !info.is_of_user() || e.kind() != io::ErrorKind::PermissionDenied {
        return Error::io(format!("cannot serve /dev/ublkb{}: {e}", info.device), e);
    }
    missing_rules(info.device, 'c')
}

fn missing_rules(number: u32, kind: char) -> Error {
    refused(format!(
        "the kernel has made /dev/ublk{kind}{number} for this user, and udev did not give it to the user within {UBLK_OPEN_S} s: install {RULES} of weft in /etc/udev/rules.d"
    ))
}

/// Waits until udev has given the disk of a device to its user.
pub(super) fn wait_for_udev(info: &Info) -> Result<(), Error> {
    let until = Instant::now() + Duration::from_secs(UBLK_OPEN_S);
    while info.is_of_user() && !is_usable(info.device) {
        if Instant::now() > until {
            return Err(missing_rules(info.device, 'b'));
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Whether this is what stays of a disk of a user whose process has ended.
pub(super) fn is_remnant(info: &Info) -> bool {
    info.is_of_user() && info.state == State::Dead
}

/// Removes a device which has no disk any more. As long as a program has its disk open, the driver
/// does not end; nor does it as long as the file system is mounted.
pub(super) fn remove(info: &Info) -> Result<(), Error> {
    let failed =
        |e| Error::io(format!("cannot remove what is left of /dev/ublkb{}: {e}", info.device), e);
    match delete(info) {
        Some(deleted) => deleted.map_err(failed),
        None => Err(still_open(info.device)),
    }
}

/// Deletes a device; `None`: something keeps it, and it is gone when that ends.
pub(super) fn delete(info: &Info) -> Option<io::Result<()>> {
    let (info, (tell, told)) = (*info, mpsc::channel());
    let spawned =
        std::thread::Builder::new().name("weft-ublk-delete".to_owned()).spawn(move || {
            // Another `UblkControl` would wait for this command, too.
            let _ = tell.send(UblkControl::open().and_then(|control| control.delete(&info)));
        });
    match spawned {
        Ok(_) => told.recv_timeout(Duration::from_secs(UBLK_CLOSE_S)).ok(),
        Err(e) => Some(Err(e)),
    }
}

/// User and group of the disk of a device, if it is one of a user who is not root.
pub fn owner(number: u32) -> Result<(u32, u32), Error> {
    let failed = |e| Error::io(format!("cannot look at ublk device {number}: {e}"), e);
    let info = UblkControl::open().and_then(|control| control.info(number)).map_err(failed)?;
    if info.is_of_user() {
        return Ok(info.owner);
    }
    Err(Error::new(ErrorKind::NotFound, format!("/dev/ublkb{number} is not the disk of a user")))
}

/// Whether a process is there.
pub(super) fn is_alive(process: i32) -> bool {
    process > 0 && Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(flags: u64, state: State) -> Info {
        let (queues, depth, request_bytes) = (1, 8, 4096);
        let (device, process, label, owner) = (3, 1, 0, (1000, 1000));
        Info { device, queues, depth, state, request_bytes, flags, process, label, owner }
    }

    #[test]
    fn a_disk_of_a_user_asks_for_nothing_that_the_driver_refuses_to_users() {
        let all = flags(u64::MAX);
        assert_ne!(all & flag::USER_RECOVERY, 0);
        assert_eq!(all & flag::UNPRIVILEGED_DEV, 0);
        let of_user = flags_of_user(u64::MAX);
        assert_ne!(of_user & flag::UNPRIVILEGED_DEV, 0);
        let refused = flag::USER_COPY | flag::USER_RECOVERY | flag::USER_RECOVERY_REISSUE;
        assert_eq!(of_user & refused, 0);
        assert_eq!((flags(0), flags_of_user(0)), (0, 0));
    }

    #[test]
    fn a_disk_of_root_is_no_remnant() {
        assert!(is_remnant(&info(flag::UNPRIVILEGED_DEV, State::Dead)));
        assert!(!is_remnant(&info(flag::UNPRIVILEGED_DEV, State::Live)));
        assert!(!is_remnant(&info(flag::USER_RECOVERY, State::Dead)));
    }

    #[test]
    fn missing_rules_are_named() {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        let of_user = not_given(&info(flag::UNPRIVILEGED_DEV, State::Dead), denied());
        assert_eq!(of_user.kind(), ErrorKind::PermissionDenied);
        assert!(of_user.to_string().contains(RULES), "{of_user}");
        let of_root = not_given(&info(flag::USER_COPY, State::Dead), denied());
        assert!(!of_root.to_string().contains(RULES), "{of_root}");
    }
}
