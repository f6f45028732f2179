//! The thread that writes the file of a capture.

use super::file::CaptureFile;
use super::flow::{Flow, Packets, Wanted};
use super::record::{CaptureOutcome, Record, SharedCapture, What};
use crate::limits::CAPTURE_LOOK_MS;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant, SystemTime};
use weft_block::Error;

/// What the thread has.
pub(super) struct Writer {
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
    pub(super) fn new(
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
    pub(super) fn run(mut self, records: &Receiver<Record>) {
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
