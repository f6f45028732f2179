//! Sources that a server has lost: they are shown, and end the server where that is wanted.

use crate::exit::Failure;
use clap::Args;
use std::time::Duration;
use weft_block::Presence;
use weft_endpoint::inventory::LiveInventory;

/// How often a server looks after its sources.
pub const LOOK: Duration = Duration::from_millis(500);

/// The option.
#[derive(Args, Clone, Copy, Debug)]
pub struct LossArgs {
    /// End with status 13 when a source is lost for good (its target is gone, or another volume has taken its place); hosts are told first, as on SIGTERM [default: go on, and fail commands]
    #[arg(long)]
    pub exit_on_loss: bool,
}

/// The URL of a source that is lost, if there is one. Hosts that are connected are told if that is news.
pub fn lost(inventory: &LiveInventory) -> Option<String> {
    inventory.look_at_devices();
    let now = inventory.now();
    let gone = now.namespaces().find(|namespace| namespace.presence == Presence::Gone)?;
    Some(gone.device.url().to_owned())
}

/// How a server has ended: `stopped` as it was told to, or for the loss of a source. Then that it cannot be flushed is no news.
pub fn ended(lost: Option<String>, stopped: Result<(), Failure>) -> Result<(), Failure> {
    let Some(url) = lost else { return stopped };
    if let Err(e) = stopped {
        tracing::warn!("{e}");
    }
    Err(Failure::new(Failure::LOST, format!("{url}: the source is lost; this server ends because of --exit-on-loss")))
}
