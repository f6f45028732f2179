//! Sending: what a turn has produced goes out in one gather.

use super::scratch::{give_transmit, take_transmit};
use super::stream::{End, Handler, StreamPump};
use crate::limits::{GATHER_SLICES, SENDS_PER_TURN};
use smallvec::SmallVec;
use std::io::{ErrorKind, IoSlice};
use weft_io::{Activity, Handle};
use weft_proto::crc32c::crc32c_append;
use weft_proto::stream::{Part, StreamEngine, Transmit};

/// A gather list being sent.
pub(super) struct Sending {
    list: Transmit,
    /// First part that is not wholly sent.
    part: usize,
    /// Bytes of it that are.
    sent: u32,
    /// First header byte that is not sent.
    header: usize,
}

impl Sending {
    fn new(list: Transmit) -> Self {
        Self { list, part: 0, sent: 0, header: 0 }
    }

    /// Puts the CRC32C of each payload that wants one into its place.
    fn fill_digests<E: StreamEngine, H: Handler<E>>(&mut self, handler: &H) {
        let mut header = 0;
        for part in &self.list.parts {
            match *part {
                Part::Header { len } => header += len as usize,
                Part::Payload { tag, mut offset, len, digest: true } => {
                    let (end, mut crc) = (offset + len, 0);
                    while offset < end {
                        let bytes = handler.memory(tag, offset, end - offset);
                        crc = crc32c_append(crc, bytes);
                        offset += bytes.len() as u32;
                    }
                    self.list.headers[header..header + 4].copy_from_slice(&crc.to_le_bytes());
                }
                Part::Payload { .. } | Part::Release { .. } => {}
            }
        }
    }

    /// Adds the slices that are still to be sent. The list is too large to be moved.
    fn add_slices<'a, E: StreamEngine, H: Handler<E>>(
        &'a self,
        handler: &'a H,
        slices: &mut SmallVec<[IoSlice<'a>; GATHER_SLICES]>,
    ) {
        let mut header = self.header;
        let mut skip = self.sent;
        for part in &self.list.parts[self.part..] {
            match *part {
                Part::Header { len } => {
                    let left = (len - skip) as usize;
                    slices.push(IoSlice::new(&self.list.headers[header..header + left]));
                    header += left;
                }
                Part::Payload { tag, offset, len, .. } => {
                    let mut at = offset + skip;
                    while at < offset + len && slices.len() < GATHER_SLICES {
                        let bytes = handler.memory(tag, at, offset + len - at);
                        slices.push(IoSlice::new(bytes));
                        at += bytes.len() as u32;
                    }
                }
                Part::Release { .. } => {}
            }
            skip = 0;
            if slices.len() >= GATHER_SLICES {
                break;
            }
        }
    }

    /// Accounts for `n` sent bytes; hands out what is released.
    fn advance(&mut self, mut n: u32, mut released: impl FnMut(weft_proto::stream::Tag)) {
        while let Some(part) = self.list.parts.get(self.part) {
            let (len, is_header) = match *part {
                Part::Header { len } => (len, true),
                Part::Payload { len, .. } => (len, false),
                Part::Release { tag } => {
                    released(tag);
                    (0, false)
                }
            };
            let step = n.min(len - self.sent);
            self.sent += step;
            n -= step;
            if is_header {
                self.header += step as usize;
            }
            if self.sent < len {
                return;
            }
            self.part += 1;
            self.sent = 0;
        }
    }

    fn is_done(&self) -> bool {
        self.part == self.list.parts.len()
    }
}

impl<E: StreamEngine> StreamPump<E> {
    /// Sends what the engine has, until it has nothing, the socket is full, or the turn's share is
    /// used up.
    pub fn send<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        if self.end().is_some() {
            return Activity::Idle;
        }
        self.share.answered(on);
        let activity = self.send_some(on, handler);
        self.pass_time(on, handler, false);
        self.arm(on);
        // Once: an ended connection may wait long for its devices.
        if let Some(driver) = self.driver.filter(|_| self.end().is_some()) {
            on.wake(driver);
        }
        activity
    }

    fn send_some<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        let mut activity = Activity::Idle;
        for _ in 0..SENDS_PER_TURN {
            if !self.fill(handler) {
                let closed = self.finish_closing(on);
                return if closed == Activity::Busy { closed } else { activity };
            }
            if !self.send_once(on, handler) {
                return activity;
            }
            activity = Activity::Busy;
        }
        activity
    }

    /// Whether something is to be sent, after asking the engine if need be.
    fn fill<H: Handler<E>>(&mut self, handler: &H) -> bool {
        if self.sending.is_some() {
            return true;
        }
        if !self.engine.wants_transmit() {
            return false;
        }
        let mut list = take_transmit();
        self.engine.transmit(&mut list);
        if list.is_empty() {
            give_transmit(list);
            return false;
        }
        let mut sending = Sending::new(list);
        sending.fill_digests::<E, H>(handler);
        self.sending = Some(sending);
        true
    }

    /// One call; `false` when the socket took nothing.
    fn send_once<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> bool {
        let Some(sending) = &mut self.sending else { return false };
        let mut slices = SmallVec::new();
        sending.add_slices::<E, H>(handler, &mut slices);
        // A list may consist of releases alone.
        let result = if slices.is_empty() { Ok(0) } else { self.stream.send(&slices) };
        drop(slices);
        match result {
            Ok(n) => {
                if n > 0 {
                    on.counters().send_calls.add(1);
                    on.counters().send_bytes.add(n as u64);
                    self.stalls.sent.moved(n);
                }
                let engine = &mut self.engine;
                sending.advance(n as u32, |tag| handler.released(on, engine, tag));
            }
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                on.counters().send_blocked.add(1);
                return false;
            }
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => {
                self.finish(End::Error(e));
                return false;
            }
        }
        if let Some(done) = self.sending.take_if(|s| s.is_done()) {
            give_transmit(done.list);
        }
        true
    }
}
