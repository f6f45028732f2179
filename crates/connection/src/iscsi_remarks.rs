//! Log lines about iSCSI peers that do otherwise than the standard says, and are served all the
//! same: each thing once.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use weft_proto::iscsi::deviation::Deviations;
use weft_proto::iscsi::text::Name;

/// Logs that a name, `what`, does not have the form that RFC 7143 §4.2.7 requires. Call it at the
/// first use of the name.
pub fn remark(what: &str, name: &Name) {
    if let Err(why) = name.check_form() {
        tracing::warn!(
            "{what} \"{name}\" does not have the form of RFC 7143 §4.2.7: {why}; using it unchanged"
        );
    }
}

/// The remarks already logged about the peers of one target or device.
#[derive(Default)]
pub struct Remarks {
    name: AtomicBool,
    deviations: AtomicU8,
}

impl Remarks {
    /// An initiator has come under this name.
    pub fn on_name(&self, initiator: &Name) {
        if initiator.check_form().is_err() && !self.name.swap(true, Ordering::Relaxed) {
            remark("the name of an initiator", initiator);
        }
    }

    /// `peer` has done all this.
    pub fn on(&self, peer: &str, deviations: Deviations) {
        if deviations == Deviations::default() {
            return;
        }
        let known =
            Deviations::from_bits(self.deviations.fetch_or(deviations.bits(), Ordering::Relaxed));
        deviations
            .without(known)
            .iter()
            .for_each(|deviation| tracing::warn!("{peer}: {deviation}"));
    }
}
