//! A block device with blocking calls.

use crate::limits::DISK_POOL_BYTES;
use crate::loops::ask;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use weft_base::lock::Lock;
use weft_block::read_only::write_refused;
use weft_block::waiting::{self, OngoingWait};
use weft_block::{
    BlockDevice, BlockQueue, Completion, Error, ErrorKind, Geometry, Op, OpKind, StatusKind,
};
use weft_io::event_loop::spawn;
use weft_io::{Activity, Driver, DriverId, Handle, LoopConfig, RemoteLoop, Segments};

/// A block device with blocking calls and its own loop. It may be shared between threads.
pub struct BlockingDisk {
    device: Arc<dyn BlockDevice>,
    remote: RemoteLoop,
    driver: DriverId,
    inbox: Arc<Inbox>,
    /// The loop's; `None` while the disk is dropped.
    thread: Option<JoinHandle<io::Result<()>>>,
}

type Inbox = Lock<Vec<Request>>;

/// A request to the loop; its data is moved there and back.
struct Request {
    kind: OpKind,
    lba: u64,
    blocks: u32,
    data: Vec<u8>,
    reply: Reply,
}

type Reply = mpsc::Sender<Result<Vec<u8>, Failed>>;

/// An operation that failed: how, and in words.
type Failed = (StatusKind, Error);

impl BlockingDisk {
    /// Wraps an open device.
    pub fn on(device: Arc<dyn BlockDevice>) -> Result<Self, Error> {
        let config = LoopConfig {
            name: "weft-disk".into(),
            spin: Duration::ZERO,
            pool_bytes: DISK_POOL_BYTES,
            ..LoopConfig::default()
        };
        let inbox: Arc<Inbox> = Arc::default();
        let (to_loop, shared) = (Arc::clone(&device), Arc::clone(&inbox));
        let start =
            move |on: &Handle| on.try_spawn(|id| Requests::new(on, id, to_loop.as_ref(), shared));
        let (driver, remote, thread) =
            spawn(config, start).map_err(|e| Error::io(format!("cannot start a loop: {e}"), e))?;
        Ok(Self { device, driver: driver?, remote, inbox, thread: Some(thread) })
    }

    /// Size and limits.
    pub fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    /// Reads whole blocks from `lba`; the length of `data` must be a multiple of the block size.
    pub fn read(&self, lba: u64, data: &mut [u8]) -> Result<(), Error> {
        self.check(lba, data.len())?;
        let (step, block) = self.step();
        for (n, part) in data.chunks_mut(step).enumerate() {
            let at = lba + (n * step / block) as u64;
            let read =
                self.run(OpKind::Read, at, (part.len() / block) as u32, vec![0; part.len()])?;
            part.copy_from_slice(&read);
        }
        Ok(())
    }

    /// Writes whole blocks from `lba`; the length of `data` must be a multiple of the block size.
    /// Durable after [`BlockingDisk::flush`].
    pub fn write(&self, lba: u64, data: &[u8]) -> Result<(), Error> {
        self.check(lba, data.len())?;
        let (step, block) = self.step();
        for (n, part) in data.chunks(step).enumerate() {
            let at = lba + (n * step / block) as u64;
            self.run(OpKind::Write { fua: false }, at, (part.len() / block) as u32, part.to_vec())?;
        }
        Ok(())
    }

    /// Makes written data durable.
    pub fn flush(&self) -> Result<(), Error> {
        self.run(OpKind::Flush, 0, 0, Vec::new()).map(drop)
    }

    /// Tells the device that these blocks are no longer needed: they read as zeroes or as before. A
    /// device that cannot free space does nothing.
    pub fn discard(&self, lba: u64, blocks: u64) -> Result<(), Error> {
        self.each(OpKind::Discard, lba, blocks)
    }

    /// Makes these blocks read as zeroes; with `deallocate` the device may free their space.
    /// Durable after [`BlockingDisk::flush`].
    pub fn write_zeroes(&self, lba: u64, blocks: u64, deallocate: bool) -> Result<(), Error> {
        self.each(OpKind::WriteZeroes { deallocate, fua: false }, lba, blocks)
    }

    /// Writes `data` from `lba` if the blocks there hold `expected`, which has the same length:
    /// atomically, so that no other host's write comes between. Whether it was written. Durable
    /// after [`BlockingDisk::flush`].
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] if the device cannot compare; [`ErrorKind::Usage`] for more
    /// blocks than [`weft_block::Atomicity::compare_and_write_blocks`] of its geometry.
    pub fn compare_and_write(&self, lba: u64, expected: &[u8], data: &[u8]) -> Result<bool, Error> {
        if !self.device.features().compare {
            let text = format!("{} cannot compare", self.device.url());
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        self.check(lba, data.len())?;
        self.check_writable()?;
        let (_, block) = self.step();
        let (blocks, most) =
            (data.len() / block, self.geometry().atomic.compare_and_write_blocks as usize);
        if blocks > most || expected.len() != data.len() {
            let text = format!(
                "{} bytes cannot replace {} in one step: give as many of each, of at most {most} blocks of {block} bytes",
                data.len(),
                expected.len()
            );
            return Err(Error::new(ErrorKind::Usage, text));
        }
        if blocks == 0 {
            return Ok(true);
        }
        let (kind, both) = (OpKind::CompareAndWrite { fua: false }, [expected, data].concat());
        let _waiting = self.waiting();
        let answer = self.start(kind, lba, blocks as u32, both).recv();
        match answer.unwrap_or_else(|_| Err(ended())) {
            Ok(_) => Ok(true),
            Err((StatusKind::CompareFailed, _)) => Ok(false),
            Err((_, error)) => Err(error),
        }
    }

    /// Runs an operation without data on `blocks` blocks.
    fn each(&self, kind: OpKind, lba: u64, blocks: u64) -> Result<(), Error> {
        let geometry = self.geometry();
        if lba.checked_add(blocks).is_none_or(|end| end > geometry.blocks) {
            let text =
                format!("{blocks} blocks at block {lba}: the disk has {} blocks", geometry.blocks);
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let (mut at, end) = (lba, lba + blocks);
        while at < end {
            let now = (end - at).min(u32::MAX.into());
            self.run(kind, at, now as u32, Vec::new())?;
            at += now;
        }
        Ok(())
    }

    /// Like [`BlockingDisk::flush`], with a time limit.
    pub fn flush_within(&self, limit: Duration) -> Result<(), Error> {
        let _waiting = self.waiting();
        match self.start(OpKind::Flush, 0, 0, Vec::new()).recv_timeout(limit) {
            Ok(result) => result.map(drop).map_err(|(_, error)| error),
            Err(_) => {
                let text =
                    format!("{}: not flushed within {} s", self.device.url(), limit.as_secs_f32());
                Err(Error::new(ErrorKind::TimedOut, text))
            }
        }
    }

    fn waiting(&self) -> OngoingWait {
        waiting::begin(|| format!("{} to complete an operation", self.device.url()))
    }

    /// Maximum bytes of one operation, and bytes of a block.
    fn step(&self) -> (usize, usize) {
        let geometry = self.geometry();
        (geometry.max_transfer_bytes as usize, geometry.block_bytes as usize)
    }

    fn check(&self, lba: u64, bytes: usize) -> Result<(), Error> {
        let geometry = self.geometry();
        let block = u64::from(geometry.block_bytes);
        let whole = (bytes as u64).is_multiple_of(block);
        if whole && lba.checked_add(bytes as u64 / block).is_some_and(|end| end <= geometry.blocks)
        {
            return Ok(());
        }
        let text = format!(
            "{bytes} bytes at block {lba}: the disk has {} blocks of {block} bytes",
            geometry.blocks
        );
        Err(Error::new(ErrorKind::Usage, text))
    }

    fn check_writable(&self) -> Result<(), Error> {
        if self.device.features().write {
            return Ok(());
        }
        Err(Error::new(ErrorKind::PermissionDenied, write_refused(self.device.url())))
    }

    fn run(&self, kind: OpKind, lba: u64, blocks: u32, data: Vec<u8>) -> Result<Vec<u8>, Error> {
        if kind.is_write() {
            self.check_writable()?;
        }
        let _waiting = self.waiting();
        let answer = self.start(kind, lba, blocks, data).recv();
        answer.unwrap_or_else(|_| Err(ended())).map_err(|(_, error)| error)
    }

    fn start(
        &self,
        kind: OpKind,
        lba: u64,
        blocks: u32,
        data: Vec<u8>,
    ) -> mpsc::Receiver<Result<Vec<u8>, Failed>> {
        let (reply, answer) = mpsc::channel();
        self.inbox.lock().push(Request { kind, lba, blocks, data, reply });
        let driver = self.driver;
        self.remote.post(move |on| on.wake(driver));
        answer
    }
}

impl Drop for BlockingDisk {
    fn drop(&mut self) {
        let driver = self.driver;
        let removed = ask(&self.remote, move |on| on.remove(driver));
        self.remote.post(|on| on.stop());
        // The queue goes back to its device in the turn that ends the loop: whoever opens the next
        // one may count on it.
        if let (Ok(()), Some(thread)) = (removed, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

fn ended() -> Failed {
    (StatusKind::Gone, Error::new(ErrorKind::Io, "the disk's loop has ended"))
}

/// The driver that owns the queue and executes requests.
struct Requests {
    queue: Box<dyn BlockQueue>,
    inbox: Arc<Inbox>,
    /// Waiting for memory.
    waiting: VecDeque<Request>,
    /// Waiting for room in the queue.
    ops: VecDeque<Op>,
    replies: Vec<Option<Reply>>,
    done: Vec<Completion>,
}

impl Requests {
    fn new(
        on: &Handle,
        id: DriverId,
        device: &dyn BlockDevice,
        inbox: Arc<Inbox>,
    ) -> Result<Self, Error> {
        Ok(Self {
            queue: device.open_queue(on, id)?,
            inbox,
            waiting: VecDeque::new(),
            ops: VecDeque::new(),
            replies: Vec::new(),
            done: Vec::new(),
        })
    }

    /// Converts requests to operations while there is memory.
    fn start(&mut self, on: &Handle) {
        while let Some(request) = self.waiting.pop_front() {
            let mut data = Segments::new();
            if !request.data.is_empty() {
                let Some(mut buf) = on.pool().take(request.data.len()) else {
                    self.waiting.push_front(request);
                    return;
                };
                buf.copy_from_slice(&request.data);
                data.push(buf.into());
            }
            let free = self.replies.iter().position(Option::is_none).unwrap_or_else(|| {
                self.replies.push(None);
                self.replies.len() - 1
            });
            self.replies[free] = Some(request.reply);
            self.ops.push_back(Op::new(
                request.kind,
                request.lba,
                request.blocks,
                free as u64,
                data,
            ));
        }
    }

    fn finish(&mut self, Completion { op, outcome }: Completion) {
        let Some(reply) = self.replies.get_mut(op.user as usize).and_then(Option::take) else {
            return;
        };
        let status = outcome.status();
        let result = if outcome.is_success() {
            Ok(op.data.first().map_or_else(Vec::new, |segment| segment.to_vec()))
        } else {
            let kind = match status.kind {
                StatusKind::Gone => ErrorKind::Refused,
                StatusKind::Unsupported => ErrorKind::Unsupported,
                StatusKind::NoSpace => ErrorKind::NoResources,
                _ => ErrorKind::Io,
            };
            let raw = status.raw.map(|raw| format!(" ({raw})")).unwrap_or_default();
            let text = match op.kind {
                OpKind::Flush => format!("the flush failed: {:?}{raw}", status.kind),
                _ if status.kind == StatusKind::NoSpace => format!(
                    "writing {} blocks at block {} failed: {:?}{raw}; make room and repeat it",
                    op.blocks, op.lba, status.kind
                ),
                _ => format!(
                    "{:?} of {} blocks at block {} failed: {:?}{raw}",
                    op.kind, op.blocks, op.lba, status.kind
                ),
            };
            Err((status.kind, Error::new(kind, text)))
        };
        // The caller may have stopped waiting.
        let _ = reply.send(result);
    }
}

impl Drop for Requests {
    fn drop(&mut self) {
        self.ops.drain(..).for_each(Op::give_up);
    }
}

impl Driver for Requests {
    fn work(&mut self, on: &Handle) -> Activity {
        self.waiting.extend(self.inbox.lock().drain(..));
        self.start(on);
        if !self.ops.is_empty() {
            self.queue.submit(&mut self.ops);
        }
        let mut done = core::mem::take(&mut self.done);
        self.queue.reap(&mut done);
        let activity = Activity::busy_if(!done.is_empty());
        done.drain(..).for_each(|completion| self.finish(completion));
        self.done = done;
        activity
    }
}
