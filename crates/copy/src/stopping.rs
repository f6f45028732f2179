//! The wait of a copy that is told to stop.

use weft_block::waiting::{self, OngoingWait};

/// Notes what the copy waits for from the moment on at which it is told to stop.
#[derive(Default)]
pub struct StopWaits(Option<OngoingWait>);

impl StopWaits {
    /// The copy is told to stop, possibly not for the first time.
    pub fn told(&mut self) {
        let under_way = || "what is under way to be written and flushed".into();
        self.0.get_or_insert_with(|| waiting::begin(under_way));
    }
}
