//! The disks of a simulated host: real files behind a cache that a power failure empties.
//!
//! Durable data is in the opened file; data that may be lost is in memory. Operations take effect
//! when they end, after a delay that is drawn from the seed for each: two in flight may complete in
//! either order. A flush makes durable what had ended before it was submitted, and nothing else.

mod backend;
mod file;

use super::net::SharedNet;
use crate::disk::{DiskKind, DiskOp};
use crate::rng::Rng;
pub(super) use backend::SimDisk;
use core::time::Duration;
use file::FileId;
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Behaviour of the disks of a host.
#[derive(Clone, Debug)]
pub struct DiskConfig {
    /// Time that an operation takes, at least and at most.
    pub delay: (Duration, Duration),
    /// One in `n` operations takes [`DiskConfig::stall`] longer (0: none).
    pub stall_one_in: u32,
    /// See [`DiskConfig::stall_one_in`].
    pub stall: Duration,
    /// One in `n` operations fails (0: none). A write that fails may have been done in part.
    pub error_one_in: u32,
    /// Operations that a loop may have in flight.
    pub depth: usize,
}

impl Default for DiskConfig {
    /// A well-behaved disk: 100 µs, no errors.
    fn default() -> Self {
        let delay = Duration::from_micros(100);
        Self {
            delay: (delay, delay),
            stall_one_in: 0,
            stall: Duration::ZERO,
            error_one_in: 0,
            depth: 1024,
        }
    }
}

impl DiskConfig {
    /// A disk drawn by chance, which makes no errors.
    pub fn drawn(rng: &mut Rng) -> Self {
        let least = Duration::from_nanos(rng.magnitude(1_000_000));
        Self {
            delay: (least, least + Duration::from_nanos(rng.magnitude(10_000_000))),
            stall_one_in: *rng.pick(&[0, 100]),
            stall: Duration::from_millis(rng.magnitude(5000)),
            error_one_in: 0,
            depth: rng.magnitude(256) as usize,
        }
    }

    fn draw_delay(&self, rng: &mut Rng) -> Duration {
        let extra = self.delay.1.saturating_sub(self.delay.0);
        let stall = if rng.one_in(self.stall_one_in) { self.stall } else { Duration::ZERO };
        self.delay.0 + Duration::from_nanos(rng.within(0, extra.as_nanos() as u64)) + stall
    }
}

/// The disks of a host, which its loops share.
pub(super) struct Disks {
    pub(super) config: DiskConfig,
    rng: Rng,
    host: usize,
    net: SharedNet,
    files: BTreeMap<FileId, Cached>,
}

impl Disks {
    pub(super) fn new(host: usize, net: SharedNet, mut rng: Rng) -> Self {
        let config = DiskConfig::drawn(&mut rng);
        Self { config, rng, host, net, files: BTreeMap::new() }
    }

    fn cached(&mut self, file: &Arc<File>) -> io::Result<&mut Cached> {
        let id = file::identify(file)?;
        Ok(self.files.entry(id).or_insert_with(|| Cached::new(Arc::clone(file))))
    }

    /// Returns a mark of earlier writes, which a flush that is submitted now covers.
    fn mark(&mut self, file: &Arc<File>) -> u64 {
        self.cached(file).map_or(0, |cached| cached.last())
    }

    fn delay(&mut self) -> Duration {
        self.config.draw_delay(&mut self.rng)
    }

    /// Lets an operation take effect, or fail.
    fn perform(&mut self, file: &Arc<File>, op: &mut DiskOp, mark: u64) -> io::Result<()> {
        let (what, fails) = (name(op.kind), self.rng.one_in(self.config.error_one_in));
        self.net.lock().record(what, self.host as u64, op.offset);
        if fails {
            self.net.lock().record("disk error", self.host as u64, op.offset);
            self.tear(file, op)?;
            // EIO on Unix; "the device does not function" on Windows.
            return Err(io::Error::from_raw_os_error(if cfg!(windows) { 31 } else { 5 }));
        }
        self.take_effect(file, op, mark)
    }

    fn take_effect(&mut self, file: &Arc<File>, op: &mut DiskOp, mark: u64) -> io::Result<()> {
        let cached = self.cached(file)?;
        match op.kind {
            DiskKind::Read => {
                let mut at = op.offset;
                op.data.iter_mut().try_for_each(|segment| {
                    let from = at;
                    at += segment.len() as u64;
                    cached.read(from, segment)
                })
            }
            DiskKind::Write { dsync } => {
                let bytes = op.data.iter().flat_map(|segment| segment.iter().copied()).collect();
                cached.write(op.offset, bytes, dsync)
            }
            DiskKind::Sync => cached.sync(mark),
            DiskKind::Discard => cached.discard(op.offset, op.len),
            DiskKind::WriteZeroes { dsync, .. } => cached.zero(op.offset, op.len, dsync),
        }
    }

    /// Lets an operation that does not end take effect in part.
    fn tear(&mut self, file: &Arc<File>, op: &mut DiskOp) -> io::Result<()> {
        if matches!(op.kind, DiskKind::Read | DiskKind::Sync) {
            return Ok(());
        }
        op.kind = match op.kind {
            DiskKind::WriteZeroes { free, .. } => DiskKind::WriteZeroes { free, dsync: false },
            DiskKind::Write { .. } => DiskKind::Write { dsync: false },
            other => other,
        };
        self.take_effect(file, op, 0)?;
        let mut rng = self.rng.fork();
        self.cached(file)?.tear_last(&mut rng)
    }

    /// The power fails: what is not lasting is lost, or not, by sector.
    pub(super) fn crash(&mut self) -> io::Result<()> {
        for cached in core::mem::take(&mut self.files).into_values() {
            cached.crash(&mut self.rng)?;
        }
        Ok(())
    }
}

fn name(kind: DiskKind) -> &'static str {
    match kind {
        DiskKind::Read => "disk read",
        DiskKind::Write { .. } => "disk write",
        DiskKind::Sync => "disk sync",
        DiskKind::Discard => "disk discard",
        DiskKind::WriteZeroes { .. } => "disk zero",
    }
}

// Data that was written to a file and may still be lost.

/// Writes that the cache holds at most; beyond them the oldest becomes lasting, as real caches
/// write back by and by.
const WRITES_MAX: usize = 4096;

/// Unit that a write leaves whole when the power fails, bytes.
const SECTOR_BYTES: u64 = 512;

enum Content {
    Bytes(Vec<u8>),
    Zeroes(u64),
}

struct Write {
    /// The writes of a file are counted from 1.
    number: u64,
    offset: u64,
    content: Content,
    durable: bool,
}

impl Write {
    fn len(&self) -> u64 {
        match &self.content {
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Zeroes(len) => *len,
        }
    }

    fn end(&self) -> u64 {
        self.offset + self.len()
    }

    /// Copies what the write has for `from..` into `bytes`.
    fn read_into(&self, from: u64, bytes: &mut [u8]) {
        let start = self.offset.max(from);
        let end = self.end().min(from + bytes.len() as u64);
        if start >= end {
            return;
        }
        let to = &mut bytes[(start - from) as usize..(end - from) as usize];
        match &self.content {
            Content::Bytes(own) => to.copy_from_slice(
                &own[(start - self.offset) as usize..(end - self.offset) as usize],
            ),
            Content::Zeroes(_) => to.fill(0),
        }
    }

    /// Stores `start..end` of it for good.
    fn store(&self, file: &File, start: u64, end: u64) -> io::Result<()> {
        let mut part = [0; 4096];
        let mut at = start;
        while at < end {
            let bytes = &mut part[..(end - at).min(4096) as usize];
            self.read_into(at, bytes);
            file::write(file, at, bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    /// Its sectors, the first and the last cut where it begins and ends.
    fn sectors(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let (start, end) = (self.offset, self.end());
        (start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES))
            .map(move |s| ((s * SECTOR_BYTES).max(start), ((s + 1) * SECTOR_BYTES).min(end)))
    }
}

/// A file with its writes that are not lasting yet, in order.
struct Cached {
    file: Arc<File>,
    writes: VecDeque<Write>,
    last: u64,
}

impl Cached {
    fn new(file: Arc<File>) -> Self {
        Self { file, writes: VecDeque::new(), last: 0 }
    }

    /// The number of the last write.
    fn last(&self) -> u64 {
        self.last
    }

    fn len(&self) -> io::Result<u64> {
        let lasting = self.file.metadata()?.len();
        Ok(self.writes.iter().map(Write::end).fold(lasting, u64::max))
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if offset + bytes.len() as u64 > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file::read(&self.file, offset, bytes)?;
        self.writes.iter().for_each(|w| w.read_into(offset, bytes));
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: Vec<u8>, durable: bool) -> io::Result<()> {
        self.push(offset, Content::Bytes(bytes), durable)
    }

    /// Zeroes what there is of a range.
    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let end = self.len()?.min(offset.saturating_add(len));
        self.zero(offset, end.saturating_sub(offset), false)
    }

    fn zero(&mut self, offset: u64, len: u64, durable: bool) -> io::Result<()> {
        self.push(offset, Content::Zeroes(len), durable)
    }

    fn push(&mut self, offset: u64, content: Content, durable: bool) -> io::Result<()> {
        self.last += 1;
        self.writes.push_back(Write { number: self.last, offset, content, durable });
        if self.writes.len() > WRITES_MAX {
            self.writes[0].durable = true;
        }
        self.settle()
    }

    /// Makes lasting what was written up to the write of this number.
    fn sync(&mut self, number: u64) -> io::Result<()> {
        self.writes.iter_mut().take_while(|w| w.number <= number).for_each(|w| w.durable = true);
        self.settle()
    }

    /// Moves the oldest writes into the file as long as they are to last. A durable write behind
    /// one that is not stays: in the file, the older one would hide it.
    fn settle(&mut self) -> io::Result<()> {
        while let Some(write) = self.writes.pop_front_if(|w| w.durable) {
            write.store(&self.file, write.offset, write.end())?;
        }
        Ok(())
    }

    /// Part of the last write's sectors never got there, by chance.
    fn tear_last(&mut self, rng: &mut Rng) -> io::Result<()> {
        let Some(write) = self.writes.pop_back() else { return Ok(()) };
        let kept: Vec<_> = write.sectors().filter(|_| rng.one_in(2)).collect();
        for (start, end) in kept {
            let mut bytes = vec![0; (end - start) as usize];
            write.read_into(start, &mut bytes);
            self.push(start, Content::Bytes(bytes), false)?;
        }
        Ok(())
    }

    /// The power fails: each sector that may be lost is lost or not.
    fn crash(self, rng: &mut Rng) -> io::Result<()> {
        for write in self.writes {
            for (start, end) in write.sectors() {
                if write.durable || rng.one_in(2) {
                    write.store(&self.file, start, end)?;
                }
            }
        }
        Ok(())
    }
}
