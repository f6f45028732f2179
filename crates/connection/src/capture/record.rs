//! Records that taps pass to the writer, and the state that both share.

use crate::limits::CAPTURE_QUEUE_BYTES;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, SystemTime};
use weft_base::lock::Lock;
use weft_proto::capture::{End, Role};

/// What happened on a connection, by its number.
pub(super) struct Record {
    pub(super) connection: u32,
    /// Since 1970.
    pub(super) at: Duration,
    pub(super) what: What,
}

pub(super) enum What {
    /// It is captured from now on.
    Open(Box<Opened>),
    /// Bytes that one end has sent.
    Bytes(Bytes),
    /// It is over.
    Closed,
}

/// A connection that is captured.
pub(super) struct Opened {
    pub(super) role: Role,
    /// The addresses of the host and of the target.
    pub(super) ends: [SocketAddr; 2],
    /// The name of the host, where the capture begins behind its admission.
    pub(super) host: Option<String>,
}

pub(super) struct Bytes {
    pub(super) from: End,
    /// Where they are in what this end has sent.
    pub(super) position: u64,
    /// So many bytes from there on belong to a message of which the beginning is missing.
    pub(super) skip: Option<usize>,
    pub(super) bytes: Vec<u8>,
}

/// Outcome of a capture.
#[derive(Clone, Debug)]
pub struct CaptureOutcome {
    /// Why it ended.
    pub why: &'static str,
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Packets that are missing because the writer lagged behind.
    pub dropped: u64,
    /// Bytes that are left out because they could not be told from secrets.
    pub withheld_bytes: u64,
}

/// What taps, the writer and the capture share.
pub(super) struct SharedCapture {
    sender: SyncSender<Record>,
    /// Bytes in the queue.
    queued: AtomicUsize,
    /// Nothing is captured any more.
    pub(super) over: AtomicBool,
    pub(super) dropped: AtomicU64,
    pub(super) taps: AtomicUsize,
    pub(super) next: AtomicU32,
    pub(super) outcome: Lock<Option<Result<CaptureOutcome, String>>>,
}

impl SharedCapture {
    pub(super) fn new(sender: SyncSender<Record>) -> Self {
        Self {
            sender,
            queued: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            taps: AtomicUsize::new(0),
            next: AtomicU32::new(0),
            outcome: Lock::default(),
        }
    }

    /// Takes room for `bytes` in the queue, if there is so much.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        let before = self.queued.fetch_add(bytes, Ordering::AcqRel);
        let fits = before + bytes <= CAPTURE_QUEUE_BYTES;
        if !fits {
            self.queued.fetch_sub(bytes, Ordering::AcqRel);
        }
        fits
    }

    /// Gives room back.
    pub(super) fn free(&self, bytes: usize) {
        self.queued.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Puts a record into the queue, if there is room, without waiting.
    pub(super) fn tell(&self, connection: u32, what: What) -> bool {
        let at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.sender.try_send(Record { connection, at, what }).is_ok()
    }
}
