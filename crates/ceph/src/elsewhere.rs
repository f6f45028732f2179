//! Systems without librbd.

use crate::object_results::{Acknowledgements, ObjectError};
use crate::url::{CephAccess, RbdUrl};
use core::convert::Infallible;
use core::time::Duration;
use std::any::Any;
use std::collections::BTreeMap;
use weft_block::{Error, ErrorKind, Opening};

/// Refuses to open an image.
///
/// # Errors
/// Always: librbd is used on Linux only.
pub fn begin(url: &RbdUrl, _: Duration, _: impl Any + Send) -> Result<Opening, Error> {
    let text = format!(
        "{url}: images of Ceph need Linux; run weft there as a gateway, and attach what it serves here"
    );
    Err(Error::new(ErrorKind::Unsupported, text))
}

/// Returns whether the libraries were loaded: never.
pub fn is_loaded() -> bool {
    false
}

/// Objects of a pool. There are none on this system.
#[derive(Clone)]
pub struct Objects(Infallible);

/// The watch of an object. There are none on this system.
pub struct CephWatch(Infallible);

impl Objects {
    /// Refuses to open a pool.
    ///
    /// # Errors
    /// Always: librados is used on Linux only.
    pub fn open(_: &CephAccess, pool: &str, _: &str, _: Duration) -> Result<Self, Error> {
        let text = format!("pool {pool}: pools of Ceph need Linux; run weft there");
        Err(Error::new(ErrorKind::Unsupported, text))
    }

    /// # Errors
    /// Never called.
    pub fn client(&self) -> Result<String, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn read(&self, _: &str, _: usize) -> Result<Option<(u64, Vec<u8>)>, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn generation(&self, _: &str) -> Result<u64, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn replace(&self, _: &str, _: u64, _: &[u8]) -> Result<Option<u64>, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn remove(&self, _: &str, _: u64) -> Result<bool, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn set_attribute(&self, _: &str, _: &str, _: &[u8]) -> Result<(), ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn attributes(&self, _: &str) -> Result<BTreeMap<String, Vec<u8>>, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn notify(&self, _: &str, _: &[u8], _: Duration) -> Result<Acknowledgements, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn watch(
        &self,
        _: &str,
        _: impl Fn(NotifyMessage) + Send + Sync + 'static,
    ) -> Result<CephWatch, ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn fence(&self, _: &str) -> Result<(), ObjectError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn catch_up(&self) -> Result<(), ObjectError> {
        match self.0 {}
    }
}

/// A message to those who watch an object. There are none on this system.
pub struct NotifyMessage(Infallible);

impl NotifyMessage {
    /// Never called.
    pub fn bytes(&self) -> &[u8] {
        match self.0 {}
    }

    /// Never called.
    pub fn answer(self, _: &[u8]) {
        match self.0 {}
    }
}

impl CephWatch {
    /// Never called.
    pub fn is_kept(&self) -> bool {
        match self.0 {}
    }
}
