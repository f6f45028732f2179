//! Files: opening and refusing them, and changes underneath.

use crate::scratch::Scratch;
use weft_block::testing::{Rig, TestPlan};
use weft_block::{Device, Error, ErrorKind, OpenOptions, Refusal, open};

fn device(url: &str) -> Device {
    open(url, &OpenOptions::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(url: &str) -> Refusal {
    let error: Error =
        open(url, &OpenOptions::default()).err().unwrap_or_else(|| panic!("{url} opened"));
    error.refusal().cloned().unwrap_or_else(|| panic!("the system refused it: {error}"))
}

/// A refusal by the system has the kind that follows from it, and a way out.
fn refused_by_the_system(url: &str, kind: ErrorKind, way_out: &str) {
    let error: Error =
        open(url, &OpenOptions::default()).err().unwrap_or_else(|| panic!("{url} opened"));
    assert_eq!((error.kind(), error.refusal()), (kind, None), "{error}");
    assert!(error.to_string().contains(way_out), "{error}");
}

#[test]
fn a_file_is_created_sparse_and_keeps_its_data_and_name() {
    let scratch = Scratch::new();
    let first = device(&scratch.url("size=64MiB,block=4096"));
    assert_eq!((first.geometry().blocks, first.geometry().block_bytes), (16_384, 4096));
    let metadata = std::fs::metadata(&scratch.0).unwrap();
    assert_eq!(metadata.len(), 64 << 20);
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        assert!(metadata.blocks() * 512 < 1 << 20, "it takes up {} bytes", metadata.blocks() * 512);
    }
    let uuid = first.identity().uuid.unwrap();
    let rig = Rig::new(&first, TestPlan::default());
    rig.write(0, 1000, &[9; 8192]);
    rig.end();
    drop(first);
    let again = device(&scratch.url("block=4096"));
    assert_eq!(again.identity().uuid, Some(uuid));
    let rig = Rig::new(&again, TestPlan::default());
    assert_eq!(rig.read(0, 1000, 2), [9; 8192]);
    rig.end();
    drop(again);
    let other = Scratch::new();
    assert_ne!(device(&other.url("size=1MiB")).identity().uuid, Some(uuid));
    let named = device(&scratch.url("uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8"));
    assert_eq!(named.identity().uuid.unwrap().to_string(), "6ba7b810-9dad-11d1-80b4-00c04fd430c8");
}

/// Such a drive is on no machine: there is nothing to open, and nothing is made.
#[cfg(windows)]
#[test]
fn a_drive_that_is_not_there_is_not_found_and_other_devices_are_refused() {
    for url in [r"\\.\PhysicalDrive4711", r"file:\\.\PhysicalDrive4711,size=1MiB"] {
        refused_by_the_system(url, ErrorKind::NotFound, "Get-Disk");
        refused_by_the_system(&format!("readonly:{url}"), ErrorKind::NotFound, "Get-Disk");
    }
    for url in [r"\\.\COM4711", r"file:\\.\pipe\weft-4711,size=1MiB"] {
        assert_eq!(refused(url), Refusal::NeitherDriveNorVolume);
        assert_eq!(refused(&format!("readonly:{url}")), Refusal::NeitherDriveNorVolume);
    }
}

/// Its options are refused before it is opened.
#[cfg(windows)]
#[test]
fn a_drive_of_windows_is_neither_shared_nor_cached() {
    for option in ["lock=off", "direct=off"] {
        let url = format!(r"\\.\PhysicalDrive4711,{option}");
        assert!(matches!(refused(&url), Refusal::Contradiction { .. }), "{url}");
    }
}

#[test]
fn what_cannot_be_opened_is_refused_with_a_way_out() {
    let scratch = Scratch::new();
    assert_eq!(refused(&scratch.url("block=4096")), Refusal::NoSuchFile);
    assert_eq!(refused(&scratch.read_only("size=1MiB")), Refusal::NoSuchFile);
    assert_eq!(
        refused(&scratch.url("size=1000")),
        Refusal::NotWholeBlocks { bytes: 1000, block_bytes: 512 }
    );
    assert!(!scratch.0.exists(), "a refusal creates nothing");
    refused_by_the_system(
        "file:/no/such/directory/disk.img,size=1MiB",
        ErrorKind::NotFound,
        "create it or correct the path",
    );
    assert_eq!(refused("file:"), Refusal::NoPath);
    assert_eq!(
        refused(&format!("file:{}", std::env::temp_dir().display())),
        Refusal::NeitherFileNorDisk
    );
    std::fs::write(&scratch.0, [0; 5000]).unwrap();
    assert_eq!(
        refused(&scratch.url("size=1MiB")),
        Refusal::OtherSize { has: 5000, asked: 1 << 20 }
    );
    assert_eq!(
        refused(&scratch.url("block=512")),
        Refusal::OddFile { bytes: 5000, block_bytes: 512 }
    );
    assert!(matches!(
        refused(&scratch.url("direct=maybe")),
        Refusal::OptionValue { name: "direct", .. }
    ));
    std::fs::write(&scratch.0, []).unwrap();
    assert_eq!(
        refused(&scratch.url("block=512")),
        Refusal::NotWholeBlocks { bytes: 0, block_bytes: 512 }
    );
    #[cfg(target_os = "linux")]
    assert_eq!(refused("/dev/null"), Refusal::NeitherFileNorDisk);
}

#[test]
fn a_file_that_is_served_for_writing_is_refused_with_the_reason() {
    let scratch = Scratch::new();
    let first = device(&scratch.url("size=1MiB"));
    // Not every system tells who has the lock.
    let in_use = |url: &str| matches!(refused(url), Refusal::InUse { .. } | Refusal::InUseHere);
    assert!(in_use(&scratch.url("block=512")));
    assert!(in_use(&scratch.read_only("block=512")));
    #[cfg(target_os = "linux")]
    assert_eq!(refused(&scratch.url("block=512")), Refusal::InUseHere);
    drop(first);
    let readers =
        [device(&scratch.read_only("block=512")), device(&scratch.read_only("block=512"))];
    assert!(in_use(&scratch.url("block=512")));
    drop(readers);
    device(&scratch.url("block=512"));
}

#[cfg(unix)]
#[test]
fn a_file_without_permission_is_refused_or_opened_for_reading() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = Scratch::new();
    drop(device(&scratch.url("size=1MiB")));
    std::fs::set_permissions(&scratch.0, PermissionsExt::from_mode(0o444)).unwrap();
    // Root may write to whatever it likes, but not to this.
    let may_write_everything = std::fs::OpenOptions::new().write(true).open(&scratch.0).is_ok();
    let url = if may_write_everything {
        "file:/proc/sys/kernel/osrelease".into()
    } else {
        scratch.url("block=512")
    };
    refused_by_the_system(&url, ErrorKind::PermissionDenied, "readonly:");
    assert!(!device(&scratch.read_only("block=512")).features().write);
}

#[test]
fn paths_are_written_in_several_ways() {
    let scratch = Scratch::new();
    let path = format!("{},size=1,", scratch.0.display());
    drop(device(&format!("file:{path},size=1MiB")));
    let odd = Scratch(format!("{},size=1", scratch.0.display()).into());
    assert!(odd.0.exists(), "a bare comma ends the path");
    #[cfg(unix)]
    {
        assert_eq!(device(&format!("{path},block=512")).geometry().blocks, 2048);
        assert_eq!(device(&format!("file://{path}")).geometry().blocks, 2048);
    }
}
