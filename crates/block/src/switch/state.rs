//! The filters of a device at present.

use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::grammar;
use crate::opening::Opening;
use crate::owners::Owners;
use crate::registry::{OpenOptions, open};
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use weft_base::lock::SharedLock;

/// The filters that may be exchanged: those that change neither what a device holds nor what it
/// can do.
const EXCHANGED: [&str; 3] = ["delay", "error", "limit"];

/// The device behind the filters, in a URL that nobody else sees.
const INNER: &str = "switched:device";

/// State that a device and its queues share.
pub(super) struct SwitchState {
    inner: Device,
    /// The device with its filters now.
    front: SharedLock<Device>,
    /// Another number with each exchange.
    generation: AtomicU64,
    /// Woken by an exchange, as an operation that a queue refused may be accepted now.
    pub(super) owners: Owners,
}

impl SwitchState {
    pub(super) fn new(inner: Device) -> Self {
        let front = SharedLock::new(Arc::clone(&inner));
        Self { inner, front, generation: AtomicU64::new(0), owners: Owners::default() }
    }

    pub(super) fn inner(&self) -> &Device {
        &self.inner
    }

    /// See [`super::Switch::set`].
    pub(super) fn set(&self, filters: &str) -> Result<(), Error> {
        let front = self.filtered(filters)?;
        *self.front.write() = front;
        self.generation.fetch_add(1, Ordering::Release);
        self.owners.wake_all();
        Ok(())
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn filtered(&self, filters: &str) -> Result<Device, Error> {
        let comma = if filters.is_empty() || filters.ends_with([',', ':']) { "" } else { "," };
        let url = format!("{filters}{comma}{INNER}");
        let sources = grammar::sources(&url);
        let is_known = |of: &grammar::Source<'_>| {
            of.url == INNER && of.above.iter().all(|kind| EXCHANGED.contains(kind))
        };
        if sources.len() != 1 || !sources.iter().all(is_known) {
            let text = format!(
                "\"{filters}\" is not the front of a URL with the filters {}, as in error:rate=0.1,kind=media",
                EXCHANGED.join(", ")
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let resolver =
            |url: &str| (url == INNER).then(|| Opening::ready(Ok(Arc::clone(&self.inner))));
        open(&url, &OpenOptions::with_resolver(&resolver))
    }

    /// The device with its filters.
    pub(super) fn front(&self) -> Device {
        Arc::clone(&self.front.read())
    }
}
