//! The share of its loop's payload memory that one connection may use. The commands of one client
//! leave room for those of another, however many there are and however slowly it receives data; the
//! same applies to all connections of one host.
//!
//! A part of the pool is reserved for small allocations, so that each connection has some memory
//! whatever others hold. The rest is common: a connection may hold as much of it as it leaves to
//! others, and a host three times as much.

use std::rc::Rc;
use weft_connection::limits::{GUARANTEED_BYTES, GUARANTEED_PARTS, HOST_TIMES_LEFT};
use weft_io::buf::Holder;
use weft_io::{Buf, Handle, Segment, Segments};

/// The bytes of the loop's pool that a connection holds.
pub(crate) struct Budget {
    held_bytes: usize,
    /// All connections from its address.
    host: Rc<Holder>,
}

impl Budget {
    /// The budget of a connection of `peer`, an address with or without a port.
    pub(crate) fn new(on: &Handle, peer: &str) -> Self {
        Self::of_host(on, host_of(peer))
    }

    /// The budget of a connection of the host with this name.
    pub(crate) fn of_host(on: &Handle, host: &str) -> Self {
        Self { held_bytes: 0, host: on.pool().holder(host) }
    }

    /// Takes memory from the pool, unless this connection or its host would then exceed its share.
    #[inline]
    pub(crate) fn take(&mut self, on: &Handle, bytes: usize) -> Option<Buf> {
        if !self.affords(on, bytes) {
            return None;
        }
        let buf = on.pool().take(bytes)?;
        self.hold(&buf);
        Some(buf)
    }

    /// Takes memory beyond the pool's cap, for the one command that is needed to make progress.
    pub(crate) fn take_reserve(&mut self, on: &Handle, bytes: usize) -> Option<Buf> {
        let buf = on.pool().take_reserve(bytes)?;
        self.hold(&buf);
        Some(buf)
    }

    /// Whether this many more bytes are within the share of this connection and of its host.
    #[inline]
    pub(crate) fn affords(&self, on: &Handle, bytes: usize) -> bool {
        let pool = on.pool();
        if self.held_bytes + bytes <= GUARANTEED_BYTES {
            return true;
        }
        let kept = pool.cap_bytes() / GUARANTEED_PARTS;
        let Some(left) = pool.cap_bytes().checked_sub(pool.taken_bytes() + kept + bytes) else {
            return false;
        };
        let own = self.held_bytes == 0 || self.held_bytes + bytes <= left;
        own && self.host.bytes() + bytes <= HOST_TIMES_LEFT * left
    }

    #[inline]
    fn hold(&mut self, buf: &Buf) {
        self.held_bytes += buf.capacity();
        self.host.add(buf.capacity());
    }

    /// Returns memory to the pool; the list is empty afterwards.
    #[inline]
    pub(crate) fn give(&mut self, segments: &mut Segments) {
        for segment in segments.drain(..) {
            if let Segment::Pool(buf) = segment {
                self.held_bytes -= buf.capacity();
                self.host.remove(buf.capacity());
            }
        }
    }
}

impl Drop for Budget {
    fn drop(&mut self) {
        // Memory that the connection has not returned is freed with it.
        self.host.remove(self.held_bytes);
    }
}

/// The address of a peer, without its port.
pub(crate) fn host_of(peer: &str) -> &str {
    peer.rsplit_once(':').map_or(peer, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_io::LoopConfig;
    use weft_io::sim::World;

    const CAP: usize = 4 << 20;

    fn on() -> (World, Handle) {
        let mut world = World::new(1);
        let host = world.host("10.0.0.1");
        let on = world.add_loop(host, &LoopConfig { pool_bytes: CAP, ..LoopConfig::default() });
        let handle = world.handle(on);
        (world, handle)
    }

    /// All that is had in pieces of so many bytes.
    fn all(budget: &mut Budget, on: &Handle, bytes: usize) -> Segments {
        std::iter::from_fn(|| budget.take(on, bytes).map(Segment::from)).collect()
    }

    fn held(segments: &Segments) -> usize {
        segments.iter().map(|segment| segment.len()).sum()
    }

    #[test]
    fn a_connection_leaves_as_much_as_it_has() {
        let (_world, on) = on();
        let (common, mut first, mut second) =
            (CAP - CAP / GUARANTEED_PARTS, Budget::new(&on, "a:1"), Budget::new(&on, "b:1"));
        let mut one = all(&mut first, &on, 64 << 10);
        assert_eq!(held(&one), common / 2);
        assert_eq!(held(&all(&mut second, &on, 64 << 10)), common / 4);
        first.give(&mut one);
    }

    #[test]
    fn a_host_leaves_some_for_others_and_everybody_has_a_little() {
        let (_world, on) = on();
        let common = CAP - CAP / GUARANTEED_PARTS;
        let mut many: Vec<_> =
            (0..100).map(|port| Budget::new(&on, &format!("a:{port}"))).collect();
        let held_by_host: Vec<_> =
            many.iter_mut().map(|budget| all(budget, &on, 64 << 10)).collect();
        let bytes: usize = held_by_host.iter().map(held).sum();
        assert_eq!(bytes, common / 4 * 3);
        let mut other = Budget::new(&on, "b:1");
        assert!(held(&all(&mut other, &on, 64 << 10)) >= common / 16);
        // Each of the host has what is guaranteed, beside what it has.
        let last = many.last_mut().unwrap();
        assert_eq!(held(&all(last, &on, 4096)), GUARANTEED_BYTES);
    }

    #[test]
    fn who_is_gone_holds_nothing() {
        let (_world, on) = on();
        let mut gone = Budget::new(&on, "a:1");
        let stays = Budget::new(&on, "a:2");
        let memory = gone.take(&on, 4096).unwrap();
        assert_eq!(stays.host.bytes(), 4096);
        drop((gone, memory));
        assert_eq!(stays.host.bytes(), 0);
    }

    #[test]
    fn a_host_is_an_address() {
        assert_eq!(
            [host_of("10.0.0.1:4420"), host_of("[::1]:10809"), host_of("/run/weft.sock")],
            ["10.0.0.1", "[::1]", "/run/weft.sock"]
        );
    }
}
