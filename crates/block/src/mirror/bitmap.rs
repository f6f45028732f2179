//! A set of regions, and the pages in which it is stored.
//!
//! A page has a checksum over its bits. A page that cannot be trusted counts as full: too many
//! regions are copied then, and none is missed.

use super::layout::{PAGE_BITS, UNIT};

/// Where the bits of a page begin, behind its checksum.
const HEAD: usize = 8;

/// A set of regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    len: usize,
}

impl Bitmap {
    /// No region of `len`.
    pub(crate) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len }
    }

    /// Every region of `len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut all = Self::new(len);
        (0..len).for_each(|region| all.set(region));
        all
    }

    pub(crate) fn set(&mut self, region: usize) {
        self.words[region / 64] |= 1 << (region % 64);
    }

    pub(crate) fn clear(&mut self, region: usize) {
        self.words[region / 64] &= !(1 << (region % 64));
    }

    pub(crate) fn has(&self, region: usize) -> bool {
        self.words[region / 64] >> (region % 64) & 1 != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    pub(crate) fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Adds the regions of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
    }

    /// Keeps only regions that are in both.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, kept)| *word &= kept);
    }

    /// The words of it, each with 64 regions, the first one lowest.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds the regions of a word.
    pub(crate) fn add_word(&mut self, index: usize, word: u64) {
        self.words[index] |= word;
    }

    /// The regions, in order.
    pub(crate) fn regions(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.len).filter(|region| self.has(*region))
    }

    /// A page as it is stored.
    pub(crate) fn page(&self, number: usize) -> Vec<u8> {
        let mut page = vec![0; UNIT];
        for bit in 0..PAGE_BITS.min(self.len.saturating_sub(number * PAGE_BITS)) {
            if self.has(number * PAGE_BITS + bit) {
                page[HEAD + bit / 8] |= 1 << (bit % 8);
            }
        }
        let sum = checksum(&page[HEAD..]);
        page[..4].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Adds what a stored page holds.
    pub(crate) fn add_page(&mut self, number: usize, page: &[u8]) {
        let is_sound = page.len() == UNIT && page[..4] == checksum(&page[HEAD..]).to_le_bytes();
        for bit in 0..PAGE_BITS.min(self.len.saturating_sub(number * PAGE_BITS)) {
            if !is_sound || page[HEAD + bit / 8] >> (bit % 8) & 1 != 0 {
                self.set(number * PAGE_BITS + bit);
            }
        }
    }
}

/// CRC32C.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_what_was_set_and_count_as_full_when_damaged() {
        let len = PAGE_BITS + 100;
        let mut set = Bitmap::new(len);
        for region in [0, 63, 64, PAGE_BITS - 1, PAGE_BITS, len - 1] {
            set.set(region);
        }
        let mut back = Bitmap::new(len);
        (0..2).for_each(|number| back.add_page(number, &set.page(number)));
        assert_eq!(back, set);
        assert_eq!((set.count(), set.regions().last()), (6, Some(len - 1)));
        let mut page = set.page(1);
        page[100] ^= 1;
        let mut back = Bitmap::new(len);
        back.add_page(1, &page);
        assert_eq!(back.regions().collect::<Vec<_>>(), (PAGE_BITS..len).collect::<Vec<_>>());
    }
}
