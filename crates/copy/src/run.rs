//! A copy from its start to its end.

use crate::digest::RunningDigest;
use crate::ends::{CopyEnds, shown};
use crate::failed::resized;
use crate::journal::{Journal, JournalRecord};
use crate::ledger::{Holes, Ledger};
use crate::limits::{
    CHUNK_BYTES, CHUNK_BYTES_MIN, DEPTH, JOURNAL_EVERY, PROGRESS_EVERY, THREADS_MAX,
};
use crate::loops::CopyLoops;
use crate::map::Map;
use crate::offload::{self, Offloaded};
use crate::shared::{ChunkTask, PassFailure, Shared, ZeroMethod};
use crate::stopping::StopWaits;
use crate::tuning::{Setting, Tuning, TuningBounds};
use crate::unreadable::UnreadableRanges;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;
use weft_block::{Error, ErrorKind, waiting};

/// Options of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyOptions {
    /// Event loops, each with queues of its own.
    pub threads: usize,
    /// Bytes of a chunk; `None`: what is found to be fastest.
    pub chunk: Option<u32>,
    /// Chunks in flight on each loop; `None`: what is found to be fastest.
    pub depth: Option<u32>,
    /// Bytes per second that FROM delivers at most: what is in flight is to end soon then.
    pub limit: Option<u64>,
    /// Read both ends after the copy, and compare.
    pub verify: bool,
    /// Compute the SHA-256 of what is copied.
    pub sha256: bool,
    /// TO reads as zeroes where nothing was written.
    pub blank: bool,
    /// Go on behind what cannot be read, which becomes zeroes; not where a SHA-256 is computed.
    pub skip_unreadable: bool,
}

impl CopyOptions {
    /// Checks that both devices can be used like that.
    ///
    /// # Errors
    /// Which option is wrong, and what to give.
    pub fn check(&self, ends: &CopyEnds) -> Result<(), Error> {
        let usage = |text| Err(Error::new(ErrorKind::Usage, text));
        let (unit, most) = (ends.unit(), ends.transfer_max());
        if let Some(chunk) = self.chunk
            && (chunk == 0 || chunk > most || !u64::from(chunk).is_multiple_of(unit))
        {
            return usage(format!(
                "--bs {chunk}: give a multiple of the block size, {unit} bytes, up to {most}, which both devices take at once"
            ));
        }
        if self.threads == 0 || self.threads > THREADS_MAX {
            return usage(format!("--threads {}: give 1 to {THREADS_MAX}", self.threads));
        }
        Ok(())
    }

    /// How many loops both devices have queues for.
    fn threads(&self, ends: &CopyEnds) -> usize {
        let most = if self.sha256 { 1 } else { self.threads };
        most.min(ends.from.max_queues()).min(ends.to.max_queues()).max(1)
    }

    fn tuning(&self, ends: &CopyEnds) -> Tuning {
        let most = ends.transfer_max() / ends.unit() as u32 * ends.unit() as u32;
        // With a limit what is in flight ends soon.
        let usual = self
            .limit
            .map_or(CHUNK_BYTES, |limit| (limit / 4).clamp(1, CHUNK_BYTES_MIN.into()) as u32);
        let unit = ends.unit() as u32;
        let chunk = self.chunk.unwrap_or((usual.min(most) / unit * unit).max(unit));
        // With a limit, a quarter of a second.
        let depth = self.limit.map(|limit| (limit / 4 / u64::from(chunk)).clamp(1, DEPTH.into()));
        let depth = self.depth.or(depth.map(|depth| depth as u32));
        let start = Setting { chunk, depth: depth.unwrap_or(DEPTH) };
        let bounds = TuningBounds {
            chunk_is_given: self.chunk.is_some() || self.limit.is_some() || most < CHUNK_BYTES_MIN,
            depth_is_given: depth.is_some(),
            chunk_max: most,
            unit: ends.unit() as u32,
        };
        Tuning::new(start, bounds)
    }
}

/// Present activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyPhase {
    /// Reading and writing.
    Copying,
    /// The last flush.
    Flushing,
    /// Comparing.
    Verifying,
}

/// Progress of a copy.
#[derive(Clone, Copy, Debug)]
pub struct CopyProgress {
    /// Present activity.
    pub phase: CopyPhase,
    /// Bytes of the device that are done in this phase.
    pub done: u64,
    /// All bytes.
    pub bytes: u64,
    /// Bytes of the device that were done each second, lately.
    pub rate: f64,
    /// The size of the chunks and their number.
    pub setting: Setting,
}

/// Result of a copy.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Bytes of FROM.
    pub bytes: u64,
    /// Bytes that an earlier process had copied.
    pub before: u64,
    /// Bytes that this one copied or left.
    pub done: u64,
    /// Bytes that were read from FROM for the copy.
    pub read: u64,
    /// Bytes that the server of both devices copied by itself.
    pub offloaded: u64,
    /// Bytes that were written to TO as data.
    pub written: u64,
    /// The time it took, with the last flush.
    pub elapsed: Duration,
    /// The time that comparing took.
    pub verifying: Option<Duration>,
    /// SHA-256 of FROM, in hexadecimal digits.
    pub sha256: Option<String>,
    /// Unreadable parts, which are zero in TO.
    pub unreadable: UnreadableRanges,
    /// The size of the chunks and their number at the end.
    pub setting: Option<Setting>,
}

impl Summary {
    /// That of a copy of no bytes.
    pub fn of_nothing(sha256: bool) -> Self {
        Self { sha256: sha256.then(|| RunningDigest::default().finish()), ..Self::default() }
    }
}

/// Way in which it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyEnd {
    /// All is copied and flushed, and the same in both if that was compared.
    Done,
    /// The caller stopped it. The journal tells how far it came.
    Stopped,
    /// Byte `at` is another one in TO.
    Differs {
        /// The byte.
        at: u64,
    },
}

/// Where it begins, and where it is noted how far it is.
pub struct CopyStart<'a> {
    /// Record of the copy.
    pub record: JournalRecord,
    /// The file that keeps it.
    pub journal: Option<&'a Journal>,
    /// Another process copied to TO before, and may have left writes on their way.
    pub follows: bool,
}

/// Copies all of FROM to TO, from where the record says on. Calls `progress` a few times per
/// second, on the calling thread. It ends early, with what was begun, once `stop` is true.
///
/// # Errors
/// An operation that failed, a device that changed its size, a lack of memory or threads, and a
/// journal that cannot be written.
pub fn copy(
    ends: &CopyEnds,
    options: &CopyOptions,
    mut start: CopyStart<'_>,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(CopyEnd, Summary), Error> {
    let began = Instant::now();
    let (bytes, before) = (ends.bytes(), start.record.copied);
    let padding = bytes - ends.source_bytes();
    let mut summary = Summary { bytes: bytes - padding, before, ..Summary::default() };
    // What is not copied is read again.
    start.record.unreadable = start.record.unreadable.before(before);
    let mut run = Run { ends, options, start, stop, progress, tuning: options.tuning(ends) };
    let mut ended = CopyEnd::Done;
    let offloaded = run.offload(bytes)?;
    summary.offloaded = offloaded.bytes;
    let copied = run.start.record.copied;
    if copied < bytes || options.sha256 {
        let shared = run.shared_of_copy();
        ended = run.pass(&shared, CopyPhase::Copying)?;
        let counts = &shared.counts;
        // What was read again for the digest is not copied again.
        summary.done = shared.done().saturating_sub(copied - shared.first);
        summary.read = counts.read.load(Relaxed);
        summary.written = counts.written.load(Relaxed);
        summary.sha256 =
            shared.digest().filter(|_| ended == CopyEnd::Done).map(|mut it| it.finish());
    }
    summary.done += offloaded.bytes;
    // The zeroes behind the last byte of FROM are no part of it.
    let reached_end = summary.done > 0 && before + summary.done == bytes;
    summary.done -= if reached_end { padding } else { 0 };
    summary.unreadable.clone_from(&run.start.record.unreadable);
    summary.elapsed = began.elapsed();
    if ended == CopyEnd::Done && options.verify {
        let began = Instant::now();
        let shared = run.shared_of_comparison();
        ended = run.pass(&shared, CopyPhase::Verifying)?;
        summary.verifying = Some(began.elapsed());
    }
    let follows = run.start.follows;
    run.wait_for_late_writes(offloaded.lost.max(follows.then_some(began)));
    summary.setting = Some(run.tuning.setting());
    Ok((ended, summary))
}

struct Run<'a> {
    ends: &'a CopyEnds,
    options: &'a CopyOptions,
    start: CopyStart<'a>,
    stop: &'a AtomicBool,
    progress: &'a mut dyn FnMut(CopyProgress),
    tuning: Tuning,
}

impl Run<'_> {
    /// Has the server of both devices copy what it does, unless the data is wanted here.
    fn offload(&mut self, bytes: u64) -> Result<Offloaded, Error> {
        let (ends, stop, first) = (self.ends, self.stop, self.start.record.copied);
        let reads = self.options.sha256 || self.options.limit.is_some() || first >= bytes;
        let Some(offload) = (!reads).then(|| offload::find(ends)).flatten() else {
            return Ok(Offloaded::default());
        };
        let began = Instant::now();
        let offloaded = offload::run(ends, offload, first, stop, &mut |done, flushed| {
            if flushed > self.start.record.copied {
                self.note(Some(flushed))?;
            }
            (self.progress)(CopyProgress {
                phase: CopyPhase::Copying,
                done,
                bytes,
                rate: (done - first) as f64 / began.elapsed().as_secs_f64().max(1e-3),
                setting: self.tuning.setting(),
            });
            Ok(())
        })?;
        if ends.bytes() != bytes {
            return Err(resized(&ends.from, ends.bytes(), bytes));
        }
        Ok(offloaded)
    }

    fn shared_of_copy(&self) -> Arc<Shared> {
        let zeroes = ZeroMethod::of(self.ends, self.options.blank);
        let holes = match zeroes {
            ZeroMethod::Write => Holes::Read,
            // A digest counts them.
            ZeroMethod::AreThere if !self.options.sha256 => Holes::Skipped,
            _ => Holes::Told,
        };
        let written = self.start.record.copied;
        let first = if self.options.sha256 { 0 } else { written };
        let range = first..self.ends.bytes();
        let from = match holes {
            Holes::Read => Map::local(&self.ends.from),
            _ => Map::of(&self.ends.from),
        };
        let ledger = Ledger::new(from, range, self.ends.unit(), holes);
        let mut shared = Shared::new(self.ends.clone(), ChunkTask::Copy, zeroes, ledger);
        shared.written = written;
        shared.data_of_to = (zeroes == ZeroMethod::Zero).then(|| Map::of(&self.ends.to));
        shared.digest =
            self.options.sha256.then(|| RunningDigest::of_first(self.ends.source_bytes()).into());
        shared.skips_unreadable = self.options.skip_unreadable && !self.options.sha256;
        shared.unreadable = self.start.record.unreadable.clone().into();
        Arc::new(shared)
    }

    fn shared_of_comparison(&self) -> Arc<Shared> {
        let (from, range) = (Map::of(&self.ends.from), 0..self.ends.bytes());
        let ledger = Ledger::new(from, range, self.ends.unit(), Holes::ToldInChunks)
            .without(self.start.record.unreadable.clone());
        Arc::new(Shared::new(self.ends.clone(), ChunkTask::Compare, ZeroMethod::Write, ledger))
    }

    /// Works through a ledger, and flushes at the end of a copy.
    fn pass(&mut self, shared: &Arc<Shared>, phase: CopyPhase) -> Result<CopyEnd, Error> {
        self.set(shared);
        let loops = CopyLoops::start(shared, self.options.threads(self.ends))?;
        let mut watch = Watch::new();
        let copies = phase == CopyPhase::Copying;
        let mut stopping = StopWaits::default();
        while loops.working() > 0 {
            if let Some(result) = loops.wait(PROGRESS_EVERY) {
                result?;
                self.note_of(shared, watch.flushing.take())?;
            }
            if self.stop.load(Relaxed) {
                shared.stop.store(true, Relaxed);
                stopping.told();
                loops.wake();
            }
            self.look(shared, &mut watch, phase);
            if copies && watch.flushing.is_none() && watch.noted.elapsed() >= JOURNAL_EVERY {
                watch.noted = Instant::now();
                let mark = shared.ledger().mark();
                if mark > self.start.record.copied {
                    watch.flushing = Some(mark);
                    loops.flush(shared);
                }
            }
        }
        if let Some(failure) = shared.take_failure() {
            return match failure {
                PassFailure::Error(error) => Err(error),
                PassFailure::Differs(at) => Ok(CopyEnd::Differs { at }),
            };
        }
        if copies {
            self.look(shared, &mut watch, CopyPhase::Flushing);
            self.flush(&loops, shared, watch.flushing)?;
        }
        loops.stop()?;
        Ok(if shared.stop.load(Relaxed) { CopyEnd::Stopped } else { CopyEnd::Done })
    }

    /// The last flush, and the one that may be under way.
    fn flush(
        &mut self,
        loops: &CopyLoops,
        shared: &Shared,
        under_way: Option<u64>,
    ) -> Result<(), Error> {
        let mark = shared.ledger().mark();
        let _waiting = waiting::begin(|| format!("{} to flush", shown(&self.ends.to)));
        loops.flush(shared);
        for mark in under_way.into_iter().chain([mark]) {
            while loops.wait(PROGRESS_EVERY).transpose()?.is_none() {}
            self.note_of(shared, Some(mark))?;
        }
        Ok(())
    }

    /// Everything below the mark is copied, and a flush covers it.
    fn note(&mut self, mark: Option<u64>) -> Result<(), Error> {
        let copied = &mut self.start.record.copied;
        *copied = (*copied).max(mark.unwrap_or_default());
        self.start.journal.map_or(Ok(()), |journal| journal.write(&self.start.record))
    }

    /// The same of a pass, which may have found what cannot be read.
    fn note_of(&mut self, shared: &Shared, mark: Option<u64>) -> Result<(), Error> {
        self.start.record.unreadable.clone_from(&shared.unreadable());
        self.note(mark)
    }

    /// Tells how far it is, and judges the setting.
    fn look(&mut self, shared: &Shared, watch: &mut Watch, phase: CopyPhase) {
        let done = shared.done();
        let elapsed = watch.since.elapsed();
        if elapsed < PROGRESS_EVERY && phase != CopyPhase::Flushing {
            return;
        }
        watch.since = Instant::now();
        // Holes say nothing about the devices.
        let moved = shared.counts.read.load(Relaxed);
        self.tuning.copied(moved - watch.moved, elapsed);
        watch.rate.add(done - watch.done, elapsed);
        (watch.done, watch.moved) = (done, moved);
        self.set(shared);
        (self.progress)(CopyProgress {
            phase,
            done: shared.first + done,
            bytes: shared.bytes,
            rate: watch.rate.per_second(),
            setting: self.tuning.setting(),
        });
    }

    fn set(&self, shared: &Shared) {
        let Setting { chunk, depth } = self.tuning.setting();
        shared.chunk.store(chunk, Relaxed);
        shared.depth.store(depth, Relaxed);
    }

    /// Writes of the process whose copy this one went on with, and copies of the server of which
    /// nothing was heard, must not be executed after this.
    fn wait_for_late_writes(&self, since: Option<Instant>) {
        let bound = Duration::from_millis(self.start.record.late_writes_ms);
        if let Some(since) = since.filter(|_| !self.stop.load(Relaxed)) {
            let _waiting = waiting::begin(|| "late writes to end".into());
            std::thread::sleep(bound.saturating_sub(since.elapsed()));
        }
    }
}

/// What was seen of a pass.
struct Watch {
    since: Instant,
    done: u64,
    moved: u64,
    rate: Rate,
    /// When the journal was written.
    noted: Instant,
    /// The mark that the flush under way covers.
    flushing: Option<u64>,
}

impl Watch {
    fn new() -> Self {
        let now = Instant::now();
        Self { since: now, done: 0, moved: 0, rate: Rate::default(), noted: now, flushing: None }
    }
}

/// A rate over the last seconds.
#[derive(Default)]
struct Rate {
    bytes: f64,
    seconds: f64,
}

impl Rate {
    fn add(&mut self, bytes: u64, elapsed: Duration) {
        let elapsed = elapsed.as_secs_f64();
        let kept = (-elapsed / 3.0).exp();
        self.bytes = self.bytes * kept + bytes as f64;
        self.seconds = self.seconds * kept + elapsed;
    }

    fn per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }
}
