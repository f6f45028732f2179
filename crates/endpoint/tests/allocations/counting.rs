//! Counting what a loop's thread asks of the allocator.

use std::sync::mpsc::channel;
use weft_io::{Handle, RemoteLoop};
use weft_testing::allocations::{Counting, uncounted};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Asks on a loop's thread; what the question itself allocates there is not counted.
pub fn asked<R: Send + 'static>(
    of: &RemoteLoop,
    question: impl FnOnce(&Handle) -> R + Send + 'static,
) -> R {
    let (give, take) = channel();
    of.post(move |on| uncounted(|| give.send(question(on)).expect("somebody waits")));
    take.recv().expect("the loop runs")
}
