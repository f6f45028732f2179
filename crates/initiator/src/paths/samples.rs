//! Compares samples of the data that two targets serve, on the control loop: places where disks
//! have what is theirs alone, as partition tables and superblocks, and some in between.
//!
//! Others may write in the meantime. So what differs is read again at both, and counts only if the
//! first target gives the same as before.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::{BlockQueue, Device, Error, Geometry, Op, OpKind, Opening};
use weft_connection::limits::{PATH_SAMPLE_BYTES, PATH_SAMPLE_TRIES};
use weft_io::event_loop::TimerSlot;
use weft_io::{Activity, Driver, DriverId, Handle, Segments};

/// Parts of a device at whose beginnings samples lie.
const PARTS: u64 = 5;

/// Further places, bytes from the start: behind a boot block, the superblock of Btrfs, the first
/// partition.
const PLACES: [u64; 3] = [4 << 10, 64 << 10, 1 << 20];

/// What two targets have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The same in all samples.
    Alike,
    /// Not the same, in the sample that begins with this block.
    Different(u64),
    /// A sample could not be read, or was changing.
    Unclear(String),
}

/// The outcome, once there is one.
pub(super) type Compared = Arc<Lock<Option<Verdict>>>;

/// How far a comparison is.
pub(super) enum Comparison {
    /// Both targets are connected to, first that of a path in use.
    Connecting(VecDeque<Opening>, Vec<Device>),
    /// Samples are read.
    Reading(Compared),
}

/// Starts to compare two devices; `keeper` is woken at the end. Nobody else uses them, and they have
/// the same size.
///
/// # Errors
/// That one of them cannot be used.
pub(super) fn compare(
    on: &Handle,
    devices: Vec<Device>,
    keeper: DriverId,
) -> Result<Compared, Error> {
    let outcome = Compared::default();
    let told = Arc::clone(&outcome);
    let geometry = devices[0].geometry();
    let driver = on.try_spawn(|id| {
        let queues = devices.iter().map(|device| device.open_queue(on, id));
        Ok::<_, Error>(Samples {
            queues: queues.collect::<Result<_, _>>()?,
            _devices: devices,
            places: places(geometry),
            blocks: blocks(geometry),
            bytes: blocks(geometry) as usize * geometry.block_bytes as usize,
            read: Vec::new(),
            tries: 0,
            ops: VecDeque::new(),
            asked: None,
            told,
            keeper,
            id,
            timer: TimerSlot::default(),
        })
    })?;
    on.wake(driver);
    Ok(outcome)
}

/// Blocks of a sample.
fn blocks(of: Geometry) -> u32 {
    let most = u32::try_from(of.blocks).unwrap_or(u32::MAX);
    (PATH_SAMPLE_BYTES / of.block_bytes).clamp(1, most.max(1))
}

/// The first blocks of the samples, ascending.
fn places(of: Geometry) -> VecDeque<u64> {
    let last = of.blocks.saturating_sub(blocks(of).into());
    let block = u64::from(of.block_bytes);
    let parts = (0..PARTS).map(|part| of.blocks / PARTS * part);
    let mut all: Vec<u64> = PLACES.iter().map(|bytes| bytes / block).chain(parts).collect();
    all.push(last);
    all.retain(|place| *place <= last);
    all.sort_unstable();
    all.dedup();
    all.into()
}

struct Samples {
    /// That of the device that is known, and that of the other one.
    queues: Vec<Box<dyn BlockQueue>>,
    /// Open as long as the queues are.
    _devices: Vec<Device>,
    /// The samples that were not compared yet.
    places: VecDeque<u64>,
    blocks: u32,
    bytes: usize,
    /// What the present sample held: at the first device, the second, and the first again.
    read: Vec<Vec<u8>>,
    /// How often the present sample was read to the end.
    tries: u32,
    ops: VecDeque<Op>,
    /// The queue that has an operation.
    asked: Option<usize>,
    told: Compared,
    keeper: DriverId,
    id: DriverId,
    timer: TimerSlot,
}

impl Samples {
    /// Reads the present sample at the device whose turn it is.
    fn prepare(&mut self, on: &Handle) {
        let Some(&lba) = self.places.front() else { return };
        let Some(buf) = on.pool().take(self.bytes) else {
            return self.timer.arm(on, self.id, on.now() + Duration::from_millis(1));
        };
        let data = Segments::from([buf.into()]);
        self.ops.push_back(Op::new(OpKind::Read, lba, self.blocks, 0, data));
        self.asked = Some(self.read.len() % 2);
    }

    /// Takes what was read; the verdict, if there is one.
    fn take(&mut self, bytes: Vec<u8>) -> Option<Verdict> {
        self.read.push(bytes);
        match &self.read[..] {
            [first, second] if first == second => {
                self.places.pop_front();
                (self.read, self.tries) = (Vec::new(), 0);
                self.places.is_empty().then_some(Verdict::Alike)
            }
            [first, _, again] => {
                let (is_still, place) = (first == again, self.places.front().copied());
                self.read.clear();
                self.tries += 1;
                if self.tries < PATH_SAMPLE_TRIES {
                    return None;
                }
                let place = place.unwrap_or_default();
                Some(match is_still {
                    true => Verdict::Different(place),
                    false => Verdict::Unclear(format!("block {place} is written all the time")),
                })
            }
            _ => None,
        }
    }

    fn end(&mut self, on: &Handle, verdict: Verdict) -> Activity {
        *self.told.lock() = Some(verdict);
        on.wake(self.keeper);
        on.remove(self.id);
        Activity::Busy
    }
}

impl Driver for Samples {
    fn work(&mut self, on: &Handle) -> Activity {
        if Arc::strong_count(&self.told) == 1 {
            // The device was closed.
            on.remove(self.id);
            return Activity::Idle;
        }
        if self.asked.is_none() {
            self.prepare(on);
        }
        let Some(asked) = self.asked else { return Activity::Idle };
        let queue = &mut self.queues[asked];
        queue.submit(&mut self.ops);
        let mut done = Vec::new();
        queue.reap(&mut done);
        let Some(ended) = done.pop() else { return Activity::Idle };
        self.asked = None;
        if !ended.outcome.is_success() {
            let (lba, why) = (ended.op.lba, ended.outcome.status().kind);
            return self.end(on, Verdict::Unclear(format!("block {lba} cannot be read: {why:?}")));
        }
        let bytes = ended.op.data.iter().flat_map(|part| part.iter().copied()).collect();
        if let Some(verdict) = self.take(bytes) {
            return self.end(on, verdict);
        }
        on.wake(self.id);
        Activity::Busy
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::OpenOptions;

    fn device(url: &str) -> Device {
        weft_block::open(url, &OpenOptions::default()).unwrap()
    }

    #[test]
    fn samples_lie_within_the_device() {
        let places = |url: &str| -> Vec<u64> { places(device(url).geometry()).into() };
        assert_eq!(places("null:512"), [0]);
        assert_eq!(places("null:4096"), [0]);
        assert_eq!(places("null:64KiB,block=4096"), [0, 1, 3, 6, 9, 12, 15]);
        let gib = (1 << 30) / 512;
        let parts = [1, 2, 3, 4].map(|part| gib / 5 * part);
        let all = [&[0, 8, 128, 2048][..], &parts, &[gib - 8]].concat();
        assert_eq!(places("null:1GiB"), all);
    }
}
