use super::*;
use std::env;

fn entry(name: &str) -> Entry {
    Entry {
        name: name.into(),
        url: "ram:1MiB".into(),
        protocol: "nbd".into(),
        served: "nbd+unix:///1?socket=x".into(),
        iqn: String::new(),
        port: 0,
        chap_user: String::new(),
        pid: 1,
        serial: String::new(),
        model: String::new(),
        firmware: String::new(),
        used_bytes: None,
        bytes: 1 << 20,
        block_bytes: 512,
        device: String::new(),
        attached: false,
        lost: false,
        by_daemon: false,
        uuid: String::new(),
        shared: false,
        paths: Vec::new(),
    }
}

/// The system's initiator connects again to where the killed server was.
#[test]
fn what_outlives_its_server_is_kept_for_the_next_one() {
    let path = env::temp_dir().join(format!("weft-left-{}", std::process::id()));
    make_private(&path).unwrap();
    let runtime = Runtime(path.clone());
    let disk = Entry { protocol: "iscsi".into(), attached: true, ..entry("a") };
    runtime.write(&disk).unwrap();
    fs::write(runtime.secret("a"), "secret").unwrap();
    assert!(runtime.list().unwrap().is_empty());
    assert_eq!(runtime.left().unwrap()[0].name, "a");
    let free = |runtime: &Runtime| runtime.check_free("a").is_ok();
    // One that fails to start leaves it for the next one.
    let held = runtime.hold("a").unwrap();
    assert!(held.left().is_some() && !free(&runtime) && runtime.forget_left("a").is_err());
    drop(held);
    // See below.
    while !free(&runtime) {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let mut held = runtime.hold("a").unwrap();
    held.serve(&disk).unwrap();
    assert!(runtime.secret("a").exists() && runtime.left().unwrap().is_empty());
    drop(held);
    assert!(!runtime.secret("a").exists(), "it has ended in order");
    runtime.write(&disk).unwrap();
    while runtime.forget_left("a").is_err() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(runtime.left().unwrap().is_empty());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn notes_of_the_dead_are_taken_away() {
    let path = env::temp_dir().join(format!("weft-entries-{}", std::process::id()));
    make_private(&path).unwrap();
    let runtime = Runtime(path.clone());
    let held = runtime.hold("a").unwrap();
    assert_eq!(runtime.hold("a").err().unwrap().kind(), ErrorKind::InUse);
    runtime.write(&entry("a")).unwrap();
    runtime.write(&entry("b")).unwrap();
    fs::write(runtime.file("c", "json"), "{").unwrap();
    let names = |runtime: &Runtime| {
        runtime.list().unwrap().into_iter().map(|entry| entry.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&runtime), ["a"]);
    assert!(!runtime.file("b", "json").exists() && !runtime.file("c", "json").exists());
    assert!(runtime.find("a").is_some() && runtime.find("b").is_none());
    drop(held);
    // A process that another test is just starting has the lock's descriptor until its program
    // begins.
    while runtime.hold("a").is_err() || !names(&runtime).is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(!runtime.file("a", "lock").exists() && !runtime.file("b", "lock").exists());
    fs::remove_dir_all(path).unwrap();
}

#[test]
fn the_states_of_paths_are_those_that_the_server_notes() {
    let path = env::temp_dir().join(format!("weft-paths-{}", std::process::id()));
    make_private(&path).unwrap();
    let runtime = Runtime(path.clone());
    let mut held = runtime.hold("a").unwrap();
    held.serve(&entry("a")).unwrap();
    let found = || runtime.find("a").unwrap();
    assert_eq!((found().state(), found().paths().len()), ("live", 1));
    let of = |url: &str, state: &str| EntryPath {
        url: url.into(),
        state: state.into(),
        access: "optimized".into(),
    };
    let paths = [of("nbd://h/x", "connecting"), of("nbd://i/x", "live")];
    runtime.note_paths("a", &paths).unwrap();
    assert_eq!((found().state(), found().paths()), ("live", paths.to_vec()));
    runtime.note_paths("a", &paths[..1]).unwrap();
    // Another process writes what it has read.
    runtime.write(&found()).unwrap();
    runtime.note_paths("a", &[of("nbd://h/x", "connecting")]).unwrap();
    assert_eq!(found().state(), "connecting");
    runtime.note_loss("a");
    assert_eq!(found().state(), "dead");
    drop(held);
    assert!(!runtime.file("a", "paths").exists());
    fs::remove_dir_all(path).unwrap();
}

/// That of a process of an earlier version, which goes on after an update.
#[test]
fn a_record_is_read_and_written_as_it_was() {
    let kept = include_str!("recorded.json").replace("\r\n", "\n");
    let entry: Entry = serde_json::from_str(&kept).unwrap();
    assert_eq!((entry.port, entry.pid, entry.used_bytes), (3260, 4711, Some(4096)));
    assert!(entry.attached && entry.by_daemon && !entry.lost && !entry.shared);
    assert_eq!(serde_json::to_string_pretty(&entry).unwrap() + "\n", kept);
}
