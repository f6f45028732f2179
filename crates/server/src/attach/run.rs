//! Runs the system's programs, and finds the name of a disk in the system.

use super::plan::{COMMAND_S, Line, System};
use crate::programs;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};
use weft_block::{Error, ErrorKind, waiting};
use weft_io::kernel_file;

/// Time limit for an attached disk to appear.
const APPEARS: Duration = Duration::from_secs(30);

/// Runs commands one after the other. Their output is shown only if one fails.
pub fn run_all(lines: &[Line]) -> Result<(), Error> {
    lines.iter().try_for_each(run)
}

fn run(line: &Line) -> Result<(), Error> {
    tracing::info!("running {line}");
    let _waiting = waiting::begin(|| format!("`{line}` to end"));
    let output = programs::system(line.program()).args(&line.0[1..]).stdin(Stdio::null()).output();
    let output = output.map_err(|e| missing(line.program(), e))?;
    if output.status.success() {
        return Ok(());
    }
    // A kernel with a built-in driver has no such module.
    if line.program() == "modprobe" {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().last().unwrap_or("it printed nothing");
    Err(Error::new(
        ErrorKind::Refused,
        format!("`{line}` failed: {said}; --print shows all commands, to run them yourself"),
    ))
}

fn missing(program: &str, error: std::io::Error) -> Error {
    let package = match program {
        "iscsiadm" => "; install open-iscsi",
        "nbd-client" => "; install nbd-client",
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

/// Whether a program of this name exists in the usual directories.
pub fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let administration = ["/usr/sbin", "/sbin"].map(Into::into);
    std::env::split_paths(&path)
        .chain(administration)
        .any(|directory| directory.join(program).is_file())
}

/// Whether this process may make disks by the ublk driver, which is loaded.
pub fn has_ublk() -> bool {
    kernel_file::open("/dev/ublk-control").is_ok()
}

/// Loads a module of Linux, if that can be; its driver may also be built in, or there already.
pub fn load(module: &str) {
    let _ = programs::system("modprobe").arg(module).stdin(Stdio::null()).output();
}

/// An unused `/dev/nbdN`.
pub fn free_nbd() -> Result<String, Error> {
    // Without the module there is none; but the driver may be built in.
    load("nbd");
    if !Path::new("/sys/block/nbd0").exists() {
        let text = "this system has no nbd driver at present: `modprobe nbd` loads it, and `--serve-only` needs none";
        return Err(Error::new(ErrorKind::Unsupported, text));
    }
    for n in 0..256 {
        let place = Path::new("/sys/block").join(format!("nbd{n}"));
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
pub fn iscsi_disk(iqn: &str, system: System) -> String {
    let until = Instant::now() + APPEARS;
    let _waiting = waiting::begin(|| format!("the disk of {iqn} to appear"));
    while system == System::Linux && Instant::now() < until {
        if let Some(name) = find_iscsi_disk(Path::new("/sys/class/iscsi_session"), iqn) {
            return name;
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
/// `sessionN/device/targetH:C:T/H:C:T:0/block/sdX`.
fn find_iscsi_disk(sessions: &Path, iqn: &str) -> Option<String> {
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
        .filter(|unit| unit.to_string_lossy().ends_with(":0"))
        .find_map(|unit| entries(&unit.join("block")).next())?;
    Some(format!("/dev/{}", disk.file_name()?.to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_disk_of_a_session_is_found() {
        let root = std::env::temp_dir().join(format!("weft-sysfs-{}", std::process::id()));
        let session = root.join("session3");
        std::fs::create_dir_all(session.join("device/target2:0:0/2:0:0:0/block/sdq")).unwrap();
        std::fs::create_dir_all(root.join("session1")).unwrap();
        std::fs::write(root.join("session1/targetname"), "iqn.2026-01.example:other\n").unwrap();
        std::fs::write(session.join("targetname"), "iqn.2026-01.example:disk\n").unwrap();
        assert_eq!(find_iscsi_disk(&root, "iqn.2026-01.example:disk").as_deref(), Some("/dev/sdq"));
        assert_eq!(find_iscsi_disk(&root, "iqn.2026-01.example:other"), None);
        assert_eq!(find_iscsi_disk(&root, "iqn.2026-01.example:none"), None);
        std::fs::remove_dir_all(root).unwrap();
    }
}
