//! One file: its attributes, changes of its size, and its end. These jobs wait for the kernel, so
//! they run one after the other on a thread of their own.

use super::order::Order;
use crate::export::local::ends::Tell;
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind, waiting};
use weft_connection::limits::{DRAIN_STEP_MS, FUSE_CLOSE_S};
use weft_io::fuse::{FileAttributes, FuseChannel, Mounted, NAME, renew_capacity, unmount};
use weft_io::{DriverId, RemoteLoop};

/// A file that is served.
pub(super) struct Disk {
    /// The URL by which it was asked for.
    pub url: String,
    directory: PathBuf,
    path: PathBuf,
    /// Attributes, but for the size.
    attributes: FileAttributes,
    bytes: AtomicU64,
    request_bytes: u32,
    order: Order,
    leaving: Arc<AtomicBool>,
    /// Queues that are served.
    running: AtomicUsize,
    state: Lock<DiskState>,
}

struct DiskState {
    /// Keeps the file system alive until its end, and sends notifications.
    channel: Option<FuseChannel>,
    jobs: VecDeque<Job>,
    /// A thread is running them.
    is_worked_on: bool,
    is_gone: bool,
    queues: Vec<(RemoteLoop, DriverId)>,
}

/// A job that waits for the kernel.
pub(super) enum Job {
    /// The source has a new size.
    Resize {
        /// Its blocks.
        blocks: u64,
    },
    /// The source is gone for good.
    Remove,
    /// The directory was unmounted by somebody else.
    Unmounted,
    /// Ends the file, and passes the outcome on.
    End(Tell),
}

impl Disk {
    pub(super) fn new(
        url: &str,
        directory: &Path,
        attributes: FileAttributes,
        Mounted { channel, request_bytes, .. }: Mounted,
    ) -> Arc<Self> {
        Arc::new(Self {
            url: url.to_owned(),
            directory: directory.to_owned(),
            path: directory.join(NAME),
            attributes,
            bytes: AtomicU64::new(attributes.bytes),
            request_bytes,
            order: Order::default(),
            leaving: Arc::default(),
            running: AtomicUsize::new(0),
            state: Lock::new(DiskState {
                channel: Some(channel),
                jobs: VecDeque::new(),
                is_worked_on: false,
                is_gone: false,
                queues: Vec::new(),
            }),
        })
    }

    /// The file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn block_bytes(&self) -> u32 {
        self.attributes.block_bytes
    }

    /// The most data of a request.
    pub(super) fn request_bytes(&self) -> u32 {
        self.request_bytes
    }

    /// Its attributes, with the present size.
    pub(super) fn attributes(&self) -> FileAttributes {
        FileAttributes { bytes: self.bytes.load(Ordering::Relaxed), ..self.attributes }
    }

    /// The order of its writes.
    pub(super) fn order(&self) -> &Order {
        &self.order
    }

    /// Set when it ends.
    pub(super) fn leaving(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.leaving)
    }

    pub(super) fn is_gone(&self) -> bool {
        self.state.lock().is_gone
    }

    /// A channel for a further queue.
    pub(super) fn channel(&self) -> io::Result<FuseChannel> {
        let state = self.state.lock();
        let channel = state.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        // Without one of its own, a queue shares the first one.
        channel.another().or_else(|_| channel.share())
    }

    /// Counts a queue, before it is served.
    pub(super) fn queue_begins(&self) {
        self.running.fetch_add(1, Ordering::AcqRel);
    }

    /// A queue is served by this driver.
    pub(super) fn queue_began(&self, on: &RemoteLoop, driver: DriverId) {
        self.state.lock().queues.push((on.clone(), driver));
    }

    /// A queue has ended.
    pub(super) fn queue_ended(&self) {
        self.running.fetch_sub(1, Ordering::AcqRel);
    }

    /// Queues a job behind the earlier ones.
    pub(super) fn work_on(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        state.jobs.push_back(job);
        if !core::mem::replace(&mut state.is_worked_on, true) {
            let disk = Arc::clone(self);
            let spawned = std::thread::Builder::new()
                .name("weft-fuse".to_owned())
                .spawn(move || while disk.work() {});
            if let Err(e) = spawned {
                state.is_worked_on = false;
                tracing::warn!("{}: cannot start a thread: {e}", self.path.display());
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
                let path = self.path.display();
                tracing::warn!("{path}: its data is no longer served; the file goes away");
                if let Err(e) = self.remove(true) {
                    tracing::warn!("{e}");
                }
            }
            Job::Unmounted if !self.is_gone() => {
                let path = self.path.display();
                tracing::warn!("{path}: somebody has unmounted it; it is no longer served");
                self.leave();
            }
            Job::Remove | Job::Unmounted => {}
            Job::End(tell) => tell(self.end()),
        }
        true
    }

    fn resize(&self, blocks: u64) {
        let bytes = blocks.saturating_mul(self.block_bytes().into());
        if self.bytes.swap(bytes, Ordering::Relaxed) == bytes || self.is_gone() {
            return;
        }
        let told = self.state.lock().channel.as_ref().map_or(Ok(()), FuseChannel::tell_attributes);
        let told = told.and_then(|()| renew_capacity(&self.path));
        if let Err(e) = told {
            let path = self.path.display();
            tracing::warn!("{path}: it has {bytes} bytes now, and the kernel may not know: {e}");
        }
    }

    /// Unmounts it. If it is in use, its users get errors from then on.
    fn end(&self) -> Result<(), Error> {
        if self.is_gone() {
            return Ok(());
        }
        match self.remove(false) {
            Err(e) if e.kind() == ErrorKind::InUse => {
                self.remove(true)?;
                Err(e)
            }
            other => other,
        }
    }

    /// Unmounts it, also while it is in use if that `is_forced`, and waits for its queues.
    pub(super) fn remove(&self, is_forced: bool) -> Result<(), Error> {
        match unmount(&self.directory, is_forced) {
            Err(e) if e.kind() == io::ErrorKind::ResourceBusy => {
                let text = format!(
                    "{} was in use when its server ended; what was not written to it yet is lost",
                    self.path.display()
                );
                return Err(Error::new(ErrorKind::InUse, text));
            }
            // Somebody else has unmounted it.
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
            other => {
                let directory = self.directory.display();
                other.map_err(|e| Error::io(format!("cannot unmount {directory}: {e}"), e))?;
            }
        }
        self.leave();
        let until = Instant::now() + Duration::from_secs(FUSE_CLOSE_S);
        let _waiting = waiting::begin(|| format!("{} to end", self.path.display()));
        while self.running.load(Ordering::Acquire) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(DRAIN_STEP_MS));
        }
        Ok(())
    }

    /// Ends its queues, and the kernel's connection with them.
    fn leave(&self) {
        self.leaving.store(true, Ordering::Release);
        let mut state = self.state.lock();
        state.is_gone = true;
        state.channel = None;
        state.queues.iter().for_each(|(on, driver)| on.wake(*driver));
    }
}
