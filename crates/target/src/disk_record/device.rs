//! A disk that the system's initiator uses by a protocol in which it connects again by itself: the
//! disk outlives the process that serves it, and a later process takes it over.

use super::record::{Record, forget, label_of};
use super::{DiskRecord, RecordedDisk};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use uuid::Uuid;
use weft_base::lock::Lock;
use weft_block::filter::{Filter, QueueFilter};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Device, Error, InPlace, Op, OpKind, Outcome, Status,
    StatusKind,
};
use weft_connection::settle::LateWriters;
use weft_io::{DriverId, Handle};

/// The device of such a disk. Where what was written and not flushed may be lost, the first flush
/// of each of its queues fails.
pub struct RecordedDevice {
    inner: Device,
    kept: Arc<DiskRecord>,
    queues: Arc<Lock<QueueNumbers>>,
}

/// The queues that are open.
#[derive(Default)]
struct QueueNumbers {
    open: Vec<u16>,
    next: u16,
}

impl RecordedDevice {
    /// Returns whether the file at `place` is that of a disk with the data of this device. `uuid`:
    /// that of the disk, if the device has none.
    pub fn is_of(place: &std::path::Path, device: &dyn BlockDevice, uuid: Uuid) -> bool {
        Record::read(place, label_of(uuid, device)).is_some()
    }

    /// Begins a disk, whose file will be at `place`. With `is_taken_over`, it is that of a process
    /// which was killed: this waits until no write of that process can still be executed. `name` is
    /// for messages.
    pub fn begin(
        device: Device,
        uuid: Uuid,
        (name, place): (String, PathBuf),
        late_writers: &LateWriters,
        is_taken_over: bool,
    ) -> Arc<Self> {
        let label = label_of(uuid, &*device);
        let disk = RecordedDisk { name, place, label, device: &device, late_writers };
        let kept = if is_taken_over {
            disk.take_over()
        } else {
            forget(&disk.place);
            disk.begin()
        };
        Arc::new(Self { inner: device, kept: Arc::new(kept), queues: Arc::default() })
    }

    /// Begins a disk like [`RecordedDevice::begin`], after one of the same data has ended with its
    /// process, which was killed: its users have seen that, so no flush has to fail.
    #[cfg(target_os = "linux")]
    pub fn begin_again(
        device: Device,
        uuid: Uuid,
        (name, place): (String, PathBuf),
        late_writers: &LateWriters,
    ) -> Arc<Self> {
        let label = label_of(uuid, &*device);
        let disk = (name.clone(), place.clone());
        RecordedDisk { name, place, label, device: &device, late_writers }.settle();
        Self::begin(device, uuid, disk, late_writers, false)
    }

    /// The disk has ended in order: there is nothing to take over.
    pub fn forget(&self) {
        self.kept.forget();
    }
}

impl Filter for RecordedDevice {
    fn inner(&self) -> &dyn BlockDevice {
        self.inner.as_ref()
    }

    fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
        let inner = self.inner.open_queue(on, owner)?;
        let queues = &mut *self.queues.lock();
        let number = queues.next;
        queues.next = number.wrapping_add(1);
        queues.open.push(number);
        Ok(Box::new(KeptQueue {
            inner,
            number,
            kept: Arc::clone(&self.kept),
            queues: Arc::clone(&self.queues),
            failed: None,
        }))
    }
}

struct KeptQueue {
    inner: Box<dyn BlockQueue>,
    number: u16,
    kept: Arc<DiskRecord>,
    queues: Arc<Lock<QueueNumbers>>,
    /// The flush that had to fail, for the next reaping.
    failed: Option<Completion>,
}

impl KeptQueue {
    /// Ends the first flush among these with an error, if it has to fail.
    fn fail_flush(&mut self, ops: &mut VecDeque<Op>) {
        let Some(at) = ops.iter().position(|op| op.kind == OpKind::Flush) else { return };
        let open = self.queues.lock().open.clone();
        if self.kept.fails_flush(self.number, open.into_iter()) {
            let media = Outcome::Done(Status::new(StatusKind::Media));
            self.failed = ops.remove(at).map(|op| op.done(media));
        }
    }
}

impl QueueFilter for KeptQueue {
    fn inner(&self) -> &dyn BlockQueue {
        self.inner.as_ref()
    }

    fn inner_mut(&mut self) -> &mut dyn BlockQueue {
        self.inner.as_mut()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        // No flush passes there.
        self.inner.in_place()
    }

    #[inline]
    fn submit(&mut self, ops: &mut VecDeque<Op>) {
        if self.kept.has_lost() {
            self.fail_flush(ops);
        }
        self.inner.submit(ops);
    }

    #[inline]
    fn reap(&mut self, done: &mut Vec<Completion>) {
        done.extend(self.failed.take());
        self.inner.reap(done);
    }

    #[inline]
    fn in_flight(&self) -> usize {
        usize::from(self.failed.is_some()) + self.inner.in_flight()
    }
}

impl Drop for KeptQueue {
    fn drop(&mut self) {
        self.queues.lock().open.retain(|number| *number != self.number);
    }
}

// Other systems do not tell when they were started.
#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use serde_json::Value;
    use weft_block::OpenOptions;
    use weft_connection::BlockingDisk;

    /// The start counter in the file is that of another start.
    fn change_counter(place: &PathBuf) {
        let text = std::fs::read_to_string(place).unwrap();
        let mut record: Value = serde_json::from_str(&text).unwrap();
        record["epoch"] = 1.into();
        std::fs::write(place, record.to_string()).unwrap();
    }

    #[test]
    fn the_first_flush_of_each_queue_fails_after_a_loss() {
        let directory = std::env::temp_dir().join(format!("weft-kept-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (data, place) = (directory.join("data"), directory.join("disk"));
        std::fs::write(&data, vec![0; 1 << 20]).unwrap();
        let url = format!("file:{}", data.display());
        let device = weft_block::open(&url, &OpenOptions::default()).unwrap();
        let has_cache = device.features().volatile_cache;
        let begin = |is_taken_over| {
            let disk = ("the disk".to_owned(), place.clone());
            let late_writers = LateWriters::default();
            RecordedDevice::begin(
                Arc::clone(&device),
                Uuid::nil(),
                disk,
                &late_writers,
                is_taken_over,
            )
        };
        let is_there = || RecordedDevice::is_of(&place, &*device, Uuid::nil());
        assert!(!is_there());
        drop(begin(false));
        assert!(is_there(), "it was not ended in order");
        let same = begin(true);
        BlockingDisk::on(same).unwrap().flush().unwrap();
        change_counter(&place);
        let other = begin(true);
        let disks = [0, 1].map(|_| BlockingDisk::on(Arc::clone(&other) as Device).unwrap());
        for is_first in [true, false] {
            let failed = disks.each_ref().map(|disk| disk.flush().is_err());
            assert_eq!(failed, [is_first && has_cache; 2]);
        }
        drop(disks);
        other.forget();
        assert!(!is_there());
        std::fs::remove_dir_all(directory).unwrap();
    }
}
