//! Sources that a server has lost.

use std::time::Duration;
use weft_block::Presence;
use weft_endpoint::inventory::LiveInventory;

/// How often a server looks after its sources.
pub const LOOK: Duration = Duration::from_millis(500);

/// The URL of a source that is lost, if there is one. Hosts that are connected are told if that is
/// news.
pub fn lost(inventory: &LiveInventory) -> Option<String> {
    inventory.look_at_devices();
    let now = inventory.now();
    let gone = now.namespaces().find(|namespace| namespace.presence == Presence::Gone)?;
    Some(gone.device.url().to_owned())
}
