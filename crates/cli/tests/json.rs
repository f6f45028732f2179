//! The shape of what commands print as JSON: all members and their types, compared with
//! `recordings/json.txt`. Results of studies and configurations have schemas instead.
#![cfg(unix)]

use crate::connect::Dir;
use crate::support::Server;
use serde_json::Value;
use std::collections::BTreeSet;
use weft_testing::committed;

const NQN: &str = "nqn.2026-01.example.weft:json";

/// Adds a value and its members. Arrays of numbers or strings count as a whole: some are empty.
fn add(value: &Value, path: &str, shape: &mut BTreeSet<String>) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(items) => {
            let objects = items.iter().filter(|item| item.is_object());
            objects.for_each(|item| add(item, &format!("{path}[]"), shape));
            "array"
        }
        Value::Object(members) => {
            members.iter().for_each(|(name, it)| add(it, &format!("{path}.{name}"), shape));
            "object"
        }
    };
    shape.insert(format!("{path}: {kind}\n"));
}

#[test]
fn json_is_as_recorded() {
    let dir = Dir::new("json");
    let server = Server::start(dir.path(), &["ram:16MiB", "--nqn", NQN]);
    let (url, address) = (server.url(), format!("nvme+tcp://{}", server.address()));
    dir.done(&["connect", url, "--as", "nbd", "--serve-only", "--name", "disk"]);
    let bench = ["bench", url, "--rw=randrw", "--bs=4k", "--number_ios=256", "--time_based=0"];
    let mut text = String::new();
    for command in [
        &[&bench[..], &["--output-format=json"]].concat()[..],
        &["status", "--json"],
        &["list", "-o", "json"],
        &["list-subsys", "-o", "json"],
        &["discover", &address, "-o", "json"],
        &["id-ctrl", url, "-o", "json"],
        &["id-ns", url, "-o", "json"],
        &["list-ns", url, "-o", "json"],
        &["smart-log", url, "-o", "json"],
        &["ana-log", url, "-o", "json"],
    ] {
        let mut shape = BTreeSet::new();
        add(&serde_json::from_str(&dir.done(command)).unwrap(), "", &mut shape);
        text.extend([format!("\n{}\n", command[0])].into_iter().chain(shape));
    }
    committed::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/recordings/json.txt"), &text);
}
