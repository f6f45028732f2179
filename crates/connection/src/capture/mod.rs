//! Captures of the traffic of connections, in files for network analysers: plain text even where
//! TLS is below, with made-up TCP headers and without secrets ([`weft_proto::capture`]).
//!
//! * `tap`: next to a pump, copies what it receives and sends into the queue of the capture if
//!   there is room. Nothing waits for the file.
//! * `capsules`: the same for a queue pair of RDMA.
//! * `writer`: the thread that writes it.
//! * `flow`: one connection as the writer knows it: bytes become packets.
//! * `file`: the file, within its limits.
//!
//! Traffic that finds no room in the queue is missing in the file and is counted. The tap then
//! starts again at the next message, so that what follows can be read.

mod capsules;
mod file;
mod flow;
mod record;
mod tap;
mod writer;

#[doc(hidden)]
pub use capsules::CapsuleTap;
pub use record::CaptureOutcome;
pub use tap::Start;
pub(crate) use tap::{Boundary, Tap};

use crate::limits::{CAPTURE_CONNECTIONS_MAX, CAPTURE_QUEUE_BYTES, CAPTURE_QUEUE_RECORDS};
use file::CaptureFile;
use record::{Record, SharedCapture};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;
use tap::Ends;
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_proto::capture::Role;

/// Settings of a capture: its file, its limits, and the host to capture.
#[derive(Clone, Debug)]
pub struct CaptureConfig {
    /// The file.
    pub path: PathBuf,
    /// Maximum size of the file, bytes.
    pub bytes: u64,
    /// Maximum duration.
    pub time: Duration,
    /// The host whose connections are captured: its NQN, initiator name or IP address. `None`: all.
    pub host: Option<String>,
}

/// A capture that is under way or over. All clones are the same one.
#[derive(Clone)]
pub struct Capture(Arc<Inner>);

struct Inner {
    shared: Arc<SharedCapture>,
    path: PathBuf,
    writer: Lock<Option<JoinHandle<()>>>,
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Capture({})", self.0.path.display())
    }
}

impl Capture {
    /// Begins to write the file. A file that is there is replaced if it belongs to this user; a
    /// symbolic link is not followed.
    ///
    /// # Errors
    /// The file cannot be written, or the limits leave no room for a packet.
    pub fn start(config: &CaptureConfig) -> Result<Self, Error> {
        let CaptureConfig { path, bytes, time, host } = config;
        let file = CaptureFile::create(path, *bytes)?;
        let (sender, records) = sync_channel(CAPTURE_QUEUE_RECORDS);
        let shared = Arc::new(SharedCapture::new(sender));
        let of = host.as_ref().map_or_else(String::new, |host| format!(" of the host {host}"));
        tracing::warn!(
            "capturing what passes on connections{of} to {}, at most {bytes} bytes and {time:?}",
            path.display()
        );
        let writer = writer::Writer::new(file, Arc::clone(&shared), *time, host.clone());
        let writer = std::thread::Builder::new()
            .name("weft-capture".into())
            .spawn(move || writer.run(&records))
            .map_err(|e| Error::io(format!("cannot start the thread of the capture: {e}"), e))?;
        let (path, writer) = (path.clone(), Lock::new(Some(writer)));
        Ok(Self(Arc::new(Inner { shared, path, writer })))
    }

    /// Ends it, and waits until the file is written.
    ///
    /// # Errors
    /// Writing has failed.
    pub fn end(&self) -> Result<CaptureOutcome, Error> {
        self.0.shared.over.store(true, Ordering::Release);
        if let Some(writer) = self.0.writer.lock().take() {
            let _ = writer.join();
        }
        self.outcome().unwrap_or_else(|| {
            Err(Error::new(ErrorKind::Io, "the thread of the capture has not ended in order"))
        })
    }

    /// Returns the outcome, once the capture is over.
    pub fn outcome(&self) -> Option<Result<CaptureOutcome, Error>> {
        let outcome = self.0.shared.outcome.lock().clone()?;
        Some(outcome.map_err(|why| Error::new(ErrorKind::Io, why)))
    }

    /// Returns whether the capture is still running.
    pub fn is_running(&self) -> bool {
        !self.0.shared.over.load(Ordering::Acquire)
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// What captures one connection between these addresses; `None` where there is no room for one
    /// more, or the capture is over.
    pub(crate) fn tap(&self, role: Role, local: &str, peer: &str, start: Start) -> Option<Tap> {
        let shared = &self.0.shared;
        if !self.is_running() {
            return None;
        }
        if shared.taps.fetch_add(1, Ordering::AcqRel) >= CAPTURE_CONNECTIONS_MAX {
            shared.taps.fetch_sub(1, Ordering::AcqRel);
            shared.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let ends = Ends::of(role, local, peer);
        Some(Tap::new(Arc::clone(shared), role, ends, start))
    }
}

const _: () = assert!(CAPTURE_QUEUE_BYTES >= CAPTURE_QUEUE_RECORDS * size_of::<Record>());
