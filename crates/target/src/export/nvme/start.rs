//! The number of the target's start, by which hosts notice that completed writes that no flush
//! covered may have been lost.
//!
//! It is made of the number that each device reports for its own start
//! ([`BlockDevice::cache_epoch`]): a RAM disk has lost everything when its process has ended; what
//! was written to a file is in the cache of the system, which outlives the process but not the
//! system. So the restart of a process that serves files, and the second of two processes that
//! serve the same ones, have the same number.

use std::sync::Arc;
use weft_block::BlockDevice;

/// Of devices that cannot tell, the number of this process stands.
pub(super) fn start_number<'a>(
    devices: impl Iterator<Item = &'a Arc<dyn BlockDevice>>,
    of_process: u64,
) -> u64 {
    let mut epochs: Vec<u64> =
        devices.map(|device| device.cache_epoch().unwrap_or(of_process)).collect();
    epochs.sort_unstable();
    epochs.dedup();
    let bytes = epochs.into_iter().flat_map(u64::to_le_bytes);
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Whether nothing can write to the data but what holds this device: no other process, and nothing
/// that is left of a process before this one. A lock tells it of local sources, which the system
/// keeps until the last operation of the dead process has ended. Of what is behind a network
/// nothing is known, and the cluster may still have writes of a client that is gone.
pub(super) fn is_alone(device: &dyn BlockDevice) -> bool {
    is_alone_by(device.url())
}

/// The same by the URL of the device.
fn is_alone_by(url: &str) -> bool {
    let is_remote = url.contains("://") && !url.starts_with("file://") || url.contains("rbd:");
    !url.contains("lock=off") && !is_remote
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_block::{OpenOptions, open};

    #[test]
    fn the_number_is_another_one_where_something_may_be_lost() {
        let of = |urls: &[&str], process| {
            let devices: Vec<_> =
                urls.iter().map(|url| open(url, &OpenOptions::default()).unwrap()).collect();
            start_number(devices.iter(), process)
        };
        assert_eq!(
            of(&["null:1MiB", "null:2MiB"], 1),
            of(&["null:1MiB"], 2),
            "nothing can be lost"
        );
        assert_ne!(of(&["ram:1MiB"], 1), of(&["ram:1MiB"], 1), "the RAM disk of before is gone");
    }

    #[test]
    fn only_what_is_local_and_locked_is_alone() {
        let is = |url: &str| is_alone(open(url, &OpenOptions::default()).unwrap().as_ref());
        assert!(is("ram:1MiB") && is("readonly:ram:1MiB"));
        let path = std::env::temp_dir().join(format!("weft-alone-{}", uuid::Uuid::new_v4()));
        assert!(is(&format!("file:{},size=1MiB", path.display())));
        assert!(!is(&format!("file:{},lock=off", path.display())));
        std::fs::remove_file(path).unwrap();
        assert!(
            !is_alone_by("rbd:rbd/disk,id=weft")
                && !is_alone_by("stripe:1MiB:rbd:rbd/one|rbd:rbd/two")
        );
    }
}
