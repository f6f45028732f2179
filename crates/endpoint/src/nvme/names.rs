//! Names that do not have the form that NVMe requires, and are used anyway.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_proto::nvme::controller::HostIdentity;
use weft_proto::nvme::types::Nqn;

/// Logs that the name of `what` does not have the form that Base §4.7 requires. Call it at the first use of the name.
pub(crate) fn remark(what: &str, nqn: &Nqn) {
    if !nqn.is_qualified() {
        tracing::warn!("{what} \"{nqn}\" does not have the form nqn.YYYY-MM.DOMAIN:NAME; using it unchanged");
    }
}

/// The warnings about hosts' names that a target has logged: each one once.
#[derive(Default)]
pub(crate) struct HostRemarks {
    nameless: AtomicBool,
    unqualified: AtomicBool,
}

impl HostRemarks {
    /// A host has connected.
    pub(crate) fn on(&self, host: &HostIdentity) {
        let first = |said: &AtomicBool| !said.swap(true, Ordering::Relaxed);
        match &host.nqn {
            None if first(&self.nameless) => tracing::warn!("a host has no name; such hosts see what is visible to every host"),
            Some(nqn) if !nqn.is_qualified() && first(&self.unqualified) => remark("the name of a host", nqn),
            _ => {}
        }
    }
}
