//! Captures of what passes on the connections of a host, as they are asked for: one at a time.

use super::protocol::{FaultCode, RequestFault};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use weft_base::lock::Lock;

use std::time::Duration;
use weft_block::Error;
use weft_endpoint::capture::{Capture, CaptureConfig, CaptureOutcome};
use weft_endpoint::export::Exports;

/// The names of the methods.
#[derive(Clone, Copy, Debug)]
pub struct CaptureMethods {
    /// Begins a capture.
    pub start: &'static str,
    /// Reports the state of the last one.
    pub status: &'static str,
    /// Ends it.
    pub end: &'static str,
}

/// The names of the methods.
pub const NAMES: CaptureMethods =
    CaptureMethods { start: "capture.start", status: "capture.status", end: "capture.end" };

/// A capture to start.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StartCapture {
    /// NQN, initiator name or IP address of the host.
    pub host: String,
    /// The file, which the server writes.
    pub path: PathBuf,
    /// Bytes of it, at most.
    pub bytes: u64,
    /// Milliseconds that it takes, at most.
    pub time_ms: u64,
}

/// Progress of a capture.
#[derive(Debug, Deserialize, Serialize)]
pub struct CaptureState {
    /// The file.
    pub path: PathBuf,
    /// It goes on; its outcome is known at its end.
    pub is_running: bool,
    /// Why it has ended.
    pub why: String,
    /// Packets in the file.
    pub packets: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Packets that are missing, as writing lagged behind.
    pub dropped: u64,
    /// Bytes that are left out, as they could not be told from secrets.
    pub withheld_bytes: u64,
    /// Why it has failed, if it has.
    pub error: Option<String>,
}

impl CaptureState {
    fn of(capture: &Capture, outcome: Option<Result<CaptureOutcome, Error>>) -> Self {
        let (is_running, error) =
            (outcome.is_none(), outcome.as_ref().and_then(|of| of.as_ref().err()));
        let error = error.map(ToString::to_string);
        let outcome = outcome.and_then(Result::ok);
        let number = |of: fn(&CaptureOutcome) -> u64| outcome.as_ref().map_or(0, of);
        Self {
            path: capture.path().to_owned(),
            is_running,
            why: outcome.as_ref().map_or("", |outcome| outcome.why).to_owned(),
            packets: number(|of| of.packets),
            bytes: number(|of| of.bytes),
            dropped: number(|of| of.dropped),
            withheld_bytes: number(|of| of.withheld_bytes),
            error,
        }
    }
}

/// The last capture that was asked for.
#[derive(Debug, Default)]
pub struct LastCapture(Lock<Option<Capture>>);

impl LastCapture {
    /// Begins one of connections of these exports.
    pub(super) fn start(
        &self,
        exports: &Exports,
        asked: StartCapture,
    ) -> Result<CaptureState, RequestFault> {
        let StartCapture { host, path, bytes, time_ms } = asked;
        let mut last = self.0.lock();
        exports.may_capture()?;
        let time = Duration::from_millis(time_ms);
        let capture = Capture::start(&CaptureConfig { path, bytes, time, host: Some(host) })?;
        if let Err(e) = exports.capture(&capture) {
            let _ = capture.end();
            return Err(e.into());
        }
        *last = Some(capture.clone());
        Ok(CaptureState::of(&capture, None))
    }

    /// How far it is; `is_over`: it is to end first.
    pub(super) fn state(&self, is_over: bool) -> Result<CaptureState, RequestFault> {
        let capture = self.present()?;
        let outcome = if is_over { Some(capture.end()) } else { capture.outcome() };
        Ok(CaptureState::of(&capture, outcome))
    }

    fn present(&self) -> Result<Capture, RequestFault> {
        let present = self.0.lock();
        let none = || {
            RequestFault::new(FaultCode::NotFound, "nothing was captured since the server started")
        };
        present.clone().ok_or_else(none)
    }

    /// Ends it, if it goes on.
    pub fn end(&self) {
        if let Ok(capture) = self.present()
            && capture.is_running()
            && let Err(e) = capture.end()
        {
            tracing::warn!("the capture has ended: {e}");
        }
    }
}
