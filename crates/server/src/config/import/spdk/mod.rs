//! The output of SPDK's `save_config`: for each of its parts the calls that make it again.
//!
//! * `devices`: the part `bdev`, which makes devices, and the part `keyring`.
//! * `served`: the part `nvmf`, which serves them.

mod devices;
mod served;

use super::imported::Imported;
use super::json::list;
use devices::Devices;
use serde_json::Value;

/// Returns whether it is such a configuration.
pub fn is_of(json: &Value) -> bool {
    list(json, "subsystems").iter().any(|part| part["subsystem"].is_string())
}

/// Parts that would serve something, too.
const SERVING: [&str; 4] = ["iscsi", "nbd", "vhost_blk", "vhost_scsi"];

/// Takes over what can be taken over.
pub fn import(json: &Value) -> Imported {
    let mut imported = Imported::default();
    let keys = devices::keys(&calls(json, "keyring"));
    let devices = Devices::read(&calls(json, "bdev"), &keys, &mut imported);
    served::serve(&calls(json, "nvmf"), (&devices, &keys), &mut imported);
    let others = list(json, "subsystems").iter().filter(|of| !list(of, "config").is_empty());
    for part in
        others.filter_map(|of| of["subsystem"].as_str()).filter(|part| SERVING.contains(part))
    {
        imported.left.push(format!("the part \"{part}\" is not read: only bdev and nvmf are"));
    }
    imported
}

/// The calls of a part: methods with their parameters. Several may be in a batch.
fn calls<'a>(json: &'a Value, part: &str) -> Vec<(&'a str, &'a Value)> {
    let parts = list(json, "subsystems").iter().filter(|of| of["subsystem"] == part);
    let entries = parts.flat_map(|of| list(of, "config"));
    entries
        .flat_map(|entry| entry.as_array().map_or(std::slice::from_ref(entry), Vec::as_slice))
        .filter_map(|call| Some((call["method"].as_str()?, &call["params"])))
        .collect()
}
