//! A thread that asks the monitors of the cluster whether they are there.

use super::driver::Input;
use super::store::Store;
use super::thread;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use weft_block::Error;
use weft_group::Event;

/// See the module.
pub struct Monitors(Sender<()>);

impl Monitors {
    /// Starts it; answers become inputs of the driver.
    pub fn start(store: &Arc<Store>, inputs: Sender<Input>) -> Result<Self, Error> {
        let (ask, asked) = mpsc::channel::<()>();
        let store = Arc::clone(store);
        let work = move || {
            for () in asked {
                // It waits for them as long as it takes.
                let answer = Event::Monitors(store.objects.catch_up().is_ok());
                if inputs.send(Input::Event(answer)).is_err() {
                    break;
                }
            }
        };
        thread("monitors", work)?;
        Ok(Self(ask))
    }

    /// Asks, later.
    pub fn ask(&self) {
        // The thread lives as long as this.
        let _ = self.0.send(());
    }
}
