//! The UUID of a file or disk: that of its own name, or one that is given to it ([`naming`]).
//!
//! [`naming`]: crate::naming

use super::disk::Disk;
use super::facts::{DiskName, Facts};
use super::system;
use crate::naming::{DeviceName, Inode, Naming, Subject, number_and_device};
use std::fs::File;
use std::path::{Path, PathBuf};
use uuid::Uuid;
use weft_io::file_system;

/// The namespace of UUIDs that earlier versions derived from a machine and a path.
const PATHS: Uuid = Uuid::from_u128(0x6c1f_3a52_7d0e_4b7b_9c55_2f6f_1e80_a9d4);

/// The namespace of UUIDs that are derived from the names that disks give themselves.
const DISKS: Uuid = Uuid::from_u128(0x0c9e_5b1f_2a67_4d83_b4e0_71d3_96fa_c258);

/// The name of a file that was just created, or that existed before.
pub(super) fn name_file(names: &dyn Naming, path: &Path, file: &File, is_new: bool) -> DeviceName {
    names.name(&of_file(path, file, is_new))
}

/// The name of a disk.
pub(super) fn name_disk(names: &dyn Naming, path: &Path, disk: &Disk, facts: &Facts) -> DeviceName {
    let subject = match &facts.name {
        Some(DiskName::Own(name)) => return DeviceName { uuid: of_name(name), passing: None },
        Some(DiskName::Here { place, former }) => Subject {
            place: place.into(),
            former: system::machine().and(former.as_deref()).map(of_name),
            ..Subject::default()
        },
        None => of_place(path, disk),
    };
    names.name(&subject)
}

fn of_file(path: &Path, file: &File, is_new: bool) -> Subject {
    let metadata = file.metadata().ok();
    let numbers = metadata.as_ref().and_then(number_and_device);
    let inode = numbers.and_then(|(number, _)| {
        Some(Inode { file_system: file_system::identifier(file)?, number })
    });
    let place = canonical(path);
    Subject {
        inode,
        now: numbers,
        // Windows gives a file that takes the place of another one its time of creation, too.
        born: numbers.and(metadata).and_then(|metadata| metadata.created().ok()),
        former: (!is_new).then(|| of_path(&place)).flatten(),
        place,
    }
}

/// A disk that nothing but its path names; a loop device with the file behind it.
fn of_place(path: &Path, disk: &Disk) -> Subject {
    let path = canonical(path);
    let place = match disk.backing() {
        Some(file) => format!("{}\0{file}", path.display()).into(),
        None => path.clone(),
    };
    Subject { place, former: of_path(&path), ..Subject::default() }
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The UUID of a disk, on whatever machine and under whatever path.
fn of_name(name: &str) -> Uuid {
    Uuid::new_v5(&DISKS, name.as_bytes())
}

/// The UUID that earlier versions derived from the machine and the path.
fn of_path(path: &Path) -> Option<Uuid> {
    let machine = system::machine()?;
    let name = [machine.as_bytes(), b"\0", path.as_os_str().as_encoded_bytes()].concat();
    Some(Uuid::new_v5(&PATHS, &name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_moved_is_the_same_and_a_copy_is_not() {
        let dir = std::env::temp_dir();
        let path = |name: &str| dir.join(format!("weft-subject-{}-{name}", std::process::id()));
        let [a, b, c] = ["a", "b", "c"].map(path);
        let subject = |path: &Path| of_file(path, &File::open(path).unwrap(), false);
        std::fs::write(&a, "data").unwrap();
        let first = subject(&a);
        std::fs::copy(&a, &c).unwrap();
        std::fs::rename(&a, &b).unwrap();
        let (moved, copy) = (subject(&b), subject(&c));
        assert_eq!((&moved.inode, moved.now, moved.born), (&first.inode, first.now, first.born));
        assert_ne!(moved.place, first.place);
        assert!(copy.inode != first.inode || first.inode.is_none());
        // It is the file itself.
        assert!(!first.is_copied_at(&b) && !first.is_copied_at(&c));
        let now = first.now.map(|(number, device)| (number, device + 1));
        let elsewhere = Subject { now, ..first.clone() };
        assert_eq!(elsewhere.is_copied_at(&b), first.inode.is_some());
        assert!(!elsewhere.is_copied_at(&c));
        assert_eq!(of_file(&b, &File::open(&b).unwrap(), true).former, None);
        [b, c].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    }
}
