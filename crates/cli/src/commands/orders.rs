//! Commands on standard input with which tests change what a running server serves.

use std::sync::Arc;
use weft_block::BlockDevice;
use weft_endpoint::inventory::{LiveInventory, NamespaceConfig};
use weft_proto::nvme::types::{Nqn, Nsid};

/// Executes one command: `add NSID SOURCE`, `remove NSID`, `resize NSID BLOCKS`, `deny` or `allow` (all hosts). Returns the new
/// generation.
///
/// # Errors
/// The reason why the command failed, in a sentence.
pub fn carry_out(
    order: &str,
    inventory: &LiveInventory,
    nqn: &Nqn,
    open: impl FnOnce(&str) -> Result<Arc<dyn BlockDevice>, String>,
) -> Result<u64, String> {
    let words: Vec<&str> = order.split_whitespace().collect();
    let unknown = || format!("\"{order}\" is not a command");
    let nsid = |word: &str| word.parse().map(Nsid).map_err(|_| unknown());
    let changed = match words[..] {
        ["add", at, url] => {
            let (at, device) = (nsid(at)?, open(url)?);
            inventory.change(|builder| builder.add_namespace(nqn, at, NamespaceConfig::named(device, &at.to_string())).map(drop))
        }
        ["remove", at] => {
            let at = nsid(at)?;
            inventory.change(|builder| builder.remove_namespace(nqn, at).map(drop))
        }
        ["resize", at, blocks] => {
            let (at, blocks) = (nsid(at)?, blocks.parse().map_err(|_| unknown())?);
            inventory.change(|builder| builder.resize_namespace(nqn, at, Some(blocks)).map(drop))
        }
        ["deny"] => inventory.change(|builder| {
            builder.subsystem_mut(nqn).map(|subsystem| {
                subsystem.hosts = Some(Vec::new()).into();
                subsystem.initiators = Some(Vec::new()).into();
            })
        }),
        ["allow"] => inventory.change(|builder| {
            builder.subsystem_mut(nqn).map(|subsystem| (subsystem.hosts, subsystem.initiators) = (None.into(), None.into()))
        }),
        _ => return Err(unknown()),
    };
    changed.map(|inventory| inventory.generation()).map_err(|e| e.to_string())
}
