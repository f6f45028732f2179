//! Receiving: one vectored call brings in dozens of small commands, or the rest of a large payload
//! straight into its place.

use super::{ConnectionEnd, ConnectionState, StreamPump};
use crate::limits::{
    DIRECT_BYTES_MAX, DIRECT_BYTES_MIN, LARGE_PAYLOAD_BYTES, RECEIVES_PER_TURN,
    STAGED_BEFORE_LARGE_BYTES, WHOLE_BYTES_MAX,
};
use crate::pump::handler::{Flow, Handler, Pieces};
use crate::pump::payload::Moving;
use crate::pump::scratch::with_staging;
use std::io::{self, ErrorKind, IoSliceMut};
use weft_io::{Activity, Handle};
use weft_proto::crc32c::crc32c_append;
use weft_proto::stream::{Rx, StreamEngine};

enum Received {
    /// Fewer bytes than there was room for: the socket is probably empty.
    Some,
    /// All that there was room for: so many bytes.
    Full(usize),
    Nothing,
}

impl<E: StreamEngine> StreamPump<E> {
    /// Receives and parses for one turn.
    pub fn receive<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        let activity = self.receive_some(on, handler);
        // What has come counts before silence does.
        self.pass_time(on, handler, activity.is_some());
        activity
    }

    /// As [`StreamPump::receive`], for a caller who looks only now and then: what came in several
    /// pieces is received whole before time passes.
    #[doc(hidden)]
    pub fn receive_all<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        let mut activity = Activity::Idle;
        for _ in 0..RECEIVES_PER_TURN {
            match self.receive_some(on, handler) {
                Activity::Idle => break,
                more => activity = more,
            }
        }
        self.pass_time(on, handler, activity.is_some());
        activity
    }

    fn receive_some<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Activity {
        let mut activity = Activity::Idle;
        self.drained = false;
        self.look_at_peer(on);
        if matches!(self.state, ConnectionState::Resumed) {
            self.state = ConnectionState::Open;
            let held = core::mem::take(&mut self.carry);
            self.parse(on, handler, &held);
            activity = Activity::Busy;
        }
        let mut bytes = 0;
        for _ in 0..RECEIVES_PER_TURN {
            if !matches!(self.state, ConnectionState::Open) {
                break;
            }
            if bytes >= self.share.bytes() {
                self.share.used_up();
                break;
            }
            match self.receive_once(on, handler) {
                Received::Nothing => {
                    self.drained = true;
                    break;
                }
                Received::Some => {
                    self.drained = self.stream.tells_rest();
                    return Activity::Busy;
                }
                Received::Full(n) => {
                    bytes += n;
                    activity = Activity::Busy;
                }
            }
        }
        activity
    }

    fn receive_once<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H) -> Received {
        with_staging(|staging| {
            let held = self.carry.len();
            let mut pieces = self.direct_target(handler);
            let direct: usize = pieces.iter().map(|piece| piece.len()).sum();
            let (room, result) = if direct > 0 {
                let behind =
                    if direct == self.moving_left() { STAGED_BEFORE_LARGE_BYTES } else { 0 };
                pieces.push(IoSliceMut::new(&mut staging[..behind]));
                (direct + behind, self.recv(&mut pieces))
            } else {
                let room = if self.large {
                    STAGED_BEFORE_LARGE_BYTES
                } else {
                    self.share.bytes().min(staging.len() - held)
                };
                staging[..held].copy_from_slice(&self.carry);
                (room, self.recv(&mut [IoSliceMut::new(&mut staging[held..held + room])]))
            };
            drop(pieces);
            let n = match result {
                Ok(0) => {
                    self.finish(ConnectionEnd::Peer);
                    return Received::Some;
                }
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    on.counters().recv_empty.add(1);
                    return Received::Nothing;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => return Received::Full(0),
                Err(e) => {
                    self.finish(ConnectionEnd::Error(e));
                    return Received::Some;
                }
            };
            on.counters().recv_calls.add(1);
            on.counters().recv_bytes.add(n as u64);
            if self.heeds_end && self.has_peer_left(on) {
                self.leave_unexecuted(n);
                return Received::Some;
            }
            self.share.received(n);
            let in_place = n.min(direct);
            if in_place > 0 {
                self.moved_in_place(handler, in_place as u32);
            }
            let staged = if direct > 0 { n - in_place } else { held + n };
            self.carry.clear();
            self.parse(on, handler, &staging[..staged]);
            if n == room { Received::Full(n) } else { Received::Some }
        })
    }

    #[inline]
    fn recv(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let result = self.stream.recv(pieces);
        if self.tap.is_some() {
            self.tap_received(&result, pieces.iter().map(|piece| &**piece));
        }
        result
    }

    /// The destination of what comes next of a large payload, if one is being received; otherwise
    /// none.
    fn direct_target<'h, H: Handler<E>>(&self, handler: &'h mut H) -> Pieces<'h> {
        let mut pieces = Pieces::new();
        if let Some(Moving { to: Some((tag, offset)), left, whole: false, .. }) = self.moving
            && (left >= DIRECT_BYTES_MIN || self.large)
        {
            handler.pieces_mut(tag, offset, left.min(DIRECT_BYTES_MAX), &mut pieces);
        }
        pieces
    }

    fn moving_left(&self) -> usize {
        self.moving.as_ref().map_or(0, |moving| moving.left as usize)
    }

    /// Accounts for payload bytes that the system put in place.
    fn moved_in_place<H: Handler<E>>(&mut self, handler: &mut H, n: u32) {
        let Some(moving) = &mut self.moving else { return };
        self.stalls.received.moved(n as usize);
        if let Some((tag, offset)) = &mut moving.to {
            let end = *offset + n;
            while moving.digest
                && *offset < end
                && let Some(bytes) = handler.memory_mut(*tag, *offset, end - *offset)
            {
                self.crc = crc32c_append(self.crc, bytes);
                *offset += bytes.len() as u32;
            }
            *offset = end;
        }
        moving.left -= n;
    }

    /// Uses up bytes until they end, a pause, or the end of the connection.
    fn parse<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H, mut bytes: &[u8]) {
        loop {
            if self.moving.is_some() {
                bytes = self.move_payload(on, handler, bytes);
                match self.finish_moving() {
                    None => {
                        // What a whole payload has so far; nothing otherwise.
                        self.carry.extend_from_slice(bytes);
                        return;
                    }
                    Some(None) => continue,
                    Some(Some(event)) => {
                        if self.tell(on, handler, event) == Flow::Pause {
                            return self.hold_back(bytes);
                        }
                        continue;
                    }
                }
            }
            let (used, next) = self.engine.receive(bytes);
            bytes = &bytes[used..];
            let event = match next {
                Rx::More { .. } => {
                    self.carry.extend_from_slice(bytes);
                    return;
                }
                Rx::Payload { tag, offset, len, digest } => {
                    self.crc = 0;
                    self.large = len >= LARGE_PAYLOAD_BYTES;
                    self.share.payload();
                    let whole = !digest && len <= WHOLE_BYTES_MAX && handler.wants_whole(tag);
                    self.moving =
                        Some(Moving { to: Some((tag, offset)), left: len, digest, whole });
                    continue;
                }
                Rx::Discard { len } => {
                    self.moving = Some(Moving { to: None, left: len, digest: false, whole: false });
                    continue;
                }
                Rx::Digest { expected } => self.engine.payload_checked(self.crc == expected),
                Rx::Event(event) => Some(event),
                Rx::Closed => {
                    self.close();
                    return;
                }
            };
            if let Some(event) = event
                && self.tell(on, handler, event) == Flow::Pause
            {
                return self.hold_back(bytes);
            }
        }
    }

    fn tell<H: Handler<E>>(&mut self, on: &Handle, handler: &mut H, event: E::Event) -> Flow {
        handler.event(on, &mut self.engine, event)
    }

    fn hold_back(&mut self, bytes: &[u8]) {
        debug_assert!(self.carry.is_empty(), "these bytes come from there");
        self.carry.extend_from_slice(bytes);
        self.state = ConnectionState::Paused;
    }

    /// Moves what is there of the current payload; gives the bytes behind it.
    fn move_payload<'b, H: Handler<E>>(
        &mut self,
        on: &Handle,
        handler: &mut H,
        mut bytes: &'b [u8],
    ) -> &'b [u8] {
        let Some(moving) = &mut self.moving else { return bytes };
        if moving.whole {
            let Some((payload, later)) = bytes.split_at_checked(moving.left as usize) else {
                return bytes;
            };
            if let Some((tag, _)) = moving.to {
                handler.place(tag, payload);
                on.counters().copied_bytes.add(payload.len() as u64);
            }
            moving.left = 0;
            self.stalls.received.moved(payload.len());
            return later;
        }
        while moving.left > 0 && !bytes.is_empty() {
            let want = moving.left.min(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
            let place = moving.to.and_then(|(tag, offset)| handler.memory_mut(tag, offset, want));
            let n = place.as_ref().map_or(want as usize, |place| place.len());
            let (now, later) = bytes.split_at(n);
            if let Some(place) = place {
                place.copy_from_slice(now);
                on.counters().copied_bytes.add(n as u64);
                if moving.digest {
                    self.crc = crc32c_append(self.crc, place);
                }
            } else if moving.digest {
                self.crc = crc32c_append(self.crc, now);
            }
            if let Some((_, offset)) = &mut moving.to {
                *offset += n as u32;
            }
            moving.left -= n as u32;
            self.stalls.received.moved(n);
            bytes = later;
        }
        bytes
    }

    /// `None` while bytes are missing; then the event that the payload made due, if any.
    #[allow(
        clippy::option_option,
        reason = "two different questions: whether it is complete, and what that means"
    )]
    fn finish_moving(&mut self) -> Option<Option<E::Event>> {
        let moving = self.moving.take_if(|m| m.left == 0)?;
        Some(if moving.digest { None } else { self.engine.payload_received() })
    }
}
