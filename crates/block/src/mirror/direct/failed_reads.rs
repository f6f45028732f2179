//! Reads of loops that have failed on a leg: the home, which reads again, tries that leg first. So
//! the engine learns of the failure, and mends the blocks or gives the leg up; another leg would
//! hide it.

use crate::limits::MIRROR_QUEUE_OPS;
use weft_base::lock::Lock;

struct FailedRead {
    lba: u64,
    blocks: u32,
    leg: usize,
}

/// See the module. The oldest ones are forgotten: they are read from any leg.
#[derive(Default)]
pub(crate) struct FailedReads(Lock<Vec<FailedRead>>);

impl FailedReads {
    /// A read has failed on a leg, and goes to the home.
    pub(super) fn add(&self, lba: u64, blocks: u32, leg: usize) {
        let mut all = self.0.lock();
        if all.len() == MIRROR_QUEUE_OPS {
            all.remove(0);
        }
        all.push(FailedRead { lba, blocks, leg });
    }

    /// The leg on which such a read has failed, if it is not known yet.
    pub(crate) fn take(&self, lba: u64, blocks: u32) -> Option<usize> {
        let mut all = self.0.lock();
        let at = all.iter().position(|read| (read.lba, read.blocks) == (lba, blocks))?;
        Some(all.remove(at).leg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_is_told_once_and_so_many_are_kept() {
        let failed = FailedReads::default();
        (0..=MIRROR_QUEUE_OPS as u64).for_each(|lba| failed.add(lba, 8, 1));
        assert_eq!((failed.take(0, 8), failed.take(1, 4)), (None, None));
        assert_eq!((failed.take(1, 8), failed.take(1, 8)), (Some(1), None));
    }
}
