//! Objects of a pool as the state that several clients share.

use crate::cluster;
use crate::native::{self, GENERATION, NotifyMessage, ObjectRead, RadosPool};
use crate::object_results::{Acknowledgements, ObjectError};
use crate::reason::{self, OpeningStep};
use crate::url::CephAccess;
use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_block::Error;

/// Small objects of a pool, which several clients change by compare-and-set, tell each other of,
/// and keep each other out of. Clones are the same one.
///
/// An object has bytes, a generation that counts how often [`replace`](Self::replace) has changed
/// them, and attributes, which anybody sets at any time. The generation is an attribute, too, so
/// that the cluster compares and changes it together with the bytes.
///
/// Every call may wait for the cluster for as long as that does not answer (unless
/// `rados_osd_op_timeout` is set in its configuration), so callers have threads of their own for
/// it: not a loop's, and not that on which a watch is heard.
#[derive(Clone)]
pub struct Objects {
    pool: Arc<RadosPool>,
}

/// The watch of an object. Dropping it ends it: that waits for the cluster, and until what hears it
/// has returned; so it is not dropped there.
pub struct CephWatch {
    watch: native::RadosWatch,
}

impl Objects {
    /// Objects of this pool, in the namespace of this name (empty: the default one). The client is
    /// the one that the images of the same access have in this process: whoever keeps it out keeps
    /// out all I/O of the process on them. `limit` is for connecting, if it is the first.
    ///
    /// # Errors
    /// There is no library, no cluster, no such pool, or the user may not use it.
    pub fn open(
        access: &CephAccess,
        pool: &str,
        namespace: &str,
        limit: Duration,
    ) -> Result<Self, Error> {
        let name = format!("pool {pool}");
        let cluster = cluster::client(&name, access, limit)?;
        let pool = RadosPool::open(cluster, pool, namespace)
            .map_err(|error| reason::opening(&name, OpeningStep::Pool, error))?;
        Ok(Self { pool: Arc::new(pool) })
    }

    /// The address by which the cluster keeps this client out: see [`fence`](Self::fence).
    ///
    /// # Errors
    /// The library has none.
    pub fn client(&self) -> Result<String, ObjectError> {
        self.pool.cluster().address().map_err(reason::object)
    }

    /// The generation of an object (from 1) and the bytes that it has in that generation; `None`:
    /// there is none, or [`replace`](Self::replace) has not made it.
    ///
    /// # Errors
    /// [`ObjectError::TooLong`]: it has more than `most` bytes. The others.
    pub fn read(&self, object: &str, most: usize) -> Result<Option<(u64, Vec<u8>)>, ObjectError> {
        named(object)?;
        match self.pool.read(object, most).map_err(reason::object)? {
            ObjectRead::Nothing => Ok(None),
            ObjectRead::TooLong => Err(ObjectError::TooLong),
            ObjectRead::Bytes(generation, bytes) => Ok(Some((generation, bytes))),
        }
    }

    /// The generation of an object; 0: there is none, or [`replace`](Self::replace) has not made
    /// it.
    ///
    /// # Errors
    /// The cluster's.
    pub fn generation(&self, object: &str) -> Result<u64, ObjectError> {
        named(object)?;
        self.pool.generation(object).map_err(reason::object)
    }

    /// Replaces the bytes of an object whose generation is `before` (0: makes it). Returns the new
    /// generation, `before` + 1, or `None`: it has another one, as somebody else has changed it.
    /// Attributes stay.
    ///
    /// # Errors
    /// The cluster's. The bytes may have been replaced, or may be later: read the object to know.
    pub fn replace(
        &self,
        object: &str,
        before: u64,
        bytes: &[u8],
    ) -> Result<Option<u64>, ObjectError> {
        named(object)?;
        let after = before.checked_add(1).ok_or(ObjectError::TooLong)?;
        let done = self.pool.replace(object, (before, after), bytes).map_err(reason::object)?;
        Ok(done.then_some(after))
    }

    /// Removes an object whose generation is `before`, with its attributes; whether it had that
    /// one. Watches of it are lost. A new object of the name begins with generation 1 again: a
    /// `replace` that was meant for the old one can succeed on the new one when that gets so far.
    /// Objects that several clients change are therefore better emptied than removed.
    ///
    /// # Errors
    /// The cluster's. The object may have been removed.
    pub fn remove(&self, object: &str, before: u64) -> Result<bool, ObjectError> {
        named(object)?;
        self.pool.remove(object, before).map_err(reason::object)
    }

    /// Sets an attribute of an object, whatever it was. An object that does not exist is made,
    /// without bytes and with generation 0. The generation stays.
    ///
    /// # Errors
    /// The name is empty, or `generation`. The cluster's: it may have been set.
    pub fn set_attribute(&self, object: &str, name: &str, value: &[u8]) -> Result<(), ObjectError> {
        named(object)?;
        named(name)?;
        if name == GENERATION {
            return Err(ObjectError::Failed(format!(
                "the attribute `{GENERATION}` counts changes; give this one another name"
            )));
        }
        self.pool.set_attribute(object, name, value).map_err(reason::object)
    }

    /// The attributes of an object without its generation; none if there is no such object.
    ///
    /// # Errors
    /// The cluster's.
    pub fn attributes(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, ObjectError> {
        named(object)?;
        let mut all = self.pool.attributes(object).map_err(reason::object)?;
        all.remove(GENERATION);
        Ok(all)
    }

    /// Tells all who watch an object, and waits until they have acknowledged it, at most for
    /// `limit` (whole seconds, rounded up, at least one).
    ///
    /// # Errors
    /// There is no such object. The cluster's: some may have heard it.
    pub fn notify(
        &self,
        object: &str,
        message: &[u8],
        limit: Duration,
    ) -> Result<Acknowledgements, ObjectError> {
        named(object)?;
        let (all, answers) = self.pool.notify(object, message, limit).map_err(reason::object)?;
        Ok(Acknowledgements { all, answers })
    }

    /// Has `heard` called, on a thread of the library, with each message to those who watch an
    /// object. Answering or dropping it acknowledges it. It is also called with an empty one when
    /// the watch is lost, and so may have missed something ([`CephWatch::is_kept`]): a lost one
    /// stays lost; watch again, and read. `heard` returns soon, and calls nothing of `Objects`:
    /// other calls of the client wait for it.
    ///
    /// # Errors
    /// There is no such object. The cluster's.
    pub fn watch(
        &self,
        object: &str,
        heard: impl Fn(NotifyMessage) + Send + Sync + 'static,
    ) -> Result<CephWatch, ObjectError> {
        named(object)?;
        let watch = self.pool.watch(object, Box::new(heard)).map_err(reason::object)?;
        Ok(CephWatch { watch })
    }

    /// Keeps a client out of the cluster by its address ([`Objects::client`]), for a year. When
    /// this has returned, whatever this client does comes behind the fence: it finds none of the
    /// other's writes arriving later. That holds for further clients when they have called
    /// [`catch_up`](Self::catch_up).
    ///
    /// # Errors
    /// The user may not do that, or the cluster's. The client may be kept out all the same.
    pub fn fence(&self, client: &str) -> Result<(), ObjectError> {
        named(client)?;
        self.pool.cluster().keep_out(client).map_err(reason::object)?;
        self.catch_up()
    }

    /// Waits until this client knows all that the cluster has decided so far. After that, whatever
    /// it does comes behind every fence that was confirmed before.
    ///
    /// # Errors
    /// The cluster's.
    pub fn catch_up(&self) -> Result<(), ObjectError> {
        self.pool.cluster().catch_up().map_err(reason::object)
    }
}

impl CephWatch {
    /// Returns whether the watch is kept, as far as this client knows: it learns of a cluster that
    /// it does not reach after some time only.
    pub fn is_kept(&self) -> bool {
        self.watch.is_kept()
    }
}

/// Names end at a zero byte, and there is no empty one.
fn named(name: &str) -> Result<(), ObjectError> {
    if name.is_empty() || name.contains('\0') {
        return Err(ObjectError::Failed(format!(
            "{name:?} is not a valid name; use at least one character and no zero byte"
        )));
    }
    Ok(())
}
