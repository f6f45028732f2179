//! The store of a group: small objects that all of its gateways reach, and by which they keep each
//! other out. A server is given it by [`super::Joining`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weft_block::Error;
use weft_ceph::{CephAccess, ObjectError, Objects};

/// How long connecting to the cluster may take.
const CONNECT: Duration = Duration::from_secs(10);

/// A store that is not connected to yet.
pub trait OpenStore: Send + Sync {
    /// Connects to it, for a bounded time.
    ///
    /// # Errors
    /// Why that is not possible.
    fn open(&self) -> Result<Arc<dyn ObjectStore>, Error>;
}

/// Objects that several clients change by compare-and-set, and tell each other of. Every call may
/// wait for as long as the store does not answer. Its functions and what they guarantee are those
/// of [`Objects`], and errors the store's.
pub trait ObjectStore: Send + Sync {
    /// By what the store keeps this client out.
    fn client(&self) -> Result<String, ObjectError>;

    /// The generation of an object (from 1) and its bytes, of which it has at most `most`.
    fn read(&self, object: &str, most: usize) -> Result<Option<(u64, Vec<u8>)>, ObjectError>;

    /// The generation of an object; 0: there is none.
    fn generation(&self, object: &str) -> Result<u64, ObjectError>;

    /// Replaces the bytes of an object that has the generation `before`; the new one, or `None`:
    /// somebody else has changed it.
    fn replace(&self, object: &str, before: u64, bytes: &[u8]) -> Result<Option<u64>, ObjectError>;

    /// Sets an attribute of an object, which is made if there is none.
    fn set_attribute(&self, object: &str, name: &str, value: &[u8]) -> Result<(), ObjectError>;

    /// All attributes of an object.
    fn attributes(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, ObjectError>;

    /// Tells all who watch an object; what those answered who acknowledged it within `limit`.
    fn notify(
        &self,
        object: &str,
        message: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, ObjectError>;

    /// Has `heard` called with each message to those who watch an object, and with an empty one
    /// when the watch is lost. It returns soon, and calls nothing of the store.
    fn watch(
        &self,
        object: &str,
        heard: Box<dyn Fn(ObjectMessage) + Send + Sync>,
    ) -> Result<Box<dyn ObjectWatch>, ObjectError>;

    /// Keeps a client out: nothing that it does arrives any more when this has returned.
    fn fence(&self, client: &str) -> Result<(), ObjectError>;

    /// Waits until what this client does comes behind every fence that was confirmed before.
    fn catch_up(&self) -> Result<(), ObjectError>;
}

/// The watch of an object, which ends when this is dropped.
pub trait ObjectWatch: Send {
    /// Whether it is kept, as far as this client knows.
    fn is_kept(&self) -> bool;
}

/// Acknowledges a message with an answer.
pub type Answer = Box<dyn FnOnce(&[u8]) + Send>;

/// A message to those who watch an object. Answering or dropping it acknowledges it.
pub struct ObjectMessage {
    /// The payload.
    pub bytes: Vec<u8>,
    /// Acknowledges it with an answer.
    pub answer: Answer,
}

/// A pool of a Ceph cluster, in which the objects of a group are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CephPool {
    /// As whom the cluster is used.
    pub access: CephAccess,
    /// The pool.
    pub pool: String,
    /// The namespace of the pool; empty for the default one.
    pub namespace: String,
}

impl OpenStore for CephPool {
    fn open(&self) -> Result<Arc<dyn ObjectStore>, Error> {
        Ok(Arc::new(Objects::open(&self.access, &self.pool, &self.namespace, CONNECT)?))
    }
}

impl ObjectStore for Objects {
    fn client(&self) -> Result<String, ObjectError> {
        self.client()
    }

    fn read(&self, object: &str, most: usize) -> Result<Option<(u64, Vec<u8>)>, ObjectError> {
        self.read(object, most)
    }

    fn generation(&self, object: &str) -> Result<u64, ObjectError> {
        self.generation(object)
    }

    fn replace(&self, object: &str, before: u64, bytes: &[u8]) -> Result<Option<u64>, ObjectError> {
        self.replace(object, before, bytes)
    }

    fn set_attribute(&self, object: &str, name: &str, value: &[u8]) -> Result<(), ObjectError> {
        self.set_attribute(object, name, value)
    }

    fn attributes(&self, object: &str) -> Result<BTreeMap<String, Vec<u8>>, ObjectError> {
        self.attributes(object)
    }

    fn notify(
        &self,
        object: &str,
        message: &[u8],
        limit: Duration,
    ) -> Result<Vec<Vec<u8>>, ObjectError> {
        self.notify(object, message, limit).map(|heard| heard.answers)
    }

    fn watch(
        &self,
        object: &str,
        heard: Box<dyn Fn(ObjectMessage) + Send + Sync>,
    ) -> Result<Box<dyn ObjectWatch>, ObjectError> {
        let watch = self.watch(object, move |message| {
            let bytes = message.bytes().to_vec();
            heard(ObjectMessage { bytes, answer: Box::new(move |answer| message.answer(answer)) });
        })?;
        Ok(Box::new(watch))
    }

    fn fence(&self, client: &str) -> Result<(), ObjectError> {
        self.fence(client)
    }

    fn catch_up(&self) -> Result<(), ObjectError> {
        self.catch_up()
    }
}

impl ObjectWatch for weft_ceph::CephWatch {
    fn is_kept(&self) -> bool {
        self.is_kept()
    }
}
