//! `null:SIZE`: a disk that keeps nothing, for measuring everything but the disk. Reads give zeroes
//! (and not what the memory held before, which may be somebody else's data), writes are dropped,
//! comparisons are with zeroes.
//!
//! As with [`crate::ram`], operations are executed within `submit`.

use crate::device::{BlockDevice, BlockQueue, Features, Geometry, Identity, SizeAnswer};
use crate::op::{Completion, Op, OpKind, Outcome};
use crate::outcome::error::Error;
use crate::outcome::status::{Status, StatusKind};
use crate::queue::spare;
use crate::url::parts::UrlParts;
use crate::{check, limits};
use std::collections::VecDeque;
use weft_io::{DriverId, Handle, Segment};

/// A null device.
pub struct Null {
    url: String,
    geometry: Geometry,
    uuid: Option<uuid::Uuid>,
}

const FEATURES: Features = Features {
    write: true,
    volatile_cache: false,
    cache_unknown: false,
    discard: true,
    discard_zeroes: true,
    write_zeroes: true,
    compare: true,
    reservations: false,
};

impl Null {
    /// Opens `null:SIZE[,block=512|4096][,uuid=…]`; `rest` is the part after `null:`.
    pub(crate) fn open(url: &str, rest: &str) -> Result<Self, Error> {
        let (size, mut spec) = UrlParts::source(url, rest);
        let (block_bytes, blocks) = spec.sized(size)?;
        let uuid = spec.uuid()?;
        spec.finish()?;
        let geometry = Geometry {
            block_bytes,
            blocks,
            padding_bytes: 0,
            optimal_blocks: 1,
            max_transfer_bytes: limits::MAX_TRANSFER_BYTES,
            atomic: crate::device::Atomicity::local(block_bytes),
        };
        Ok(Self { url: url.into(), geometry, uuid })
    }
}

impl BlockDevice for Null {
    fn url(&self) -> &str {
        &self.url
    }

    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn renew_size(&self) -> Result<SizeAnswer, Error> {
        Ok(SizeAnswer::Fixed)
    }

    fn features(&self) -> Features {
        FEATURES
    }

    fn identity(&self) -> Identity {
        Identity { uuid: self.uuid, model: Some("weft null disk".into()), ..Identity::default() }
    }

    /// Nothing can be lost.
    fn cache_epoch(&self) -> Option<u64> {
        Some(0)
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let ready = Vec::new();
        Ok(Box::new(NullQueue {
            geometry: self.geometry,
            ready,
            refused: false,
            on: on.clone(),
            owner,
        }))
    }
}

struct NullQueue {
    geometry: Geometry,
    ready: Vec<Completion>,
    /// `submit` left operations with the caller.
    refused: bool,
    on: Handle,
    owner: DriverId,
}

impl NullQueue {
    #[inline]
    fn execute(&self, op: &mut Op) -> Status {
        if let Some(status) = check::refusal(op, &self.geometry, &FEATURES) {
            return status;
        }
        let half = op.blocks as usize * self.geometry.block_bytes as usize;
        match op.kind {
            OpKind::Read => op.data.iter_mut().for_each(|segment| segment.fill(0)),
            OpKind::Compare | OpKind::CompareAndWrite { .. } if !are_zero(&op.data, half) => {
                return Status::new(StatusKind::CompareFailed);
            }
            _ => {}
        }
        Status::SUCCESS
    }
}

/// Returns whether the first `len` bytes are zeroes.
fn are_zero(data: &[Segment], len: usize) -> bool {
    data.iter().flat_map(|segment| segment.iter()).take(len).all(|&byte| byte == 0)
}

impl BlockQueue for NullQueue {
    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        spare::provide(&mut self.ready);
        while self.ready.len() < limits::MEMORY_QUEUE_OPS {
            let Some(mut op) = ops.pop_front() else { return };
            let status = self.execute(&mut op);
            self.ready.push(op.done(Outcome::Done(status)));
        }
        self.refused = !ops.is_empty();
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        spare::append(done, &mut self.ready);
        if core::mem::take(&mut self.refused) {
            self.on.wake(self.owner);
        }
    }

    fn cancel(&mut self, _: u64) {
        // Every operation has completed when `submit` returns.
    }

    fn in_flight(&self) -> usize {
        self.ready.len()
    }
}
