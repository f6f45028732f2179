//! When keys are to be changed (RFC 8446 §5.5).

use crate::limits::TLS_KEY_RECORDS_MAX;

/// Records of one direction since keys were made.
#[derive(Default)]
pub(crate) struct RecordCount(u64);

impl RecordCount {
    /// One more; tells whether it is time for new keys.
    pub(crate) fn add(&mut self) -> bool {
        self.0 += 1;
        let is_time = self.0 >= TLS_KEY_RECORDS_MAX;
        if is_time {
            self.0 = 0;
        }
        is_time
    }
}
