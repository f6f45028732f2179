//! Names of files: random ones that are recorded, so that no two disks have one.

use crate::support::{Scratch, Server, run, weft};
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// The namespace of UUIDs that earlier versions derived from a machine and a path.
const PATHS: Uuid = Uuid::from_u128(0x6c1f_3a52_7d0e_4b7b_9c55_2f6f_1e80_a9d4);

/// Serves a file with a state directory. Gives the NGUID that hosts see, the name of the subsystem,
/// and the log.
fn serve(dir: &Path, source: &str, state: &Path) -> (String, String, String) {
    let log = dir.join("log");
    let mut command = weft(dir, &["serve", source, "--listen", "nvme+tcp://127.0.0.1:0"]);
    command.env("WEFT_STATE_DIR", state).stderr(std::fs::File::create(&log).unwrap());
    let server = Server::spawn(command);
    let ran = run(weft(dir, &["id-ns", server.url(), "-o", "json"]));
    assert_eq!(ran.code(), Some(0), "{ran:?}");
    let namespace: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let name = server.url().rsplit('/').next().unwrap().to_owned();
    drop(server);
    let nguid = namespace["nguid"].as_str().unwrap().to_owned();
    (nguid, name, std::fs::read_to_string(log).unwrap())
}

fn disk(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, vec![0; 1 << 20]).unwrap();
    path
}

#[test]
fn two_machines_give_files_of_one_path_different_names() {
    let Some(dir) = Scratch::lasting("names-machines") else { return };
    disk(dir.path(), "disk.img");
    let [one, other] = ["a", "b"].map(|state| dir.path().join(state));
    let serve = |state| serve(dir.path(), "./disk.img", state);
    let (first, subsystem, log) = serve(&one);
    assert!(!log.contains("new at each start"), "{log}");
    let (second, ..) = serve(&other);
    assert_ne!(first, second);
    let (again, same_subsystem, _) = serve(&one);
    assert_eq!((&again, &same_subsystem), (&first, &subsystem));
    // A machine that was copied with its state directory has the same names until they are renewed.
    let ran = run({
        let mut command = weft(dir.path(), &["config", "renew-names"]);
        command.env("WEFT_STATE_DIR", &one);
        command
    });
    assert!(ran.code() == Some(0) && ran.out.contains("names of 1 files and disks"), "{ran:?}");
    let (renewed, other_subsystem, _) = serve(&one);
    assert!(renewed != first && renewed != second && other_subsystem != subsystem);
}

#[test]
fn a_copy_and_a_later_file_have_names_of_their_own() {
    let Some(dir) = Scratch::lasting("names-copies") else { return };
    let (path, state) = (disk(dir.path(), "disk.img"), dir.path().join("own"));
    let name = |source: &str| serve(dir.path(), source, &state).0;
    let first = name("./disk.img");
    std::fs::copy(&path, dir.path().join("copy.img")).unwrap();
    assert_ne!(name("./copy.img"), first);
    std::fs::rename(&path, dir.path().join("moved.img")).unwrap();
    let file = std::fs::File::open(dir.path().join("moved.img")).unwrap();
    if weft_io::file_system::identifier(&file).is_some() {
        assert_eq!(name("./moved.img"), first);
        disk(dir.path(), "disk.img");
        assert_ne!(name("./disk.img"), first);
    }
    let uuid = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";
    assert_eq!(name(&format!("./moved.img,uuid={uuid}")), uuid.replace('-', ""));
}

/// The state directory of an earlier version has its records, and none of names.
#[test]
fn what_an_earlier_version_served_keeps_its_name() {
    let Some(dir) = Scratch::lasting("names-former") else { return };
    let (path, state) = (disk(dir.path(), "disk.img"), dir.path().join("own"));
    std::fs::create_dir(&state).unwrap();
    std::fs::write(state.join("subsysnqn"), "nqn.2026-01.example.weft:kept\n").unwrap();
    let (name, subsystem, _) = serve(dir.path(), "./disk.img", &state);
    assert_eq!(subsystem, "nqn.2026-01.example.weft:kept");
    let machine = std::fs::read_to_string("/etc/machine-id").unwrap_or_default();
    if Uuid::parse_str(machine.trim()).is_ok_and(|id| !id.is_nil()) {
        let path = path.canonicalize().unwrap();
        let words = [machine.trim().as_bytes(), b"\0", path.as_os_str().as_encoded_bytes()];
        let derived = Uuid::new_v5(&PATHS, &words.concat());
        assert_eq!(name, derived.simple().to_string());
    } else {
        weft_testing::skip("this machine has no machine-id");
    }
    assert_eq!(serve(dir.path(), "./disk.img", &state).0, name);
    // Nobody has seen this one.
    let fresh = disk(dir.path(), "fresh.img").canonicalize().unwrap();
    let words = [machine.trim().as_bytes(), b"\0", fresh.as_os_str().as_encoded_bytes()];
    if std::fs::metadata(&fresh).unwrap().created().is_ok() {
        let derived = Uuid::new_v5(&PATHS, &words.concat()).simple().to_string();
        assert_ne!(serve(dir.path(), "./fresh.img", &state).0, derived);
    }
}

#[test]
fn where_nothing_lasts_names_are_new_at_each_start_and_the_log_says_so() {
    let dir = Scratch::new("names-passing");
    disk(dir.path(), "disk.img");
    let in_the_way = dir.path().join("link");
    // Nothing lies behind it, and nothing can be made there.
    std::os::unix::fs::symlink("nowhere/else", &in_the_way).unwrap();
    let in_the_way = in_the_way.join("state");
    let memory = Path::new("/dev/shm");
    let memory = weft_io::file_system::passing(memory).map(|_| memory.join("weft-no-names"));
    for state in [Some(in_the_way), memory].into_iter().flatten() {
        let starts = [(); 2].map(|()| serve(dir.path(), "./disk.img", &state));
        assert_ne!(starts[0].0, starts[1].0);
        for (.., log) in &starts {
            for text in ["new at each start", "uuid=UUID", "WEFT_STATE_DIR"] {
                assert!(log.contains(text), "{log}");
            }
        }
        let named = "./disk.img,uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8";
        let (_, _, log) = serve(dir.path(), named, &state);
        assert!(!log.contains("new at each start"), "{log}");
    }
    let _ = std::fs::remove_dir_all("/dev/shm/weft-no-names");
}
