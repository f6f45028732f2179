//! The CHAP secrets of `weft connect`.
#![cfg(unix)]

use crate::support::{Scratch, run, weft};
use std::collections::HashSet;

/// One for each connection, and another one when the same name connects again: what somebody saw
/// once is of no use later.
#[test]
fn each_connection_has_a_secret_of_its_own() {
    let dir = Scratch::new("secrets");
    let done = |args: &[&str]| {
        let ran = run(weft(dir.path(), args));
        assert_eq!(ran.code(), Some(0), "{args:?}: {ran:?}");
        ran.out
    };
    let mut secrets = HashSet::new();
    for names in [&["one", "two"][..], &["one"]] {
        for name in names {
            done(&["connect", "ram:1MiB", "--as", "iscsi", "--serve-only", "--name", name]);
        }
        let list: serde_json::Value = serde_json::from_str(&done(&["list", "-o", "json"])).unwrap();
        for device in list["Devices"].as_array().unwrap() {
            assert!(secrets.insert(
                std::fs::read_to_string(device["ChapSecretFile"].as_str().unwrap()).unwrap()
            ));
        }
        done(&["disconnect", "--all"]);
    }
    assert_eq!(secrets.len(), 3);
}
