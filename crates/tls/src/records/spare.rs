//! Buffers of records. A connection has one of a direction only while something is in it; the
//! connections of a thread take turns with theirs, which stay in the caches of its core by that.

use crate::limits::TLS_SPARE_BUFFERS;
use std::cell::RefCell;

thread_local! {
    static SPARE: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of so many bytes, whose content is unspecified.
pub(super) fn take(bytes: usize) -> Box<[u8]> {
    let spare = SPARE.with_borrow_mut(|spares| {
        let at = spares.iter().rposition(|spare| spare.len() == bytes)?;
        Some(spares.remove(at))
    });
    spare.unwrap_or_else(|| vec![0; bytes].into_boxed_slice())
}

/// Gives a buffer back. One that never was there is nothing.
pub(super) fn give(buffer: Box<[u8]>) {
    if buffer.is_empty() {
        return;
    }
    SPARE.with_borrow_mut(|spares| {
        let alike = spares.iter().filter(|spare| spare.len() == buffer.len()).count();
        if alike < TLS_SPARE_BUFFERS {
            spares.push(buffer);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_a_few_buffers_of_each_length() {
        let mut first = take(100);
        first[0] = 7;
        give(first);
        assert_eq!(take(50)[0], 0);
        assert_eq!(take(100)[0], 7);
        (0..100).for_each(|_| give(vec![1; 100].into()));
        give(vec![2; 60].into());
        assert_eq!(take(60)[0], 2, "those of another length do not count");
        let kept = (0..100).take_while(|_| take(100)[0] == 1).count();
        assert_eq!(kept, TLS_SPARE_BUFFERS);
        give(Box::default());
    }
}
