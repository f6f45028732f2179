//! `readonly:URL`: another device, without writes. Operations that change data complete with
//! [`StatusKind::WriteProtected`] and do not reach the device. A file under the filter is opened
//! for reading only, so that several processes may serve it.

use crate::check;
use crate::device::{BlockDevice, BlockQueue, Device, Features, InPlace};
use crate::filter::{Filter, QueueFilter};
use crate::limits::MEMORY_QUEUE_OPS;
use crate::offload::OffloadSource;
use crate::op::{Completion, Op, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use crate::url::opening::Opening;
use crate::url::parts::UrlParts;
use std::collections::VecDeque;
use std::sync::Arc;
use weft_io::{DriverId, Handle, Segments};

const PROTECTED: Status = Status::new(StatusKind::WriteProtected);

/// A read-only device.
pub struct ReadOnlyDevice {
    url: String,
    inner: Device,
}

impl ReadOnlyDevice {
    /// Begins to open the `URL` after `readonly:`; `begin` opens the inner URL.
    pub(crate) fn begin(
        url: &str,
        rest: &str,
        begin: impl FnOnce(&str) -> Result<Opening, Error>,
    ) -> Result<Opening, Error> {
        let (inner, spec) = UrlParts::filter(url, rest);
        spec.finish()?;
        let url = url.to_owned();
        Ok(begin(inner)?.and_then(move |inner| Ok(Arc::new(Self { url, inner }) as Device)))
    }
}

/// The sentence about a write to a device that takes none.
pub fn write_refused(url: &str) -> String {
    match url.starts_with("readonly:") {
        true => format!(
            "{url} is read-only; to write, open it without readonly: and without the option read-only"
        ),
        false => format!("{url} is read-only; allow writes where it is served"),
    }
}

/// The features of a device without writes.
fn read_only(features: Features) -> Features {
    Features {
        compare: features.compare,
        reservations: features.reservations,
        ..Features::default()
    }
}

impl Filter for ReadOnlyDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn served(&self) -> Option<OffloadSource> {
        self.inner.served()
    }

    fn features(&self) -> Features {
        read_only(self.inner.features())
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        Ok(Box::new(ReadOnlyQueue {
            inner: self.inner.open_queue(on, owner)?,
            device: Arc::clone(&self.inner),
            passing: VecDeque::new(),
            refused: Vec::new(),
            left: false,
            on: on.clone(),
            owner,
        }))
    }
}

struct ReadOnlyQueue {
    inner: Box<dyn BlockQueue>,
    device: Device,
    /// Operations to be passed to the inner queue; empty between calls.
    passing: VecDeque<Op>,
    /// Refused writes, reported at the next reaping.
    refused: Vec<Completion>,
    /// `submit` left operations with the caller because `refused` is full.
    left: bool,
    on: Handle,
    owner: DriverId,
}

impl QueueFilter for ReadOnlyQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.inner.as_mut()
    }

    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        let (geometry, features) = (self.device.geometry(), read_only(self.device.features()));
        while let Some(first) = ops.front() {
            if first.kind.is_write() {
                if self.refused.len() >= MEMORY_QUEUE_OPS {
                    self.left = true;
                    return;
                }
                let Some(op) = ops.pop_front() else { return };
                let status = check::refusal(&op, &geometry, &features).unwrap_or(PROTECTED);
                self.refused.push(op.done(Outcome::Done(status)));
                continue;
            }
            while ops.front().is_some_and(|op| !op.kind.is_write()) {
                self.passing.extend(ops.pop_front());
            }
            self.inner.submit(&mut self.passing);
            if !self.passing.is_empty() {
                while let Some(op) = self.passing.pop_back() {
                    ops.push_front(op);
                }
                return;
            }
        }
    }

    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.append(&mut self.refused);
        self.inner.reap(done);
        if core::mem::take(&mut self.left) {
            self.on.wake(self.owner);
        }
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        // `lend` asks again; a queue that has none here never has one.
        self.inner.in_place()?;
        Some(self)
    }

    fn in_flight(&self) -> usize {
        self.refused.len() + self.inner.in_flight()
    }
}

/// Lends memory for reads, but not for writes.
impl InPlace for ReadOnlyQueue {
    fn lend(&mut self, lba: u64, blocks: u32, into: &mut Segments) -> bool {
        self.inner.in_place().is_some_and(|device| device.lend(lba, blocks, into))
    }

    fn spare(&mut self, _: u64, _: u32, _: &mut Segments) -> bool {
        false
    }

    fn stores(&mut self) -> bool {
        false
    }

    fn store(&mut self, _: u64, _: u32, _: &[u8]) -> Outcome {
        Outcome::NotSent(PROTECTED)
    }
}
