//! Files and disks that keep their name, and those that get another one.

use super::*;
use crate::limits::DISK_NAMES_MAX;
use std::fs;
use std::time::{Duration, SystemTime};

/// A state directory of a test's own.
struct State(PathBuf);

impl State {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("weft-naming-{}", Uuid::new_v4()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn disks(&self) -> PathBuf {
        self.0.join(DISKS)
    }

    /// The recorded name, wherever the directory is.
    fn name(&self, subject: &Subject) -> Uuid {
        let found = find(&self.disks(), subject).unwrap();
        let known = found.record.filter(|record| record.knows(subject));
        known.map_or_else(|| draw(&self.disks(), subject).unwrap(), |record| record.uuid)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn time(seconds: u64) -> Option<SystemTime> {
    Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
}

fn inode(number: u64) -> Option<Inode> {
    Some(Inode { file_system: "0123456789abcdef".into(), number })
}

fn file(number: u64, place: &str, born: u64) -> Subject {
    let (inode, born) = (inode(number), time(born));
    Subject { inode, place: place.into(), now: Some((number, 1)), born, former: None }
}

#[test]
fn a_file_keeps_its_name_where_it_is_moved_and_loses_it_with_its_inode() {
    let state = State::new();
    let name = state.name(&file(1, "/srv/a", 10));
    assert_eq!(state.name(&file(1, "/srv/a", 10)), name);
    assert_eq!(state.name(&file(1, "/srv/b", 10)), name, "it was moved");
    assert_ne!(state.name(&file(2, "/srv/a", 10)), name, "another file in its place");
    let later = state.name(&file(1, "/srv/a", 11));
    assert_ne!(later, name, "a later file has its inode");
    assert_eq!(state.name(&file(1, "/srv/a", 11)), later);
    let elsewhere = Subject {
        inode: Some(Inode { file_system: "another".into(), number: 1 }),
        ..file(1, "/srv/a", 11)
    };
    assert_ne!(state.name(&elsewhere), later);
    assert_ne!(State::new().name(&file(1, "/srv/a", 11)), later, "of another machine");
}

#[test]
fn without_a_lasting_inode_the_path_names_a_file_or_disk() {
    let state = State::new();
    let disk = Subject { place: "/dev/loop0\0/srv/a".into(), ..Subject::default() };
    let name = state.name(&disk);
    assert_eq!(state.name(&disk), name);
    let other = Subject { place: "/dev/loop0\0/srv/b".into(), ..Subject::default() };
    assert_ne!(state.name(&other), name);
    let unknown = Subject { inode: None, ..file(1, "/srv/a", 10) };
    let name = state.name(&unknown);
    assert_eq!(state.name(&file(1, "/srv/a", 10)), name, "the file system tells more now");
    assert_eq!(state.name(&file(1, "/srv/b", 10)), name, "which was recorded");
    assert_ne!(state.name(&Subject { inode: None, ..file(1, "/srv/a", 11) }), name);
}

/// A snapshot that is mounted has the same inodes.
#[cfg(unix)]
#[test]
fn a_copy_of_a_file_system_has_names_of_its_own_while_the_original_is_there() {
    use std::os::unix::fs::MetadataExt;
    let state = State::new();
    let path = state.0.join("image");
    fs::write(&path, "data").unwrap();
    let found = fs::metadata(&path).unwrap();
    let original = Subject {
        inode: inode(found.ino()),
        place: path.clone(),
        now: Some((found.ino(), found.dev())),
        born: found.created().ok(),
        former: None,
    };
    let copy = Subject {
        place: "/mnt/snapshot/image".into(),
        now: Some((found.ino(), found.dev() + 1)),
        ..original.clone()
    };
    let name = state.name(&original);
    let other = state.name(&copy);
    assert_ne!(other, name);
    assert_eq!((state.name(&copy), state.name(&original)), (other, name));
    fs::remove_file(&path).unwrap();
    assert_eq!(state.name(&copy), name, "it takes the place of the original");
}

#[test]
fn names_of_an_earlier_version_are_kept_where_there_was_one() {
    let former = Uuid::new_v4();
    let before = Subject { former: Some(former), ..file(1, "/srv/a", 10) };
    let unknown = Subject { born: None, former: Some(former), ..file(5, "/srv/b", 0) };
    let later = Subject { born: time(1 << 33), ..before.clone() };
    let fresh = State::new();
    settle(&fresh.0);
    // What this version records is no record of an earlier one.
    fs::write(fresh.0.join("subsysnqn"), "a").unwrap();
    settle(&fresh.0);
    assert_ne!(fresh.name(&before), former);
    let used = State::new();
    fs::write(used.0.join("subsysnqn"), "a").unwrap();
    if file_system::passing(&used.0).is_some() {
        return weft_testing::skip("the directory of temporary files does not last");
    }
    settle(&used.0);
    let image = State::new();
    fs::write(image.0.join("disk.img"), "").unwrap();
    settle(&image.0);
    assert_ne!(image.name(&before), former, "an image is no record");
    assert_ne!(used.name(&later), former, "nobody has seen it");
    assert_eq!((used.name(&before), used.name(&unknown)), (former, former));
    fs::remove_file(used.disks().join("origin.json")).unwrap();
    assert_eq!(used.name(&before), former, "it is recorded");
    assert_eq!(forget(&used.0).unwrap(), 2);
    assert_ne!(used.name(&before), former, "it was renewed");
}

#[test]
fn a_damaged_record_is_named_and_not_replaced() {
    let state = State::new();
    let subject = file(1, "/srv/a", 10);
    state.name(&subject);
    let path = record::all(&state.disks()).unwrap().remove(0);
    for text in
        ["", "{", "{\"version\":2,\"uuid\":\"6ba7b810-9dad-11d1-80b4-00c04fd430c8\",\"places\":[]}"]
    {
        fs::write(&path, text).unwrap();
        let said = draw(&state.disks(), &subject).unwrap_err().to_string();
        assert!(said.contains("delete it") && said.contains(".json"), "{said}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn where_nothing_lasts_a_process_gives_names_of_its_own() {
    let subject = file(1, "/srv/a", 10);
    let passing = |names: &StateNames, text: &str| {
        let name = names.name(&subject);
        let why = name.passing.clone().unwrap().why;
        assert!(why.contains(text), "{why}");
        assert_eq!(names.name(&subject), name);
        name.uuid
    };
    let none = passing(&StateNames::new(None), "there is no state directory");
    assert_ne!(passing(&StateNames::new(None), "there is no state directory"), none);
    let state = State::new();
    fs::write(state.disks(), "in the way").unwrap();
    let text = file_system::passing(&state.0).unwrap_or("cannot be used");
    let names = StateNames::new(Some(state.0.clone()));
    passing(&names, text);
    // Whatever can be recorded later.
    fs::remove_file(state.disks()).unwrap();
    passing(&names, text);
    if file_system::passing(Path::new("/dev/shm")).is_some() {
        let names = StateNames::new(Some("/dev/shm/weft-naming-none".into()));
        passing(&names, "/dev/shm/weft-naming-none is on a tmpfs");
        assert!(!Path::new("/dev/shm/weft-naming-none").exists());
    }
}

#[test]
fn records_of_files_that_are_gone_make_room() {
    let state = State::new();
    let (gone, here) = (file(1, "/no-such-file", 10), file(2, "/", 10));
    let names = [&gone, &here].map(|subject| state.name(subject));
    let text = fs::read(find(&state.disks(), &gone).unwrap().place).unwrap();
    for _ in 2..DISK_NAMES_MAX {
        fs::write(state.disks().join(format!("{}.json", Uuid::new_v4())), &text).unwrap();
    }
    state.name(&file(3, "/", 10));
    assert_eq!(record::all(&state.disks()).unwrap().len(), 2);
    assert_eq!(state.name(&here), names[1]);
    assert_ne!(state.name(&gone), names[0]);
}
