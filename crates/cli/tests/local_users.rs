//! What another user of the machine can put in weft's way: links where it writes, and clients of
//! its sockets.
#![cfg(target_os = "linux")]

use crate::support::{Scratch, run, weft};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// A user that owns nothing here.
const NOBODY: u32 = 65_534;

/// A directory of another user, as far as this one may give it away, and a file that is not that
/// user's.
struct Trap {
    theirs: PathBuf,
    precious: PathBuf,
}

impl Trap {
    fn new(dir: &Scratch) -> Self {
        let (theirs, precious) = (dir.path().join("theirs"), dir.path().join("precious"));
        fs::create_dir(&theirs).unwrap();
        fs::write(&precious, "as it was").unwrap();
        fs::set_permissions(&precious, Permissions::from_mode(0o600)).unwrap();
        // Without privileges the links are this user's own, and are not followed either.
        let _ = chown(&theirs, Some(NOBODY), None);
        Self { theirs, precious }
    }

    /// A link of the other user's to the file.
    fn set(&self, name: &str) {
        let link = self.theirs.join(name);
        symlink(&self.precious, &link).unwrap();
        let _ = lchown(&link, Some(NOBODY), None);
    }

    fn is_intact(&self) -> bool {
        fs::read_to_string(&self.precious).unwrap() == "as it was"
            && fs::metadata(&self.precious).unwrap().mode() & 0o777 == 0o600
    }
}

/// Serves a disk until it listens, or has refused to. The mode of the socket, if there is one.
fn mode_of_socket(dir: &Path, socket: &Path) -> Option<u32> {
    let listen = format!("vhost-user:{}?mode=660", socket.display());
    let mut command = weft(dir, &["serve", "file:disk.img,size=1MiB", "--listen", &listen]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let listens = lines.any(|line| line.starts_with("listening on "));
    let mode = listens.then(|| fs::symlink_metadata(socket).unwrap().mode() & 0o777);
    child.kill().unwrap();
    child.wait().unwrap();
    mode
}

#[test]
fn no_link_beside_a_socket_is_followed() {
    for name in ["disk.sock.disk.new", "disk.sock.disk", "disk.sock.new", "disk.sock"] {
        let dir = Scratch::new("links");
        let trap = Trap::new(&dir);
        trap.set(name);
        let mode = mode_of_socket(dir.path(), &trap.theirs.join("disk.sock"));
        assert!(trap.is_intact(), "{name} is followed");
        let is_in_the_way = name == "disk.sock";
        assert_eq!(mode, (!is_in_the_way).then_some(0o660), "{name}");
    }
}

#[test]
fn no_link_of_a_journal_is_followed() {
    for name in ["journal.lock", "journal.new"] {
        let dir = Scratch::new("journal");
        let trap = Trap::new(&dir);
        trap.set(name);
        fs::write(dir.path().join("from"), [1; 4096]).unwrap();
        let journal = trap.theirs.join("journal").display().to_string();
        let ran = run(weft(dir.path(), &["copy", "./from", "./to", "--journal", &journal]));
        assert!(trap.is_intact(), "{name} is followed");
        let refused = name == "journal.lock";
        assert_eq!(ran.status.success(), !refused, "{ran:?}");
        assert!(!refused || ran.message().contains("symbolic link"), "{ran:?}");
    }
}
