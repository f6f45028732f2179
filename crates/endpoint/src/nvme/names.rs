//! Names that are used as they are although NVMe asks for others.

use std::sync::atomic::{AtomicBool, Ordering};
use weft_proto::nvme::controller::HostIdentity;
use weft_proto::nvme::types::Nqn;

/// Says in the log that a name, `what`, is not of the form that Base §4.7 asks for: for where a name is used first.
pub(crate) fn remark(what: &str, nqn: &Nqn) {
    if !nqn.is_qualified() {
        tracing::warn!("{what} \"{nqn}\" does not have the form nqn.YYYY-MM.DOMAIN:NAME; using it unchanged");
    }
}

/// What a target has said about the names of its hosts: each thing once, whoever comes.
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
