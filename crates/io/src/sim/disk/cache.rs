//! Data that was written to a file and may still be lost.

use super::file;
use crate::rng::Rng;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::Arc;

/// Writes that the cache holds at most; beyond them the oldest becomes lasting, as real caches
/// write back by and by.
const WRITES_MAX: usize = 4096;

/// Unit that a write leaves whole when the power fails, bytes.
pub(super) const SECTOR_BYTES: u64 = 512;

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
pub(super) struct Cached {
    file: Arc<File>,
    writes: VecDeque<Write>,
    last: u64,
}

impl Cached {
    pub(super) fn new(file: Arc<File>) -> Self {
        Self { file, writes: VecDeque::new(), last: 0 }
    }

    /// The number of the last write.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    fn len(&self) -> io::Result<u64> {
        let lasting = self.file.metadata()?.len();
        Ok(self.writes.iter().map(Write::end).fold(lasting, u64::max))
    }

    pub(super) fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if offset + bytes.len() as u64 > self.len()? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        file::read(&self.file, offset, bytes)?;
        self.writes.iter().for_each(|w| w.read_into(offset, bytes));
        Ok(())
    }

    pub(super) fn write(&mut self, offset: u64, bytes: Vec<u8>, durable: bool) -> io::Result<()> {
        self.push(offset, Content::Bytes(bytes), durable)
    }

    /// Zeroes what there is of a range.
    pub(super) fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let end = self.len()?.min(offset.saturating_add(len));
        self.zero(offset, end.saturating_sub(offset), false)
    }

    pub(super) fn zero(&mut self, offset: u64, len: u64, durable: bool) -> io::Result<()> {
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
    pub(super) fn sync(&mut self, number: u64) -> io::Result<()> {
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
    pub(super) fn tear_last(&mut self, rng: &mut Rng) -> io::Result<()> {
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
    pub(super) fn crash(self, rng: &mut Rng) -> io::Result<()> {
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
