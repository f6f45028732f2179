//! The same for several at a time, so that one that does not answer delays no other.

use crate::limits::CONNECT_ALL_AT_ONCE;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_base::lock::Lock;

use weft_block::waiting;

/// The results of all, in their order.
pub fn each<T: Sync, R: Send>(all: &[T], act: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Vec<Lock<Option<R>>> = all.iter().map(|_| Lock::new(None)).collect();
    let _waiting = waiting::begin(|| "discovery controllers and subsystems to answer".into());
    std::thread::scope(|scope| {
        for _ in 0..all.len().min(CONNECT_ALL_AT_ONCE) {
            scope.spawn(|| {
                while let Some((one, result)) = {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    all.get(n).zip(results.get(n))
                } {
                    let done = act(one);
                    *result.lock() = Some(done);
                }
            });
        }
    });
    results.into_iter().filter_map(|result| result.into_inner()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order() {
        let all: Vec<usize> = (0..100).collect();
        assert_eq!(super::each(&all, |n| n * 2), (0..200).step_by(2).collect::<Vec<_>>());
        assert!(super::each(&[] as &[u8], |_| ()).is_empty());
    }
}
