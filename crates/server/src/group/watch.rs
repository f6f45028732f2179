//! Hears of changes that other gateways make: at once by a watch, and by looking now and then,
//! should the watch be lost.

use super::configuration::Configuration;
use super::driver::Input;
use super::store::{Store, Word};
use super::thread;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Weak};
use std::time::Duration;
use weft_block::Error;
use weft_ceph::Message;
use weft_endpoint::reservations::ReservationTable;
use weft_group::Event;

/// How often the watch is looked after.
const LOOK: Duration = Duration::from_secs(2);

/// Starts to hear.
pub fn start(
    store: &Arc<Store>,
    inputs: Sender<Input>,
    configuration: &Arc<Configuration>,
    reservations: ReservationTable,
) -> Result<(), Error> {
    let (store, configuration) = (Arc::clone(store), Arc::downgrade(configuration));
    let hear = move || {
        let mut kept = None;
        while let Some(known) = configuration.upgrade() {
            if kept.as_ref().is_none_or(|watch: &weft_ceph::Watch| !watch.is_kept()) {
                // The old one ends before there is a new one.
                drop(kept.take());
                let heard = hearing(
                    store.instance,
                    inputs.clone(),
                    Arc::downgrade(&known),
                    reservations.clone(),
                );
                match store.watch(heard) {
                    Ok(watch) => kept = Some(watch),
                    Err(e) => {
                        tracing::debug!("changes of other gateways are not heard of at once: {e}")
                    }
                }
                // What happened meanwhile was not told.
                known.look();
                let _ = inputs.send(Input::Event(Event::Changed));
                reservations.missed(Box::new(|| ()));
            }
            drop(known);
            std::thread::sleep(LOOK);
        }
    };
    thread("watch", hear)
}

/// What is done with each message.
fn hearing(
    instance: u64,
    inputs: Sender<Input>,
    configuration: Weak<Configuration>,
    reservations: ReservationTable,
) -> impl Fn(Message) + Send + Sync + 'static {
    move |message| match Word::parse(message.bytes()) {
        Some(Word::Reservations { by, .. }) if by == instance => {}
        Some(Word::Reservations { namespace, .. }) => {
            let answer = serde_json::to_vec(&instance).unwrap_or_default();
            reservations.changed_elsewhere(namespace, Box::new(move || message.answer(&answer)));
        }
        word => {
            if word != Some(Word::Configuration) {
                let _ = inputs.send(Input::Event(Event::Changed));
            }
            if word != Some(Word::Record)
                && let Some(configuration) = configuration.upgrade()
            {
                configuration.look();
            }
        }
    }
}
