//! A set of regions, and the pages in which it is stored.
//!
//! A page has a checksum over its bits. A page that cannot be trusted counts as full: too many
//! regions are copied then, and none is missed.

use super::layout::{PAGE_BITS, UNIT};

/// Where the bits of a page begin, behind its checksum.
const HEAD: usize = 8;

/// Words of 64 regions in a page.
const PAGE_WORDS: usize = PAGE_BITS / 64;

const _: () = assert!(PAGE_BITS == PAGE_WORDS * 64 && HEAD + PAGE_WORDS * 8 == UNIT);

/// A set of regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    len: usize,
    count: usize,
}

/// The bits that are set in a word.
fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(bit)
    })
}

impl Bitmap {
    /// No region of `len`.
    pub(crate) fn new(len: usize) -> Self {
        Self { words: vec![0; len.div_ceil(64)], len, count: 0 }
    }

    /// Every region of `len`.
    pub(crate) fn full(len: usize) -> Self {
        let mut all = Self::new(len);
        (0..all.words.len()).for_each(|index| all.add_word(index, !0));
        all
    }

    pub(crate) fn set(&mut self, region: usize) {
        self.count += usize::from(!self.has(region));
        self.words[region / 64] |= 1 << (region % 64);
    }

    pub(crate) fn clear(&mut self, region: usize) {
        self.count -= usize::from(self.has(region));
        self.words[region / 64] &= !(1 << (region % 64));
    }

    pub(crate) fn has(&self, region: usize) -> bool {
        self.words[region / 64] >> (region % 64) & 1 != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Adds the regions of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        self.change(other, |word, more| word | more);
    }

    /// Keeps only regions that are in both.
    pub(crate) fn keep(&mut self, other: &Self) {
        self.change(other, |word, kept| word & kept);
    }

    /// Takes the regions of another set out.
    pub(crate) fn remove(&mut self, other: &Self) {
        self.change(other, |word, gone| word & !gone);
    }

    fn change(&mut self, other: &Self, changed: impl Fn(u64, u64) -> u64) {
        self.count = 0;
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word = changed(*word, *other);
            self.count += word.count_ones() as usize;
        }
    }

    /// The words of it, each with 64 regions, the first one lowest.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Adds the regions of a word. Bits behind the last region are ignored.
    pub(crate) fn add_word(&mut self, index: usize, word: u64) {
        let regions = self.len - index * 64;
        let word = if regions < 64 { word & ((1 << regions) - 1) } else { word };
        let added = word & !self.words[index];
        self.words[index] |= added;
        self.count += added.count_ones() as usize;
    }

    /// The regions, in order.
    pub(crate) fn regions(&self) -> impl Iterator<Item = usize> + '_ {
        let words = self.words.iter().enumerate();
        words.flat_map(|(index, word)| ones(*word).map(move |bit| index * 64 + bit))
    }

    /// The regions, beginning with this one, and after the last one from the first one on.
    pub(crate) fn regions_from(&self, start: usize) -> impl Iterator<Item = usize> + '_ {
        let (count, start) = (self.words.len(), if start < self.len { start } else { 0 });
        let behind = !0 << (start % 64);
        (0..=count).flat_map(move |nth| {
            let index = (start / 64 + nth) % count.max(1);
            let kept = match nth {
                0 => behind,
                _ if nth == count => !behind,
                _ => !0,
            };
            let word = self.words.get(index).copied().unwrap_or(0);
            ones(word & kept).map(move |bit| index * 64 + bit)
        })
    }

    fn page_words(&self, number: usize) -> &[u64] {
        let at = |page: usize| (page * PAGE_WORDS).min(self.words.len());
        &self.words[at(number)..at(number + 1)]
    }

    /// Compares a page of this set with the same page of another one.
    pub(crate) fn is_same_page(&self, other: &Self, number: usize) -> bool {
        self.page_words(number) == other.page_words(number)
    }

    /// A page as it is stored.
    pub(crate) fn page(&self, number: usize) -> Vec<u8> {
        let mut page = vec![0; UNIT];
        for (place, word) in page[HEAD..].chunks_exact_mut(8).zip(self.page_words(number)) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&page[HEAD..]);
        page[..4].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// Adds what a stored page holds.
    pub(crate) fn add_page(&mut self, number: usize, page: &[u8]) {
        let is_sound = page.len() == UNIT && page[..4] == checksum(&page[HEAD..]).to_le_bytes();
        for nth in 0..self.page_words(number).len() {
            let stored = page.get(HEAD + nth * 8..).and_then(|rest| rest.first_chunk::<8>());
            let word = stored.filter(|_| is_sound).map_or(!0, |word| u64::from_le_bytes(*word));
            self.add_word(number * PAGE_WORDS + nth, word);
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
        assert!(back.is_same_page(&set, 0) && back.is_same_page(&set, 2));
        back.clear(PAGE_BITS);
        assert!(back.is_same_page(&set, 0) && !back.is_same_page(&set, 1));
        let mut page = set.page(1);
        page[100] ^= 1;
        let mut back = Bitmap::new(len);
        back.add_page(1, &page);
        assert_eq!(back.regions().collect::<Vec<_>>(), (PAGE_BITS..len).collect::<Vec<_>>());
    }

    #[test]
    fn regions_are_counted_and_come_in_order_from_any_of_them() {
        let mut set = Bitmap::new(130);
        [0, 63, 64, 129].into_iter().for_each(|region| set.set(region));
        let from = |start| set.regions_from(start).collect::<Vec<_>>();
        assert_eq!(from(0), [0, 63, 64, 129]);
        assert_eq!(from(63), [63, 64, 129, 0]);
        assert_eq!(from(64), [64, 129, 0, 63]);
        assert_eq!(from(65), [129, 0, 63, 64]);
        assert_eq!((from(129), from(130)), (vec![129, 0, 63, 64], vec![0, 63, 64, 129]));
        assert_eq!(Bitmap::new(0).regions_from(0).count(), 0);
        let mut all = Bitmap::full(130);
        assert_eq!((all.count(), all.regions().last()), (130, Some(129)));
        all.add_word(2, !0);
        all.set(7);
        all.remove(&set);
        assert_eq!((all.count(), all.has(63), all.has(62)), (126, false, true));
        all.keep(&set);
        assert!(all.is_empty());
        all.add(&set);
        all.clear(5);
        all.clear(129);
        assert_eq!(all.count(), 3);
    }
}
