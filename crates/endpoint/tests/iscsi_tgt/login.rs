//! Names, secrets and discovery.

use crate::tgt::{IQN, Tgt, options};
use weft_block::ErrorKind;
use weft_endpoint::source::ConnectOptions;
use weft_endpoint::source::iscsi::{IscsiOptions, discover};
use weft_endpoint::url::{ISCSI_PORT, IscsiUrl};
use weft_endpoint::{Disk, open};

const SECRET: &[u8] = b"a secret of weft's";
const TARGET_SECRET: &[u8] = b"a secret of tgt's";

fn with_chap(secret: &[u8], target_secret: Option<&[u8]>) -> ConnectOptions {
    let iscsi = IscsiOptions {
        user: Some("me".into()),
        secret: Some(secret.into()),
        target_user: target_secret.map(|_| "tgt".into()),
        target_secret: target_secret.map(Into::into),
        ..options().iscsi
    };
    ConnectOptions { iscsi, ..options() }
}

fn account(tgt: &Tgt, user: &str, secret: &[u8], outgoing: bool) {
    let secret = std::str::from_utf8(secret).unwrap();
    tgt.admin(&["--op", "new", "--mode", "account", "--user", user, "--password", secret]);
    let bind = ["--op", "bind", "--mode", "account", "--tid", "1", "--user", user];
    let outgoing: &[&str] = if outgoing { &["--outgoing"] } else { &[] };
    tgt.admin(&[&bind[..], outgoing].concat());
}

fn works(tgt: &Tgt, options: &ConnectOptions) {
    let disk = Disk::on(open(&tgt.url(), options).unwrap_or_else(|e| panic!("{e}"))).unwrap();
    disk.write(3, &[9; 8192]).unwrap();
}

fn refused(tgt: &Tgt, options: &ConnectOptions) -> String {
    let error = open(&tgt.url(), options).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    error.to_string()
}

#[test]
fn chap_one_way_and_mutual() {
    let Some(tgt) = Tgt::start() else { return };
    account(&tgt, "me", SECRET, false);
    works(&tgt, &with_chap(SECRET, None));
    assert!(refused(&tgt, &with_chap(b"another secret", None)).contains("authentication failed"));
    assert!(refused(&tgt, &options()).contains("--chap-secret-file"));
    account(&tgt, "tgt", TARGET_SECRET, true);
    works(&tgt, &with_chap(SECRET, Some(TARGET_SECRET)));
    assert!(
        refused(&tgt, &with_chap(SECRET, Some(b"not the target's")))
            .contains("failed to authenticate itself")
    );
}

#[test]
fn who_wants_proof_of_the_target_gets_it_or_leaves() {
    let Some(tgt) = Tgt::start() else { return };
    let error = open(&tgt.url(), &with_chap(SECRET, Some(TARGET_SECRET))).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
}

#[test]
fn digests_of_the_url() {
    let Some(tgt) = Tgt::start() else { return };
    let error = open(&format!("{}?data_digest=crc32c", tgt.url()), &options()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    tgt.take_digests();
    for parameters in [
        "header_digest=crc32c",
        "data_digest=crc32c",
        "header_digest=crc32c,none&data_digest=none,crc32c",
    ] {
        let disk =
            Disk::on(open(&format!("{}?{parameters}", tgt.url()), &options()).unwrap()).unwrap();
        disk.write(0, &[1; 1 << 16]).unwrap();
        let mut back = vec![0; 1 << 16];
        disk.read(0, &mut back).unwrap();
        assert!(back == [1; 1 << 16], "{parameters}");
    }
}

#[test]
fn targets_are_listed() {
    let Some(tgt) = Tgt::start() else { return };
    let other = "iqn.2026-01.example.tgt:other";
    tgt.admin(&["--op", "new", "--mode", "target", "--tid", "2", "-T", other]);
    tgt.admin(&["--op", "bind", "--mode", "target", "--tid", "2", "-I", "ALL"]);
    let url = IscsiUrl::parse(&format!("iscsi://127.0.0.1:{}", tgt.port), ISCSI_PORT).unwrap();
    let mut targets = discover(&url, &options()).unwrap();
    targets.sort_by(|a, b| a.name.cmp(&b.name));
    let names: Vec<_> = targets.iter().map(|target| target.name.as_str()).collect();
    assert_eq!(names, [IQN, other]);
    assert_eq!(targets[0].addresses, [format!("127.0.0.1:{},1", tgt.port)]);
}

#[test]
fn what_is_not_there_is_refused_in_one_sentence() {
    let Some(tgt) = Tgt::start() else { return };
    let error = |url: &str| open(url, &options()).err().unwrap();
    let other = error(&tgt.url().replace(":disk", ":none"));
    assert_eq!(other.kind(), ErrorKind::NotFound, "{other}");
    let other = error(&tgt.url().replace(":disk/1", ":disk/9"));
    assert!(other.to_string().contains("there is no disk at this LUN"), "{other}");
    // tgt's own controller is at LUN 0.
    let other = error(&format!("iscsi://127.0.0.1:{}/{IQN}/0", tgt.port));
    assert!(other.to_string().contains("there is no disk at this LUN"), "{other}");
    let other = error(&format!("iscsi://127.0.0.1:{}/{IQN}", tgt.port));
    assert!(other.to_string().contains("names no logical unit"), "{other}");
    let other = error(&format!("iscsi://127.0.0.1:{}", tgt.port));
    assert!(other.to_string().contains("`weft discover iscsi://127.0.0.1:"), "{other}");
}
