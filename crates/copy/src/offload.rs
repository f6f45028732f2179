//! Copies by the server of both devices, before anything is read here: it gets copy requests, and
//! no data passes through this process. The rest is read and written as usual.

use crate::ends::CopyEnds;
use crate::ledger::{Holes, Ledger, WorkRange};
use crate::limits::{JOURNAL_EVERY, OFFLOAD_CALLS_MAX, PROGRESS_EVERY};
use crate::map::Map;
use crate::stopping::StopWaits;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;
use std::sync::{Arc, MutexGuard};
use std::time::Instant;
use weft_base::lock::Lock;
use weft_block::offload::Offload;
use weft_block::{Error, Outcome, Presence};

/// Result of an offloaded copy.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offloaded {
    /// Bytes that are copied, from where it began on, and that a flush covers.
    pub bytes: u64,
    /// When it was lost whether the server copies something, which it may still do later.
    pub lost: Option<Instant>,
}

/// What the threads share.
struct Calls<'a> {
    ends: &'a CopyEnds,
    offload: Arc<dyn Offload>,
    stop: &'a AtomicBool,
    state: Lock<State>,
    failed: AtomicBool,
}

struct State {
    ledger: Ledger,
    /// A flush covers everything below.
    flushed: u64,
    /// When the last one began.
    flush_began: Instant,
    is_flushing: bool,
    lost: Option<Instant>,
    /// Threads that have not ended.
    running: usize,
}

/// Returns the server of both devices if it copies from one to the other.
pub fn find(ends: &CopyEnds) -> Option<Arc<dyn Offload>> {
    ends.to.offload(&ends.from.served()?)
}

/// Copies from byte `first` on, as far as it goes. `told` is called now and then with the bytes up
/// to which everything is copied, and those that a flush covers.
///
/// # Errors
/// Those of `told`.
pub fn run(
    ends: &CopyEnds,
    offload: Arc<dyn Offload>,
    first: u64,
    stop: &AtomicBool,
    told: &mut dyn FnMut(u64, u64) -> Result<(), Error>,
) -> Result<Offloaded, Error> {
    let count = offload.calls_max().clamp(1, OFFLOAD_CALLS_MAX);
    let range = first..ends.bytes();
    let ledger = Ledger::new(Map::local(&ends.from), range, ends.unit(), Holes::Read);
    let state = Lock::new(State {
        ledger,
        flushed: first,
        flush_began: Instant::now(),
        is_flushing: false,
        lost: None,
        running: count,
    });
    let calls = Calls { ends, offload, stop, state, failed: AtomicBool::new(false) };
    let mut stopping = StopWaits::default();
    let outcome = std::thread::scope(|scope| {
        (0..count).for_each(|_| _ = scope.spawn(|| calls.work()));
        let mut outcome = Ok(());
        while calls.state().running > 0 {
            std::thread::sleep(PROGRESS_EVERY.min(calls.patience()));
            if calls.stop.load(Relaxed) {
                stopping.told();
            }
            let (done, flushed) = calls.marks();
            if outcome.is_ok() {
                outcome = told(done, flushed);
            }
            if outcome.is_err() {
                calls.failed.store(true, Relaxed);
            }
        }
        outcome
    });
    outcome?;
    calls.flush();
    let (done, flushed) = calls.marks();
    told(done, flushed)?;
    let state = calls.state();
    Ok(Offloaded { bytes: state.flushed - first, lost: state.lost })
}

impl Calls<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Up to where everything is copied, and flushed.
    fn marks(&self) -> (u64, u64) {
        let state = self.state();
        (state.ledger.mark(), state.flushed)
    }

    /// How long to wait for more: not long for a copy that has just begun, which may be a small
    /// one.
    fn patience(&self) -> Duration {
        self.state().flush_began.elapsed().max(Duration::from_millis(1))
    }

    /// One thread: a call after the other, until there is no more to do, or one fails.
    fn work(&self) {
        let chunk = u64::from(self.offload.blocks_max()) * self.ends.unit();
        while !self.stop.load(Relaxed) && !self.failed.load(Relaxed) {
            let Some(work) = self.state().ledger.next(chunk) else { break };
            if !self.copy(work) {
                break;
            }
            let is_due = self.state().flush_began.elapsed() >= JOURNAL_EVERY;
            if is_due && !self.flush() {
                break;
            }
        }
        self.state().running -= 1;
    }

    fn copy(&self, work: WorkRange) -> bool {
        let (at, blocks) = (work.at / self.ends.unit(), work.len / self.ends.unit());
        let outcome = self.offload.copy(at, at, blocks as u32);
        // Another device may have taken the place of one that is away.
        let are_here =
            [&self.ends.from, &self.ends.to].iter().all(|end| end.presence() == Presence::Here);
        if are_here && self.succeeded(outcome) {
            self.state().ledger.finish(work.at, work.len);
            return true;
        }
        self.failed.store(true, Relaxed);
        false
    }

    /// Flushes what is copied, unless another thread does.
    fn flush(&self) -> bool {
        let mark = {
            let mut state = self.state();
            if state.is_flushing || state.ledger.mark() <= state.flushed {
                return true;
            }
            (state.is_flushing, state.flush_began) = (true, Instant::now());
            state.ledger.mark()
        };
        let is_done = self.succeeded(self.offload.flush());
        let mut state = self.state();
        state.is_flushing = false;
        if is_done {
            state.flushed = state.flushed.max(mark);
        }
        drop(state);
        if !is_done {
            self.failed.store(true, Relaxed);
        }
        is_done
    }

    fn succeeded(&self, outcome: Outcome) -> bool {
        if let Outcome::MayHaveExecuted { settled: false, .. } = outcome {
            self.state().lost = Some(Instant::now());
        }
        outcome.is_success()
    }
}

#[cfg(test)]
mod tests {
    use crate::journal::JournalRecord;
    use crate::{CopyEnd, CopyEnds, CopyOptions, CopyStart, copy};
    use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::sync::Arc;
    use weft_block::filter::Filter;
    use weft_block::offload::{Offload, OffloadSource};
    use weft_block::{BlockDevice, BlockQueue, Device, Error, OpenOptions, Outcome, Status};
    use weft_block::{StatusKind, open};
    use weft_io::{DriverId, Handle};

    /// A device whose server says that it copies, and fails after so many calls.
    struct Promising {
        inner: Device,
        calls: Arc<AtomicUsize>,
        flushes: Arc<AtomicUsize>,
        most: usize,
    }

    impl Filter for Promising {
        fn inner(&self) -> &dyn BlockDevice {
            self.inner.as_ref()
        }

        fn open_queue(&self, on: &Handle, owner: DriverId) -> Result<Box<dyn BlockQueue>, Error> {
            self.inner.open_queue(on, owner)
        }

        fn served(&self) -> Option<OffloadSource> {
            let (server, uuid) = ("server".to_owned(), uuid::Uuid::nil());
            Some(OffloadSource { server, number: 1, uuid, block_bytes: 512 })
        }

        fn offload(&self, _: &OffloadSource) -> Option<Arc<dyn Offload>> {
            let (calls, flushes) = (Arc::clone(&self.calls), Arc::clone(&self.flushes));
            Some(Arc::new(Calls { calls, flushes, most: self.most }))
        }
    }

    struct Calls {
        calls: Arc<AtomicUsize>,
        flushes: Arc<AtomicUsize>,
        most: usize,
    }

    impl Offload for Calls {
        fn blocks_max(&self) -> u32 {
            2048
        }

        fn calls_max(&self) -> usize {
            1
        }

        fn copy(&self, from: u64, to: u64, blocks: u32) -> Outcome {
            assert_eq!((from, to, blocks), (self.calls.load(SeqCst) as u64 * 2048, from, 2048));
            match self.calls.fetch_add(1, SeqCst) < self.most {
                true => Outcome::SUCCESS,
                false => Outcome::Done(Status::new(StatusKind::Internal)),
            }
        }

        fn flush(&self) -> Outcome {
            self.flushes.fetch_add(1, SeqCst);
            Outcome::SUCCESS
        }
    }

    #[test]
    fn what_the_server_does_not_copy_is_read_and_written() {
        for (most, sha256, offloaded) in
            [(0, false, 0), (3, false, 3), (99, false, 8), (99, true, 0)]
        {
            let ram = || open("ram:8MiB", &OpenOptions::default()).unwrap();
            let flushes = Arc::new(AtomicUsize::new(0));
            let device = || {
                let (calls, flushes) = (Arc::default(), Arc::clone(&flushes));
                Arc::new(Promising { inner: ram(), calls, flushes, most }) as Device
            };
            let ends = CopyEnds::new(device(), device()).unwrap();
            let options = CopyOptions {
                threads: 1,
                chunk: None,
                depth: None,
                limit: None,
                verify: false,
                sha256,
                blank: false,
                skip_unreadable: false,
            };
            let start = CopyStart {
                record: JournalRecord::new(&ends, false),
                journal: None,
                follows: false,
            };
            let stop = AtomicBool::new(false);
            let (ended, summary) = copy(&ends, &options, start, &stop, &mut |_| ()).unwrap();
            assert_eq!(ended, CopyEnd::Done);
            assert_eq!(summary.offloaded, offloaded << 20, "{most}");
            assert_eq!(summary.read, (8 - offloaded) << 20, "{most}");
            assert_eq!(summary.done, 8 << 20, "{most}");
            assert_eq!(flushes.load(SeqCst) > 0, offloaded > 0, "{most}");
        }
    }
}
