//! Captures of the traffic of connections, in files for network analysers: plain text even where
//! TLS is below, with made-up TCP headers and without secrets ([`weft_proto::capture`]).
//!
//! * `tap`: next to a pump, copies what it receives and sends into the queue of the capture if
//!   there is room. Nothing waits for the file.
//! * `capsules`: the same for a queue pair of RDMA.
//! * `flow`: one connection as the writer knows it: bytes become packets.
//!
//! Traffic that finds no room in the queue is missing in the file and is counted. The tap then
//! starts again at the next message, so that what follows can be read.

mod capsules;
mod flow;
mod record;
mod tap;

use crate::limits::{
    CAPTURE_CONNECTIONS_MAX, CAPTURE_LOOK_MS, CAPTURE_QUEUE_BYTES, CAPTURE_QUEUE_RECORDS,
};
#[doc(hidden)]
pub use capsules::CapsuleTap;
use flow::{Flow, Packets, Wanted};
pub use record::CaptureOutcome;
use record::{Record, SharedCapture, What};
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use tap::Ends;
pub use tap::Start;
pub(crate) use tap::{Boundary, Tap};
use weft_base::lock::Lock;
use weft_block::{Error, ErrorKind};
use weft_io::secret_file;
use weft_proto::capture::pcapng::{END_BYTES, InterfaceStatistics};
use weft_proto::capture::{Role, pcapng};

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
        let writer = Writer::new(file, Arc::clone(&shared), *time, host.clone());
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

// The thread that writes the file of a capture.

/// The state of the thread.
struct Writer {
    file: CaptureFile,
    shared: Arc<SharedCapture>,
    until: Option<Instant>,
    /// Whose connections are captured.
    host: Option<String>,
    flows: HashMap<u32, Flow>,
    start: Duration,
    packets: u64,
    withheld: u64,
}

/// Why a capture is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Asked,
    Time,
    Bytes,
}

impl Ending {
    const fn text(self) -> &'static str {
        match self {
            Self::Asked => "it was ended",
            Self::Time => "its time is over",
            Self::Bytes => "the file has as many bytes as it may have",
        }
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

impl Writer {
    fn new(
        file: CaptureFile,
        shared: Arc<SharedCapture>,
        time: Duration,
        host: Option<String>,
    ) -> Self {
        Self {
            file,
            shared,
            until: Instant::now().checked_add(time),
            host,
            flows: HashMap::new(),
            start: now(),
            packets: 0,
            withheld: 0,
        }
    }

    /// Writes until the capture is over.
    fn run(mut self, records: &Receiver<Record>) {
        let ended = self.write_all(records);
        self.shared.over.store(true, Ordering::Release);
        let outcome = ended.and_then(|ending| self.finish(ending));
        match &outcome {
            Ok(CaptureOutcome { why, packets, bytes, dropped, withheld_bytes }) => {
                let lagged = match dropped {
                    0 => String::new(),
                    n => format!("; {n} packets were dropped, as writing lagged behind"),
                };
                let withheld = match withheld_bytes {
                    0 => String::new(),
                    n => format!("; {n} bytes were withheld that may contain secrets"),
                };
                tracing::warn!(
                    "the capture has ended: {why}; {packets} packets, {bytes} bytes{lagged}{withheld}"
                );
            }
            Err(e) => tracing::error!("the capture has ended: {e}"),
        }
        *self.shared.outcome.lock() = Some(outcome.map_err(|e| e.to_string()));
    }

    fn write_all(&mut self, records: &Receiver<Record>) -> Result<Ending, Error> {
        let look = Duration::from_millis(CAPTURE_LOOK_MS);
        let mut is_idle = true;
        loop {
            let left = self.until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(Ending::Time);
            }
            let rests = is_idle && !self.shared.over.load(Ordering::Acquire);
            let wait =
                if rests { left.map_or(look, |left| left.min(look)) } else { Duration::ZERO };
            match records.recv_timeout(wait) {
                Ok(record) => {
                    is_idle = false;
                    if !self.take(record)? {
                        return Ok(Ending::Bytes);
                    }
                }
                // The taps hold a sender each, and so does this side.
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) if !is_idle => {
                    self.file.flush()?;
                    is_idle = true;
                }
                Err(_) if self.shared.over.load(Ordering::Acquire) => return Ok(Ending::Asked),
                Err(_) => {}
            }
        }
    }

    /// Takes a record; `false`: the file is full.
    fn take(&mut self, record: Record) -> Result<bool, Error> {
        let Record { connection, at, what } = record;
        let asked = self.host.as_deref();
        let packets = match what {
            What::Open(opened) => {
                let (flow, packets) = Flow::new(&opened, asked, at);
                self.flows.insert(connection, flow);
                packets
            }
            What::Bytes(bytes) => {
                self.shared.free(bytes.bytes.len());
                let Some(flow) = self.flows.get_mut(&connection) else { return Ok(true) };
                let (packets, withheld) = flow.take(bytes, asked, at);
                self.withheld += withheld;
                packets
            }
            What::Closed => match self.flows.remove(&connection) {
                Some(mut flow) if !matches!(flow.wanted, Wanted::No) => flow.close(asked, at),
                _ => Packets::default(),
            },
        };
        if packets.blocks.is_empty() {
            return Ok(true);
        }
        let has_room = self.file.add(&packets.blocks)?;
        self.packets += if has_room { packets.count } else { 0 };
        Ok(has_room)
    }

    fn finish(&mut self, ending: Ending) -> Result<CaptureOutcome, Error> {
        let dropped = self.shared.dropped.load(Ordering::Acquire);
        self.file.finish([self.start, now()], self.packets + dropped, dropped)?;
        Ok(CaptureOutcome {
            why: ending.text(),
            packets: self.packets,
            bytes: self.file.bytes(),
            dropped,
            withheld_bytes: self.withheld,
        })
    }
}

/// Bytes that are collected before they are written.
const WRITTEN_BYTES: usize = 256 * 1024;

/// Bytes of a file that has room for a packet.
const FILE_BYTES_MIN: u64 = 64 * 1024;

const COMMENT: &str = "Captured by weft above TCP and TLS: the headers of IP and TCP are made up, \
                       and secrets are replaced by zeroes";

/// The file.
struct CaptureFile {
    file: File,
    /// Bytes that are not written yet.
    pending: Vec<u8>,
    bytes: u64,
    max: u64,
}

impl CaptureFile {
    fn create(path: &Path, max: u64) -> Result<Self, Error> {
        if max < FILE_BYTES_MIN {
            let text = format!("a capture needs at least {FILE_BYTES_MIN} bytes: give more");
            return Err(Error::new(ErrorKind::Usage, text));
        }
        let file = secret_file::create(path, &pcapng::MAGIC).map_err(|e| {
            Error::io(format!("cannot write the capture {}: {e}", path.display()), e)
        })?;
        let mut pending = Vec::with_capacity(WRITTEN_BYTES);
        pcapng::begin(concat!("weft ", env!("CARGO_PKG_VERSION")), COMMENT, &mut pending);
        let mut file = Self { file, pending, bytes: 0, max };
        // Whoever looks finds a file that is well formed.
        file.flush()?;
        Ok(file)
    }

    /// Adds blocks, if there is room for them.
    fn add(&mut self, blocks: &[u8]) -> Result<bool, Error> {
        let after = self.bytes() + blocks.len() as u64 + END_BYTES as u64;
        if after > self.max {
            return Ok(false);
        }
        self.pending.extend_from_slice(blocks);
        if self.pending.len() >= WRITTEN_BYTES {
            self.flush()?;
        }
        Ok(true)
    }

    /// Writes what was added.
    fn flush(&mut self) -> Result<(), Error> {
        self.file
            .write_all(&self.pending)
            .map_err(|e| Error::io(format!("cannot write the capture: {e}"), e))?;
        self.bytes += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Writes the end.
    fn finish(
        &mut self,
        [start, end]: [Duration; 2],
        received: u64,
        dropped: u64,
    ) -> Result<(), Error> {
        pcapng::end(&InterfaceStatistics { start, end, received, dropped }, &mut self.pending);
        self.flush()
    }

    /// Bytes of it.
    fn bytes(&self) -> u64 {
        self.bytes + self.pending.len() as u64
    }
}
