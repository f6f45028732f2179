//! Loop devices on files by FUSE.

use super::rig::{dir, number, open, pattern, program};
use super::{ENOSPC, NQN};
use crate::support::Server;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use weft_testing::wait::until;
use weft_testing::{programs, skip};

/// Returns whether this system has loop devices; otherwise the test is skipped.
fn has_loops() -> bool {
    let opens = File::options().read(true).write(true).open("/dev/loop-control").is_ok();
    if !opens {
        skip("this system has no /dev/loop-control");
    }
    opens && programs::have(&["losetup", "mkfs.ext4", "mount", "umount", "e2fsck"])
}

#[test]
fn a_new_size_is_seen_while_the_file_is_open() {
    let Some(dir) = dir("fuse-size") else { return };
    let place = dir.make("mnt");
    let image = dir.path().join("image.img");
    File::create(&image).unwrap().set_len(8 << 20).unwrap();
    let (listen, path) = (format!("fuse:{}", place.display()), place.join("disk"));
    let args = ["file:image.img", "--listen", "nvme+tcp://127.0.0.1:0", "--listen", &listen];
    let server = Server::start(dir.path(), &args);
    assert_eq!(Path::new(&server.urls[1]), path);
    let file = open(&path);
    let show = ["losetup", "--find", "--show", path.to_str().unwrap()];
    let loops = has_loops().then(|| program(&show));
    let device = loops.as_deref().map(str::trim);
    let size_of = |device| {
        let name = Path::new(device).file_name().unwrap().to_str().unwrap();
        std::fs::read_to_string(format!("/sys/block/{name}/size")).unwrap().trim().to_owned()
    };
    for (mib, size) in [(2, "2MiB"), (8, "all")] {
        dir.done(&["namespace", "resize", "1", size, "--force"]);
        until("the file has its new size", || file.metadata().unwrap().len() == mib << 20);
        if let Some(device) = device {
            let sectors = (mib << 11).to_string();
            until("the loop device has its new size", || size_of(device) == sectors);
        }
        file.write_all_at(&[1], (mib << 20) - 1).unwrap();
        assert_eq!(number(file.write_at(&[1], mib << 20)), ENOSPC);
    }
    if let Some(device) = device {
        program(&["losetup", "-d", device]);
        until("the loop device has ended", || size_of(device) == "0");
    }
    drop(file);
    assert!(server.terminate().success());
    assert!(place.read_dir().unwrap().next().is_none());
}

/// Returns whether a loop device is on a file in this directory: other tests take its number as
/// soon as it is free.
fn is_of(name: &str, directory: &Path) -> bool {
    let file = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
    file.is_ok_and(|file| file.starts_with(directory.to_str().unwrap()))
}

#[test]
fn a_loop_device_is_a_disk_of_the_system() {
    let Some(dir) = dir("fuse-loop") else { return };
    if !has_loops() {
        return;
    }
    let target = Server::start(dir.path(), &["ram:64MiB,block=4096", "--nqn", NQN]);
    let connect = ["connect", target.url(), "--as", "loop", "--name", "disk"];
    dir.done(&connect);
    let device = dir.device("disk");
    let name = device.file_name().unwrap().to_str().unwrap().to_owned();
    let queue = |what: &str| {
        let text = std::fs::read_to_string(format!("/sys/block/{name}/{what}")).unwrap();
        text.trim().to_owned()
    };
    assert_eq!((queue("queue/logical_block_size"), queue("loop/dio")), ("4096".into(), "1".into()));
    assert_ne!(queue("queue/discard_max_bytes"), "0");
    let (device, inside) = (device.to_str().unwrap(), dir.make("inside"));
    program(&["mkfs.ext4", "-q", device]);
    program(&["mount", "-o", "discard", device, inside.to_str().unwrap()]);
    let mut text = File::create(inside.join("text")).unwrap();
    text.write_all(&pattern(0, 1 << 20)).unwrap();
    text.sync_all().unwrap();
    drop(text);
    let said = dir.refused(5, &["disconnect", device]);
    program(&["umount", inside.to_str().unwrap()]);
    assert!(said.contains("is mounted at"), "{said}");
    program(&["e2fsck", "-f", "-n", device]);

    // The process is killed below it: the same command makes it again.
    dir.kill("disk");
    let mut first = [0; 512];
    // Nobody has read this before: losetup may have kept the beginning in the page cache.
    assert!(File::open(device).unwrap().read_at(&mut first, 60 << 20).is_err());
    dir.done(&connect);
    let again = dir.device("disk");
    program(&["e2fsck", "-f", "-n", again.to_str().unwrap()]);
    program(&["mount", again.to_str().unwrap(), inside.to_str().unwrap()]);
    let same = std::fs::read(inside.join("text")).unwrap() == pattern(0, 1 << 20);
    program(&["umount", inside.to_str().unwrap()]);
    assert!(same);
    dir.done(&["disconnect", "disk"]);
    let again = again.file_name().unwrap().to_str().unwrap();
    assert!(!is_of(again, dir.path()), "the loop device has ended");
}

/// Whoever has lost the source ends the device without force, also where the server is gone.
#[test]
fn a_loop_device_that_lost_its_source_is_detached() {
    let Some(dir) = dir("fuse-loop-lost") else { return };
    if !has_loops() {
        return;
    }
    for more in [&[][..], &["--exit-on-loss"]] {
        let target = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
        let connect = ["connect", target.url(), "--as", "loop", "--name", "lost"];
        let connect = [&connect[..], &["--ctrl-loss-tmo", "1"], more].concat();
        dir.done(&connect);
        let device = dir.device("lost");
        let name = device.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(is_of(&name, dir.path()));
        assert!(target.terminate().success());
        if more.is_empty() {
            let lost = || dir.done(&["list", "-o", "json"]).contains("\"Lost\": true");
            until("the loss is known", lost);
            dir.done(&["disconnect", "lost"]);
        }
        until("the loop device has ended", || !is_of(&name, dir.path()));
    }
}
