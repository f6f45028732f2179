//! Detection of a lost volatile cache: from weft's own number of the target's start, or from the
//! count of unsafe shutdowns in the log page SMART / Health Information (Base §5.16.1.3).

use core::time::Duration;

use super::HostControl;
use crate::nvme::cqe::Cqe;
use crate::nvme::host::config::AdminData;
use crate::nvme::host::remote::RemoteController;
use crate::nvme::host::request::{self, AssociationStep};
use crate::nvme::identify::IdentifyController;
use crate::nvme::log_page::{LogPageId, SmartLog};

impl HostControl {
    /// Reads the count of unsafe shutdowns where it matters, then opens the queues.
    pub(super) fn ask_health(&mut self, now: Duration) {
        if !self.remote.has_volatile_cache() || self.remote.identify.start_number().is_some() {
            return self.open_queues(now);
        }
        let len = SmartLog::BYTES as u32;
        let sqe = request::log_page(LogPageId::SMART, 0, len, true);
        self.line(now, AssociationStep::ReadHealth, sqe, AdminData::In { len });
    }

    /// The log page has been read, or could not be.
    pub(super) fn health_read(&mut self, now: Duration, cqe: &Cqe, data: &[u8]) {
        if cqe.status.is_success() {
            self.remote.unsafe_shutdowns =
                SmartLog::decode(data).ok().map(|log| log.unsafe_shutdowns);
        }
        self.open_queues(now);
    }
}

impl RemoteController {
    fn has_volatile_cache(&self) -> bool {
        self.identify.vwc & IdentifyController::VWC_PRESENT != 0
    }

    /// A number that is another one whenever completed writes that were not flushed may have been
    /// lost; `None`: the controller has a volatile cache and does not tell. A count of unsafe
    /// shutdowns that is zero is that of a controller which does not count.
    pub fn cache_epoch(&self) -> Option<u64> {
        if let Some(start) = self.identify.start_number() {
            return Some(start);
        }
        if !self.has_volatile_cache() {
            return Some(0);
        }
        let count = self.unsafe_shutdowns.filter(|count| *count != 0)?;
        let bytes = self.identify.sn.0.iter().copied().chain(count.to_le_bytes());
        Some(bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nvme::wire::Ascii;

    fn remote(vwc: u8, count: Option<u128>) -> RemoteController {
        let identify = IdentifyController { vwc, sn: Ascii::new("one"), ..Default::default() };
        RemoteController {
            identify: Box::new(identify),
            unsafe_shutdowns: count,
            ..Default::default()
        }
    }

    #[test]
    fn a_controller_tells_of_lost_writes_by_its_start_or_its_count() {
        assert_eq!(remote(0, None).cache_epoch(), Some(0), "it has nothing to lose");
        assert_eq!(remote(1, None).cache_epoch(), None);
        assert_eq!(remote(1, Some(0)).cache_epoch(), None, "it does not count");
        let counted = remote(1, Some(3)).cache_epoch();
        assert!(counted.is_some() && counted == remote(1, Some(3)).cache_epoch());
        assert_ne!(counted, remote(1, Some(4)).cache_epoch());
        let mut other = remote(1, Some(3));
        other.identify.sn = Ascii::new("two");
        assert_ne!(counted, other.cache_epoch());
        other.identify.set_start_number(77);
        assert_eq!(other.cache_epoch(), Some(77));
    }
}
