//! What is said of iSCSI peers that do otherwise than the standard says, and are served all the
//! same: each thing once.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use weft_proto::iscsi::oddity::Oddities;
use weft_proto::iscsi::text::Name;

/// Logs that a name, `what`, does not have the form that RFC 7143 §4.2.7 requires. Call it at the
/// first use of the name.
pub(crate) fn remark(what: &str, name: &Name) {
    if let Err(why) = name.check_form() {
        tracing::warn!(
            "{what} \"{name}\" does not have the form of RFC 7143 §4.2.7: {why}; using it unchanged"
        );
    }
}

/// What has been said of the peers of one target or device.
#[derive(Default)]
pub(crate) struct Remarks {
    name: AtomicBool,
    oddities: AtomicU8,
}

impl Remarks {
    /// An initiator has come under this name.
    pub(crate) fn on_name(&self, initiator: &Name) {
        if initiator.check_form().is_err() && !self.name.swap(true, Ordering::Relaxed) {
            remark("the name of an initiator", initiator);
        }
    }

    /// `peer` has done all this.
    pub(crate) fn on(&self, peer: &str, oddities: Oddities) {
        if oddities == Oddities::default() {
            return;
        }
        let known = Oddities::from_bits(self.oddities.fetch_or(oddities.bits(), Ordering::Relaxed));
        oddities.without(known).iter().for_each(|oddity| tracing::warn!("{peer}: {oddity}"));
    }
}
