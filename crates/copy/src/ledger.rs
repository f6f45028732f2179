//! Next work of a copy, and the end of the part that is written completely.

use crate::limits::HOLE_BYTES;
use crate::map::Map;
use crate::unreadable::UnreadableRanges;
use core::ops::Range;
use std::collections::BTreeMap;

/// A part of the device for one of the loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRange {
    /// Where it begins, in bytes.
    pub at: u64,
    /// Its bytes.
    pub len: u64,
    /// True if it is a hole, which need not be read.
    pub is_hole: bool,
}

/// Handling of holes of FROM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holes {
    /// They are read like everything else.
    Read,
    /// They are work without a read, in large pieces.
    Told,
    /// The same, in pieces of at most a chunk.
    ToldInChunks,
    /// They are no work: TO reads as zeroes there.
    Skipped,
}

/// See the module.
pub struct Ledger {
    from: Map,
    holes: Holes,
    /// Multiple of both block sizes.
    unit: u64,
    /// Where the next work begins, and the end.
    left: Range<u64>,
    /// The next run of data, if it is known.
    data: Option<Range<u64>>,
    /// Everything below is done.
    mark: u64,
    /// What is done above the mark: start and end of each run.
    done: BTreeMap<u64, u64>,
    /// Bytes of holes and the like that were no work.
    skipped: u64,
    /// What is not to be read.
    without: UnreadableRanges,
    /// Parts of work that was not done; they come before everything else.
    again: Vec<WorkRange>,
}

impl Ledger {
    /// The work from byte `start` to byte `end` of the device.
    pub fn new(from: Map, range: Range<u64>, unit: u64, holes: Holes) -> Self {
        let mark = range.start;
        Self {
            from,
            holes,
            unit,
            left: range,
            data: None,
            mark,
            done: BTreeMap::new(),
            skipped: 0,
            without: UnreadableRanges::default(),
            again: Vec::new(),
        }
    }

    /// The same without unreadable parts, which need no work.
    pub fn without(self, unreadable: UnreadableRanges) -> Self {
        Self { without: unreadable, ..self }
    }

    /// Returns the halves of a piece of work later, unless it cannot be divided.
    pub fn divide(&mut self, WorkRange { at, len, is_hole }: WorkRange) -> bool {
        if len <= self.unit {
            return false;
        }
        let first = (len / 2).next_multiple_of(self.unit);
        self.again.push(WorkRange { at: at + first, len: len - first, is_hole });
        self.again.push(WorkRange { at, len: first, is_hole });
        true
    }

    /// Returns the next work, of at most `chunk` bytes; none at the end.
    pub fn next(&mut self, chunk: u64) -> Option<WorkRange> {
        if let Some(work) = self.again.pop() {
            return Some(work);
        }
        loop {
            let Range { start: at, end } = self.left.clone();
            if at >= end {
                return None;
            }
            let end = match self.without.next(at) {
                Some(bad) if bad.start <= at => {
                    self.skip(bad.end.min(end));
                    continue;
                }
                Some(bad) => end.min(bad.start),
                None => end,
            };
            let hole = self.hole_at(at).map(|until| until.min(end));
            let work = match hole {
                Some(until) if self.holes == Holes::Skipped => {
                    self.skip(until);
                    continue;
                }
                Some(until) => {
                    let most = if self.holes == Holes::ToldInChunks { chunk } else { HOLE_BYTES };
                    WorkRange { at, len: (until - at).min(most), is_hole: true }
                }
                None => WorkRange { at, len: self.length(at, chunk).min(end - at), is_hole: false },
            };
            self.left.start += work.len;
            return Some(work);
        }
    }

    /// What is next, up to here, is no work.
    fn skip(&mut self, until: u64) {
        let at = core::mem::replace(&mut self.left.start, until);
        self.skipped += until - at;
        self.finish(at, until - at);
    }

    /// The end of the hole at `at`, if there is one.
    fn hole_at(&mut self, at: u64) -> Option<u64> {
        if self.holes == Holes::Read {
            return None;
        }
        if self.data.as_ref().is_none_or(|data| data.end <= at) {
            let Some(data) = self.from.next(at) else {
                (self.holes, self.data) = (Holes::Read, None);
                return None;
            };
            let Range { start, end } = data;
            self.data = Some(match data.is_empty() {
                true => self.left.end..u64::MAX,
                false => start / self.unit * self.unit..end.next_multiple_of(self.unit),
            });
        }
        let data = self.data.as_ref()?;
        (data.start > at).then_some(data.start)
    }

    /// Bytes of the chunk at `at`: up to the next multiple of the chunk, or to the end of the data.
    fn length(&self, at: u64, chunk: u64) -> u64 {
        let len = chunk - at % chunk;
        match &self.data {
            Some(data) => len.min(data.end.saturating_sub(at)),
            None => len,
        }
    }

    /// A piece of work is done.
    pub fn finish(&mut self, at: u64, len: u64) {
        self.done.insert(at, at + len);
        while let Some(first) = self.done.first_entry() {
            if *first.key() > self.mark {
                break;
            }
            self.mark = self.mark.max(first.remove());
        }
    }

    /// Bytes of holes and the like that needed no work, so far.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Up to where everything is done.
    pub fn mark(&self) -> u64 {
        self.mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use weft_block::{Device, OpenOptions};

    fn ram(bytes: u64) -> Device {
        weft_block::open(&format!("ram:{bytes}"), &OpenOptions::default()).unwrap()
    }

    #[test]
    fn work_is_told_once_and_the_mark_waits_for_the_first() {
        let mut ledger = Ledger::new(Map::local(&ram(1 << 20)), 4096..1 << 20, 512, Holes::Skipped);
        let mut all = Vec::new();
        while let Some(work) = ledger.next(300 << 10) {
            all.push(work);
        }
        assert_eq!((all[0].at, all[0].len), (4096, (300 << 10) - 4096), "up to a multiple");
        let ends = all.windows(2).all(|pair| pair[0].at + pair[0].len == pair[1].at);
        assert!(ends && all.iter().all(|work| !work.is_hole), "{all:?}");
        for work in all[1..].iter().rev() {
            ledger.finish(work.at, work.len);
            assert_eq!(ledger.mark(), 4096);
        }
        ledger.finish(all[0].at, all[0].len);
        assert_eq!(ledger.mark(), 1 << 20);
    }

    #[test]
    fn work_that_was_not_done_comes_again_in_halves() {
        let mut ledger = Ledger::new(Map::local(&ram(1 << 20)), 0..1 << 20, 4096, Holes::Read);
        let work = ledger.next(12 << 10).unwrap();
        assert!(ledger.divide(work));
        let (first, second) = (ledger.next(1 << 20).unwrap(), ledger.next(1 << 20).unwrap());
        assert_eq!((first.at, first.len, second.at, second.len), (0, 8192, 8192, 4096));
        assert!(!ledger.divide(second), "it is a single block");
        ledger.finish(second.at, second.len);
        assert_eq!(ledger.mark(), 0);
        ledger.finish(first.at, first.len);
        assert_eq!((ledger.mark(), ledger.next(4096).unwrap().at), (12 << 10, 12 << 10));
    }

    #[test]
    fn what_cannot_be_read_is_no_work() {
        let mut bad = UnreadableRanges::default();
        for at in [0, 4096, 20480, 61440] {
            assert!(bad.add(at, 4096));
        }
        let map = Map::local(&ram(1 << 20));
        let mut ledger = Ledger::new(map, 0..65536, 4096, Holes::Read).without(bad);
        let mut all = Vec::new();
        while let Some(WorkRange { at, len, .. }) = ledger.next(32768) {
            ledger.finish(at, len);
            all.push((at, len));
        }
        assert_eq!(all, [(8192, 12288), (24576, 8192), (32768, 28672)]);
        assert_eq!((ledger.mark(), ledger.skipped()), (65536, 16384));
    }

    /// A file with data in its second quarter.
    fn sparse(name: &str) -> (tempfile::TempDir, Device) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        let mut file = std::fs::File::create(&path).unwrap();
        file.set_len(4 << 20).unwrap();
        file.seek(SeekFrom::Start(1 << 20)).unwrap();
        file.write_all(&[1; 1 << 20]).unwrap();
        let url = format!("file:{}", path.display());
        (dir, weft_block::open(&url, &OpenOptions::default()).unwrap())
    }

    #[test]
    fn holes_are_told_skipped_or_read() {
        let (_dir, device) = sparse("disk");
        if device.next_data(0).is_none_or(|data| data.start == 0) {
            return; // The file system here has no holes.
        }
        let work = |holes| {
            let mut ledger = Ledger::new(Map::of(&device), 0..4 << 20, 4096, holes);
            let mut all = Vec::new();
            while let Some(WorkRange { at, len, is_hole }) = ledger.next(1 << 20) {
                ledger.finish(at, len);
                all.push((at >> 20, len >> 20, is_hole));
            }
            assert_eq!(ledger.mark(), 4 << 20);
            all
        };
        assert_eq!(work(Holes::Told), [(0, 1, true), (1, 1, false), (2, 2, true)]);
        assert_eq!(work(Holes::Skipped), [(1, 1, false)]);
        assert_eq!(work(Holes::Read).len(), 4);
    }
}
