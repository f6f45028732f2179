//! Sets of regions that loops read and write while the home does.

use crate::mirror::bitmap::Bitmap;
use crate::sync::{AtomicU64, Ordering};
use core::ops::Range;

/// A set of regions.
pub(crate) struct Marks(Box<[AtomicU64]>);

impl Marks {
    /// No region of `len`.
    pub(super) fn new(len: usize) -> Self {
        Self((0..len.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    fn word(&self, region: usize) -> (&AtomicU64, u64) {
        (&self.0[region / 64], 1 << (region % 64))
    }

    /// Returns whether all of these regions are in it.
    pub(super) fn has_all(&self, mut regions: Range<usize>) -> bool {
        regions.all(|region| {
            let (word, bit) = self.word(region);
            word.load(Ordering::SeqCst) & bit != 0
        })
    }

    /// Adds these regions.
    pub(super) fn add(&self, regions: Range<usize>) {
        for region in regions {
            let (word, bit) = self.word(region);
            if word.load(Ordering::Relaxed) & bit == 0 {
                word.fetch_or(bit, Ordering::SeqCst);
            }
        }
    }

    /// Takes what is in it out, into `into`.
    pub(crate) fn move_to(&self, into: &mut Bitmap) {
        for (index, word) in self.0.iter().enumerate() {
            if word.load(Ordering::SeqCst) != 0 {
                into.add_word(index, word.swap(0, Ordering::SeqCst));
            }
        }
    }

    /// Makes it equal to `set`. Only the home does so.
    pub(super) fn set(&self, set: &Bitmap) {
        for (mark, word) in self.0.iter().zip(set.words()) {
            if mark.load(Ordering::Relaxed) != *word {
                mark.store(*word, Ordering::SeqCst);
            }
        }
    }
}
