//! Requests for things that weft lacks are refused in words, and not done by halves: the rows of
//! `docs/limitations.md` that a command line shows.

use crate::support::{Scratch, run, weft};

const NQN: &str = "nqn.2026-01.example.weft:limitations";

/// The command ends with status 2, and says so.
fn refused(dir: &Scratch, args: &[&str], word: &str) {
    let ran = run(weft(dir.path(), args));
    assert_eq!(ran.code(), Some(2), "{args:?}: {ran:?}");
    assert!(ran.err.contains(word), "{args:?}: {word:?} is not in {}", ran.err);
}

#[test]
fn there_are_no_further_transports() {
    let dir = Scratch::new("lack-transports");
    for scheme in ["nvme+fc", "iser", "nvme+vfio", "srp"] {
        refused(
            &dir,
            &["serve", "null:1MiB", "--listen", &format!("{scheme}://127.0.0.1")],
            "must start with nvme+tcp://",
        );
        refused(
            &dir,
            &["bench", &format!("{scheme}://127.0.0.1/{NQN}")],
            "there is no source type",
        );
    }
}

#[test]
fn files_are_raw_images() {
    let dir = Scratch::new("lack-images");
    refused(&dir, &["bench", "qcow2:/srv/disk.qcow2"], "there is no source type qcow2:");
}

#[test]
fn nvme_over_rdma_has_no_digests() {
    let dir = Scratch::new("lack-rdma");
    let url = format!("nvme+rdma://127.0.0.1:1/{NQN}");
    refused(&dir, &["bench", &url, "--hdr-digest"], "has no digests");
    refused(&dir, &["bench", &url, "--data-digest"], "has no digests");
}

#[test]
fn mdns_announces_nvme_tcp_only() {
    let dir = Scratch::new("lack-mdns");
    refused(
        &dir,
        &["serve", "null:1MiB", "--listen", "iscsi://127.0.0.1:0", "--mdns"],
        "--mdns announces NVMe/TCP only",
    );
}

#[test]
fn nbd_has_no_pre_shared_keys() {
    let dir = Scratch::new("lack-keys");
    refused(
        &dir,
        &["bench", "nbds://127.0.0.1:1/disk?tls-psk-file=keys"],
        "pre-shared keys are not supported",
    );
}

#[test]
fn paths_are_not_discovered_over_nbd_and_images_have_one() {
    let dir = Scratch::new("lack-paths");
    refused(
        &dir,
        &["bench", "nbd://127.0.0.1:1/disk", "--path", "discover"],
        "cannot be discovered",
    );
    refused(
        &dir,
        &["bench", "rbd:pool/image", "--path", "nbd://127.0.0.1:1/disk"],
        "needs no further paths",
    );
}

#[test]
fn a_list_has_one_level_and_no_paths_and_a_mirror_three_legs_at_most() {
    let dir = Scratch::new("lack-lists");
    refused(
        &dir,
        &["bench", "stripe:64KiB,mirror:ram:8MiB,ram:8MiB"],
        "a list cannot contain another list",
    );
    refused(
        &dir,
        &["bench", "mirror:mirror:ram:8MiB,ram:8MiB,ram:8MiB"],
        "a list cannot contain another list",
    );
    refused(
        &dir,
        &["bench", "stripe:ram:1MiB,ram:1MiB", "--path", "nbd://127.0.0.1:1/disk"],
        "several; open it without",
    );
    refused(
        &dir,
        &["bench", "mirror:ram:8MiB,ram:8MiB,ram:8MiB,ram:8MiB"],
        "two or three legs, not 4",
    );
}

#[test]
fn nobody_asks_an_isns_server() {
    let dir = Scratch::new("lack-isns");
    refused(&dir, &["discover", "isns://127.0.0.1"], "wrong scheme");
}

#[test]
fn devices_are_attached_by_five_protocols() {
    let dir = Scratch::new("lack-attached");
    refused(
        &dir,
        &["connect", &format!("nvme+tcp://127.0.0.1:1/{NQN}"), "--as", "fc"],
        "possible values: auto, iscsi, nbd, ublk, loop, fuse",
    );
}

#[test]
fn data_is_verified_by_one_checksum_and_in_blocks_without_zones() {
    let dir = Scratch::new("lack-bench");
    refused(&dir, &["bench", "ram:1MiB", "--verify=md5"], "none or crc32c");
    refused(&dir, &["bench", "ram:1MiB", "--rw=zoneappend"], "rw must be one of");
}
