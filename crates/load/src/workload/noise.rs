//! New random bytes for writes, at the speed at which memory is written.
//!
//! A run gets 20 KiB of noise from the system's random numbers. Each piece of 4 KiB that a job writes
//! is a window of this noise XOR a key of 64 bytes, which repeats within the piece. Each word of the
//! noise meets the same word of the keys in every piece, and a job uses every key word once. So the
//! same noise never has the same result twice, and equal words occur only by chance. Deduplication
//! finds nothing, and neither does a compressor that searches for repetitions, whatever its window.
//! The bytes are uniform because the noise is.
//!
//! Keys are numbered: the same numbers make the same bytes again.

use weft_io::masked::{self, KEY_WORDS};
use weft_io::random;

/// Bytes under one key.
pub(super) const PIECE_BYTES: usize = 4096;

/// Windows of the noise; they begin a key apart.
const WINDOWS: usize = 256;

/// Words of the noise: the last window has all of its words, too.
const WORDS: usize = WINDOWS * KEY_WORDS + PIECE_BYTES / 8;

/// The noise of a run.
#[derive(Debug)]
pub(super) struct Noise(Box<[u64]>);

/// The keys of a job, by the seed from which they count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys(u64);

impl Keys {
    /// Keys from a random seed.
    pub fn draw() -> Self {
        Self(random::number())
    }

    /// The seed: a random number of the job.
    pub fn seed(self) -> u64 {
        self.0
    }

    #[inline]
    fn key(self, number: u64) -> [u64; KEY_WORDS] {
        let first = number.wrapping_mul(KEY_WORDS as u64);
        core::array::from_fn(|word| {
            let step = first.wrapping_add(word as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            spread(self.0.wrapping_add(step))
        })
    }
}

/// SplitMix64's output function (Steele, Lea, Flood 2014): a permutation of all words.
#[inline]
fn spread(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

impl Noise {
    /// Noise from the system's random numbers.
    pub fn draw() -> Self {
        let mut bytes = vec![0; WORDS * 8];
        random::fill(&mut bytes);
        Self(bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
    }

    /// Fills `bytes` by pieces; the first takes the key `first` of `keys`, each other the next.
    /// Returns the number of the next key.
    pub fn fill(&self, bytes: &mut [u8], keys: Keys, first: u64) -> u64 {
        let mut number = first;
        for piece in bytes.chunks_mut(PIECE_BYTES) {
            self.piece(piece, &keys.key(number));
            number = number.wrapping_add(1);
        }
        number
    }

    #[inline]
    fn piece(&self, bytes: &mut [u8], key: &[u64; KEY_WORDS]) {
        let window = &self.0[(key[0] >> 56) as usize % WINDOWS * KEY_WORDS..];
        let (words, rest) = bytes.as_chunks_mut();
        masked::fill(words, window, key);
        if !rest.is_empty() {
            let last = (window[words.len()] ^ key[words.len() % KEY_WORDS]).to_le_bytes();
            rest.copy_from_slice(&last[..rest.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn numbers_give_the_same_bytes_again_and_others_share_no_word() {
        let (noise, keys) = (Noise::draw(), Keys::draw());
        let mut bytes = vec![0; 1 << 20];
        assert_eq!(noise.fill(&mut bytes, keys, 7), 7 + 256);
        let mut again = vec![0; 5 * PIECE_BYTES];
        noise.fill(&mut again, keys, 7 + 10);
        assert_eq!(again, bytes[10 * PIECE_BYTES..][..again.len()]);
        noise.fill(&mut again, Keys::draw(), 7);
        let words: HashSet<&[u8]> = bytes.chunks(8).chain(again.chunks(8)).collect();
        assert_eq!(words.len(), (bytes.len() + again.len()) / 8);
    }

    #[test]
    fn odd_lengths_are_beginnings_of_longer_ones() {
        let (noise, keys) = (Noise::draw(), Keys::draw());
        let mut whole = vec![0; 2 * PIECE_BYTES];
        noise.fill(&mut whole, keys, 0);
        for len in [0, 1, 7, 9, 64, 358, 4095, 4097, 5000] {
            let mut bytes = vec![0; len];
            assert_eq!(noise.fill(&mut bytes, keys, 0), len.div_ceil(PIECE_BYTES) as u64);
            assert_eq!(bytes, whole[..len], "{len}");
        }
    }

    /// At the end of the numbers they begin again.
    #[test]
    fn keys_are_all_there_are() {
        let (noise, mut bytes) = (Noise::draw(), vec![0; 3 * PIECE_BYTES]);
        assert_eq!(noise.fill(&mut bytes, Keys(u64::MAX), u64::MAX - 1), 1);
    }
}
