//! One disk of the kernel: what is done to it while it is there, and its end. That waits for the
//! kernel, so it is done on a thread of its own, one thing after the other.

use super::users;
use crate::disk_record::DiskRecord;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind, waiting};
use weft_io::ublk::{Info, UblkControl, flag, open_alone};
use weft_io::{DriverId, RemoteLoop};

use crate::export::local::ends::Tell;
use weft_connection::limits::{DRAIN_STEP_MS, UBLK_CLOSE_S};

/// A disk that is served.
pub(super) struct Disk {
    /// The URL by which it was asked for.
    pub url: String,
    control: Arc<UblkControl>,
    info: Info,
    block_bytes: u32,
    kept: DiskRecord,
    leaving: Arc<AtomicBool>,
    /// Queues that are served.
    running: AtomicUsize,
    state: Lock<DiskState>,
}

#[derive(Default)]
struct DiskState {
    jobs: VecDeque<Job>,
    /// A thread does them.
    is_worked_on: bool,
    /// Sectors that the kernel knows of.
    sectors: u64,
    is_gone: bool,
    queues: Vec<(RemoteLoop, DriverId)>,
}

/// Something to do that waits for the kernel.
pub(super) enum Job {
    /// It has this many blocks.
    Resize {
        /// Their number.
        blocks: u64,
    },
    /// Its data is gone for good.
    Remove,
    /// It is not to be served any more. How that ended is told.
    End(Tell),
}

impl Disk {
    pub(super) fn new(
        url: &str,
        control: &Arc<UblkControl>,
        info: Info,
        (block_bytes, sectors): (u32, u64),
        kept: DiskRecord,
    ) -> Arc<Self> {
        Arc::new(Self {
            url: url.to_owned(),
            control: Arc::clone(control),
            info,
            block_bytes,
            kept,
            leaving: Arc::default(),
            running: AtomicUsize::new(0),
            state: Lock::new(DiskState { sectors, ..DiskState::default() }),
        })
    }

    /// Its name in the system.
    pub(super) fn path(&self) -> String {
        format!("/dev/ublkb{}", self.info.device)
    }

    pub(super) fn info(&self) -> &Info {
        &self.info
    }

    pub(super) fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    /// Returns whether this flush of a queue fails, because a previous process may have lost
    /// writes.
    pub(super) fn fails_flush(&self, queue: u16) -> bool {
        self.kept.fails_flush(queue, 0..self.info.queues)
    }

    /// Set when it is left to another process.
    pub(super) fn leaving(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.leaving)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.lock().is_gone
    }

    /// Counts a queue, before it is served.
    pub(super) fn queue_begins(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// A queue is served by this driver.
    pub(super) fn queue_began(&self, on: &RemoteLoop, driver: DriverId) {
        self.state.lock().queues.push((on.clone(), driver));
    }

    /// Notes that a queue is no longer served.
    pub(super) fn queue_ended(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Has something done, after what is being done.
    pub(super) fn work_on(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if !core::mem::replace(&mut state.is_worked_on, true) {
            let disk = Arc::clone(self);
            let spawned = std::thread::Builder::new()
                .name("weft-ublk".to_owned())
                .spawn(move || while disk.work() {});
            if let Err(e) = spawned {
                state.is_worked_on = false;
                tracing::warn!("{}: no thread for what has to be done: {e}", self.path());
            }
        }
    }

    fn work(&self) -> bool {
        let mut state = self.state.lock();
        let Some(job) = state.jobs.pop_front() else {
            state.is_worked_on = false;
            return false;
        };
        drop(state);
        match job {
            Job::Resize { blocks } => self.resize(blocks),
            Job::Remove if !self.is_gone() => {
                tracing::warn!("{}: its data is no longer served; the disk goes away", self.path());
                if let Err(e) = self.remove() {
                    tracing::warn!("{e}");
                }
            }
            Job::Remove => {}
            Job::End(tell) => tell(self.end()),
        }
        true
    }

    fn resize(&self, blocks: u64) {
        let sectors = blocks.saturating_mul(u64::from(self.block_bytes / 512));
        let mut state = self.state.lock();
        if state.is_gone || core::mem::replace(&mut state.sectors, sectors) == sectors {
            return;
        }
        drop(state);
        let path = self.path();
        if self.control.features() & flag::UPDATE_SIZE == 0 {
            tracing::warn!(
                "{path}: its data has {blocks} blocks now, and this kernel cannot resize a ublk disk: stop and start it to see the new size"
            );
        } else if let Err(e) = self.control.resize(&self.info, sectors) {
            tracing::warn!("{path}: cannot tell the kernel of its new size: {e}");
        }
    }

    /// Takes the disk away if nobody uses it. Otherwise it stays in the kernel, where it waits for
    /// another process.
    fn end(&self) -> Result<(), Error> {
        if self.is_gone() {
            return Ok(());
        }
        let file = match open_alone(self.info.device) {
            Ok(file) => file,
            // Nobody can have open what is not to be found.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return self.remove(),
            Err(_) if self.info.is_of_user() => return Err(self.take_away()),
            Err(e) if e.kind() == std::io::ErrorKind::ResourceBusy => return Err(self.leave()),
            Err(e) => {
                self.leave();
                let text = format!("cannot end {}, which stays: {e}", self.path());
                return Err(Error::io(text, e));
            }
        };
        // What the system has not written yet, while the disk is served.
        let written = file.sync_all();
        let removed = self.remove_after(|| drop(file));
        let lost = |e| Error::io(format!("{}: not all was written: {e}", self.path()), e);
        written.map_err(lost).and(removed)
    }

    /// Stops serving the disk, so that another process can take it over.
    pub(super) fn abandon(&self) {
        self.leaving.store(true, Ordering::Release);
        self.state.lock().queues.iter().for_each(|(on, driver)| on.wake(*driver));
    }

    /// Leaves it to another process; says why.
    fn leave(&self) -> Error {
        self.abandon();
        let (path, number, used) = (self.path(), self.info.device, self.used());
        let text = format!(
            "{path} is {used}, so it stays, and its I/O waits until weft serves it again (--listen ublk:{number}); to have it removed, unmount it before weft ends"
        );
        Error::new(ErrorKind::InUse, text)
    }

    /// Ends one that is in use: the kernel keeps no disk of a user for another process.
    fn take_away(&self) -> Error {
        let (path, used) = (self.path(), self.used());
        // What the system has not written yet, as far as a user can see to that.
        let _ = std::fs::File::open(&path).and_then(|file| file.sync_all());
        if let Err(e) = self.remove() {
            tracing::warn!("{e}");
        }
        let text = format!(
            "{path} was {used}, and has ended all the same, as the kernel keeps no disk of a user without its process: what was not written to it yet is lost"
        );
        Error::new(ErrorKind::InUse, text)
    }

    /// By what it is used.
    fn used(&self) -> String {
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        match place_of(&mounts, &self.path()) {
            Some(place) => format!("mounted at {place}"),
            None => "in use".to_owned(),
        }
    }

    fn remove(&self) -> Result<(), Error> {
        self.remove_after(|| ())
    }

    /// Stops it, does something, and deletes it when its queues have ended.
    pub(super) fn remove_after(&self, between: impl FnOnce()) -> Result<(), Error> {
        let failed = |e| Error::io(format!("cannot remove {}: {e}", self.path()), e);
        self.state.lock().is_gone = true;
        let stopped = self.control.stop(&self.info);
        between();
        let until = Instant::now() + Duration::from_secs(UBLK_CLOSE_S);
        let _waiting = waiting::begin(|| format!("{} to end", self.path()));
        while self.running.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(DRAIN_STEP_MS));
        }
        stopped.map_err(failed)?;
        self.kept.forget();
        if self.running.load(Ordering::Acquire) > 0 {
            // It goes when this process has ended.
            return Ok(());
        }
        if self.info.is_of_user() {
            // Of one that is in use, what is left goes with that.
            return users::delete(&self.info).unwrap_or(Ok(())).map_err(failed);
        }
        self.control.delete(&self.info).map_err(failed)
    }
}

/// Where a disk or a part of it is mounted.
fn place_of<'a>(mounts: &'a str, path: &str) -> Option<&'a str> {
    let is_part = |of: &str| {
        let rest = of.strip_prefix(path);
        let digits = rest.map(|rest| rest.trim_start_matches('p'));
        digits.is_some_and(|rest| rest.chars().all(|digit| digit.is_ascii_digit()))
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('p'))
    };
    let mut lines = mounts.lines().map(|line| line.split(' '));
    lines.find_map(|mut words| words.next().filter(|of| is_part(of)).and(words.next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mounted_disk_is_told_from_others() {
        let mounts = "/dev/ublkb10 /ten ext4 rw 0 0\n/dev/ublkb2p1 /two xfs rw 0 0\n";
        assert_eq!(place_of(mounts, "/dev/ublkb1"), None);
        assert_eq!(place_of(mounts, "/dev/ublkb10"), Some("/ten"));
        assert_eq!(place_of(mounts, "/dev/ublkb2"), Some("/two"));
    }
}
