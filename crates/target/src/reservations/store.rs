//! Stores in which a group of gateways keeps its reservations.

use super::pool::Pool;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;
use weft_block::Error;
use weft_connection::limits::{RESERVATION_READERS_MAX, RESERVATION_THREADS_MAX};
use weft_group::limits::RESERVATION_RETRY_MS;
use weft_group::reservations::stored::VERSION;
use weft_group::reservations::{ReservationRecord, StoreLane};

/// A request to a store.
#[derive(Debug)]
pub enum Asked {
    /// The object of the namespace: [`Got::Object`].
    Read,
    /// To replace the object that has this generation, 0 for one that is not there yet:
    /// [`Got::Replaced`]. An error says that it could not be replaced, or that nobody knows whether
    /// it was.
    Replace(u64, Object),
    /// To tell all other gateways to read the object again, until each of them has put what it
    /// reads in force, or can do no I/O any more, as it has left the group or was kept out of the
    /// cluster: [`Got::Announced`]. A gateway that joins later need not be told.
    Tell,
    /// That [`RESERVATION_RETRY_MS`] pass: [`Got::Paused`].
    Pause,
}

/// The result of a request.
#[derive(Debug)]
pub enum Got {
    /// The generation and the bytes of the object; `None`: there is none.
    Object(Option<(u64, Vec<u8>)>),
    /// The new generation; `None`: it had another one, so somebody else has changed it.
    Replaced(Option<u64>),
    /// All have it in force.
    Announced,
    /// The time has passed.
    Paused,
}

/// An object to store for a namespace.
#[derive(Debug)]
pub struct Object {
    pub(super) record: ReservationRecord,
    pub(super) namespace: Uuid,
    pub(super) life: u64,
}

impl Object {
    /// Its text, at most
    /// [`RESERVATION_RECORD_BYTES_MAX`](weft_group::limits::RESERVATION_RECORD_BYTES_MAX), for
    /// gateways of which all know this version of its form.
    pub fn text(&self, version: u32) -> Vec<u8> {
        self.record.encode(self.namespace, self.life, version)
    }
}

/// Called once with the result, on any thread. It is dropped if the process has ended.
pub type Answered = Box<dyn FnOnce(Result<Got, Error>) + Send>;

/// A store that all gateways of a group reach, with an object for each namespace, and a way to tell
/// the others. No call waits.
pub trait GroupStore: Send + Sync {
    /// See [`SharedStore::life`].
    fn life(&self) -> u64;

    /// A random number by which an operation is known.
    fn token(&self) -> Uuid;

    /// Does this, sooner or later. [`Asked::Tell`] holds up nothing else but operations;
    /// namespaces do not wait for each other otherwise either.
    fn ask(&self, namespace: Uuid, lane: StoreLane, asked: Asked, answered: Answered);
}

/// A store whose calls wait, asked on threads: what other gateways wait for has its own.
pub(super) struct OnThreads {
    store: Arc<dyn SharedStore>,
    operating: Pool,
    reading: Pool,
}

impl OnThreads {
    pub(super) fn new(store: Arc<dyn SharedStore>) -> Self {
        let operating = Pool::new("weft-reserve", RESERVATION_THREADS_MAX);
        Self { store, operating, reading: Pool::new("weft-reserved", RESERVATION_READERS_MAX) }
    }
}

impl GroupStore for OnThreads {
    fn life(&self) -> u64 {
        self.store.life()
    }

    fn token(&self) -> Uuid {
        Uuid::new_v4()
    }

    fn ask(&self, namespace: Uuid, lane: StoreLane, asked: Asked, answered: Answered) {
        let store = Arc::clone(&self.store);
        let pool = match lane {
            StoreLane::Operations => &self.operating,
            StoreLane::Load | StoreLane::Readings => &self.reading,
        };
        pool.run(Box::new(move || answered(execute(&*store, namespace, &asked))));
    }
}

/// Waits for it.
fn execute(store: &dyn SharedStore, namespace: Uuid, asked: &Asked) -> Result<Got, Error> {
    match asked {
        Asked::Read => store.read(namespace).map(Got::Object),
        Asked::Replace(before, object) => {
            let text = object.text(store.version()?);
            store.replace(namespace, *before, &text).map(Got::Replaced)
        }
        Asked::Tell => store.tell(namespace).map(|()| Got::Announced),
        Asked::Pause => {
            std::thread::sleep(Duration::from_millis(RESERVATION_RETRY_MS));
            Ok(Got::Paused)
        }
    }
}

/// A store that all gateways of a group reach, with an object for each namespace, and a way to tell
/// the others. All calls may wait, and are made on threads of the reservations' own.
pub trait SharedStore: Send + Sync {
    /// Counts the times since which some gateway has been there without a break. In another one
    /// than that in which they were made, reservations are as after a loss of power. A store that
    /// cannot tell says always the same, and all reservations outlast everything.
    fn life(&self) -> u64 {
        0
    }

    /// The version of the form of objects that all gateways know. Once it is a later one, no
    /// gateway joins that does not know that.
    ///
    /// # Errors
    /// It cannot be read now.
    fn version(&self) -> Result<u32, Error> {
        Ok(VERSION)
    }

    /// The generation and the bytes of a namespace's object, at most
    /// [`RESERVATION_RECORD_BYTES_MAX`](weft_group::limits::RESERVATION_RECORD_BYTES_MAX); `None`:
    /// there is none.
    ///
    /// # Errors
    /// It cannot be read now.
    fn read(&self, namespace: Uuid) -> Result<Option<(u64, Vec<u8>)>, Error>;

    /// Replaces the object that has the generation `before`, 0 for one that is not there yet.
    /// Returns the new generation; `None`: it has another generation, so somebody else has changed
    /// it.
    ///
    /// # Errors
    /// It could not be replaced, or nobody knows whether it was.
    fn replace(&self, namespace: Uuid, before: u64, object: &[u8]) -> Result<Option<u64>, Error>;

    /// Tells all other gateways to read the object again, and returns when each of them has put
    /// what it reads in force, or can do no I/O any more, as it has left the group or was kept out
    /// of the cluster. That may take as long as the replacement of a dead gateway. A gateway that
    /// joins after the call need not be told.
    ///
    /// # Errors
    /// Some gateway may do I/O that does not know of the change.
    fn tell(&self, namespace: Uuid) -> Result<(), Error>;
}
