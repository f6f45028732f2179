//! The taking over of a disk whose process was killed, and the record that is kept for the next
//! such process while this one serves.
//!
//! * `record`: the file.
//! * `device`: a disk that the system's initiator uses, and goes on using after such an end.

mod device;
mod record;

pub use device::RecordedDevice;
#[cfg(target_os = "linux")]
pub(crate) use record::label;

use self::record::{Record, forget};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::{Device, Error, waiting};
use weft_connection::BlockingDisk;
use weft_connection::limits::INHERITED_FLUSH_S;
use weft_connection::settle::{LateWriters, LateWrites, Watch};

/// Which disk.
pub(crate) struct RecordedDisk<'a> {
    /// For messages.
    pub name: String,
    /// The path of its record.
    pub place: PathBuf,
    /// See [`label`].
    pub label: u64,
    pub device: &'a Device,
    pub late_writers: &'a LateWriters,
}

/// The record of a disk that is served. It stays when this is dropped.
pub(crate) struct DiskRecord {
    place: PathBuf,
    state: Arc<Lock<DiskRecordState>>,
    /// Whether some queue may have to be told of a loss.
    has_lost: AtomicBool,
    _watch: Watch,
}

struct DiskRecordState {
    record: Record,
    lost: Option<Lost>,
    /// Nothing is kept any more.
    is_forgotten: bool,
}

/// What was written and not flushed may be lost, and not all queues have told so.
struct Lost {
    /// The start counter to be kept when they have.
    epoch: Option<u64>,
    /// Queues that have.
    told: Vec<u16>,
}

impl RecordedDisk<'_> {
    /// Keeps the record of a disk that no process had before.
    pub(crate) fn begin(self) -> DiskRecord {
        let record = Record::of(self.label, &**self.device);
        self.keep(record, None)
    }

    /// Waits until no write of the previous process can still be executed, and makes durable what
    /// it has written: a later start of the source could lose that, and this process could not
    /// write it again. Then keeps the record of this process.
    pub(crate) fn take_over(self) -> DiskRecord {
        let before = Record::read(&self.place, self.label);
        self.wait(before.as_ref());
        let mut record = Record::of(self.label, &**self.device);
        if !self.device.features().volatile_cache {
            return self.keep(record, None);
        }
        let flushed = self.flush();
        let has_kept = before.as_ref().is_some_and(|before| before.has_kept(&**self.device));
        if flushed.is_ok() && has_kept {
            return self.keep(record, None);
        }
        tracing::warn!(
            "{}: its source may have lost what was written and not flushed; the next flush of each queue fails",
            self.name
        );
        // If this process ends before all queues have told, the next one has to tell them.
        let lost = Lost { epoch: record.epoch, told: Vec::new() };
        record.epoch = before.and_then(|before| before.epoch);
        self.keep(record, Some(lost))
    }

    /// Prepares a new disk with the data of one that has ended with its process: waits until no
    /// write of that process can still be executed, and makes durable what it has written, as this
    /// process reads it. No flush has to fail: whoever wrote to the old disk has seen its end.
    #[cfg(target_os = "linux")]
    pub(crate) fn settle(&self) {
        self.wait(Record::read(&self.place, self.label).as_ref());
        if self.device.features().volatile_cache
            && let Err(e) = self.flush()
        {
            tracing::warn!("{}: what was written before is not flushed: {e}", self.name);
        }
    }

    fn flush(&self) -> Result<(), Error> {
        let disk = BlockingDisk::on(Arc::clone(self.device))?;
        disk.flush_within(Duration::from_secs(INHERITED_FLUSH_S))
    }

    fn wait(&self, before: Option<&Record>) {
        let of_device = || LateWrites::of(&**self.device);
        let left = before.map_or_else(of_device, |record| record.late.clone());
        let bound = left.bound();
        if bound.is_zero() {
            return;
        }
        tracing::info!(
            "{}: waiting for writes of the process before, {bound:?} at most",
            self.name
        );
        let _waiting = waiting::begin(|| format!("late writes to {} to end", self.name));
        if self.late_writers.stop(&left).wait(bound) {
            tracing::info!("{}: they were stopped", self.name);
        }
    }

    fn keep(self, record: Record, lost: Option<Lost>) -> DiskRecord {
        let has_lost = AtomicBool::new(lost.is_some());
        let state = Arc::new(Lock::new(DiskRecordState { record, lost, is_forgotten: false }));
        let (of_watch, place) = (Arc::clone(&state), self.place.clone());
        let watch = self.late_writers.watch(Box::new(move |all| {
            let DiskRecordState { record, is_forgotten, .. } = &mut *of_watch.lock();
            if !*is_forgotten {
                record.late.late_writers = all.to_vec();
                record.keep(&place);
            }
        }));
        DiskRecord { place: self.place, state, has_lost, _watch: watch }
    }
}

impl DiskRecord {
    /// Returns whether some flush may have to fail.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost.load(Ordering::Relaxed)
    }

    /// Returns whether this flush of a queue has to fail: the first one of each of the queues that
    /// run.
    pub(crate) fn fails_flush(&self, queue: u16, mut running: impl Iterator<Item = u16>) -> bool {
        let state = &mut *self.state.lock();
        let Some(lost) = state.lost.as_mut() else { return false };
        let is_first = !lost.told.contains(&queue);
        if is_first {
            lost.told.push(queue);
        }
        if running.all(|queue| lost.told.contains(&queue)) {
            state.record.epoch = lost.epoch;
            state.record.keep(&self.place);
            state.lost = None;
            self.has_lost.store(false, Ordering::Relaxed);
        }
        is_first
    }

    /// The disk has ended in order: nothing is kept of it.
    pub(crate) fn forget(&self) {
        self.state.lock().is_forgotten = true;
        forget(&self.place);
    }
}
