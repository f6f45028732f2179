//! Names that are used as they are although NVMe asks for others.

use weft_proto::nvme::types::Nqn;

/// Says in the log that a name, `what`, is not of the form that Base §4.7 asks for: for where a name is used first.
pub(crate) fn remark(what: &str, nqn: &Nqn) {
    if !nqn.is_qualified() {
        tracing::warn!("{what} \"{nqn}\" is not of the form nqn.YYYY-MM.DOMAIN:NAME; it is taken as it is");
    }
}
