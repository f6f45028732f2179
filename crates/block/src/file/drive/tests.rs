//! Locks, refusals and properties on a scripted machine: drive 0 holds the system and D:, drive 1
//! holds E:, and F: lies on drives 1 and 2.

use super::super::facts::{DiskName, Facts};
use super::answers::{Extent, alignment, describe, drive_number, extents, geometry, length};
use super::claim::{self, claim};
use super::name::{DriveName, read};
use super::script::{Opened, Script, description, extents_of, numbers};
use crate::limits::VOLUME_LOCK_TRIES;
use crate::outcome::error::{Error, ErrorKind};
use crate::outcome::refusal::Refusal;
use weft_io::drives::DriveQuestion as Q;

const E: &str = r"\\?\Volume{b75e2c83-0000-0000-0000-000000000001}";
const F: &str = r"\\?\Volume{b75e2c83-0000-0000-0000-000000000002}";
const CARD: &str = r"\\?\Volume{b75e2c83-0000-0000-0000-000000000003}";
const DRIVE: &str = r"\\.\PhysicalDrive4711";
const DENIED: i32 = 5;
const SHARING: i32 = 32;

fn extent(drive: u32, start: u64, end: u64) -> Extent {
    Extent { drive, start: start << 30, end: end << 30 }
}

fn machine() -> Script {
    let mut script = Script::default();
    let drive = |number: u32| {
        vec![
            (Q::Number, Ok(numbers(&[7, number, 0]))),
            (Q::Length, Ok((4_u64 << 40).to_le_bytes().to_vec())),
            (Q::Alignment, Ok(numbers(&[28, 28, 0, 0, 512, 4096, 0]))),
            (Q::Description, Ok(description("ACME", "Disk", "S1"))),
            (Q::Writable, Ok(Vec::new())),
        ]
    };
    let volume = |extents: &[Extent]| {
        let mut answers = drive(0);
        answers[0] = (Q::Extents, Ok(extents_of(extents)));
        answers
    };
    script.answers.insert(r"\\.\PhysicalDrive4710".into(), drive(0));
    script.answers.insert(DRIVE.into(), drive(1));
    script.answers.insert(r"\\.\C:".into(), volume(&[extent(0, 1, 100)]));
    script.answers.insert(r"\\.\D:".into(), volume(&[extent(0, 100, 200)]));
    script.answers.insert(E.into(), volume(&[extent(1, 1, 2)]));
    script.answers.insert(F.into(), volume(&[extent(2, 0, 9), extent(1, 2, 3)]));
    script.answers.insert(CARD.into(), vec![(Q::Extents, Err(21))]);
    script.volumes = vec![CARD, E, F, r"\\.\D:", r"\\.\C:"];
    script.mounted = [(r"\\.\C:", r"C:\"), (E, r"E:\")].into();
    script
}

fn refused(script: &Script, path: &str) -> Error {
    let claimed = claim(script, "the source", &read(path), false);
    claimed.err().unwrap_or_else(|| panic!("{path} was opened"))
}

#[test]
fn all_volumes_of_a_drive_are_locked_before_one_is_dismounted() {
    let script = machine();
    let claimed = claim(&script, DRIVE, &read(DRIVE), false).unwrap();
    assert_eq!(claimed.open.0, DRIVE);
    assert_eq!(
        claimed.volumes.iter().map(|Opened(path)| path.as_str()).collect::<Vec<_>>(),
        [E, F]
    );
    let done = [
        format!("WriteDrive {DRIVE}"),
        format!("WriteVolume {E}"),
        format!("Lock {E}"),
        format!("WriteVolume {F}"),
        format!("Lock {F}"),
        format!("Dismount {E}"),
        format!("Dismount {F}"),
    ];
    assert_eq!(script.done(), done);
}

#[test]
fn what_the_running_system_is_on_is_refused_for_writing() {
    let script = machine();
    for path in [r"\\.\PhysicalDrive4710", "C:"] {
        let volume = r"C:\".into();
        assert_eq!(refused(&script, path).refusal(), Some(&Refusal::RunningSystem { volume }));
        assert_eq!(script.done(), [""; 0], "nothing was touched");
    }
    // Another volume of the same drive is none of the system's.
    claim(&script, "D:", &read("D:"), false).unwrap();
    let mut script = machine();
    script.answers.insert(r"\\?\GLOBALROOT\boot".into(), script.answers[E].clone());
    let error = refused(&script, DRIVE);
    assert_eq!(error.kind(), ErrorKind::InUse, "{error}: it was started from there");
    let mut script = machine();
    script.answers.insert(r"\\.\C:".into(), vec![(Q::Extents, Err(1))]);
    let error = refused(&script, DRIVE).to_string();
    assert!(error.contains("cannot find out where the running system lies"), "{error}");
}

#[test]
fn a_volume_in_use_is_refused_in_one_sentence_and_leaves_all_as_they_were() {
    for times in [VOLUME_LOCK_TRIES - 1, VOLUME_LOCK_TRIES] {
        let script = machine();
        script.failures.borrow_mut().push((F, "Lock", DENIED, times));
        script.failures.borrow_mut().push((DRIVE, "WriteDrive", SHARING, 2));
        let claimed = claim(&script, DRIVE, &read(DRIVE), false);
        if times < VOLUME_LOCK_TRIES {
            claimed.unwrap();
            continue;
        }
        let by = format!("another program uses the volume {F}");
        assert_eq!(claimed.err().unwrap().refusal(), Some(&Refusal::Busy { by }));
        assert!(!script.done().iter().any(|done| done.starts_with("Dismount")));
    }
    let script = machine();
    script.failures.borrow_mut().push((E, "Lock", DENIED, 99));
    assert_eq!(
        refused(&script, E).to_string(),
        r"the source: another program uses the volume E:\; end that, or put readonly: in front of the source"
    );
}

#[test]
fn one_volume_is_locked_dismounted_and_open_to_its_last_block() {
    let script = machine();
    let claimed = claim(&script, E, &read(&format!(r"{E}\")), false).unwrap();
    assert!(claimed.volumes.is_empty());
    let done = ["WriteVolume", "Lock", "Unbound", "Dismount"].map(|what| format!("{what} {E}"));
    assert_eq!(script.done(), done);
    let place = E.to_lowercase();
    let former = Some(format!("machine\0{place}"));
    let name = DiskName::Here { place, former };
    assert_eq!(claimed.facts.name, Some(name), "the serial number is that of the whole drive");
}

#[test]
fn reading_locks_nothing() {
    let script = machine();
    for path in [r"\\.\PhysicalDrive4710", DRIVE, "C:"] {
        claim(&script, path, &read(path), true).unwrap();
    }
    assert!(
        script.done().iter().all(|done| done.starts_with("Read") || done.starts_with("Unbound"))
    );
}

#[test]
fn what_is_told_of_a_drive() {
    let mut script = machine();
    let claimed = claim(&script, DRIVE, &read(DRIVE), false).unwrap();
    assert_eq!(claim::bytes(&script, &claimed.open).unwrap(), 4 << 40);
    let facts = claimed.facts;
    assert_eq!((facts.logical_bytes, facts.physical_bytes), (Some(512), Some(4096)));
    assert_eq!(facts.name, Some(DiskName::Own("ACME Disk\0S1".into())));
    assert!(facts.volatile_cache && facts.unbuffered && !facts.read_only);
    let answers = script.answers.get_mut(DRIVE).unwrap();
    answers.retain(|(question, _)| !matches!(question, Q::Alignment | Q::Writable));
    answers.push((Q::Geometry, Ok(numbers(&[1, 0, 12, 255, 63, 4096]))));
    answers.push((Q::Writable, Err(19)));
    let facts = claim(&script, DRIVE, &read(DRIVE), false).unwrap().facts;
    assert_eq!((facts.logical_bytes, facts.read_only), (Some(4096), true));
    script.answers.get_mut(DRIVE).unwrap().retain(|(question, _)| *question != Q::Geometry);
    assert!(refused(&script, DRIVE).to_string().contains("block size"));
}

#[test]
fn discards_of_drives_and_volumes_do_nothing() {
    let facts = claim(&machine(), DRIVE, &read(DRIVE), false).unwrap().facts;
    assert!(!facts.discards);
}

#[test]
fn what_windows_does_not_open_is_explained() {
    let said = |code, what: &'static str| {
        let script = machine();
        script.failures.borrow_mut().push((DRIVE, what, code, 99));
        refused(&script, DRIVE)
    };
    let denied = said(DENIED, "WriteDrive");
    assert_eq!(denied.kind(), ErrorKind::PermissionDenied);
    assert!(denied.to_string().ends_with("run as administrator"), "{denied}");
    assert_eq!(said(21, "Ask").kind(), ErrorKind::NotFound);
    assert_eq!(said(19, "WriteDrive").refusal(), Some(&Refusal::ReadOnlyDisk));
    assert!(matches!(said(SHARING, "WriteDrive").refusal(), Some(Refusal::Busy { .. })));
    let none = refused(&machine(), r"\\.\PhysicalDrive4712");
    assert_eq!(none.kind(), ErrorKind::NotFound, "{none}");
    assert_eq!(refused(&machine(), r"\\.\COM1").refusal(), Some(&Refusal::NeitherDriveNorVolume));
    assert!(matches!(read(DRIVE), DriveName::Drive(_)));
}

#[test]
fn sizes_are_read_or_not_there() {
    assert_eq!(length(&(4_u64 << 40).to_le_bytes()), Some(4 << 40));
    assert_eq!((length(&[0xff; 8]), length(&[0; 7]), length(&[])), (None, None, None));
    let answer = |logical, physical| numbers(&[28, 28, 0, 0, logical, physical, 0]);
    assert_eq!(alignment(&answer(512, 4096)), Some((512, 4096)));
    assert_eq!(alignment(&answer(4096, 0)), Some((4096, 4096)));
    assert_eq!(alignment(&answer(4096, 512)), Some((4096, 4096)));
    assert_eq!((alignment(&answer(0, 4096)), alignment(&answer(520, 520))), (None, None));
    assert_eq!(geometry(&numbers(&[1, 0, 12, 255, 63, 512])), Some(512));
    assert_eq!(geometry(&numbers(&[1, 0, 12, 255, 63])), None);
}

#[test]
fn only_drives_have_a_drive_number() {
    assert_eq!(drive_number(&numbers(&[7, 3, 0])), Some(3));
    assert_eq!(drive_number(&numbers(&[2, 0, 0])), None, "a CD-ROM");
}

#[test]
fn extents_are_read_whole_or_not_at_all() {
    let both = [
        Extent { drive: 1, start: 1 << 20, end: 3 << 20 },
        Extent { drive: 2, start: 0, end: 5 << 30 },
    ];
    let answer = extents_of(&both);
    assert_eq!(extents(&answer).as_deref(), Some(&both[..]));
    assert_eq!(extents(&answer[..answer.len() - 1]), None);
    assert_eq!(extents(&numbers(&[u32::MAX, 0])), None);
    assert!(both[0].overlaps(&Extent::whole(1)) && !both[0].overlaps(&Extent::whole(2)));
    let behind = Extent { drive: 1, start: 3 << 20, end: 4 << 20 };
    assert!(!both[0].overlaps(&behind) && !behind.overlaps(&both[0]));
}

#[test]
fn a_serial_number_makes_a_name() {
    let facts = |vendor, product, serial| {
        let mut facts = Facts::default();
        describe(&description(vendor, product, serial), &mut facts);
        (facts.model, facts.serial, facts.name)
    };
    let (model, serial, name) = facts("ACME    ", "Disk 1", "  S-1 ");
    assert_eq!((model.as_deref(), serial.as_deref()), (Some("ACME Disk 1"), Some("S-1")));
    assert_eq!(name, Some(DiskName::Own("ACME Disk 1\0S-1".into())));
    assert_eq!(facts("", "Disk", ""), (Some("Disk".into()), None, None));
    let mut odd = description("a", "b", "c");
    odd[24..28].copy_from_slice(&4000_u32.to_le_bytes());
    let mut facts = Facts::default();
    describe(&odd, &mut facts);
    assert_eq!((facts.serial, facts.name), (None, None), "behind the end");
}
