//! Expected contents of each unit of a job's region.
//!
//! Four bytes per unit. A unit in use by an operation is locked for others, so the expected content
//! of a read is always known.

/// A write of the unit, or a read that will be verified, is in progress.
const BUSY: u32 = 1 << 31;
/// The last write failed: the content of the unit is unknown until the next one succeeds.
const UNKNOWN: u32 = 1 << 30;
const GENERATION: u32 = UNKNOWN - 1;

/// The generations of a region.
#[derive(Debug)]
pub struct GenerationLedger {
    units: Vec<u32>,
    unknown: u64,
}

impl GenerationLedger {
    /// Nothing is written yet. Memory that the system gives zeroed costs nothing until it is
    /// touched.
    pub fn new(units: usize) -> Self {
        Self { units: vec![0; units], unknown: 0 }
    }

    /// Returns whether an operation on the unit may begin.
    #[inline]
    pub fn is_free(&self, unit: u64) -> bool {
        self.units[unit as usize] & BUSY == 0
    }

    /// Begins a write of a free unit; returns the generation to write, which is never 0.
    #[inline]
    pub fn begin_write(&mut self, unit: u64) -> u32 {
        let entry = &mut self.units[unit as usize];
        let generation = (*entry & GENERATION) % (GENERATION - 1) + 1;
        *entry = *entry & UNKNOWN | generation | BUSY;
        generation
    }

    /// Begins a read of a free unit; returns the generation that must be there: 0 when that is not
    /// known.
    #[inline]
    pub fn begin_read(&mut self, unit: u64) -> u32 {
        let entry = &mut self.units[unit as usize];
        let expected = if *entry & UNKNOWN == 0 { *entry & GENERATION } else { 0 };
        *entry |= BUSY;
        expected
    }

    /// Ends a read, however it went.
    #[inline]
    pub fn end_read(&mut self, unit: u64) {
        self.units[unit as usize] &= !BUSY;
    }

    /// Ends a write that was done.
    #[inline]
    pub fn end_write(&mut self, unit: u64) {
        let entry = &mut self.units[unit as usize];
        self.unknown -= u64::from(*entry & UNKNOWN != 0);
        *entry &= GENERATION;
    }

    /// Ends a write that failed, or whose outcome is unknown.
    pub fn end_failed_write(&mut self, unit: u64) {
        let entry = &mut self.units[unit as usize];
        self.unknown += u64::from(*entry & UNKNOWN == 0);
        *entry = *entry & GENERATION | UNKNOWN;
    }

    /// Undoes the beginning of a write that never reached the device.
    pub fn withdraw_write(&mut self, unit: u64) {
        let entry = &mut self.units[unit as usize];
        *entry = *entry & UNKNOWN | (*entry & GENERATION).saturating_sub(1);
    }

    /// The first unit from `from` on whose content is known and was written.
    pub fn next_written(&self, from: u64) -> Option<u64> {
        let rest = self.units.get(from as usize..)?;
        rest.iter()
            .position(|&entry| entry != 0 && entry & (BUSY | UNKNOWN) == 0)
            .map(|at| from + at as u64)
    }

    /// Units whose content is known and was written.
    pub fn written(&self) -> u64 {
        self.units.iter().filter(|&&entry| entry != 0 && entry & (BUSY | UNKNOWN) == 0).count()
            as u64
    }

    /// Units with unknown content, because their last write failed.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_count_and_failures_make_unknown() {
        let mut ledger = GenerationLedger::new(4);
        assert_eq!((ledger.begin_read(2), ledger.is_free(2)), (0, false));
        ledger.end_read(2);
        assert_eq!(ledger.begin_write(2), 1);
        assert!(!ledger.is_free(2) && ledger.is_free(1));
        assert_eq!(ledger.next_written(0), None);
        ledger.end_write(2);
        assert_eq!(
            (ledger.next_written(0), ledger.next_written(3), ledger.next_written(9)),
            (Some(2), None, None)
        );
        assert_eq!(ledger.written(), 1);
        assert_eq!(ledger.begin_read(2), 1);
        ledger.end_read(2);
        assert_eq!(ledger.begin_write(2), 2);
        ledger.end_failed_write(2);
        assert_eq!((ledger.unknown(), ledger.next_written(0), ledger.begin_read(2)), (1, None, 0));
        ledger.end_read(2);
        assert_eq!(ledger.begin_write(2), 3);
        ledger.end_write(2);
        assert_eq!((ledger.unknown(), ledger.begin_read(2)), (0, 3));
    }

    #[test]
    fn a_write_that_was_never_sent_changes_nothing() {
        let mut ledger = GenerationLedger::new(1);
        ledger.begin_write(0);
        ledger.withdraw_write(0);
        assert_eq!((ledger.next_written(0), ledger.is_free(0)), (None, true));
        ledger.begin_write(0);
        ledger.end_failed_write(0);
        ledger.begin_write(0);
        ledger.withdraw_write(0);
        assert_eq!((ledger.unknown(), ledger.is_free(0)), (1, true));
        assert_eq!(ledger.begin_write(0), 2);
    }
}
