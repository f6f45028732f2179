//! Opens a path, as often as necessary.

use crate::source::ConnectOptions;
use uuid::Uuid;
use weft_block::{BlockDevice, Error, Opening};
use weft_connection::url::NVME_SCHEMES;

/// Begins to open URLs of one protocol.
#[doc(hidden)]
pub type Begin = fn(&str, &ConnectOptions) -> Result<Opening, Error>;

/// A URL, the options, and what opens it. The name of the host is looked up each time.
#[doc(hidden)]
#[derive(Clone)]
pub struct PathOpener {
    pub(crate) url: String,
    pub(crate) options: ConnectOptions,
    begin: Begin,
}

impl PathOpener {
    /// Nothing is opened yet.
    pub fn new(url: &str, options: ConnectOptions, begin: Begin) -> Self {
        Self { url: url.to_owned(), options, begin }
    }

    pub(super) fn begin(&self) -> Result<Opening, Error> {
        (self.begin)(&self.url, &self.options)
    }

    /// Begins to open it as another opener of this host.
    pub(super) fn begin_as(&self, opener: Uuid) -> Result<Opening, Error> {
        (self.begin)(&self.url, &ConnectOptions { opener: Some(opener), ..self.options.clone() })
    }

    /// Begins to open it once more, with one queue, for a short use beside the path itself; as
    /// another opener of this host if one is given.
    pub(super) fn begin_beside(&self, opener: Option<Uuid>) -> Result<Opening, Error> {
        let opener = opener.or(self.options.opener);
        let options = ConnectOptions { opener, nr_io_queues: 1, ..self.options.clone() };
        (self.begin)(&self.url, &options)
    }

    /// From now on opens what was opened the first time: the first namespace of a subsystem may be
    /// another one later.
    pub(super) fn settle_on(&mut self, device: &dyn BlockDevice) {
        if NVME_SCHEMES.iter().any(|scheme| self.url.starts_with(scheme)) {
            self.url = device.url().to_owned();
        }
    }
}
