//! Where a group of gateways keeps its reservations.

use super::stored::VERSION;
use super::threads::{self, Threads};
use std::sync::Arc;
use uuid::Uuid;
use weft_block::Error;

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

    /// The threads on which the reservations wait for the store.
    fn threads(&self) -> Arc<dyn Threads> {
        threads::system()
    }

    /// The generation and the bytes of a namespace's object, at most
    /// [`RESERVATION_RECORD_BYTES_MAX`](crate::limits::RESERVATION_RECORD_BYTES_MAX); `None`: there
    /// is none.
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
