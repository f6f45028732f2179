//! Users of a disk that cannot be opened for writing: a mounted file system, swap, or a device on
//! top of it (Linux: proc(5), and the kernel's `Documentation/ABI/stable/sysfs-block`).

use super::system;
use std::fs;
use std::path::{Path, PathBuf};

/// A sentence without its end that says who uses the disk at `path`, or a partition of it:
/// `it is mounted at /srv`.
pub(super) fn of(path: &Path) -> String {
    user_of(path)
        .unwrap_or_else(|| "another program or a part of the kernel has it for itself".into())
}

/// The same where it is known.
pub fn user_of(path: &Path) -> Option<String> {
    fs::metadata(path).ok().and_then(|metadata| system::device_number(&metadata)).and_then(
        |(major, minor)| {
            let disk = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
            let itself = user(&disk).map(|user| format!("it {user}"));
            itself.or_else(|| {
                partitions(&disk).into_iter().find_map(|part| {
                    Some(format!("its partition {} {}", name(&part), user(&part)?))
                })
            })
        },
    )
}

/// The directories of the partitions of a disk, in order.
fn partitions(disk: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(disk).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut parts: Vec<_> = entries.filter(|path| path.join("partition").exists()).collect();
    parts.sort();
    parts
}

/// The last part of the path, links resolved.
fn name(place: &Path) -> String {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    place.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

fn user(place: &Path) -> Option<String> {
    let number = fs::read_to_string(place.join("dev")).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let device = PathBuf::from("/dev").join(name(place));
    let mounted =
        mount_point(&mounts, number.trim(), &device).map(|at| format!("is mounted at {at}"));
    let swap = || is_swap(&swaps, &device).then(|| "is swap space".to_owned());
    mounted.or_else(swap).or_else(|| holder(place).map(|holder| format!("belongs to {holder}")))
}

/// Returns the mount point of a device: by its number, or by its name if a file system has its own
/// numbers (btrfs).
fn mount_point(mounts: &str, number: &str, device: &Path) -> Option<String> {
    let mount = mounts.lines().find(|line| {
        let source = line.split_once(" - ").and_then(|(_, end)| end.split(' ').nth(1));
        line.split(' ').nth(2) == Some(number)
            || source.is_some_and(|source| Path::new(source) == device)
    })?;
    // A space in the name is written \040.
    Some(mount.split(' ').nth(4)?.replace("\\040", " "))
}

fn is_swap(swaps: &str, device: &Path) -> bool {
    let mut names = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    names.any(|name| Path::new(name).canonicalize().is_ok_and(|path| path == device))
}

/// The device on top of it: a mapping with its name, or a RAID.
fn holder(place: &Path) -> Option<String> {
    let mut holders: Vec<_> =
        fs::read_dir(place.join("holders")).ok()?.flatten().map(|entry| entry.path()).collect();
    holders.sort();
    let first = holders.first()?;
    let device = format!("/dev/{}", name(first));
    Some(match fs::read_to_string(first.join("dm/name")) {
        Ok(name) => format!("{device} ({})", name.trim()),
        Err(_) => device,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw
31 22 0:42 / /mnt/my\\040disk rw - btrfs /dev/sdc1 rw
32 22 8:17 /a /srv rw,noatime - xfs /dev/sdb1 rw
";

    #[test]
    fn mount_points_are_found_by_number_or_name() {
        let at = |number, device| mount_point(MOUNTS, number, Path::new(device));
        assert_eq!(at("8:17", "/dev/sdb1").as_deref(), Some("/srv"));
        assert_eq!(at("8:33", "/dev/sdc1").as_deref(), Some("/mnt/my disk"));
        assert_eq!(at("8:1", "/dev/sda1"), None);
    }

    #[cfg(unix)] // Other systems know no such paths.
    #[test]
    fn swap_is_found_by_name() {
        let swaps =
            "Filename Type Size Used Priority\n/dev/null partition 1 0 -2\n/no/such file 1 0 -3\n";
        assert!(is_swap(swaps, Path::new("/dev/null")) && !is_swap(swaps, Path::new("/dev/zero")));
    }
}
