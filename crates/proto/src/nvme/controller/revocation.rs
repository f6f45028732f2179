//! Commands in flight that may not continue when the namespaces change.

use super::access;
use super::namespace::NamespaceMap;
use crate::nvme::status::Status;
use crate::nvme::types::{Lba, Nsid};

/// Returns the reason why a command in flight can no longer go to its device, now that the
/// namespaces have changed.
pub(super) fn revocation(
    nsid: Nsid,
    (lba, blocks): (Lba, u32),
    before: &NamespaceMap,
    now: &NamespaceMap,
) -> Option<Status> {
    // A flush of all namespaces goes on with those that there are.
    let (_, was) = before.find(nsid)?;
    match now.find(nsid) {
        Some((_, is)) if is.incarnation != was.incarnation || is.block_bytes != was.block_bytes => {
            Some(Status::INVALID_NAMESPACE)
        }
        Some((_, is)) if !access::is_accessible(is.ana_state) => access::refusal(is.ana_state),
        Some((_, is)) => (!is.holds(lba.0, blocks)).then_some(Status::LBA_OUT_OF_RANGE),
        None => Some(Status::INVALID_NAMESPACE),
    }
}
