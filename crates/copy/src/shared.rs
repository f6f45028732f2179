//! State shared by the loops of a copy.

use crate::digest::RunningDigest;
use crate::ends::CopyEnds;
use crate::ledger::{Ledger, WorkRange};
use crate::limits::UNREADABLE_MAX;
use crate::map::Map;
use crate::unreadable::UnreadableRanges;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::MutexGuard;
use weft_base::lock::Lock;
use weft_block::Error;

/// Task for each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkTask {
    /// It is read from FROM and written to TO.
    Copy,
    /// It is read from both, and compared.
    Compare,
}

/// Way of writing zeroes to TO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZeroMethod {
    /// It reads as zeroes where nothing was written.
    AreThere,
    /// By an operation that may free their space.
    Zero,
    /// Like data.
    Write,
}

impl ZeroMethod {
    /// That of a device, which is `blank` if it was made for the copy.
    pub fn of(ends: &CopyEnds, blank: bool) -> Self {
        let features = ends.to.features();
        match () {
            () if blank => Self::AreThere,
            () if features.write_zeroes => Self::Zero,
            // A discard is a hint: what it leaves is not zero.
            () => Self::Write,
        }
    }
}

/// Event of a loop.
pub enum LoopEvent {
    /// It has nothing more to do.
    Idle,
    /// A flush has ended.
    Flushed(Result<(), Error>),
}

/// Why a pass ended early.
#[derive(Debug)]
pub enum PassFailure {
    /// Something failed.
    Error(Error),
    /// The devices differ in this byte.
    Differs(u64),
}

/// Handling of a chunk that FROM cannot deliver.
pub enum Unread {
    /// Its halves are work again.
    Divided,
    /// It cannot be divided, and is copied as zeroes.
    Zeroes,
    /// The copy fails, with this behind its error.
    Fails(String),
}

/// Bytes, of all loops.
#[derive(Debug, Default)]
pub struct CopyCounts {
    /// That are done; without holes that needed no work.
    pub done: AtomicU64,
    /// Read from FROM.
    pub read: AtomicU64,
    /// Written to TO as data.
    pub written: AtomicU64,
}

/// See the module.
pub struct Shared {
    pub ends: CopyEnds,
    /// The byte at which the pass begins.
    pub first: u64,
    /// Bytes that are copied; FROM may change its size during the copy.
    pub bytes: u64,
    pub task: ChunkTask,
    pub zeroes: ZeroMethod,
    /// Parts of TO that were not zero before the pass; none if that does not matter.
    pub data_of_to: Option<Map>,
    pub ledger: Lock<Ledger>,
    /// Everything before this byte was written by an earlier process, and is read for the digest
    /// alone.
    pub written: u64,
    pub digest: Option<Lock<RunningDigest>>,
    /// True if the copy goes on behind what cannot be read.
    pub skips_unreadable: bool,
    pub unreadable: Lock<UnreadableRanges>,
    /// Bytes of a chunk.
    pub chunk: AtomicU32,
    /// Chunks in flight on each loop.
    pub depth: AtomicU32,
    /// No further chunk begins.
    pub stop: AtomicBool,
    /// Flushes that were asked for.
    pub flushes: AtomicU64,
    pub counts: CopyCounts,
    failure: Lock<Option<PassFailure>>,
}

impl Shared {
    /// Those of a pass over what the ledger has.
    pub fn new(ends: CopyEnds, task: ChunkTask, zeroes: ZeroMethod, ledger: Ledger) -> Self {
        Self {
            first: ledger.mark(),
            bytes: ends.bytes(),
            ends,
            task,
            zeroes,
            data_of_to: None,
            ledger: Lock::new(ledger),
            written: 0,
            digest: None,
            skips_unreadable: false,
            unreadable: Lock::default(),
            chunk: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            stop: AtomicBool::new(false),
            flushes: AtomicU64::new(0),
            counts: CopyCounts::default(),
            failure: Lock::new(None),
        }
    }

    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    pub fn unreadable(&self) -> MutexGuard<'_, UnreadableRanges> {
        self.unreadable.lock()
    }

    /// The medium of FROM did not deliver this. Halves are tried until a single block is left: so
    /// little is lost, whatever the medium says is wrong in a larger one.
    pub fn unread(&self, work: WorkRange) -> Unread {
        if !self.skips_unreadable {
            let can = self.task == ChunkTask::Copy && self.digest.is_none();
            let hint = "; give --skip-unreadable to copy what can be read";
            return Unread::Fails(if can { hint.to_owned() } else { String::new() });
        }
        if self.ledger().divide(work) {
            return Unread::Divided;
        }
        match self.unreadable().add(work.at, work.len) {
            true => Unread::Zeroes,
            false => Unread::Fails(format!("; more than {UNREADABLE_MAX} places cannot be read")),
        }
    }

    /// The digest, if one is made.
    pub fn digest(&self) -> Option<MutexGuard<'_, RunningDigest>> {
        self.digest.as_ref().map(|digest| digest.lock())
    }

    /// Returns whether these bytes of TO, which were not written yet, are known to be zeroes.
    pub fn is_zero_in_to(&self, at: u64, len: u64) -> bool {
        self.data_of_to.as_ref().is_some_and(|map| map.is_zero(at, len))
    }

    /// Returns the next work; none at the end, or if no work may begin.
    pub fn next(&self) -> Option<WorkRange> {
        if self.stop.load(Relaxed) {
            return None;
        }
        self.ledger().next(self.chunk.load(Relaxed).into())
    }

    /// A piece of work is done.
    pub fn finish(&self, work: WorkRange) {
        self.ledger().finish(work.at, work.len);
        self.counts.done.fetch_add(work.len, Relaxed);
    }

    /// Bytes that are done.
    pub fn done(&self) -> u64 {
        self.counts.done.load(Relaxed) + self.ledger().skipped()
    }

    /// Ends the pass; the first reason counts.
    pub fn fail(&self, failure: PassFailure) {
        let mut first = self.failure.lock();
        first.get_or_insert(failure);
        self.stop.store(true, Relaxed);
    }

    /// Why the pass ended early.
    pub fn take_failure(&self) -> Option<PassFailure> {
        self.failure.lock().take()
    }
}
