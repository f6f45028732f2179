//! Hears of changes that other gateways make: at once by a watch, and by looking now and then,
//! should the watch be lost.

use super::configuration::GroupConfiguration;
use super::input::Input;
use super::objects::{ObjectMessage, ObjectWatch};
use super::store::{GroupObjects, Word};
use super::threads;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;
use weft_block::Error;
use weft_endpoint::reservations::ReservationTable;
use weft_group::GatewayEvent;

/// How often the watch is looked after.
const LOOK: Duration = Duration::from_secs(2);

/// Starts to hear, until what is returned is dropped.
pub fn start(
    store: &Arc<GroupObjects>,
    inputs: Sender<Input>,
    configuration: &Arc<GroupConfiguration>,
    reservations: ReservationTable,
) -> Result<Sender<Infallible>, Error> {
    let (store, configuration) = (Arc::clone(store), Arc::clone(configuration));
    let (stop, stopped) = mpsc::channel::<Infallible>();
    let hear = move || {
        let mut kept: Option<Box<dyn ObjectWatch>> = None;
        loop {
            if kept.as_ref().is_none_or(|watch| !watch.is_kept()) {
                // The old one ends before there is a new one.
                drop(kept.take());
                let told = (Arc::clone(&configuration), reservations.clone());
                match store.watch(hearing(store.instance, inputs.clone(), told)) {
                    Ok(watch) => kept = Some(watch),
                    Err(e) => {
                        tracing::debug!("changes of other gateways are not heard of at once: {e}")
                    }
                }
                // What happened meanwhile was not told.
                configuration.look();
                let _ = inputs.send(Input::Event(GatewayEvent::Changed));
                reservations.missed(Box::new(|| ()));
            }
            if stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    };
    threads::start("watch", hear)?;
    Ok(stop)
}

/// What is done with each message.
fn hearing(
    instance: u64,
    inputs: Sender<Input>,
    (configuration, reservations): (Arc<GroupConfiguration>, ReservationTable),
) -> impl Fn(ObjectMessage) + Send + Sync + 'static {
    move |message| match Word::parse(&message.bytes) {
        Some(Word::Reservations { by, .. }) if by == instance => {}
        Some(Word::Reservations { namespace, .. }) => {
            let answer = serde_json::to_vec(&instance).unwrap_or_default();
            reservations.changed_elsewhere(namespace, Box::new(move || (message.answer)(&answer)));
        }
        word => {
            if word != Some(Word::Configuration) {
                let _ = inputs.send(Input::Event(GatewayEvent::Changed));
            }
            if word != Some(Word::Record) {
                configuration.look();
            }
        }
    }
}
