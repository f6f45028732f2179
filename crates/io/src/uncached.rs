//! Copies of data that is not soon read again.

/// Copies shorter than this are as fast in the usual way.
const LEAST: usize = 2048;

/// Copies `from`, of the same length as `into`, past the caches where the processor can do that.
/// Storing in the usual way reads each line of the destination first, and turns out of the caches
/// what is used again.
///
/// # Panics
/// If the lengths differ.
#[inline]
pub fn copy(into: &mut [u8], from: &[u8]) {
    assert_eq!(into.len(), from.len(), "a copy has the length of what is copied");
    if into.len() < LEAST {
        into.copy_from_slice(from);
    } else {
        stream(into, from);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn stream(into: &mut [u8], from: &[u8]) {
    into.copy_from_slice(from);
}

#[cfg(target_arch = "x86_64")]
fn stream(into: &mut [u8], from: &[u8]) {
    use core::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    // SAFETY: any 16 bytes are a `__m128i`.
    let (head, lines, tail) = unsafe { into.align_to_mut::<[__m128i; 4]>() };
    let (first, rest) = from.split_at(head.len());
    let (middle, last) = rest.split_at(size_of_val(lines));
    head.copy_from_slice(first);
    tail.copy_from_slice(last);
    for (line, bytes) in lines.iter_mut().zip(middle.as_chunks::<64>().0) {
        let source = bytes.as_ptr().cast::<__m128i>();
        // SAFETY: 64 bytes are read, which need no alignment, and as many are written, whose
        // alignment is that of their type. SSE2 is part of x86_64.
        unsafe {
            let words = [0, 1, 2, 3].map(|n| _mm_loadu_si128(source.add(n)));
            for (to, word) in line.iter_mut().zip(words) {
                _mm_stream_si128(to, word);
            }
        }
    }
    // SAFETY: SSE2 is part of x86_64. Without the fence these stores could be seen by another
    // thread after those that follow them, such as the release of a lock.
    unsafe { _mm_sfence() };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_any_place_and_length_are_whole() {
        let from: Vec<u8> = (0..20_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
        for (skip, start, len) in
            [(0, 0, 16_384), (1, 0, 4096), (0, 3, 4096), (5, 11, LEAST), (7, 2, 9973), (0, 0, 100)]
        {
            let mut into = vec![0xee; 18_000];
            copy(&mut into[start..start + len], &from[skip..skip + len]);
            assert_eq!(into[start..start + len], from[skip..skip + len]);
            let outside = into[..start].iter().chain(&into[start + len..]);
            assert!(outside.into_iter().all(|byte| *byte == 0xee), "{skip} {start} {len}");
        }
    }
}
