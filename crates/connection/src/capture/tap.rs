//! A tap copies the bytes of one connection for a capture.

use super::record::{Bytes, Opened, SharedCapture, What};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weft_proto::capture::{End, Role};

/// From where on a connection is captured.
#[derive(Clone, Debug)]
pub enum Start {
    /// From its first byte on.
    First,
    /// From the next message on; the host, which has been admitted, has this name.
    Later(String),
}

/// What is known of the received stream where a tap wants to begin.
pub(crate) struct Boundary<'a> {
    /// Bytes that were received before and are not used up yet.
    pub(crate) held: &'a [u8],
    /// So many bytes, from these on, belong to the present message.
    pub(crate) after: usize,
}

/// Captures one connection.
pub(crate) struct Tap {
    shared: Arc<SharedCapture>,
    role: Role,
    number: u32,
    /// Until the writer knows the connection.
    opened: Option<Box<Opened>>,
    received: Direction,
    sent: Direction,
}

/// How far one direction is.
struct Direction {
    position: u64,
    /// The last bytes are in the queue, so that the next ones follow them.
    follows: bool,
    /// Bytes are missing since there was no room.
    has_lost: bool,
}

/// The addresses of the host and of the target.
pub(super) struct Ends([SocketAddr; 2]);

impl Ends {
    /// Those of a connection as it names them; one without addresses gets some of this machine's,
    /// with the port of the protocol.
    pub(super) fn of(role: Role, local: &str, peer: &str) -> Self {
        let mut ends = [peer, peer];
        ends[role.end.index()] = local;
        let made_up = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        match ends.map(|end| end.parse().ok()) {
            [Some(host), Some(target)] => Self([host, target]),
            _ => Self([made_up(0), made_up(role.protocol.port())]),
        }
    }
}

impl Tap {
    pub(super) fn new(
        shared: Arc<SharedCapture>,
        role: Role,
        Ends(mut ends): Ends,
        start: Start,
    ) -> Self {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        if ends[0].port() == 0 {
            // A port for each connection, from those that are given to clients.
            ends[0].set_port(0xc000 | (number & 0x3fff) as u16);
        }
        let direction = |follows| Direction { position: 0, follows, has_lost: false };
        let (host, follows) = match start {
            Start::First => (None, true),
            Start::Later(host) => (Some(host), false),
        };
        let (received, sent) = (direction(follows), direction(follows));
        let opened = Some(Box::new(Opened { role, ends, host }));
        Self { shared, role, number, opened, received, sent }
    }

    /// The first `n` bytes of `pieces` were received. `boundary` is asked where messages begin, if
    /// that is not known. Returns whether the capture goes on.
    pub(crate) fn received<'a, 'b>(
        &mut self,
        n: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
        boundary: impl FnOnce() -> Option<Boundary<'b>>,
    ) -> bool {
        let begin = if self.received.follows { None } else { boundary() };
        self.take(self.role.end.other(), n, pieces, begin)
    }

    /// The same for bytes that were sent, with which a message begins if it `is_start`.
    pub(crate) fn sent<'a>(
        &mut self,
        n: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
        is_start: bool,
    ) -> bool {
        let begins = is_start && !self.sent.follows;
        let begin = begins.then_some(Boundary { held: &[], after: 0 });
        self.take(self.role.end, n, pieces, begin)
    }

    /// One end has sent a whole message.
    pub(crate) fn message(&mut self, from: End, pieces: &[&[u8]]) -> bool {
        let direction = if from == self.role.end { &self.sent } else { &self.received };
        let begin = (!direction.follows).then_some(Boundary { held: &[], after: 0 });
        let bytes = pieces.iter().map(|piece| piece.len()).sum();
        self.take(from, bytes, pieces.iter().copied(), begin)
    }

    fn take<'a>(
        &mut self,
        from: End,
        n: usize,
        pieces: impl Iterator<Item = &'a [u8]>,
        begin: Option<Boundary<'_>>,
    ) -> bool {
        if self.shared.over.load(Ordering::Acquire) {
            return false;
        }
        self.open();
        let (number, is_open) = (self.number, self.opened.is_none());
        let shared = Arc::clone(&self.shared);
        let direction = if from == self.role.end { &mut self.sent } else { &mut self.received };
        let position = direction.position;
        direction.position += n as u64;
        if !direction.follows && begin.is_none() {
            direction.drop_one(&shared);
            return true;
        }
        let held = begin.as_ref().map_or(&[][..], |begin| begin.held);
        let skip = begin.as_ref().map(|begin| begin.after);
        // What was held is counted already, unless it came before the tap.
        let position = position.checked_sub(held.len() as u64).unwrap_or_else(|| {
            direction.position += held.len() as u64;
            position
        });
        let bytes = held.len() + n;
        let told = is_open && shared.reserve(bytes) && {
            let mut copy = Vec::with_capacity(bytes);
            copy.extend_from_slice(held);
            let mut left = n;
            for piece in pieces {
                let piece = &piece[..piece.len().min(left)];
                copy.extend_from_slice(piece);
                left -= piece.len();
            }
            let told =
                shared.tell(number, What::Bytes(Bytes { from, position, skip, bytes: copy }));
            if !told {
                shared.free(bytes);
            }
            told
        };
        direction.follows = told;
        if !told {
            direction.has_lost = true;
            direction.drop_one(&shared);
        }
        true
    }

    /// Tells the writer of the connection, before its first bytes.
    fn open(&mut self) {
        let Some(opened) = &self.opened else { return };
        let Opened { role, ends, host } = &**opened;
        let what = Box::new(Opened { role: *role, ends: *ends, host: host.clone() });
        if self.shared.tell(self.number, What::Open(what)) {
            self.opened = None;
        }
    }
}

impl Direction {
    /// Counts bytes that are missing, other than those before the beginning.
    fn drop_one(&self, shared: &SharedCapture) {
        if self.has_lost {
            shared.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        // Where there is no room the writer forgets the connection with the capture, and until then
        // it counts as one.
        if self.opened.is_some() || self.shared.tell(self.number, What::Closed) {
            self.shared.taps.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::record::Record;
    use std::sync::mpsc::{Receiver, sync_channel};
    use weft_proto::capture::Protocol;

    const ROLE: Role = Role { protocol: Protocol::NvmeTcp, end: End::Target };

    fn tap(records: usize, start: Start) -> (Tap, Receiver<Record>, Arc<SharedCapture>) {
        let (sender, receiver) = sync_channel(records);
        let shared = Arc::new(SharedCapture::new(sender));
        shared.taps.store(1, Ordering::Relaxed);
        let ends = Ends::of(ROLE, "192.0.2.1:4420", "192.0.2.2:50000");
        (Tap::new(Arc::clone(&shared), ROLE, ends, start), receiver, shared)
    }

    /// The bytes in the queue, with their place and what is to be skipped.
    fn queued(records: &Receiver<Record>) -> Vec<(u64, Option<usize>, Vec<u8>)> {
        let bytes = records.try_iter().filter_map(|record| match record.what {
            What::Bytes(Bytes { position, skip, bytes, .. }) => Some((position, skip, bytes)),
            What::Open(_) | What::Closed => None,
        });
        bytes.collect()
    }

    #[test]
    fn what_finds_no_room_is_counted_and_the_next_message_goes_on() {
        let (mut tap, records, shared) = tap(3, Start::First);
        let nothing = || -> Option<Boundary<'static>> { None };
        for n in 0..4 {
            assert!(tap.received(4, [&[n; 8][..]].into_iter(), nothing));
        }
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 2);
        let first: Vec<_> = (0..2).map(|n| (u64::from(n) * 4, None, vec![n; 4])).collect();
        assert_eq!(queued(&records), first);
        // There is room, and no message begins.
        assert!(tap.received(4, [&[9; 4][..]].into_iter(), nothing));
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 3);
        assert_eq!(queued(&records), []);
        let begins = || Some(Boundary { held: &[7, 8], after: 5 });
        assert!(tap.received(3, [&[1][..], &[2, 3, 4]].into_iter(), begins));
        assert_eq!(queued(&records), [(18, Some(5), vec![7, 8, 1, 2, 3])]);
        shared.over.store(true, Ordering::Relaxed);
        assert!(!tap.received(4, [&[9; 4][..]].into_iter(), nothing));
    }

    #[test]
    fn a_tap_that_comes_later_begins_with_a_message() {
        let (mut tap, records, shared) = tap(9, Start::Later("host".into()));
        assert!(tap.sent(4, [&[1; 4][..]].into_iter(), false));
        assert!(tap.sent(4, [&[2; 4][..]].into_iter(), true));
        assert!(
            tap.received(2, [&[3; 2][..]].into_iter(), || Some(Boundary {
                held: &[3; 3],
                after: 0
            }))
        );
        let found = queued(&records);
        assert_eq!(found, [(4, Some(0), vec![2; 4]), (0, Some(0), vec![3; 5])]);
        assert_eq!(shared.dropped.load(Ordering::Relaxed), 0, "nothing was lost");
        drop(tap);
        assert_eq!(shared.taps.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn connections_without_addresses_get_some() {
        let Ends([host, target]) = Ends::of(ROLE, "/run/socket", "/run/socket");
        assert_eq!((host.port(), target.to_string()), (0, "127.0.0.1:4420".to_owned()));
        let Ends([host, target]) = Ends::of(ROLE, "[2001:db8::1]:4420", "[2001:db8::2]:5");
        assert_eq!((host.port(), target.port()), (5, 4420));
    }
}
