//! Properties of a disk that a system reports.

/// Constant properties while it is open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Bytes of the shortest possible transfer.
    pub(super) logical_bytes: Option<u32>,
    /// Bytes of what the disk writes at once without reading it before.
    pub(super) physical_bytes: Option<u32>,
    /// True if discards do something.
    pub(super) discards: bool,
    /// True if the disk itself has a volatile cache.
    pub(super) volatile_cache: bool,
    /// True if the system refuses to write to it.
    pub(super) read_only: bool,
    /// The name of the disk or the mapping, if it has one.
    pub(super) name: Option<DiskName>,
    /// True if it was opened so that I/O bypasses the cache of the system.
    pub(super) unbuffered: bool,
    pub(super) serial: Option<String>,
    pub(super) model: Option<String>,
}

/// The name of a disk, with the number of the partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DiskName {
    /// The same on every machine, and no other disk has it.
    Own(String),
    /// Disks of other machines may have it, too.
    Here {
        /// A text that no other disk of this machine has.
        place: String,
        /// The name from which earlier versions derived a UUID. `None`: the machine has no
        /// identifier.
        former: Option<String>,
    },
}

impl DiskName {
    /// The name that a disk gives itself: `name`, which ends with its serial number, and the number
    /// of the partition. Emulators give disks serial numbers that their other machines have, too.
    pub(super) fn given(name: &str, partition: Option<&str>) -> Self {
        let whole = match partition {
            Some(number) => format!("{name}\0{number}"),
            None => name.to_owned(),
        };
        match is_default(name) {
            true => Self::Here { place: whole.clone(), former: Some(whole) },
            false => Self::Own(whole),
        }
    }
}

/// Returns whether a name ends with a default serial number of an emulator: `QM00001` of QEMU, or a
/// counter of 16 digits or more, as VMware uses.
fn is_default(name: &str) -> bool {
    let serial = name.trim_end().rsplit([' ', '\0']).next().unwrap_or_default();
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let of_qemu = serial.strip_prefix("QM").is_some_and(|rest| rest.len() == 5 && is_number(rest));
    let counts = serial.len() >= 16
        && is_number(serial)
        && serial[..serial.len() - 4].bytes().all(|byte| byte == b'0');
    of_qemu || counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_of_emulators_name_no_disk_of_another_machine() {
        for name in [
            "t10.ATA     QEMU HARDDISK                           QM00001             ",
            "QEMU HARDDISK\0QM00003",
            "t10.ATA     VMware Virtual SATA Hard Drive          00000000000000000001",
        ] {
            let here =
                |name: &str| DiskName::Here { place: name.into(), former: Some(name.into()) };
            assert_eq!(DiskName::given(name, None), here(name));
            assert_eq!(DiskName::given(name, Some("2")), here(&format!("{name}\02")));
        }
        for name in [
            "naa.5000c500a1b2c3d4",
            "eui.0025385b71b00000",
            "nvme.144d-533433384e58304d343030313233-53616d73756e67-00000001",
            "uuid.0c1c6a3a-5a53-4a1f-9d0f-5a6e2a5d7c11",
            "t10.ATA     VBOX HARDDISK                           VB1a2b3c4d-5e6f7a8b ",
            "t10.ATA     Samsung SSD 860                         S3Z8NB0K123456A     ",
            "LVM-0000000000000000000000000000000000000000000000000000000000000001x",
            "",
        ] {
            assert_eq!(DiskName::given(name, None), DiskName::Own(name.into()));
        }
        assert_eq!(DiskName::given("naa.5", Some("1")), DiskName::Own("naa.5\x001".into()));
    }
}
