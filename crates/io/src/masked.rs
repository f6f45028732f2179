//! Long noise under short keys: bytes that never repeat, at the speed at which memory is written.

/// Words of a key.
pub const KEY_WORDS: usize = 8;

/// Sets each word of `into` to that of `noise` XOR that of `key`, which repeats.
///
/// # Panics
/// If there is less noise than `into` takes.
pub fn fill(into: &mut [[u8; 8]], noise: &[u64], key: &[u64; KEY_WORDS]) {
    let noise = &noise[..into.len()];
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2.
        return unsafe { fill_wide(into, noise, key) };
    }
    combine(into, noise, key);
}

/// [`combine`] in registers that are twice as wide as those of every x86-64 processor.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn fill_wide(into: &mut [[u8; 8]], noise: &[u64], key: &[u64; KEY_WORDS]) {
    combine(into, noise, key);
}

/// Works by lines as long as the key, so that the compiler keeps the key in registers.
#[inline(always)]
fn combine(into: &mut [[u8; 8]], noise: &[u64], key: &[u64; KEY_WORDS]) {
    let key = *key;
    let (lines, rest) = into.as_chunks_mut::<KEY_WORDS>();
    let (noise_of_lines, noise_of_rest) = noise.as_chunks::<KEY_WORDS>();
    for (line, noise) in lines.iter_mut().zip(noise_of_lines) {
        for ((word, noise), key) in line.iter_mut().zip(noise).zip(&key) {
            *word = (noise ^ key).to_le_bytes();
        }
    }
    for ((word, noise), key) in rest.iter_mut().zip(noise_of_rest).zip(&key) {
        *word = (noise ^ key).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_noise_under_the_key() {
        let noise: Vec<u64> = (0..100u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        let key = [1, 2, 4, 8, 16, 32, 64, 128];
        for len in [0, 1, 7, 8, 9, 16, 63, 64, 100] {
            let expected: Vec<[u8; 8]> =
                (0..len).map(|at| (noise[at] ^ key[at % KEY_WORDS]).to_le_bytes()).collect();
            let mut words = vec![[0; 8]; len];
            fill(&mut words, &noise, &key);
            assert_eq!(words, expected, "{len} words");
            // Where the processor has wide registers, the other way has to be asked for.
            words.fill([0; 8]);
            combine(&mut words, &noise[..len], &key);
            assert_eq!(words, expected, "{len} words");
        }
    }
}
