//! The hot set: regions that are marked in the bitmap because somebody writes to them.
//!
//! A region is marked before its first write and stays so until another one needs its place: the
//! number of marked regions has a limit, so that little has to be compared after a crash. Regions
//! in doubt, which a crash has left, come on top of that. Where all regions fit nothing is evicted.
//!
//! An eviction takes a batch of those that were not written to for the longest time (a clock with a
//! second chance). Its steps: the regions are *leaving*, and no write begins there; the driver
//! takes their marks from the loops, waits for the writes that have seen them, and says so
//! ([`MirrorEngine::unmarked`]); the legs are flushed; the bits are cleared, in one change with
//! bits that are set. So no write to a region ends after the flush began, and a bit that is cleared
//! is of a region in which durable data is equal on all legs in sync.

use super::{FlightKind, FlightStage, MirrorEngine, Purpose};
use crate::limits::MIRROR_MARK_AHEAD;
use crate::mirror::bitmap::Bitmap;

/// A batch is this part of the limit.
const BATCHES: usize = 16;

/// Sequential writers that are recognised at a time.
const STREAMS: usize = 8;

/// See the module.
pub(super) struct Hot {
    /// The most regions that are marked and not in doubt.
    limit: usize,
    /// Regions that wait for their mark.
    wanted: Bitmap,
    /// Where marking goes on, so that none of them waits for ever.
    next: usize,
    /// The clock's hand.
    hand: usize,
    /// Written to since the last look for cold regions.
    recent: Bitmap,
    eviction: Option<Eviction>,
    /// A region was marked, or is no longer in doubt, since the last look for regions to evict.
    pub(super) is_due: bool,
    /// The flush of an eviction has failed. Who waits for room gets it nevertheless.
    has_failed: bool,
    streams: Streams,
}

struct Eviction {
    /// The regions that are leaving.
    regions: Bitmap,
    name: u64,
    /// No write is in flight there, and the legs are being flushed.
    is_flushing: bool,
}

/// Sequential writers.
struct Streams {
    /// For each stream, the region that it needs next, and the number marked ahead of it.
    known: [(usize, usize); STREAMS],
    oldest: usize,
}

impl Streams {
    /// The number of regions to mark ahead of a writer that has come to this one.
    fn follow(&mut self, region: usize) -> usize {
        if let Some((next, ahead)) = self.known.iter_mut().find(|(next, _)| *next == region) {
            *ahead = (2 * *ahead).min(MIRROR_MARK_AHEAD);
            *next = region + *ahead + 1;
            return *ahead;
        }
        self.known[self.oldest] = (region + 1, 1);
        self.oldest = (self.oldest + 1) % STREAMS;
        0
    }
}

impl Hot {
    pub(super) fn new(regions: usize, limit: usize) -> Self {
        Self {
            limit,
            wanted: Bitmap::new(regions),
            next: 0,
            hand: 0,
            recent: Bitmap::new(regions),
            eviction: None,
            is_due: false,
            has_failed: false,
            streams: Streams { known: [(usize::MAX, 1); STREAMS], oldest: 0 },
        }
    }

    fn batch(&self) -> usize {
        (self.limit / BATCHES).max(1)
    }

    fn is_leaving(&self, region: usize) -> bool {
        self.eviction.as_ref().is_some_and(|eviction| eviction.regions.has(region))
    }

    /// Regions that are marked and about not to be.
    pub(super) fn leaving(&self) -> Option<&Bitmap> {
        self.eviction.as_ref().map(|eviction| &eviction.regions)
    }
}

impl MirrorEngine {
    /// Regions that are marked and may be evicted some time.
    fn hot(&self) -> usize {
        self.maps.written.count().saturating_sub(self.maps.suspect.count())
    }

    /// A flight is about to write to a region, in which it counts as busy.
    pub(super) fn want(&mut self, region: usize) {
        self.maps.touched.set(region);
        if self.is_someone_absent() {
            self.maps.missed.set(region);
        }
        if !self.maps.written.has(region) || self.hot.is_leaving(region) {
            self.hot.wanted.set(region);
        }
    }

    /// Loops wait for the marks of these regions.
    pub(crate) fn want_all(&mut self, regions: &Bitmap) {
        if self.is_open && !self.closing.is_begun() {
            self.hot.wanted.add(regions);
            self.pump();
        }
    }

    /// Returns whether the bit of a region may be relied upon: it is durable, and stays set. The
    /// bit of one that was evicted while a change is under way is durable until the next change.
    pub(super) fn is_marked(&self, region: usize) -> bool {
        self.maps.stored[0].has(region)
            && self.maps.written.has(region)
            && !self.hot.is_leaving(region)
    }

    /// A region is in doubt or has a write under way that was sent before: it does not leave.
    pub(super) fn stay(&mut self, region: usize) {
        if let Some(eviction) = &mut self.hot.eviction
            && eviction.regions.has(region)
        {
            eviction.regions.clear(region);
            self.maps.version += 1;
        }
        self.maps.touched.set(region);
        self.maps.written.set(region);
    }

    /// Marks regions that are waited for, as far as there is room, and more of them ahead of
    /// sequential writers. The next change makes all of these marks durable. Returns whether there
    /// were any.
    pub(super) fn mark_on(&mut self) -> bool {
        if self.hot.wanted.is_empty() {
            return false;
        }
        let mut room = self.hot.limit.saturating_sub(self.hot());
        // All marked regions are being written to, or the mirror is being closed and evicts
        // nothing. No operation waits for another one.
        let has_failed = core::mem::take(&mut self.hot.has_failed);
        let is_stuck = room == 0 && (has_failed || self.closing.is_begun() || !self.may_evict());
        let wanted: Vec<usize> = self.hot.wanted.regions_from(self.hot.next).collect();
        let mut some = false;
        for region in wanted {
            if self.hot.is_leaving(region) {
                continue;
            }
            if !self.maps.written.has(region) {
                if room == 0 && !is_stuck {
                    break;
                }
                room = room.saturating_sub(1);
                self.mark(region);
                self.maps.touched.set(region);
                room -= self.mark_ahead(region, room);
                self.hot.next = region + 1;
                some = true;
            }
            self.hot.wanted.clear(region);
        }
        some
    }

    fn mark(&mut self, region: usize) {
        self.maps.written.set(region);
        if self.is_someone_absent() {
            self.maps.missed.set(region);
        }
        self.hot.is_due = true;
    }

    /// Marks regions behind one, if there is room and a writer goes through them; their number.
    fn mark_ahead(&mut self, region: usize, room: usize) -> usize {
        let ahead = self.hot.streams.follow(region).min(self.hot.limit / BATCHES);
        let end = (region + 1 + ahead).min(self.regions());
        let free = (region + 1..end).filter(|next| !self.maps.written.has(*next)).take(room);
        let free: Vec<usize> = free.collect();
        free.iter().for_each(|next| self.mark(*next));
        free.len()
    }

    /// Returns whether the mark of a region could be cleared if nobody wrote to it.
    fn is_evictable(&self, region: usize) -> bool {
        !self.maps.suspect.has(region)
            && self.maps.busy[region] == 0
            && !self.is_any_unreadable(region)
    }

    fn may_evict(&self) -> bool {
        let is_any = || self.maps.written.regions().any(|region| self.is_evictable(region));
        self.hot.eviction.is_some() || !self.closing.is_begun() && is_any()
    }

    /// The mirror is being closed: only flights still wait for marks, and no eviction begins.
    pub(super) fn close_hot(&mut self) {
        let wanted: Vec<usize> = self.hot.wanted.regions().collect();
        for region in wanted.into_iter().filter(|region| self.maps.busy[*region] == 0) {
            self.hot.wanted.clear(region);
        }
        if self.evicting().is_some() {
            self.evicted(false);
        }
    }

    /// Returns whether nothing keeps marks from being cleared, now.
    fn is_free_to_evict(&self) -> bool {
        self.is_open
            && self.halted.is_none()
            && self.hot.eviction.is_none()
            && !self.closing.is_begun()
    }

    /// Regions for which there is no room.
    fn excess(&self) -> usize {
        (self.hot() + self.hot.wanted.count()).saturating_sub(self.hot.limit)
    }

    /// Returns whether regions must be evicted: the driver adds the regions that loops have written
    /// to to [`MirrorEngine::touched`], and calls [`MirrorEngine::evict`].
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_free_to_evict()
            && self.hot.limit < self.regions()
            && self.excess() > 0
            && (self.hot.is_due || !self.hot.wanted.is_empty())
    }

    /// Begins to evict a batch and what the set exceeds its limit by. Returns whether there are
    /// any.
    pub(crate) fn evict(&mut self) -> bool {
        if !self.is_free_to_evict() {
            return false;
        }
        self.hot.is_due = false;
        self.hot.recent.add(&self.maps.touched);
        let most = self.excess() + self.hot.batch() - 1;
        let mut leaving = Bitmap::new(self.regions());
        for _ in 0..2 {
            let hot: Vec<usize> = self.maps.written.regions_from(self.hot.hand).collect();
            for region in hot {
                if leaving.count() == most {
                    break;
                }
                self.hot.hand = region + 1;
                if !self.is_evictable(region) {
                    continue;
                }
                if self.maps.touched.has(region) {
                    self.maps.touched.clear(region);
                } else {
                    leaving.set(region);
                }
            }
        }
        self.leave(leaving)
    }

    /// Begins to clear the marks of regions that were not written to since the last call. The
    /// driver calls this from time to time.
    pub(crate) fn tidy(&mut self) {
        if !self.is_free_to_evict() {
            return;
        }
        let none = Bitmap::new(self.regions());
        self.hot.recent.add(&core::mem::replace(&mut self.maps.touched, none.clone()));
        let recent = core::mem::replace(&mut self.hot.recent, none);
        let mut cold = self.maps.written.clone();
        cold.remove(&recent);
        let kept = cold.regions().filter(|region| !self.is_evictable(*region));
        let kept: Vec<usize> = kept.collect();
        kept.into_iter().for_each(|region| cold.clear(region));
        self.leave(cold);
    }

    fn leave(&mut self, regions: Bitmap) -> bool {
        if regions.is_empty() {
            return false;
        }
        let name = self.name();
        self.hot.eviction = Some(Eviction { regions, name, is_flushing: false });
        self.maps.version += 1;
        true
    }

    /// The name of an eviction whose regions may still be written to by loops that have seen their
    /// marks.
    pub(crate) fn evicting(&self) -> Option<u64> {
        self.hot.eviction.as_ref().filter(|it| !it.is_flushing).map(|it| it.name)
    }

    /// No loop has a write under way, or undecided, that began before the regions of the eviction
    /// were leaving.
    pub(crate) fn unmarked(&mut self) {
        if let Some(eviction) = self.hot.eviction.as_mut().filter(|it| !it.is_flushing) {
            eviction.is_flushing = true;
            self.begin(FlightKind::Flush(Purpose::Evict), 0, 0);
            self.pump();
        }
    }

    /// The flush of an eviction has ended: clears the bits if all legs in sync have executed it.
    pub(super) fn evicted(&mut self, is_durable: bool) {
        let Some(eviction) = self.hot.eviction.take() else { return };
        self.maps.version += 1;
        self.hot.has_failed = !is_durable;
        for region in eviction.regions.regions().filter(|_| is_durable) {
            if self.is_evictable(region) {
                self.maps.written.clear(region);
            }
        }
        // Who waits for a region that stays hears of it in no change of the bits.
        let waiting = self.flights.iter().filter(|(_, flight)| flight.stage == FlightStage::Bits);
        self.due.extend(waiting.map(|(op, _)| *op));
    }
}
