//! Runs the system's programs, and finds the name of a disk in the system.

use super::plan::{AttachSystem, AttachedExport, COMMAND_S, CommandLine, Drivers, FILE, File};
use crate::programs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind, waiting};
use weft_io::kernel_file;

/// Time limit for an attached disk to appear.
const APPEARS: Duration = Duration::from_secs(30);

/// Time limit for a command that detaches a disk. It may wait for the source, which may be away for
/// ever.
const DETACHES: Duration = Duration::from_secs(30);

/// Runs commands one after the other. Their output is shown only if one fails.
pub fn run_all(lines: &[CommandLine]) -> Result<(), Error> {
    lines.iter().try_for_each(run)
}

/// Runs a command, and returns what it printed.
pub fn printed_by(line: &CommandLine) -> Result<String, Error> {
    let output = output_of(line, None)?;
    Ok(String::from_utf8_lossy(&output).trim().to_owned())
}

/// Detaches what was attached from the system, in bounded time.
///
/// # Errors
/// That of the first command that failed; [`ErrorKind::InUse`] if a file by FUSE is in use;
/// [`ErrorKind::TimedOut`] if a command does not end.
pub fn detach(served: &AttachedExport) -> Result<(), Error> {
    let lines = served.detach(AttachSystem::here());
    let (file, device) = match served {
        AttachedExport::Fuse(file) if !is_mounted(file) => return Ok(()),
        AttachedExport::Loop { file, device, .. } => (file, device),
        _ => return detach_by(&lines),
    };
    let [free, rest @ ..] = &lines[..] else { return Ok(()) };
    if is_on(device, file) {
        detach_by(std::slice::from_ref(free))?;
    }
    // A program that has the device open for a moment delays its end, and with it that of the file.
    let until = Instant::now() + APPEARS;
    let _waiting = waiting::begin(|| format!("{device} to end"));
    while is_on(device, file) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The server has taken away a file whose source it lost.
    if is_mounted(file) { detach_by(rest) } else { Ok(()) }
}

/// Runs commands that detach a disk.
fn detach_by(lines: &[CommandLine]) -> Result<(), Error> {
    lines.iter().try_for_each(|line| output_of(line, Some(DETACHES)).map(drop))
}

/// Returns whether a file by FUSE is there.
fn is_mounted(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    let is_there = weft_io::fuse::is_mounted;
    #[cfg(not(target_os = "linux"))]
    let is_there = |_: &Path| true;
    is_there(Path::new(&file.directory))
}

/// Returns whether a loop device is on a file. If not, it has ended, and its number may have been
/// taken by another.
fn is_on(device: &str, file: &File) -> bool {
    let name = device.trim_start_matches("/dev/");
    let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
    let found = std::fs::read_to_string(backing).unwrap_or_default();
    // The kernel adds a word to the path of a file that has gone, and shows the path within its
    // file system if that was unmounted below the device.
    let is = |path: &str| {
        let rest = found.trim_end().strip_prefix(path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    is(&file.path()) || (is(&format!("/{FILE}")) && !is_mounted(file))
}

/// Removes what a killed server has left of a file by FUSE, unless it is in use.
#[cfg(target_os = "linux")]
pub fn clear_dead(served: &AttachedExport) {
    let (file, device) = match served {
        AttachedExport::Fuse(file) => (file, None),
        AttachedExport::Loop { file, device, .. } => (file, Some(device)),
        _ => return,
    };
    // A mounted device ends when it is unmounted.
    let lines = served.detach(AttachSystem::here());
    if device.is_some_and(|device| is_on(device, file))
        && let Err(e) = detach_by(&lines[..lines.len().min(1)])
    {
        tracing::warn!("{e}");
    }
    if weft_io::fuse::is_dead(&file.directory)
        && let Err(e) = weft_io::fuse::unmount(&file.directory, true)
    {
        tracing::warn!("cannot unmount {}: {e}", file.directory.display());
    }
}

/// Other systems have no such files.
#[cfg(not(target_os = "linux"))]
pub fn clear_dead(_: &AttachedExport) {}

fn run(line: &CommandLine) -> Result<(), Error> {
    output_of(line, None).map(drop)
}

/// The output of a command, which has to end within the limit if there is one.
fn output_of(line: &CommandLine, limit: Option<Duration>) -> Result<Vec<u8>, Error> {
    tracing::info!("running {line}");
    let _waiting = waiting::begin(|| format!("`{line}` to end"));
    let mut command = programs::system(line.program());
    command.args(&line.0[1..]).stdin(Stdio::null());
    let output = match limit {
        Some(limit) => programs::output_within(&mut command, limit),
        None => command.output().map(Some),
    };
    let output = output.map_err(|e| missing(line.program(), e))?.ok_or_else(|| {
        let seconds = limit.unwrap_or_default().as_secs_f32();
        let text = format!(
            "`{line}` has not ended within {seconds} s, as something may wait for a source that is away; `weft disconnect --force` ends \
             the connection all the same"
        );
        Error::new(ErrorKind::TimedOut, text)
    })?;
    // A kernel with a built-in driver has no such module.
    if output.status.success() || line.program() == "modprobe" {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().last().unwrap_or("it printed nothing");
    let is_unmount = ["umount", "fusermount3"].contains(&line.program());
    let kind = match is_unmount && said.contains("busy") {
        true => ErrorKind::InUse,
        false => ErrorKind::Refused,
    };
    Err(Error::new(kind, format!("`{line}` failed: {said}")))
}

fn missing(program: &str, error: std::io::Error) -> Error {
    let package = match program {
        "iscsiadm" => "; install open-iscsi",
        "nbd-client" => "; install nbd-client",
        "losetup" => "; install util-linux (on Debian: mount)",
        "fusermount3" => "; install fuse3",
        _ => "",
    };
    let text = format!(
        "cannot run {program}: {error}{package}, or use --serve-only and attach the device by other means"
    );
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorKind::Unsupported, text),
        _ => Error::io(text, error),
    }
}

/// Returns whether a program of this name exists in the usual directories.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let administration = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(administration)
        .any(|directory| directory.join(program).is_file())
}

/// The drivers that this process may use: that of ublk if it is loaded, and loop devices on files
/// by FUSE.
pub fn drivers() -> Drivers {
    let opens = |path| kernel_file::open(path).is_ok();
    let loops = is_root() && opens("/dev/fuse") && opens("/dev/loop-control");
    Drivers { ublk: opens("/dev/ublk-control"), loops }
}

/// Returns whether this process is root's.
pub fn is_root() -> bool {
    #[cfg(unix)]
    return rustix::process::geteuid().is_root();
    #[cfg(not(unix))]
    false
}

/// Returns whether other processes see what this one mounts. A service may have a mount namespace
/// of its own.
pub fn is_mount_seen() -> bool {
    let table = |of: &str| std::fs::read_link(format!("/proc/{of}/ns/mnt")).ok();
    table("1").is_none_or(|first| Some(first) == table("self"))
}

/// Loads a module of Linux, if that can be; its driver may also be built in, or there already.
pub fn load(module: &str) {
    let _ = programs::system("modprobe").arg(module).stdin(Stdio::null()).output();
}

/// An unused `/dev/nbdN`, whose driver is loaded if that can be.
pub fn free_nbd() -> Result<String, Error> {
    // Without the module there is none; but the driver may be built in.
    load("nbd");
    find_free_nbd()
}

/// An unused `/dev/nbdN`.
///
/// # Errors
/// There is none.
pub fn find_free_nbd() -> Result<String, Error> {
    find_free_nbd_in(Path::new("/sys/block"))
}

fn find_free_nbd_in(all: &Path) -> Result<String, Error> {
    if !all.join("nbd0").exists() {
        let text = "this system has no nbd driver at present: `modprobe nbd` loads it, and `--serve-only` needs none";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    for n in 0..256 {
        let place = all.join(format!("nbd{n}"));
        if !place.exists() {
            break;
        }
        let size = std::fs::read_to_string(place.join("size")).unwrap_or_default();
        if size.trim() == "0" && !place.join("pid").exists() {
            return Ok(format!("/dev/nbd{n}"));
        }
    }
    let text = "no /dev/nbdN is free; `modprobe nbd nbds_max=64` provides more, and `--serve-only` needs none";
    Err(Error::new(ErrorKind::NoResources, text))
}

/// The device name of LUN 0 of an iSCSI target; waits until it appears. Empty if it cannot be
/// found.
pub fn iscsi_disk(iqn: &str, system: AttachSystem) -> String {
    let until = Instant::now() + APPEARS;
    let _waiting = waiting::begin(|| format!("the disk of {iqn} to appear"));
    while system == AttachSystem::Linux && Instant::now() < until {
        if let Some(name) = find_iscsi_disk(Path::new("/sys/class/iscsi_session"), iqn, 0) {
            return format!("/dev/{name}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    String::new()
}

/// Has Linux wait for commands to a SCSI disk while weft waits for its source: by default it aborts
/// them after 30 s, resets the disk and, in the end, takes it offline. The file in which that
/// stands, if the device has one and it could be written.
pub fn wait_for_commands(device: &str) -> Option<String> {
    let name = device.strip_prefix("/dev/").filter(|name| !name.is_empty())?;
    let file = format!("/sys/block/{name}/device/timeout");
    match kernel_file::write(&file, &COMMAND_S.to_string()) {
        Ok(()) => Some(file),
        Err(e) => {
            tracing::warn!(
                "cannot write {COMMAND_S} to {file}: {e}; the system may take the disk offline when its source is away"
            );
            None
        }
    }
}

/// Searches the kernel's sessions: `sessionN/targetname`,
/// `sessionN/device/targetH:C:T/H:C:T:LUN/block/sdX`. Returns the last part.
pub fn find_iscsi_disk(sessions: &Path, iqn: &str, lun: u16) -> Option<String> {
    let entries = |path: &Path| {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let is_ours = |session: &Path| {
        std::fs::read_to_string(session.join("targetname")).is_ok_and(|name| name.trim() == iqn)
    };
    let session = entries(sessions).find(|session| is_ours(session))?;
    let is_target = |path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("target"))
    };
    let units = entries(&session.join("device"))
        .filter(|path| is_target(path))
        .flat_map(|target| entries(&target).collect::<Vec<_>>());
    let disk = units
        .filter(|unit| unit.to_string_lossy().ends_with(&format!(":{lun}")))
        .find_map(|unit| entries(&unit.join("block")).next())?;
    Some(disk.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(unix)]
    fn a_command_that_does_not_end_is_given_up() {
        let line =
            |words: &[&str]| CommandLine(words.iter().map(|word| (*word).to_owned()).collect());
        let limit = Some(Duration::from_millis(50));
        let text = output_of(&line(&["sleep", "600"]), limit).unwrap_err();
        assert_eq!(text.kind(), ErrorKind::TimedOut);
        assert!(text.to_string().contains("`sleep 600` has not ended within 0.05 s"), "{text}");
        assert!(text.to_string().contains("`weft disconnect --force`"), "{text}");
        // More than a pipe has room for.
        let limit = Some(Duration::from_secs(600));
        let much = output_of(&line(&["head", "-c", "1000000", "/dev/zero"]), limit).unwrap();
        assert_eq!(much.len(), 1_000_000);
        let failed = output_of(&line(&["cat", "/nonexistent/weft"]), limit).unwrap_err();
        assert!(failed.to_string().contains("`cat /nonexistent/weft` failed: "), "{failed}");
    }

    #[test]
    fn a_free_nbd_has_no_size_and_no_client() {
        let root = std::env::temp_dir().join(format!("weft-nbd-{}", std::process::id()));
        let find = || find_free_nbd_in(&root).map_err(|e| e.kind());
        assert_eq!(find(), Err(ErrorKind::Unsupported));
        for (device, size) in [("nbd0", "2048\n"), ("nbd1", "0\n"), ("nbd2", "0\n")] {
            std::fs::create_dir_all(root.join(device)).unwrap();
            std::fs::write(root.join(device).join("size"), size).unwrap();
        }
        std::fs::write(root.join("nbd1/pid"), "1\n").unwrap();
        assert_eq!(find().as_deref(), Ok("/dev/nbd2"));
        std::fs::write(root.join("nbd2/size"), "8\n").unwrap();
        assert_eq!(find(), Err(ErrorKind::NoResources));
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_disk_of_a_session_is_found() {
        let root = std::env::temp_dir().join(format!("weft-sysfs-{}", std::process::id()));
        let session = root.join("session3");
        std::fs::create_dir_all(session.join("device/target2:0:0/2:0:0:0/block/sdq")).unwrap();
        std::fs::create_dir_all(root.join("session1")).unwrap();
        std::fs::write(root.join("session1/targetname"), "iqn.2026-01.example:other\n").unwrap();
        std::fs::write(session.join("targetname"), "iqn.2026-01.example:disk\n").unwrap();
        let find =
            |name: &str, lun| find_iscsi_disk(&root, &format!("iqn.2026-01.example:{name}"), lun);
        assert_eq!(find("disk", 0).as_deref(), Some("sdq"));
        assert_eq!([find("disk", 1), find("other", 0), find("none", 0)], [None, None, None]);
        std::fs::remove_dir_all(root).unwrap();
    }
}
