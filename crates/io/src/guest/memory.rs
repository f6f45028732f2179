//! The regions of a guest's memory, by its addresses, and the log of the pages that were written.

use super::mapping::Mapping;
use core::cell::Cell;
use std::io;
use std::os::fd::BorrowedFd;

/// Bytes that a bit of the log stands for.
const LOG_PAGE_BYTES: u64 = 4096;

/// Place of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestRegion {
    /// Address in the guest.
    pub guest: u64,
    /// Bytes.
    pub bytes: u64,
    /// Address in the monitor.
    pub user: u64,
    /// Offset of its start in its file.
    pub offset: u64,
}

/// See the module.
#[derive(Default)]
pub struct GuestMemory {
    regions: Vec<(GuestRegion, Mapping)>,
    log: Option<Mapping>,
    /// The region that was used last.
    last: Cell<usize>,
}

/// Returns whether two ranges have something in common.
fn overlap((a, a_len): (u64, u64), (b, b_len): (u64, u64)) -> bool {
    a < b.saturating_add(b_len) && b < a.saturating_add(a_len)
}

impl GuestMemory {
    /// Adds a region.
    ///
    /// # Errors
    /// It overlaps with another one, or cannot be mapped.
    pub fn add(&mut self, region: GuestRegion, file: BorrowedFd<'_>) -> io::Result<()> {
        let of = |it: &GuestRegion| (it.guest, it.bytes);
        let is_taken = self.regions.iter().any(|(it, _)| overlap(of(it), of(&region)));
        let ends = [region.guest, region.user].map(|at| at.checked_add(region.bytes));
        if is_taken || ends.contains(&None) {
            let text = "a region of memory overlaps with another one";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let mapping = Mapping::of(file, region.offset, region.bytes)?;
        self.regions.push((region, mapping));
        Ok(())
    }

    /// Removes a region; whether there was one.
    pub fn remove(&mut self, region: &GuestRegion) -> bool {
        let wanted = |(it, _): &(GuestRegion, Mapping)| {
            (it.guest, it.bytes, it.user) == (region.guest, region.bytes, region.user)
        };
        let at = self.regions.iter().position(wanted);
        at.map(|at| self.regions.remove(at)).is_some()
    }

    /// Regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns whether there are no regions.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Takes the place of all regions, and keeps the log.
    pub fn replace(&mut self, other: Self) {
        self.regions = other.regions;
    }

    /// Logs later writes in this memory; `None`: stops logging.
    pub fn log_to(&mut self, log: Option<Mapping>) {
        self.log = log;
    }

    /// Returns whether a file was truncated under us.
    pub fn is_lost(&self) -> bool {
        let mut mappings = self.regions.iter().map(|(_, mapping)| mapping).chain(&self.log);
        mappings.any(Mapping::is_lost)
    }

    /// The guest's address of `len` bytes at an address of the monitor.
    pub fn guest_address(&self, user: u64, len: u64) -> Option<u64> {
        let within = |(it, _): &(GuestRegion, Mapping)| {
            let offset = user.checked_sub(it.user)?;
            (offset < it.bytes && len <= it.bytes - offset).then(|| it.guest + offset)
        };
        self.regions.iter().find_map(within)
    }

    /// The region that has an address, and where in it that is.
    #[inline]
    fn find(&self, at: u64) -> Option<(&Mapping, u64)> {
        let within = |index: usize| {
            let (region, mapping) = self.regions.get(index)?;
            let offset = at.checked_sub(region.guest).filter(|offset| *offset < region.bytes)?;
            Some((mapping, offset))
        };
        within(self.last.get()).or_else(|| {
            (0..self.regions.len())
                .find_map(|index| within(index).inspect(|_| self.last.set(index)))
        })
    }

    /// Copies from the memory; `false`: not all of it is there.
    #[must_use]
    pub fn read(&self, mut at: u64, mut into: &mut [u8]) -> bool {
        while !into.is_empty() {
            let Some((mapping, offset)) = self.find(at) else { return false };
            let now = into.len().min(usize::try_from(mapping.len() - offset).unwrap_or(usize::MAX));
            let (first, rest) = into.split_at_mut(now);
            if !mapping.read(offset, first) {
                return false;
            }
            let Some(next) = at.checked_add(now as u64) else { return rest.is_empty() };
            (at, into) = (next, rest);
        }
        true
    }

    /// Copies to the memory; `false`: not all of it is there.
    #[must_use]
    pub fn write(&self, mut at: u64, mut from: &[u8]) -> bool {
        while !from.is_empty() {
            let Some((mapping, offset)) = self.find(at) else { return false };
            let now = from.len().min(usize::try_from(mapping.len() - offset).unwrap_or(usize::MAX));
            let (first, rest) = from.split_at(now);
            if !mapping.write(offset, first) {
                return false;
            }
            self.written(at, now as u64);
            let Some(next) = at.checked_add(now as u64) else { return rest.is_empty() };
            (at, from) = (next, rest);
        }
        true
    }

    /// See [`Mapping::load`].
    #[inline]
    pub fn load(&self, at: u64) -> Option<u16> {
        let (mapping, offset) = self.find(at)?;
        mapping.load(offset)
    }

    /// See [`Mapping::store`].
    #[inline]
    #[must_use]
    pub fn store(&self, at: u64, value: u16) -> bool {
        let stored = self.find(at).is_some_and(|(mapping, offset)| mapping.store(offset, value));
        if stored {
            self.written(at, 2);
        }
        stored
    }

    /// Marks pages in the log.
    #[inline]
    fn written(&self, at: u64, len: u64) {
        let Some(log) = &self.log else { return };
        for page in at / LOG_PAGE_BYTES..=(at + (len - 1)) / LOG_PAGE_BYTES {
            // A log that is too short is the monitor's own affair.
            let _ = log.set_bits(page / 8, 1 << (page % 8));
        }
    }
}
