//! A pump whose connection is captured.

use super::StreamPump;
use crate::capture::{Boundary, Capture, Start, Tap};
use std::io;
use weft_proto::stream::StreamEngine;

impl<E: StreamEngine> StreamPump<E> {
    /// Captures the connection from its first byte on.
    #[must_use]
    #[doc(hidden)]
    pub fn captured(mut self, capture: Option<&Capture>) -> Self {
        if let Some(capture) = capture {
            self.tap_by(capture, Start::First);
        }
        self
    }

    /// Captures the connection from now on, unless it is being captured.
    #[cold]
    pub(crate) fn tap_by(&mut self, capture: &Capture, start: Start) {
        if self.tap.is_none()
            && let Some(role) = E::ROLE
        {
            let (local, peer) = (self.stream.local(), self.stream.peer());
            self.tap = capture.tap(role, &local, &peer, start).map(Box::new);
        }
    }

    /// Captures what a receive has put into `pieces`; it was not parsed yet.
    #[cold]
    pub(super) fn tap_received<'a>(
        &mut self,
        result: &io::Result<usize>,
        pieces: impl Iterator<Item = &'a [u8]>,
    ) {
        let (Some(tap), &Ok(n @ 1..)) = (&mut self.tap, result) else { return };
        let boundary = || {
            let left = self.moving.as_ref().map_or(0, |moving| moving.left as usize);
            let behind = self.engine.behind_payload()?;
            Some(Boundary { held: &self.carry, after: left + behind })
        };
        if !tap.received(n, pieces, boundary) {
            self.tap = None;
        }
    }
}

/// Captures what a send has taken of `pieces`, where a message begins if it `is_start`.
#[cold]
pub(super) fn sent<'a>(
    tap: &mut Option<Box<Tap>>,
    result: &io::Result<usize>,
    pieces: impl Iterator<Item = &'a [u8]>,
    is_start: bool,
) {
    let (Some(present), &Ok(n @ 1..)) = (tap.as_mut(), result) else { return };
    if !present.sent(n, pieces, is_start) {
        *tap = None;
    }
}
