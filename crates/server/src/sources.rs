//! Sources that a server has lost.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use weft_block::{Error, Presence};
use weft_endpoint::ConnectOptions;
use weft_endpoint::inventory::LiveInventory;

/// Interval at which a server looks after its sources.
pub const LOOK: Duration = Duration::from_millis(500);

/// After how long a path that is lost is given up by a server that ends with its sources, if
/// nothing else is said: nvme-cli's default.
const PATHS_END: Duration = Duration::from_secs(600);

/// With these options a source that is away is lost at some time.
pub fn paths_end(options: &mut ConnectOptions) {
    options.paths.ctrl_loss_timeout.get_or_insert(PATHS_END);
}

/// The URL of a source that is lost, if there is one. Notifies connected hosts if that is new.
pub fn lost(inventory: &LiveInventory) -> Option<String> {
    inventory.look_at_devices();
    let now = inventory.now();
    let gone = now.namespaces().find(|namespace| namespace.presence == Presence::Gone)?;
    Some(gone.device.url().to_owned())
}

/// Looks after the sources of an inventory, until the first of them is lost. Dropping it ends that.
pub struct LossWatch {
    watched: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl LossWatch {
    /// Starts to look; `on_loss` gets the URL.
    pub fn start(
        inventory: &Arc<LiveInventory>,
        on_loss: impl FnOnce(String) + Send + 'static,
    ) -> Result<Self, Error> {
        let (watched, ended) = mpsc::channel::<()>();
        let inventory = Arc::downgrade(inventory);
        let look = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                let Some(inventory) = Weak::upgrade(&inventory) else { return };
                if let Some(url) = lost(&inventory) {
                    return on_loss(url);
                }
            }
        };
        let thread = std::thread::Builder::new().name("weft-sources".into()).spawn(look);
        let failed = |e| Error::io(format!("no thread can be started: {e}"), e);
        Ok(Self { watched: Some(watched), thread: Some(thread.map_err(failed)?) })
    }
}

impl Drop for LossWatch {
    fn drop(&mut self) {
        drop(self.watched.take());
        if let Some(thread) = self.thread.take() {
            // It has panicked: that was said when it happened.
            let _ = thread.join();
        }
    }
}
