//! An open device with its event loops, and blocking calls.

use crate::caller_loop::CallerLoop;
use crate::failure::{CallFailure, Code, Completion};
use crate::fork;
use crate::limits::{CLOSE_S, PART_BYTES};
use crate::line::Line;
use crate::memory::CallerBytes;
use crate::options::LibraryOptions;
use crate::outbox::Outbox;
use crate::signals::Blocked;
use crate::worker::{CheckedOp, Data};
use core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::read_only::write_refused;
use weft_block::sharing::share;
use weft_block::{Device, Geometry, OpKind};
use weft_endpoint::loops::{Loops, LoopsConfig};
use weft_endpoint::source::discovered;
use weft_endpoint::{ConnectOptions, Control};
use weft_io::RemoteLoop;

/// A device, its event loops, and the worker of blocking calls.
pub struct DiskInner {
    device: Device,
    /// The same, as loops of the caller use it: each with queues of its own.
    unshared: Device,
    /// `None` while it is dropped, and if there are none.
    loops: Option<Loops>,
    remotes: Vec<RemoteLoop>,
    control: Control,
    lends: bool,
    /// The loop of the next queue.
    next: AtomicUsize,
    /// Of blocking calls, when there was one.
    line: Lock<Option<Arc<Line>>>,
}

/// An operation that has been checked against the device.
pub struct Checked {
    kind: OpKind,
    lba: u64,
    blocks: u64,
    data: Data,
}

impl Checked {
    /// The request; `None` if there is nothing to be done.
    pub fn request(self, user: u64, outbox: &Arc<Outbox>) -> Option<CheckedOp> {
        let Self { kind, lba, blocks, data } = self;
        let does_something = blocks > 0 || kind == OpKind::Flush;
        does_something.then(|| CheckedOp {
            kind,
            lba,
            blocks,
            data,
            user,
            outbox: Arc::clone(outbox),
        })
    }
}

impl DiskInner {
    /// Opens a device.
    ///
    /// # Errors
    /// The URL or an option is wrong, the device cannot be opened, or opening was cancelled.
    pub fn open(url: &str, options: &LibraryOptions) -> Result<Self, CallFailure> {
        fork::begin()?;
        // All threads are started from here, or from threads that are.
        let _blocked = Blocked::now();
        let control = Control::new();
        let mut connect: ConnectOptions = options.connect(&control)?;
        let config = LoopsConfig {
            threads: Some(options.queues().into()),
            pool_bytes: options.pool_bytes(),
            poll: options.polls(),
            ..LoopsConfig::default()
        };
        discovered::look_up(url, &mut connect)?;
        let lends = connect.disk_timeout.is_zero();
        let opened = weft_endpoint::open_unless(url, &connect, options.cancelled())?;
        let device =
            opened.ok_or_else(|| CallFailure::new(Code::Cancelled, "opening was cancelled"))?;
        let loops = options.has_threads().then(|| Loops::start(&config)).transpose()?;
        let remotes = loops.as_ref().map_or_else(Vec::new, |loops| loops.remotes().to_vec());
        let (device, unshared) = (share(Arc::clone(&device), &remotes), device);
        let (next, line) = (AtomicUsize::new(0), Lock::new(None));
        Ok(Self { device, unshared, loops, remotes, control, lends, next, line })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Number of its loops.
    pub fn loops(&self) -> usize {
        self.remotes.len()
    }

    /// A worker for operations, on its loops in turn.
    ///
    /// # Errors
    /// The device grants no further queue, or has no loops.
    pub fn open_line(&self) -> Result<Line, CallFailure> {
        let turn = self.next.fetch_add(1, Relaxed);
        let Some(at) = turn.checked_rem(self.remotes.len()) else {
            return Err(CallFailure::usage(
                "the device was opened with the option threads=off, so that only queues on a loop of the \
                 caller do I/O",
            ));
        };
        Line::open(self.remotes[at].clone(), Arc::clone(&self.device), self.lends)
    }

    /// A worker for operations on a loop of the caller.
    ///
    /// # Errors
    /// The loop belongs to another thread, or the device grants no further queue.
    pub fn open_line_here(&self, on: &Arc<CallerLoop>) -> Result<Line, CallFailure> {
        Line::open_here(on, &self.unshared, self.lends)
    }

    /// Asks the source for its size.
    ///
    /// # Errors
    /// The source could not be asked.
    pub fn renew_size(&self) -> Result<(), CallFailure> {
        let _blocked = Blocked::now();
        self.device.renew_size()?;
        Ok(())
    }

    /// The next bytes at or behind `offset` that may be anything but zeroes; an empty range at the
    /// end if there are none. `None`: the source does not tell.
    ///
    /// # Errors
    /// `offset` is beyond the end.
    pub fn next_data(&self, offset: u64) -> Result<Option<Range<u64>>, CallFailure> {
        let geometry = self.device.geometry();
        if offset > geometry.bytes() {
            let text = format!("{offset} is beyond the end, {}", geometry.bytes());
            return Err(CallFailure::new(Code::OutOfRange, text));
        }
        let block = u64::from(geometry.block_bytes);
        let found = self.device.next_data(offset / block);
        Ok(found.map(|of| {
            let (start, end) = ((of.start * block).max(offset), of.end * block);
            start..end.max(start)
        }))
    }

    /// Checks an operation on `bytes` bytes at `offset`.
    ///
    /// # Errors
    /// They are not whole blocks of the device, or it does not do that.
    pub fn check(
        &self,
        kind: OpKind,
        (offset, bytes): (u64, u64),
        data: Data,
    ) -> Result<Checked, CallFailure> {
        let (geometry, features) = (self.device.geometry(), self.device.features());
        let block = u64::from(geometry.block_bytes);
        if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
            let text = format!(
                "{bytes} bytes at {offset}: both must be multiples of the block size, {block} bytes"
            );
            return Err(CallFailure::usage(text));
        }
        let (lba, blocks) = (offset / block, bytes / block);
        if lba.checked_add(blocks).is_none_or(|end| end > geometry.blocks) {
            let text = format!(
                "{bytes} bytes at {offset} are beyond the end of the device, which has {}",
                geometry.bytes()
            );
            return Err(CallFailure::new(Code::OutOfRange, text));
        }
        if kind.is_write() && !features.write {
            return Err(CallFailure::new(Code::ReadOnly, write_refused(self.device.url())));
        }
        let unsupported = |what: &str| {
            CallFailure::new(Code::Unsupported, format!("{} cannot {what}", self.device.url()))
        };
        match kind {
            OpKind::WriteZeroes { .. } if !features.write_zeroes => {
                Err(unsupported("write zeroes"))
            }
            OpKind::CompareAndWrite { .. } if !features.compare => Err(unsupported("compare")),
            OpKind::CompareAndWrite { .. } => {
                check_compare(&geometry, blocks)?;
                Ok(Checked { kind, lba, blocks, data })
            }
            _ => Ok(Checked { kind, lba, blocks, data }),
        }
    }

    /// Executes an operation, and waits for it. `what` describes it for errors.
    ///
    /// # Errors
    /// It failed.
    pub fn run(&self, checked: Checked, what: impl FnOnce() -> String) -> Result<(), CallFailure> {
        let completion = self.complete(checked)?;
        if completion.is_success() { Ok(()) } else { Err(CallFailure::of(&completion, &what())) }
    }

    /// Executes an operation, and returns how it ended.
    ///
    /// # Errors
    /// It could not be begun.
    pub fn complete(&self, checked: Checked) -> Result<Completion, CallFailure> {
        self.complete_while(checked, None, || true)
    }

    /// The same, and asks `goes_on` in intervals of `pause`. The first time that it does not the
    /// operation is cancelled; it is still waited for, as its data is in use until it has ended.
    ///
    /// # Errors
    /// It could not be begun.
    pub fn complete_while(
        &self,
        checked: Checked,
        pause: Option<Duration>,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Completion, CallFailure> {
        let outbox = Arc::<Outbox>::default();
        let Some(request) = checked.request(0, &outbox) else { return Ok(Completion::default()) };
        outbox.begin(1);
        let line = self.line()?;
        line.start([request])?;
        let mut ended = Completion::default();
        let (mut pause, mut take) = (pause, |_: usize, completion| ended = completion);
        while outbox.wait((1, pause), || false, 1, &mut take) == 0 {
            if !goes_on() {
                // An error is that the worker has ended, which completes the operation.
                let _ = line.cancel(0, &outbox);
                pause = None;
            }
        }
        Ok(ended)
    }

    /// The worker of blocking calls.
    fn line(&self) -> Result<Arc<Line>, CallFailure> {
        let mut line = self.line.lock();
        if let Some(line) = &*line {
            return Ok(Arc::clone(line));
        }
        let _blocked = Blocked::now();
        Ok(Arc::clone(line.insert(Arc::new(self.open_line()?))))
    }
}

/// Maximum blocks of a compare-and-write, which is never split.
pub fn compare_blocks_max(geometry: &Geometry) -> u64 {
    let at_once = PART_BYTES.min(geometry.max_transfer_bytes.into());
    let most = at_once / u64::from(geometry.block_bytes);
    most.max(1).min(geometry.atomic.compare_and_write_blocks.into())
}

fn check_compare(geometry: &Geometry, blocks: u64) -> Result<(), CallFailure> {
    let most = compare_blocks_max(geometry);
    if blocks <= most {
        return Ok(());
    }
    let text = format!(
        "{blocks} blocks cannot be compared and written in one step: give at most {most} of {} bytes",
        geometry.block_bytes
    );
    Err(CallFailure::usage(text))
}

/// The bytes of a pair have the same number.
///
/// # Errors
/// They do not.
pub fn pair(expected: CallerBytes, new: CallerBytes) -> Result<Data, CallFailure> {
    if expected.size() == new.size() {
        return Ok(Data::Pair(expected, new));
    }
    Err(CallFailure::usage("what is compared has another length than what is written"))
}

impl Drop for DiskInner {
    fn drop(&mut self) {
        drop(self.line.get_mut().take());
        if let Some(loops) = self.loops.take() {
            // An error is that a loop has failed, which its operations have reported.
            let _ = loops.stop();
        }
    }
}

/// Closes a device that is no longer used. When this returns, all peers that answer know it.
pub fn close(disk: DiskInner) {
    let control = disk.control.clone();
    drop(disk);
    control.finish_within(Duration::from_secs(CLOSE_S));
}
